"""What an objective is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from whichwhen.contracts import Predictor
from whichwhen.ordering import Rules
from whichwhen.types import Episode, Hindsight, Reveal, Rollout, Rows, State, join


class Objective(ABC):
    """Contract: a scalar to minimise, lower is better. It gets the record of the loop and the hindsight of the batch.

    Attributes:
        branches: whether it asks "what if this had been measured". If so, the record holds the predictor's state before each
            step, the predictions in it carry no gradient to the acquirer, and the acquirer learns from the objective alone.
    """

    branches: bool = False

    @abstractmethod
    def loss(self, record: Episode, hindsight: Hindsight) -> Float[Tensor, ""]:
        """The mean over the series of a batch."""


def row_loss(logits: Float[Tensor, "N C"], record: Rows, hindsight: Hindsight) -> Float[Tensor, " N"]:
    """Cross-entropy of a prediction for each row of a record, in nats, as much as its series and its class count."""
    series = record.series_by_row
    labels = hindsight.labels[series] if hindsight.step_labels is None else hindsight.step_labels[series, record.time_by_row]
    loss = F.cross_entropy(logits, labels, reduction="none")
    return loss * weight if (weight := _weight(hindsight, labels, series)) is not None else loss


def final_loss(record: Rows, hindsight: Hindsight) -> Float[Tensor, ""]:
    """Cross-entropy of the last prediction of each series, the mean over the batch."""
    loss = F.cross_entropy(record.final_logits, hindsight.labels, reduction="none")
    weight = _weight(hindsight, hindsight.labels, None)
    return loss.mean() if weight is None else (loss * weight).mean()


def _weight(hindsight: Hindsight, labels: Tensor, series: Tensor | None) -> Tensor | None:
    parts = []
    if hindsight.weights is not None:
        parts.append(hindsight.weights if series is None else hindsight.weights[series])
    if hindsight.class_weights is not None:
        parts.append(hindsight.class_weights[labels])
    return torch.stack(parts).prod(0) if parts else None


def bills_by_row(rules: Rules, delivered: bool, record: Episode, hindsight: Hindsight) -> Float[Tensor, "N K"]:
    """What each order costs at each row of a record; where only deliveries count, nothing if it could not be answered."""
    series, time, batch = record.series_by_row, record.time_by_row, hindsight.batch
    rules = rules.to(batch.values.device)
    if not delivered:
        return rules.costs.expand(len(series), -1)
    return rules.bills(batch.observed[series, time])


def branch(predictor: Predictor, record: Episode, reveals: Reveal) -> Float[Tensor, "N C"]:
    """What the predictor would say after each step, had ``reveals`` arrived there instead, and all before it as it did.

    All steps at once where the states have one shape, else step by step.
    """
    assert isinstance(record, Rollout), "an episode whose states were not kept"
    states: list[State] = [step.before or {} for step in record.steps]
    shapes = {tuple(tensor.shape[1:] for tensor in state.values()) for state in states}
    if len(shapes) == 1:
        return predictor.step(reveals, join(states))[0]
    parts, start = [], 0
    for state, size in zip(states, record.sizes, strict=True):
        rows = slice(start, start + size)
        own = Reveal(reveals.values[rows], reveals.mask[rows], reveals.age[rows], reveals.time[rows])
        parts.append(predictor.step(own, state)[0])
        start += size
    return torch.cat(parts)


@contextmanager
def frozen(module: nn.Module) -> Iterator[None]:
    """Gradients pass through the module within, but stop at its weights."""
    moving = [parameter for parameter in module.parameters() if parameter.requires_grad]
    for parameter in moving:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in moving:
            parameter.requires_grad_(True)
