"""How fast to spend, learned from validation series: the price that makes a total last, the reserve that answers to a price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from whichwhen.acquirers.reserve import WithReserve, relative_worth
from whichwhen.budget import Budget, PerStep, Total
from whichwhen.data.store import SeriesSet
from whichwhen.evaluation.scoring import evaluate
from whichwhen.model import Model, make_price, make_total
from whichwhen.rollout import Policy, inference, roll_out
from whichwhen.specs import BudgetSpec

DEFAULT_PRICES = (1e-4, 1e-1)
"""Nats per unit of cost, among which the pace of a total budget is looked for where training says nothing."""


_SERIES_FOR_RESERVES = 512
"""How many validation series say which reserves are worth a try."""


@dataclass(frozen=True)
class Pace:
    """What a price did with a total budget on validation.

    Attributes:
        price: per unit of cost.
        loss: mean cross-entropy, in nats.
        cost: spent over a series, the mean; never above the total.
    """

    price: float
    loss: float
    cost: float


def prices_between(low: float, high: float, count: int = 12) -> tuple[float, ...]:
    """``count`` prices from low to high, evenly spaced in their logarithm."""
    return tuple(float(price) for price in np.geomspace(low, high, count))


def try_prices(
    policy: Policy, series: SeriesSet, budget: Total, prices: Sequence[float], device: torch.device | str = "cpu"
) -> list[Pace]:
    """The policy on some series under a total budget, once for each price."""
    paces = []
    for price in prices:
        trial = Total(budget.amount, price, delivered=budget.delivered)
        found = evaluate(replace(policy, budget=trial), series, device=device).metrics
        paces.append(Pace(price, found.loss, found.requested_cost))
    return paces


def answers_to_prices(model: Model) -> bool:
    """Whether the scores say what an order is worth: they are nats, or were learned under prices."""
    acquirer = model.policy.acquirer
    return acquirer.unit == "nats" or (model.card.spec.budget.priced and acquirer.learns)


def at_budget(model: Model, wanted: BudgetSpec, validation: SeriesSet, device: torch.device | str = "cpu") -> Policy:
    """A trained model's policy under another budget: per step, in total, or at a price.

    A total needs a pace: where the scores answer to prices, the price that serves best on validation; else it becomes available
    evenly over the horizon, saved up or not, or is open at once if that is wanted. Scores that don't answer to prices do so
    through a reserve, see :func:`find_reserve`.
    """
    policy, spec = model.policy, model.card.spec
    worth = answers_to_prices(model)
    budget: Budget
    if wanted.kind == "per-step":
        budget = PerStep(wanted.per_step)
    elif wanted.kind == "price":
        budget = make_price(wanted)
        budget.check(policy.menu)
        if not worth:
            return with_reserve(model, budget.price, validation, device)
    else:
        total = make_total(wanted, model.card.horizon)
        total.check(policy.menu)
        if worth:
            low, high = spec.budget.train_range if spec.budget.priced and spec.budget.train_range else DEFAULT_PRICES
            price = find_price(policy, validation, total, prices_between(low, high), device)
            total = make_total(wanted, model.card.horizon, price)
        budget = total
    budget.check(policy.menu)
    return replace(policy, budget=budget)


def find_price(
    policy: Policy, series: SeriesSet, budget: Total, prices: Sequence[float], device: torch.device | str = "cpu"
) -> float:
    """The price under which a total budget serves best: the lowest loss on validation series.

    A low price spends early and runs dry, a high one leaves money over; the hard cap holds with any. It takes the paper's place
    of a budget per step that is predicted from the sample's budget: each step spends what that moment is worth.
    """
    return min(try_prices(policy, series, budget, prices, device), key=lambda pace: pace.loss).price


def with_reserve(model: Model, price: float, validation: SeriesSet, device: torch.device | str = "cpu") -> Policy:
    """A policy whose scores are logits, at a price: per step at most what it was trained for, of that what is worth it."""
    spec, policy = model.card.spec, model.policy
    if isinstance(policy.budget, PerStep):
        most = policy.budget.amount if spec.budget.train_range is None else max(spec.budget.train_range)
        policy = replace(policy, budget=PerStep(most))
    reserve = find_reserve(policy, validation, price, device=device)
    return replace(policy, acquirer=WithReserve(policy.acquirer, reserve, policy.rules.costs.to(device)))


def find_reserve(policy: Policy, series: SeriesSet, price: float, count: int = 12, device: torch.device | str = "cpu") -> float:
    """The least relative worth that an order has to have, for scores that are logits: calibrated on validation series.

    Of ``count`` reserves, from asking for all that the budget allows to asking for nothing, the one with the lowest loss plus
    price times cost. At the margin, then, what is asked for brings the loss down by what it costs, and what is left would not.
    """
    costs = policy.rules.costs.to(device)
    rows = np.argsort(-series.lengths, kind="stable")[:_SERIES_FOR_RESERVES]
    with inference(policy):
        record = roll_out(policy, series.hindsight(rows, device).batch)
    worth = torch.cat([relative_worth(step.scores.values, costs)[step.selection.request > 0] for step in record.steps])
    worth = worth[worth.isfinite()].cpu().double()
    steps = torch.linspace(0, 1, count - 1, dtype=torch.float64)
    reserves = [-math.inf, *torch.quantile(worth, steps[1:]).tolist(), math.inf] if len(worth) else [-math.inf]
    bills = {}
    for reserve in reserves:
        trial = replace(policy, acquirer=WithReserve(policy.acquirer, reserve, costs))
        found = evaluate(trial, series, device=device).metrics
        bills[reserve] = found.loss + price * found.requested_cost
    return min(bills, key=lambda reserve: bills[reserve])
