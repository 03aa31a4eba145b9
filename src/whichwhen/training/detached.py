"""The loop at nearly the price of the predictor alone.

The acquirer walks through the series without the predictor, then the predictor reads the whole series at once. What the
acquirer saw carries no gradient, so it learns from what its requests bring to the predictor, and not from how they change what
it sees itself later on: that path is as long as the series, and its noise drowns the rest. It is also what rewards measuring
something now in order to order better later: tasks of that kind need ``gradient="full"``.

Requests are those of the plain loop, to the bit: it is the same loop. The gradient is that of the plain loop with the
acquirer's inputs detached.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from whichwhen.acquirers import WithOwnPredictor
from whichwhen.afterwards import Reader, Unread, read_afterwards
from whichwhen.contracts import Acquirer
from whichwhen.noise import Generator
from whichwhen.rollout import Policy, roll_out
from whichwhen.selection import Gate
from whichwhen.types import (
    Allowance,
    Batch,
    R,
    Reading,
    Replay,
    Reveal,
    Rollout,
    Scores,
    State,
    Step,
    View,
    join,
    narrow,
    tree_map,
)


def roll_out_detached(policy: Policy, batch: Batch, generator: Generator | None = None) -> Rollout:
    """As :func:`roll_out`, with the acquirer's inputs detached and the predictor run once over whole series."""
    acquirer = policy.acquirer
    reader: Reader = WithoutGradient(policy.predictor) if acquirer.reads_context else Unread(policy.predictor)
    return read_afterwards(replace(policy, acquirer=DetachedView(acquirer)), reader, batch, generator)


def roll_out_branching(policy: Policy, batch: Batch, generator: Generator | None = None) -> Rollout:
    """As :func:`roll_out_detached`, with the predictor's states kept, and no gradient from its predictions to the acquirer."""
    walking = replace(policy, acquirer=DetachedView(policy.acquirer))
    return read_afterwards(walking, WithoutGradient(policy.predictor), batch, generator, branching=True)


@dataclass(frozen=True)
class Walk:
    """A walk without a gradient through the series of several batches at once: what each decision was made on, and with.

    Rows are step after step, the longest series first, as in :class:`Rollout`.

    Attributes:
        runs: stretches of rows that can be scored in one call: the first row of each, what was seen there, and the states.
        request: what was asked for, ``[N, K]``.
        noise: of the selector, ``[N, …]``.
        rank: for each batch, where its series stand, the longest first.
        sizes: how many series take part in each step.
    """

    runs: tuple[tuple[int, View, State], ...]
    request: Tensor
    noise: Tensor
    rank: tuple[Tensor, ...]
    sizes: tuple[int, ...]


def walk(policy: Policy, batches: Sequence[Batch], generator: Generator | None = None) -> Walk:
    """Let the acquirer walk through all batches at once: a step of four batches costs little more than that of one.

    Each batch holds its longest series first.
    """
    acquirer = policy.acquirer
    if isinstance(acquirer, WithOwnPredictor):  # whose predictor need not read everything twice
        own, acquirer = acquirer, acquirer.inner
        walker = Recording(acquirer)
        walking: Acquirer = own.around(walker)
    else:
        walking = walker = Recording(acquirer)
    selector = policy.selector
    quick = replace(selector, bills=False) if isinstance(selector, Gate) else selector
    with torch.no_grad():
        record = roll_out(
            replace(policy, acquirer=walking, predictor=Unread(policy.predictor), selector=quick), together(batches), generator
        )
    # a decision is made for all that took part in the step before; it counts for those that take part in its own
    views = [narrow(view, n) for view, n in zip(walker.views, record.sizes, strict=False)]
    states = [narrow(state, n) for state, n in zip(walker.states, record.sizes, strict=False)]
    place = torch.empty_like(record.by_length)
    place[record.by_length] = torch.arange(len(place), device=place.device)
    return Walk(
        _runs(views, states, record.sizes),
        record.flat(lambda step: step.selection.request),
        record.flat(lambda step: step.selection.noise),  # type: ignore[arg-type]
        torch.split(place, [batch.size for batch in batches]),
        record.sizes,
    )


def _runs(views: list[View], states: list[State], sizes: tuple[int, ...]) -> tuple[tuple[int, View, State], ...]:
    """The first decision by itself, as nothing was asked before it, then the others as one stretch.

    Where the states are not of one shape (an attention's past), step by step.
    """
    shapes = [[tensor.shape[1:] for tensor in state.values()] for state in states[1:]]
    if shapes and all(shape == shapes[0] for shape in shapes):
        return (0, views[0], states[0]), (sizes[0], join(views[1:]), join(states[1:]))
    starts = [0, *itertools.accumulate(sizes)]
    return tuple(zip(starts, views, states, strict=False))


def replay(policy: Policy, walked: Walk, number: int, batch: Batch) -> Replay:
    """Score the decisions of one batch of a walk again, with the same noise and a gradient; the predictor reads whole series.

    The requests are those of the walk, and their gradient is that of the scores as they are now.
    """
    acquirer = policy.acquirer.inner if isinstance(policy.acquirer, WithOwnPredictor) else policy.acquirer
    rows, sizes = (None, walked.sizes) if len(walked.rank) == 1 else _rows_of(walked, number)
    scores, allowance = _scored(acquirer, walked, rows)
    noise, asked = _take(walked.noise, rows), _take(walked.request, rows)
    rules = policy.rules.to(batch.values.device)
    selection = policy.selector.select(scores, allowance, rules.costs, noise=noise)
    relaxed = asked + selection.relaxed - selection.relaxed.detach()
    selection = replace(selection, request=asked, relaxed=relaxed)
    place = Reading(torch.arange(batch.size, device=asked.device), batch.lengths, sizes, asked)
    reveals = rules.reveals(place.padded(relaxed), batch)
    reveal = tree_map(lambda tensor: tensor[place.series_by_row, place.time_by_row], reveals)
    logits, _ = policy.predictor.packed(reveal, sizes)
    step = Step(reveal, scores, selection, logits, torch.mv(asked, rules.costs))
    return Replay(step, place.by_length, place.lengths, sizes)


def roll_out_replayed(policy: Policy, batch: Batch, generator: Generator | None = None) -> Replay:
    """As :func:`roll_out_detached`, for acquirers that need no gradient through their own state; much faster.

    The acquirer walks through the series without a gradient. Then all its decisions are taken up again in one call, with the
    same noise, and the predictor reads the whole series.

    ``batch`` holds the longest series first.
    """
    return replay(policy, walk(policy, [batch], generator), 0, batch)


def _rows_of(walked: Walk, number: int) -> tuple[Tensor, tuple[int, ...]]:
    """Where the rows of a batch are in a walk, step after step, and how many of its series take part in each step."""
    rank, sizes = walked.rank[number], torch.tensor(walked.sizes, device=walked.request.device)
    starts = sizes.cumsum(0) - sizes
    going = rank < sizes.unsqueeze(1)
    return (starts.unsqueeze(1) + rank)[going], tuple(n for n in going.sum(1).tolist() if n)


def _scored(acquirer: Acquirer, walked: Walk, rows: Tensor | None) -> tuple[Scores, Allowance]:
    """The scores of all decisions, or of those at ``rows``, and what there was to spend."""
    scores, allowances = [], []
    for i, (start, view, state) in enumerate(walked.runs):
        own = None
        if rows is not None:
            stop = walked.runs[i + 1][0] if i + 1 < len(walked.runs) else len(walked.request)
            own = rows[(rows >= start) & (rows < stop)] - start
            if not len(own):
                continue
        view, state = _take(view, own), _take(state, own)
        scores.append(acquirer.step(view, state)[0])
        allowances.append(view.allowance)
    return join(scores), join(allowances)


def _take(record: R, rows: Tensor | None) -> R:
    """Some rows of a record."""
    return record if rows is None else tree_map(lambda tensor: tensor.index_select(0, rows), record)


def together(batches: Sequence[Batch]) -> Batch:
    """Several batches as one."""
    if len(batches) == 1:
        return batches[0]
    steps = max(batch.steps for batch in batches)

    def padded(parts: list[Tensor]) -> Tensor:
        return torch.cat([F.pad(part, (0, 0, 0, steps - part.shape[1])) for part in parts])

    return Batch(
        padded([batch.values for batch in batches]),
        padded([batch.observed for batch in batches]),
        torch.cat([batch.lengths for batch in batches]),
        torch.cat([batch.keys for batch in batches]),
        all(batch.complete for batch in batches),
    )


class Recording(Acquirer):
    """An acquirer that keeps all that it was shown."""

    def __init__(self, inner: Acquirer) -> None:
        super().__init__()
        self.inner = inner
        self.unit = inner.unit
        self.views: list[View] = []
        self.states: list[State] = []

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """As inside."""
        return self.inner.init(keys)

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """As inside."""
        self.views.append(view)
        self.states.append(state)
        return self.inner.step(view, state)


class DetachedView(Acquirer):
    """An acquirer whose inputs carry no gradient; its own state does."""

    def __init__(self, inner: Acquirer) -> None:
        super().__init__()
        self.inner = inner
        self.reads_context = inner.reads_context

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """As inside."""
        return self.inner.init(keys)

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """As inside, cut off from what brought the values here."""
        seen = view.reveal
        reveal = Reveal(seen.values.detach(), seen.mask.detach(), seen.age, seen.time)
        return self.inner.step(replace(view, reveal=reveal, context=view.context.detach()), state)


class WithoutGradient(Reader):
    """Steps, but leaves no trace in the graph: for acquirers that look at the context."""

    def init(self, size: int) -> tuple[Tensor, State]:
        """As inside."""
        return self.inner.init(size)

    @torch.no_grad()
    def step(self, reveal: Reveal, state: State) -> tuple[Tensor, Tensor, State]:
        """As inside."""
        return self.inner.step(reveal, state)
