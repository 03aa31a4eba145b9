"""The loop at nearly the price of the predictor alone.

The acquirer walks through the series without the predictor, then the predictor reads the whole series at once. What the
acquirer saw carries no gradient, so it learns from what its requests bring to the predictor, and not from how they change what
it sees itself later on: that path is as long as the series, and its noise drowns the rest. It is also what rewards measuring
something now in order to order better later: tasks of that kind need ``gradient="full"``.

Requests are those of the plain loop, to the bit: it is the same loop. The gradient is that of the plain loop with the
acquirer's inputs detached.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from whichwhen.acquirers import WithOwnPredictor
from whichwhen.afterwards import Reader, Unread, read_afterwards
from whichwhen.contracts import Acquirer
from whichwhen.noise import Generator
from whichwhen.rollout import Policy, roll_out
from whichwhen.selection import Gate
from whichwhen.types import Batch, Reveal, Rollout, Scores, State, View, join, narrow, split, tree_map


def roll_out_detached(policy: Policy, batch: Batch, generator: Generator | None = None) -> Rollout:
    """As :func:`roll_out`, with the acquirer's inputs detached and the predictor run once over whole series."""
    acquirer = policy.acquirer
    reader: Reader = WithoutGradient(policy.predictor) if acquirer.reads_context else Unread(policy.predictor)
    return read_afterwards(replace(policy, acquirer=DetachedView(acquirer)), reader, batch, generator)


def roll_out_branching(policy: Policy, batch: Batch, generator: Generator | None = None) -> Rollout:
    """As :func:`roll_out_detached`, with the predictor's states kept, and no gradient from its predictions to the acquirer."""
    walking = replace(policy, acquirer=DetachedView(policy.acquirer))
    return read_afterwards(walking, WithoutGradient(policy.predictor), batch, generator, branching=True)


def roll_out_replayed(policy: Policy, batch: Batch, generator: Generator | None = None) -> Rollout:
    """As :func:`roll_out_detached`, for acquirers that need no gradient through their own state; much faster.

    The acquirer walks through the series without a gradient. Then all its decisions are taken up again in one call, with the
    same noise, and the predictor reads the whole series.

    ``batch`` holds the longest series first.
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
        walked = roll_out(
            replace(policy, acquirer=walking, predictor=Unread(policy.predictor), selector=quick), batch, generator
        )
    # a decision is made for all that took part in the step before; it counts for those that take part in its own
    views = [narrow(view, n) for view, n in zip(walker.views, walked.sizes, strict=False)]
    states = [narrow(state, n) for state, n in zip(walker.states, walked.sizes, strict=False)]
    scores = _take_up(acquirer, views, states)
    allowance = join([view.allowance for view in views])
    noise = walked.flat(lambda step: step.selection.noise)
    rules = policy.rules.to(batch.values.device)
    selection = selector.select(scores, allowance, rules.costs, noise=noise)
    asked = walked.flat(lambda step: step.selection.request)
    relaxed = asked + selection.relaxed - selection.relaxed.detach()
    selection = replace(selection, request=asked, relaxed=relaxed)
    reveals = rules.reveals(walked.padded(relaxed), batch)
    flat = tree_map(lambda tensor: tensor[walked.series_by_row, walked.time_by_row], reveals)
    logits, _ = policy.predictor.packed(flat, walked.sizes)
    steps = zip(walked.steps, *(split(part, walked.sizes) for part in (scores, selection)), strict=True)
    return Rollout(
        tuple(replace(step, scores=own, selection=chosen) for step, own, chosen in steps),
        walked.by_length,
        walked.lengths,
        logits,
    )


def _take_up(acquirer: Acquirer, views: list[View], states: list[State]) -> Scores:
    """The scores of all decisions: the first by itself, as nothing was asked before it, then the others in one call.

    Where the states are not of one shape (an attention's past), step by step.
    """
    shapes = [[tensor.shape[1:] for tensor in state.values()] for state in states[1:]]
    if shapes and all(shape == shapes[0] for shape in shapes):
        views, states = [views[0], join(views[1:])], [states[0], join(states[1:])]
    return join([acquirer.step(view, state)[0] for view, state in zip(views, states, strict=True)])


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
