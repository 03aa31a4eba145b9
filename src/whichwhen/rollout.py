"""The acquisition step, the loop over it, and nothing else.

Training, evaluation and sessions all come through :func:`acquisition_step`: the paper's Algorithm 1, one iteration at a time.
Training differs by the policy's selector, a session by where the values come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from whichwhen.budget import Budget, Ledger
from whichwhen.contracts import Acquirer, Predictor, Selector
from whichwhen.menu import Menu
from whichwhen.noise import Generator
from whichwhen.ordering import Pending, Rules, also
from whichwhen.selection import HardTopK
from whichwhen.types import Batch, Reveal, Rollout, Scores, Selection, State, Step, View, narrow, tree_map


@dataclass(frozen=True)
class Policy:
    """All that decides what happens in an episode.

    Attributes:
        menu: what can be ordered.
        budget: how much may be spent.
        acquirer: scores orders.
        predictor: reads what was measured.
        selector: turns scores into requests.
    """

    menu: Menu
    budget: Budget
    acquirer: Acquirer
    predictor: Predictor
    selector: Selector = HardTopK()  # noqa: RUF009 (immutable)

    @cached_property
    def rules(self) -> Rules:
        """The menu's."""
        return Rules(self.menu)

    def with_selector(self, selector: Selector) -> Policy:
        """The same policy, choosing in another way."""
        return replace(self, selector=selector)


@dataclass(frozen=True)
class LoopState:
    """Where an episode stands between two steps. Tensors only, so that it can be narrowed, saved and branched from.

    Attributes:
        predictor, acquirer: the models' own states.
        ledger: the budget's.
        pending: what earlier requests still mean, the one for the coming step included.
        scores, selection, cost: what was decided for the coming step, and what that costs.
    """

    predictor: State
    acquirer: State
    ledger: Ledger
    pending: Pending
    scores: Scores
    selection: Selection
    cost: Float[Tensor, " B"]


def begin(policy: Policy, keys: Int[Tensor, " B"], generator: Generator | None = None) -> LoopState:
    """Before the first step: fresh states and the initial request, made on nothing but the budget."""
    size = len(keys)
    context, predictor_state = policy.predictor.init(size)
    ledger = policy.budget.init(keys)
    nothing = Reveal.nothing(size, len(policy.menu.features), keys.device)
    pending = policy.rules.to(keys.device).init(size)
    acquirer_state = policy.acquirer.init(keys)
    return _place_order(policy, nothing, context, predictor_state, acquirer_state, ledger, pending, None, generator)


def acquisition_step(
    policy: Policy, state: LoopState, reveal: Reveal, generator: Generator | None = None
) -> tuple[Float[Tensor, "B C"], LoopState]:
    """One step of the loop: the predictor reads what arrived, the acquirer orders for the next step, within the budget.

    Returns the logits after this step, and the state that holds the next request.
    """
    logits, context, predictor_state = policy.predictor.step(reveal, state.predictor)
    ledger = state.ledger
    if policy.budget.settles:
        unanswered = policy.rules.to(reveal.mask.device).unanswered(state.selection, reveal)
        ledger = policy.budget.settle(ledger, unanswered)
    own, asked = state.acquirer, state.selection.request
    return logits, _place_order(policy, reveal, context, predictor_state, own, ledger, state.pending, asked, generator)


def _place_order(
    policy: Policy,
    reveal: Reveal,
    context: Tensor,
    predictor_state: State,
    acquirer_state: State,
    ledger: Ledger,
    pending: Pending,
    asked: Tensor | None,
    generator: Generator | None,
) -> LoopState:
    rules = policy.rules.to(reveal.values.device)
    time = reveal.time + 1
    allowance, must = rules.restrict(policy.budget.allow(ledger, reveal, policy.menu), pending)
    view = View(reveal, allowance, context, time, rules.under_way(pending), asked)
    scores, acquirer_state = policy.acquirer.step(view, acquirer_state)
    selection = policy.selector.select(scores, allowance, rules.costs, generator)
    if must is not None:
        selection = also(selection, must)
    cost = torch.mv(selection.request, rules.costs)
    ledger = policy.budget.charge(ledger, selection.request, cost, time)
    return LoopState(predictor_state, acquirer_state, ledger, rules.remember(pending, selection), scores, selection, cost)


def measure(policy: Policy, batch: Batch, state: LoopState, t: int) -> Reveal:
    """What arrives at step t from a recorded batch."""
    return policy.rules.to(batch.values.device).arrive(batch, state.selection, state.pending, t)


def roll_out(policy: Policy, batch: Batch, generator: Generator | None = None, keep_states: bool = False) -> Rollout:
    """Run the policy on a batch of recorded series, each to its own end.

    Series are taken in the order of falling length, and only those that go on take part in a step: no work is done on
    padding, and a series' record does not depend on the others. ``keep_states`` keeps the predictor's state before each step,
    for those who ask "what if something else had been measured".
    """
    lengths = batch.lengths
    by_length = torch.sort(lengths, descending=True, stable=True).indices
    if not bool((lengths[:-1] >= lengths[1:]).all()):
        batch = tree_map(lambda tensor: _reordered(tensor, by_length), batch)
    length_list = batch.lengths.tolist()
    state = begin(policy, batch.keys, generator)
    steps: list[Step] = []
    n = len(length_list)
    for t in range(length_list[0]):
        while length_list[n - 1] <= t:
            n -= 1
        if n < state.cost.shape[0]:
            state = narrow(state, n)
        reveal = measure(policy, batch, state, t)
        before = state
        logits, state = acquisition_step(policy, state, reveal, generator)
        kept = before.predictor if keep_states else None
        steps.append(Step(reveal, before.scores, before.selection, logits, before.cost, kept))
    return Rollout(tuple(steps), by_length, lengths)


def _reordered(tensor: Tensor, rows: Int[Tensor, " B"]) -> Tensor:
    """Some rows, with the steps outermost in memory: the loop goes step by step."""
    return tensor[rows] if tensor.ndim == 1 else tensor.transpose(0, 1).index_select(1, rows).transpose(0, 1)


@contextmanager
def evaluating(*modules: nn.Module) -> Iterator[None]:
    """No gradients and no dropout within; afterwards the modules are in the mode they were in."""
    training = [module for module in modules if module.training]
    for module in training:
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.train()


def inference(policy: Policy) -> AbstractContextManager[None]:
    """A policy's models as they are when it is used, not trained."""
    return evaluating(policy.acquirer, policy.predictor)
