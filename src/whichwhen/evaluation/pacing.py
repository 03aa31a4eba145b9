"""How fast to spend: the price that makes a total budget last, learned from validation series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from whichwhen.budget import Budget, PerStep, Price, Total
from whichwhen.data.store import SeriesSet
from whichwhen.errors import SpecError
from whichwhen.evaluation.scoring import evaluate
from whichwhen.model import Model
from whichwhen.rollout import Policy
from whichwhen.specs import BudgetSpec

DEFAULT_PRICES = (1e-4, 1e-1)
"""Nats per unit of cost, among which the pace of a total budget is looked for where training says nothing."""


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
        found = evaluate(replace(policy, budget=replace(budget, price=price, over=None)), series, device=device).metrics
        paces.append(Pace(price, found.loss, found.requested_cost))
    return paces


def at_budget(model: Model, wanted: BudgetSpec, validation: SeriesSet, device: torch.device | str = "cpu") -> Policy:
    """A trained model's policy under another budget: per step, in total, or at a price.

    A total needs a pace: where the scores are nats or were learned under prices, the price that serves best on validation; else
    it becomes available evenly over the model's horizon. Scores that are neither have no worth to compare a price with.
    """
    policy, spec = model.policy, model.card.spec
    worth = policy.acquirer.unit == "nats" or (spec.budget.priced and policy.acquirer.learns)
    budget: Budget
    if wanted.kind == "per-step":
        budget = PerStep(wanted.per_step)
    elif wanted.kind == "price":
        if not worth:
            raise SpecError(
                "a price for scores that are logits",
                expected="a run trained with --objective value, --price or --total … --pace price",
                do="train one, or use --budget or --total",
            )
        budget = Price(wanted.price or 0.0)
    else:
        total = Total(wanted.total or 0.0, delivered=wanted.bill == "delivered")
        total.check(policy.menu)
        if worth:
            low, high = spec.budget.train_range if spec.budget.priced and spec.budget.train_range else DEFAULT_PRICES
            total = replace(total, price=find_price(policy, validation, total, prices_between(low, high), device))
        else:
            total = replace(total, over=model.card.horizon)
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
