"""The records that travel through the loop.

Shapes: B series, T steps, F features, K orders, C classes, S draws in a step. ``*B`` stands for ``B`` at one step and for
``B T`` in the record of a whole episode: the same type serves both.

Who may see what is a matter of types: an acquirer gets a :class:`View`, which holds only what was revealed. The values that
were not revealed are in :class:`Batch`, which only the loop reads. Labels are in :class:`Hindsight`, which only objectives
and metrics get.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeVar, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

State = dict[str, Tensor]
"""What a model carries from step to step: named tensors, each with the series in its first dimension.

Plain tensors by name are what the loop can narrow to the series that go on, what a session can write to disk without
pickle, and what a replay can branch from.
"""

Unit = Literal["logits", "nats", "log-worth"]

R = TypeVar("R")


@dataclass(frozen=True)
class Batch:
    """What the world holds about B series. The loop reads it to answer requests; no model ever gets it.

    Attributes:
        values: scaled values, 0 where nothing was observed and after the end of a series.
        observed: whether the record holds the value; False after the end of a series.
        lengths: number of steps of each series.
        keys: one number per series that keyed randomness starts from; see :mod:`whichwhen.keyed`.
        complete: whether every value of every series is known to be observed; False = look.
    """

    values: Float[Tensor, "B T F"]
    observed: Bool[Tensor, "B T F"]
    lengths: Int[Tensor, " B"]
    keys: Int[Tensor, " B"]
    complete: bool = False

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
    """What only objectives and metrics may see: the whole truth of a batch, labels included.

    Attributes:
        batch: all values.
        labels: of each series.
        step_labels: of each step, where steps have their own; 0 after the end of a series.
        weights: how much each series counts; None = all the same.
        class_weights: how much each class counts; None = all the same.
    """

    batch: Batch
    labels: Int[Tensor, " B"]
    step_labels: Int[Tensor, "B T"] | None = None
    weights: Float[Tensor, " B"] | None = None
    class_weights: Float[Tensor, " C"] | None = None


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
        unit: ``logits`` (only their order and differences mean something), ``nats`` (expected drop of the loss) or
            ``log-worth`` (compared with the log of price times cost).
    """

    values: Float[Tensor, "*B K"]
    unit: Unit = "logits"


@dataclass(frozen=True)
class Allowance:
    """What may be ordered now, according to the budget.

    Attributes:
        amount: how much may be spent at this step.
        feasible: whether each order may be asked for at this step.
        count: where each series may take some number of orders, any of them, at one cost: that number, for all or for each; it
            spares the selector from looking at the other tensors. None = look.
        price: what an order must be worth per unit of its cost to be asked for; None = whatever fits is asked for.
        waits: an order that does not fit keeps those that rank below it from being asked for; else they are bought instead.
    """

    amount: Float[Tensor, "*B"]
    feasible: Bool[Tensor, "*B K"]
    count: int | Int[Tensor, "*B"] | None = None
    price: Float[Tensor, "*B"] | None = None
    waits: bool = False


@dataclass(frozen=True)
class Selection:
    """What a selector chose, with what replay and policy gradients need to take it up again.

    Attributes:
        request: 1 for each order that is asked for.
        relaxed: the same numbers; in training it carries the gradient back to the scores.
        ranking: what the choice went by: of two orders that were taken, the higher one was drawn first.
            -inf for those that were asked without being drawn (mandatory ones).
        noise: the noise that was used, in the selector's own shape; None where the choice was not random.
        feasible: what there was to choose from; None = every order.
        price: what a unit of cost is billed at: the price, or in training the cap's own price where that is higher; None =
            there is no price.
        threshold: what a perturbed margin had to exceed, where each order was drawn by itself (the gate of training); None =
            the choice was of another kind.
    """

    request: Float[Tensor, "*B K"]
    relaxed: Float[Tensor, "*B K"]
    ranking: Float[Tensor, "*B K"]
    noise: Float[Tensor, "..."] | None = None
    feasible: Bool[Tensor, "*B K"] | None = None
    price: Float[Tensor, "*B"] | None = None
    threshold: Float[Tensor, "*B"] | None = None

    @property
    def order(self) -> Int[Tensor, "*B S"]:
        """The orders that were drawn, in the sequence in which they were drawn, padded with -1 to the longest."""
        taken = (self.request > 0) & (self.ranking > -torch.inf)
        most = int(taken.sum(-1).max()) if taken.numel() else 0
        front = torch.sort(self.ranking.masked_fill(~taken, -torch.inf), dim=-1, descending=True, stable=True).indices
        front = front[..., :most]
        return torch.where(taken.gather(-1, front), front, -1)


@dataclass(frozen=True)
class View:
    """All that an acquirer gets to see at a step.

    Attributes:
        reveal: what has just arrived (nothing before the first step).
        allowance: what the budget lets it order now.
        context: what the predictor lets it see.
        time: the step that it orders for: 0 for the initial request, otherwise one after the reveal's.
        under_way: 1 for each order that was asked and whose result is yet to come; None where all arrive at the next step.
        asked: 1 for each order of the request before this one, answered or not; None before the first.
    """

    reveal: Reveal
    allowance: Allowance
    context: Float[Tensor, "B H"]
    time: Int[Tensor, " B"]
    under_way: Float[Tensor, "B K"] | None = None
    asked: Float[Tensor, "B K"] | None = None


@dataclass(frozen=True)
class Step:
    """What happened at one step, for the n series that have it.

    Attributes:
        reveal: what arrived.
        scores, selection: the decision that brought it, made after the step before.
        logits: the prediction after it.
        cost: what was billed for it.
        before: the predictor's state before it, where it was kept.
    """

    reveal: Reveal
    scores: Scores
    selection: Selection
    logits: Float[Tensor, "n C"]
    cost: Float[Tensor, " n"]
    before: State | None = None


class Rows:
    """Predictions for every step of B series, step after step, longest series first, so that there is no padding.

    ``*_by_row`` are ``[N, …]``, N being the sum of all lengths. Attributes that a subclass has:

    Attributes:
        by_length: which series of the batch stands where, longest first.
        lengths: number of steps of each series, in the batch's own order.
        sizes: how many series take part in each step.
        logits_by_row: predictions ``[N, C]``.
    """

    by_length: Int[Tensor, " B"]
    lengths: Int[Tensor, " B"]
    sizes: tuple[int, ...]
    logits_by_row: Float[Tensor, "N C"]

    @cached_property
    def time_by_row(self) -> Int[Tensor, " N"]:
        """The step of each row."""
        return torch.repeat_interleave(torch.tensor(self.sizes)).to(self.lengths.device)

    @cached_property
    def series_by_row(self) -> Int[Tensor, " N"]:
        """The series of each row, as a position in the batch."""
        return torch.cat([self.by_length[:n] for n in self.sizes])

    @cached_property
    def final_logits(self) -> Float[Tensor, "B C"]:
        """The prediction after the last step of each series."""
        starts = torch.tensor([0, *itertools.accumulate(self.sizes)], device=self.lengths.device)
        place = torch.empty_like(self.by_length)
        place[self.by_length] = torch.arange(len(place), device=place.device)
        return self.logits_by_row[starts[self.lengths - 1] + place]

    def padded(self, flat: Tensor) -> Tensor:
        """``[B, T, …]`` in the batch's own order from ``[N, …]``; 0 after the end of each series."""
        size, steps = len(self.lengths), len(self.sizes)
        place = self.series_by_row * steps + self.time_by_row
        out = flat.new_zeros(size * steps, *flat.shape[1:]).index_copy(0, place, flat)
        return out.view(size, steps, *flat.shape[1:])


@dataclass(frozen=True)
class Reading(Rows):
    """What a predictor says of whole series, without the record of an episode; see :class:`Rows`."""

    by_length: Int[Tensor, " B"]
    lengths: Int[Tensor, " B"]
    sizes: tuple[int, ...]
    logits_by_row: Float[Tensor, "N C"]


class Episode(Rows):
    """What happened to B series, with the decisions behind it. Losses, rewards and metrics are derived from it.

    The padded views ``[B, T, …]``, in the batch's own order, are made when they are asked for. Entry t of those is the
    selection that was *measured* at step t (made after step t-1, or before the first step), what it revealed, the prediction
    after it and what was billed for it. A request made after the last step is not in the record and not billed. Everything
    after the end of a series is 0.
    """

    def flat(self, part: Callable[[Step], R]) -> R:
        """One part of all steps, step after step: ``[N, …]``."""
        raise NotImplementedError

    @cached_property
    def reveals(self) -> Reveal:
        """What arrived, ``[B, T, F]``."""
        return tree_map(self.padded, self.flat(lambda step: step.reveal))

    @cached_property
    def scores(self) -> Scores:
        """The scores behind what was measured, ``[B, T, K]``."""
        return tree_map(self.padded, self.flat(lambda step: step.scores))

    @cached_property
    def selections(self) -> Selection:
        """What was measured, ``[B, T, K]``."""
        return tree_map(self.padded, self.flat(lambda step: step.selection))

    @cached_property
    def logits(self) -> Float[Tensor, "B T C"]:
        """Class logits after each step."""
        return self.padded(self.logits_by_row)

    @cached_property
    def cost(self) -> Float[Tensor, "B T"]:
        """What was billed at each step."""
        return self.padded(self.flat(lambda step: step.cost))

    @cached_property
    def valid(self) -> Bool[Tensor, "B T"]:
        """Whether the series has this step."""
        return self.lengths.unsqueeze(1) > torch.arange(len(self.sizes), device=self.lengths.device)


@dataclass(frozen=True)
class Rollout(Episode):
    """The record of an episode that was walked through step by step, longest series first, so that there is no padding.

    Attributes:
        steps: T records; the first n_t of the sorted series take part in step t.
        by_length: which series of the batch stands where in the steps, longest first.
        lengths: number of steps of each series, in the batch's own order.
        flat_logits: predictions ``[N, C]``, where they were not made step by step.
    """

    steps: tuple[Step, ...]
    by_length: Int[Tensor, " B"]
    lengths: Int[Tensor, " B"]
    flat_logits: Float[Tensor, "N C"] | None = None

    @cached_property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        """How many series take part in each step."""
        return tuple(len(step.cost) for step in self.steps)

    @cached_property
    def logits_by_row(self) -> Float[Tensor, "N C"]:  # type: ignore[override]
        """Predictions, step after step."""
        return self.flat(lambda step: step.logits) if self.flat_logits is None else self.flat_logits

    def flat(self, part: Callable[[Step], R]) -> R:
        """One part of all steps, step after step: ``[N, …]``."""
        return join([part(step) for step in self.steps])


@dataclass(frozen=True)
class Replay(Episode):
    """The record of an episode whose decisions were all scored again in one call: one step that holds those of all.

    Attributes:
        step: ``[N, …]`` in each of its parts, step after step, longest series first.
        by_length: which series of the batch stands where, longest first.
        lengths: number of steps of each series, in the batch's own order.
        sizes: how many series take part in each step.
    """

    step: Step
    by_length: Int[Tensor, " B"]
    lengths: Int[Tensor, " B"]
    sizes: tuple[int, ...]

    @property
    def logits_by_row(self) -> Float[Tensor, "N C"]:  # type: ignore[override]
        """Predictions, step after step."""
        return self.step.logits

    def flat(self, part: Callable[[Step], R]) -> R:
        """One part of all steps, step after step: ``[N, …]``."""
        return part(self.step)


def tree_map(fn: Callable[[Tensor], Tensor], record: R) -> R:
    """The same record with ``fn`` applied to each tensor in it, through nested dataclasses, dicts and tuples."""
    out: Any
    if isinstance(record, Tensor):
        out = fn(record)
    elif isinstance(record, dict):
        out = {name: tree_map(fn, part) for name, part in record.items()}
    elif isinstance(record, tuple):
        out = tuple(tree_map(fn, part) for part in record)
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


def join(records: list[R]) -> R:
    """One record from several of the same form, one after the other along the first dimension."""
    first: Any = records[0]
    out: Any
    if isinstance(first, Tensor):
        tensors = cast("list[Tensor]", records)
        if first.dim() == 2 and not any(any(tensor.stride()) or tensor.data_ptr() != first.data_ptr() for tensor in tensors):
            out = first[:1].expand(sum(len(tensor) for tensor in tensors), first.shape[1])  # one number, shown many times
        else:
            most = (
                max(tensor.shape[1] for tensor in tensors) if first.dim() == 3 else 0
            )  # the noise of more draws at some steps
            out = torch.cat([_with_zeros(tensor, most) if most else tensor for tensor in tensors])
    elif isinstance(first, dict):
        out = {name: join([cast("dict[str, Any]", record)[name] for record in records]) for name in first}
    elif dataclasses.is_dataclass(first) and not isinstance(first, type):
        out = dataclasses.replace(
            first,
            **{field.name: join([getattr(record, field.name) for record in records]) for field in dataclasses.fields(first)},
        )
    else:
        out = first
    return cast("R", out)


def split(record: R, sizes: tuple[int, ...]) -> list[R]:
    """The way back from :func:`join`: one record for each size."""
    flat = flatten(record)
    parts = {name: torch.split(tensor, list(sizes)) for name, tensor in flat.items()}
    return [unflatten(record, {name: part[i] for name, part in parts.items()}) for i in range(len(sizes))]


def _with_zeros(tensor: Tensor, rows: int) -> Tensor:
    """``[n, rows, …]``, zeros after what there is."""
    missing = rows - tensor.shape[1]
    return torch.cat([tensor, tensor.new_zeros(len(tensor), missing, *tensor.shape[2:])], 1) if missing else tensor


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
