"""What a finished model does at other budgets than its own, on the test sets: the points of a frontier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from whichwhen.budget import PerStep, Total
from whichwhen.data.store import Dataset
from whichwhen.evaluation import Evaluation, evaluate
from whichwhen.evaluation.pacing import at_budget
from whichwhen.files import write_atomically
from whichwhen.model import Model
from whichwhen.specs import BudgetSpec

PER_STEP = (1.0, 2.0, 10.0)
"""Budgets per step at which a model for many of them is tested beside its own."""
SHARES = (0.2, 0.4, 2.0)
"""The same for totals, as multiples of its own."""


def at_other_budgets(model: Model, data: Dataset, device: torch.device | str = "cpu") -> dict[tuple[float, str], Evaluation]:
    """By amount and test set; empty unless the model was trained for a range of budgets."""
    spec, own = model.card.spec, model.policy.budget
    if spec.budget.train_range is None:
        return {}
    low, high = spec.budget.train_range
    wanted: dict[float, BudgetSpec] = {}
    if isinstance(own, PerStep):
        wanted = {
            amount: spec.budget.at(per_step=amount) for amount in PER_STEP if low <= amount <= high and amount != own.amount
        }
    elif isinstance(own, Total) and not spec.budget.priced:
        amounts = [own.amount * share for share in SHARES]
        wanted = {amount: spec.budget.at(total=amount) for amount in amounts if low <= amount <= high * 1.001}
    policies = {amount: at_budget(model, budget, data.validation, device) for amount, budget in wanted.items()}
    return {
        (amount, name): evaluate(policy, part, data.provenance, device=device)
        for amount, policy in policies.items()
        for name, part in data.tests.items()
    }


def rows_of(others: dict[tuple[float, str], Evaluation]) -> list[dict[str, Any]]:
    """As in ``result.json``."""
    return [{"budget": amount, "test_set": name, **found.metrics.to_dict()} for (amount, name), found in others.items()]


def write_scores(path: Path, own: dict[str, Evaluation], others: dict[tuple[float, str], Evaluation]) -> None:
    """Probabilities of the last class by test set and budget, float16: for intervals on differences between runs."""
    arrays = {score_name(name, None): _last_class(found) for name, found in own.items()}
    arrays |= {score_name(name, amount): _last_class(found) for (amount, name), found in others.items()}
    write_atomically(path, lambda beside: _save(beside, arrays))


def score_name(test_set: str, amount: float | None) -> str:
    """The name of an array in ``scores.npz``; None = the run's own budget."""
    return f"{test_set}|{'own' if amount is None else f'{amount:.6g}'}"


def _last_class(found: Evaluation) -> np.ndarray:
    shares = found.probabilities if found.step_probabilities is None else found.step_probabilities
    return shares[:, -1].astype(np.float16)


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
