"""The records that travel through the loop.

Shapes: B series, T steps, F features, K orders, C classes, S draws in a step. ``*B`` stands for ``B`` at one step and for
``B T`` in the record of a whole episode: the same type serves both.

Who may see what is a matter of types: an acquirer gets a :class:`View`, which holds only what was revealed. The values that
were not revealed are in :class:`Batch`, which only the loop reads. Labels are in :class:`Hindsight`, which only objectives
and metrics get.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

State = dict[str, Tensor]
"""What a model carries from step to step: named tensors, each with the series in its first dimension.

Plain tensors by name are what the loop can narrow to the series that go on, what a session can write to disk without
pickle, and what a replay can branch from.
"""

Unit = Literal["logits", "nats"]


@dataclass(frozen=True)
class Batch:
    """What the world holds about B series. The loop reads it to answer requests; no model ever gets it.

    Attributes:
        values: scaled values, 0 where nothing was observed and after the end of a series.
        observed: whether the record holds the value; False after the end of a series.
        lengths: number of steps of each series.
        keys: one number per series that keyed randomness starts from; see :mod:`whichwhen.keyed`.
    """

    values: Float[Tensor, "B T F"]
    observed: Bool[Tensor, "B T F"]
    lengths: Int[Tensor, " B"]
    keys: Int[Tensor, " B"]

    @property
    def size(self) -> int:
        """B."""
        return self.values.shape[0]

    @property
    def steps(self) -> int:
        """T."""
        return self.values.shape[1]


@dataclass(frozen=True)
class Hindsight:
    """What only objectives and metrics may see: the whole truth of a batch, labels included."""

    batch: Batch
    labels: Int[Tensor, " B"]


@dataclass(frozen=True)
class Reveal:
    """The values that really arrived, each with its mask and its age.

    Attributes:
        values: 0 where nothing arrived.
        mask: 1 where a value arrived. Always 0 or 1 in value; in training it carries the selector's gradient.
        age: steps since the value was sampled; 0 = sampled at this very step.
        time: the step at which it arrived; -1 before the first.
    """

    values: Float[Tensor, "*B F"]
    mask: Float[Tensor, "*B F"]
    age: Float[Tensor, "*B F"]
    time: Int[Tensor, "*B"]

    @classmethod
    def nothing(cls, size: int, n_features: int, device: torch.device | str = "cpu") -> Reveal:
        """What is known before the first step."""
        zeros = torch.zeros(size, n_features, device=device)
        return cls(zeros, zeros, zeros, torch.full((size,), -1, device=device))


@dataclass(frozen=True)
class Scores:
    """How much each order is worth measuring, higher = more. ``-inf`` = not wanted, even if there is budget left.

    Attributes:
        values: the scores.
        unit: ``logits`` (only order and differences mean something) or ``nats`` (expected drop of the loss).
    """

    values: Float[Tensor, "*B K"]
    unit: Unit = "logits"


@dataclass(frozen=True)
class Allowance:
    """What may be ordered now, according to the budget.

    Attributes:
        amount: how much may be spent at this step.
        feasible: whether each order may be asked for at this step.
    """

    amount: Float[Tensor, "*B"]
    feasible: Bool[Tensor, "*B K"]


@dataclass(frozen=True)
class Selection:
    """What a selector chose, with what replay and policy gradients need to take it up again.

    Attributes:
        request: 1 for each order that is asked for.
        relaxed: the same numbers; in training it carries the gradient back to the scores.
        order: the orders in the sequence in which they were drawn, padded with -1.
        noise: the noise that was used, in the selector's own shape; None where the choice was not random.
    """

    request: Float[Tensor, "*B K"]
    relaxed: Float[Tensor, "*B K"]
    order: Int[Tensor, "*B S"]
    noise: Float[Tensor, "*B ..."] | None = None


@dataclass(frozen=True)
class View:
    """All that an acquirer gets to see at a step.

    Attributes:
        reveal: what has just arrived (nothing before the first step).
        allowance: what the budget lets it order now.
        context: what the predictor lets it see.
        time: the step that it orders for: 0 for the initial request, otherwise one after the reveal's.
    """

    reveal: Reveal
    allowance: Allowance
    context: Float[Tensor, "B H"]
    time: Int[Tensor, " B"]


@dataclass(frozen=True)
class Rollout:
    """The record of an episode. Losses, rewards and metrics are derived from it, not stored in it.

    Entry t holds the selection that was *measured* at step t (made after step t-1, or before the first step), what it
    revealed, and the prediction after it. Everything after the end of a series is 0.

    Attributes:
        reveals: what arrived at each step.
        scores: the scores behind the selection that was measured at each step.
        selections: that selection.
        logits: class logits after each step.
        valid: whether the series has this step.
        cost: what was billed at each step: the orders requested for it. A request made after the last step is not billed.
    """

    reveals: Reveal
    scores: Scores
    selections: Selection
    logits: Float[Tensor, "B T C"]
    valid: Bool[Tensor, "B T"]
    cost: Float[Tensor, "B T"]

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        """Number of steps of each series."""
        return self.valid.sum(1)

    @property
    def final_logits(self) -> Float[Tensor, "B C"]:
        """The prediction after the last step of each series."""
        rows = torch.arange(len(self.logits), device=self.logits.device)
        return self.logits[rows, self.lengths - 1]


R = TypeVar("R")


def tree_map(fn: Callable[[Tensor], Tensor], record: R) -> R:
    """The same record with ``fn`` applied to each tensor in it, through nested dataclasses and dicts."""
    out: Any
    if isinstance(record, Tensor):
        out = fn(record)
    elif isinstance(record, dict):
        out = {name: tree_map(fn, part) for name, part in record.items()}
    elif dataclasses.is_dataclass(record) and not isinstance(record, type):
        out = dataclasses.replace(
            record,
            **{field.name: tree_map(fn, getattr(record, field.name)) for field in dataclasses.fields(record)},
        )
    else:
        out = record
    return cast("R", out)


def narrow(record: R, n: int) -> R:
    """The first n series of a record."""
    return tree_map(lambda tensor: tensor[:n], record)


def stack_steps(records: list[R], size: int) -> R:
    """One record ``[B, T, ...]`` from T records ``[n_t, ...]`` with ``n_t`` falling; what is missing becomes 0."""
    first: Any = records[0]
    out: Any
    if isinstance(first, Tensor):
        steps: list[Tensor] = records  # type: ignore[assignment]
        if all(len(step) == size for step in steps):
            return torch.stack(steps, 1)  # type: ignore[return-value]
        padded = [torch.cat([step, step.new_zeros(size - len(step), *step.shape[1:])]) for step in steps]
        out = torch.stack(padded, 1)
    elif isinstance(first, dict):
        out = {name: stack_steps([record[name] for record in records], size) for name in first}  # type: ignore[index]
    elif dataclasses.is_dataclass(first) and not isinstance(first, type):
        out = dataclasses.replace(
            first,
            **{
                field.name: stack_steps([getattr(record, field.name) for record in records], size)
                for field in dataclasses.fields(first)
            },
        )
    else:
        out = first
    return cast("R", out)


def flatten(record: Any, prefix: str = "") -> dict[str, Tensor]:
    """All tensors of a record by their dotted place in it."""
    if isinstance(record, Tensor):
        return {prefix: record}
    if isinstance(record, dict):
        parts = record.items()
    elif dataclasses.is_dataclass(record):
        parts = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}.items()
    else:
        return {}
    out: dict[str, Tensor] = {}
    for name, part in parts:
        out |= flatten(part, f"{prefix}.{name}" if prefix else name)
    return out


def unflatten(template: R, tensors: dict[str, Tensor], prefix: str = "") -> R:
    """A record of the template's form with the given tensors in their places; KeyError names a missing one."""
    out: Any
    if isinstance(template, Tensor):
        out = tensors[prefix]
    elif isinstance(template, dict):
        out = {name: unflatten(part, tensors, f"{prefix}.{name}" if prefix else name) for name, part in template.items()}
    elif dataclasses.is_dataclass(template) and not isinstance(template, type):
        out = dataclasses.replace(
            template,
            **{
                field.name: unflatten(
                    getattr(template, field.name), tensors, f"{prefix}.{field.name}" if prefix else field.name
                )
                for field in dataclasses.fields(template)
            },
        )
    else:
        out = template
    return cast("R", out)
