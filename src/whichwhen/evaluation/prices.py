"""Budgets for a trained model: the price that a mean cost or a total needs is found on validation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from whichwhen.acquirers import RoundRobinAcquirer
from whichwhen.afterwards import Unread, walk_then_read
from whichwhen.budget import Budget, MeanCost, PerStep, Price, Total, Unlimited, check_mean_cost, default_per_step
from whichwhen.data.store import SeriesSet
from whichwhen.errors import BudgetWarning
from whichwhen.evaluation.scoring import evaluate
from whichwhen.menu import slack
from whichwhen.model import Card, Model
from whichwhen.rollout import Policy, inference, roll_out
from whichwhen.specs import BudgetSpec

DEFAULT_PRICES = (1e-4, 1e-1)
"""Nats per unit of cost, among which prices are looked for where training says nothing."""
_SERIES = 2048
"""Validation series that a price is found on at most."""
_HALVINGS = 14
_REACH = 0.1
"""How far a cost may lie from the mean cost asked for, as a share of it."""
_TOTALS = 12
"""Prices that are tried for a total."""


def knows_prices(card: Card, policy: Policy) -> bool:
    """Whether an acquirer's scores answer to prices: they are in nats, or were learned by the recipe or under a price."""
    spec = card.spec
    taught = spec.training.epochs is None or spec.budget.price is not None
    return policy.acquirer.unit == "nats" or (policy.acquirer.unit == "log-worth" and taught)


def price_range(model: Model) -> tuple[float, float]:
    """The prices that a model was trained for."""
    return model.card.prices or DEFAULT_PRICES


def at_budget(model: Model, wanted: BudgetSpec, validation: SeriesSet, device: torch.device | str = "cpu") -> Policy:
    """A trained model's policy under another budget; where that needs a price, it is found on validation.

    A cap per step alone goes with the lowest price of training, a mean cost with the price at which the validation series cost
    as much, a total with the price that gives the lowest validation loss under it. Acquirers that know no price get an amount
    per step, a mean cost that is saved up, or a total that becomes available evenly over the horizon.
    """
    found = with_budget(model, model.on_validation(model.policy), wanted, validation, device)
    return replace(found, predictor=model.policy.predictor)


def with_budget(
    model: Model, policy: Policy, wanted: BudgetSpec, validation: SeriesSet, device: torch.device | str = "cpu"
) -> Policy:
    """As :func:`at_budget` for any policy on a model's menu."""
    if isinstance(policy.budget, Unlimited):
        return policy
    make = _priced if knows_prices(model.card, policy) else _unpriced
    changed = make(model, policy, wanted, validation, device)
    changed.budget.check(policy.menu)
    return changed


def _priced(model: Model, policy: Policy, wanted: BudgetSpec, validation: SeriesSet, device: torch.device | str) -> Policy:
    low, high = price_range(model)
    cap = math.inf if wanted.per_step is None else wanted.per_step
    match wanted.kind:
        case "per-step":
            cap = default_per_step(policy.menu) if wanted.per_step is None else cap
            return replace(policy, budget=PerStep(cap) if model.card.prices is None else Price(low, cap))
        case "price":
            assert wanted.price is not None
            return replace(policy, budget=Price(wanted.price, cap))
        case "mean-cost":
            assert wanted.mean_cost is not None
            check_mean_cost(wanted.mean_cost, policy.menu)
            price = find_price_of_mean_cost(policy, validation, wanted.mean_cost, low, high, cap, device)
            return replace(policy, budget=Price(price, cap))
        case "total":
            assert wanted.total is not None
            total = Total(wanted.total, delivered=wanted.bill == "delivered", cap=cap)
            total.check(policy.menu)
            price = find_price_of_total(policy, validation, total, prices_between(low, high), device)
            return replace(policy, budget=replace(total, price=price))


def _unpriced(model: Model, policy: Policy, wanted: BudgetSpec, validation: SeriesSet, device: torch.device | str) -> Policy:
    cap = math.inf if wanted.per_step is None else wanted.per_step
    budget: Budget
    match wanted.kind:
        case "per-step":
            amount = default_per_step(policy.menu) if wanted.per_step is None else cap
            budget = PerStep(amount)
        case "mean-cost":
            assert wanted.mean_cost is not None
            amount, budget = wanted.mean_cost, MeanCost(wanted.mean_cost, cap)
        case "total":
            assert wanted.total is not None
            amount = wanted.total / model.card.horizon
            budget = Total(wanted.total, None, model.card.horizon, wanted.bill == "delivered", cap)
        case "price":
            assert wanted.price is not None
            amount = _best_mean_cost(policy, validation, wanted.price, cap, device)
            budget = MeanCost(amount, cap)
    acquirer = policy.acquirer
    return replace(
        policy, budget=budget, acquirer=acquirer.at(amount) if isinstance(acquirer, RoundRobinAcquirer) else acquirer
    )


def _best_mean_cost(policy: Policy, series: SeriesSet, price: float, cap: float, device: torch.device | str) -> float:
    """The mean cost at which a rule has the lowest validation loss plus price times cost."""
    everything = sum(policy.menu.prices)
    best, least = 0.0, math.inf
    for amount in np.geomspace(everything / 1024, everything, 11):
        acquirer = policy.acquirer.at(float(amount)) if isinstance(policy.acquirer, RoundRobinAcquirer) else policy.acquirer
        trial = replace(policy, budget=MeanCost(float(amount), cap), acquirer=acquirer)
        found = evaluate(trial, series, device=device, loop=walk_then_read).metrics
        if found.loss + price * found.requested_cost < least:
            best, least = float(amount), found.loss + price * found.requested_cost
    return best


def prices_between(low: float, high: float, count: int = _TOTALS) -> tuple[float, ...]:
    """``count`` prices from low to high, evenly spaced in their logarithm."""
    return tuple(float(price) for price in np.geomspace(low, high, count))


def mean_cost(policy: Policy, series: SeriesSet, device: torch.device | str = "cpu", batch_size: int = 512) -> float:
    """What a policy asks for, in cost per step; without the predictions."""
    walking = replace(policy, predictor=policy.predictor if policy.acquirer.reads_context else Unread(policy.predictor))
    cost = 0.0
    by_length = np.argsort(-series.lengths, kind="stable")
    with inference(walking):
        for start in range(0, len(series), batch_size):
            record = roll_out(walking, series.hindsight(by_length[start : start + batch_size], device).batch)
            cost += float(sum(step.cost.sum(dtype=torch.float64) for step in record.steps))
    return cost / float(series.lengths.sum())


def find_price_of_mean_cost(
    policy: Policy,
    series: SeriesSet,
    target: float,
    low: float,
    high: float,
    cap: float = math.inf,
    device: torch.device | str = "cpu",
) -> float:
    """The lowest price at which the series cost at most ``target`` per step, by bisection of its logarithm.

    It is looked for a little beyond the prices of training, too. Where no price comes within a tenth of the target (the lowest
    spends less, the highest spends more, or the cost jumps over it), a warning names the nearest cost, and its price is taken.
    """
    if len(series) > _SERIES:
        series = series.take(np.sort(np.random.default_rng(0).permutation(len(series))[:_SERIES]))

    def spent(price: float) -> float:
        return mean_cost(replace(policy, budget=Price(price, cap)), series, device)

    lowest, highest = math.log(low) - 1, math.log(high) + 1
    if (most := spent(math.exp(lowest))) < target - slack(target):
        if most < 0.98 * target:
            _warn_of_reach(target, most, math.exp(lowest), "more is not worth asking for, or not possible")
        return math.exp(lowest)
    if (least := spent(math.exp(highest))) > target + slack(target):
        _warn_of_reach(target, least, math.exp(highest), "this model was not trained for higher prices")
        return math.exp(highest)
    for _ in range(_HALVINGS):
        middle = (lowest + highest) / 2
        cost = spent(math.exp(middle))
        if cost > target + slack(target):
            lowest, most = middle, cost
        else:
            highest, least = middle, cost
    if least >= (1 - _REACH) * target:
        return math.exp(highest)
    nearest, price = (most, lowest) if most - target < target - least else (least, highest)
    if abs(nearest - target) > _REACH * target:
        _warn_of_reach(target, nearest, math.exp(price), f"the cost jumps from {least:.3g} to {most:.3g}")
    return math.exp(price)


def _warn_of_reach(target: float, reached: float, price: float, why: str) -> None:
    warnings.warn(
        f"no price reaches a mean cost of {target:g} per step: {why}; the nearest is {reached:.3g}, at a price of {price:.3g}",
        BudgetWarning,
        stacklevel=4,
    )


def find_price_of_total(
    policy: Policy, series: SeriesSet, budget: Total, prices: Sequence[float], device: torch.device | str = "cpu"
) -> float:
    """The price under which a total gives the lowest loss on some series.

    A low price spends early and runs dry, a high one leaves money over; the total itself is never exceeded.
    """

    def loss(price: float) -> float:
        trial = replace(policy, budget=replace(budget, price=price))
        return evaluate(trial, series, device=device, loop=walk_then_read).metrics.loss

    return min(prices, key=loss)
