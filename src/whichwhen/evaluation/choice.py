"""Which of several trained models serves a budget best: the network, or the best fixed rule beside it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from whichwhen.afterwards import walk_then_read
from whichwhen.budget import Price
from whichwhen.data.store import SeriesSet
from whichwhen.evaluation.prices import at_budget, knows_prices
from whichwhen.evaluation.scoring import evaluate
from whichwhen.model import Model
from whichwhen.rollout import Policy
from whichwhen.specs import BudgetSpec

FEW = 100
"""Validation series below which their mean loss says little about which of two models is better."""


@dataclass(frozen=True)
class Chosen:
    """The model that serves a budget best on validation.

    Attributes:
        model: one of those given.
        policy: the same at that budget.
        loss: on validation, plus the bill where there is a price.
    """

    model: Model
    policy: Policy
    loss: float


def choose_at_budget(
    models: Sequence[Model], wanted: BudgetSpec, validation: SeriesSet, device: torch.device | str = "cpu"
) -> Chosen:
    """The model with the lowest validation loss at a budget; ties go to the first.

    Under a price, and under a mean cost at the price that was found for it, what is asked for is added to the loss: cheaper is
    better where predictions are as good. With few validation series, a budget other than that of training goes to the network
    if it reaches it: the network was settled for all budgets, a rule for its own.

    Args:
        models: trained on the same data.
        wanted: the budget.
        validation: what to choose on, and to find prices on.
        device: where the models are.
    """
    if len(models) == 1:
        return Chosen(models[0], at_budget(models[0], wanted, validation, device), float("nan"))
    policies, warned = [], []
    for model in models:
        with warnings.catch_warnings(record=True) as own:
            warnings.simplefilter("always")
            policies.append(at_budget(model, wanted, validation, device))
        warned.append(own)
    price = _charge(models, policies, wanted)
    looked = [model.on_validation(policy) for model, policy in zip(models, policies, strict=True)]
    found = [evaluate(policy, validation, device=device, loop=walk_then_read).metrics for policy in looked]
    losses = [metrics.loss + price * metrics.requested_cost for metrics in found]
    able = list(range(len(models)))
    if len(validation) < FEW and wanted != models[0].card.spec.budget:
        able = [i for i in able if knows_prices(models[i].card, policies[i]) and not warned[i]] or able
    best = min(able, key=lambda i: losses[i])
    for warning in warned[best]:  # that another one does not reach a budget is nobody's concern
        warnings.warn(warning.message, stacklevel=2)
    return Chosen(models[best], policies[best], losses[best])


def _charge(models: Sequence[Model], policies: Sequence[Policy], wanted: BudgetSpec) -> float:
    if wanted.kind == "price":
        return wanted.price or 0.0
    if wanted.kind == "mean-cost":
        for model, policy in zip(models, policies, strict=True):
            if knows_prices(model.card, policy) and isinstance(policy.budget, Price):
                return policy.budget.price
    return 0.0
