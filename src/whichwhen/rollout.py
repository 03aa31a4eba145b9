"""The acquisition step, the loop over it, and nothing else.

Training, evaluation and sessions all come through :func:`acquisition_step`: the paper's Algorithm 1, one iteration at a time.
Training differs by the policy's selector, a session by where the values come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from whichwhen.budget import Budget, Ledger
from whichwhen.contracts import Acquirer, Predictor, Selector
from whichwhen.menu import Menu
from whichwhen.selection import HardTopK
from whichwhen.types import Batch, Reveal, Rollout, Scores, Selection, State, View, narrow, stack_steps, tree_map


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

    def __post_init__(self) -> None:
        object.__setattr__(self, "_costs", torch.from_numpy(self.menu.costs))
        object.__setattr__(self, "_reveals", torch.from_numpy(self.menu.reveals).float())

    def with_selector(self, selector: Selector) -> Policy:
        """The same policy, choosing in another way."""
        return replace(self, selector=selector)

    def costs(self, device: torch.device) -> Float[Tensor, " K"]:
        """Cost of each order."""
        costs: Tensor = self._costs  # type: ignore[attr-defined]
        return costs.to(device)

    def reveals(self, device: torch.device) -> Float[Tensor, "K F"]:
        """1 where an order reveals a feature."""
        reveals: Tensor = self._reveals  # type: ignore[attr-defined]
        return reveals.to(device)


@dataclass(frozen=True)
class LoopState:
    """Where an episode stands between two steps. Tensors only, so that it can be narrowed, saved and branched from.

    Attributes:
        predictor, acquirer: the models' own states.
        ledger: the budget's.
        scores, selection: what was decided for the coming step.
    """

    predictor: State
    acquirer: State
    ledger: Ledger
    scores: Scores
    selection: Selection


def begin(policy: Policy, keys: Int[Tensor, " B"], generator: torch.Generator | None = None) -> LoopState:
    """Before the first step: fresh states and the initial request, made on nothing but the budget."""
    size = len(keys)
    context, predictor_state = policy.predictor.init(size)
    ledger = policy.budget.init(size, policy.menu, keys.device)
    nothing = Reveal.nothing(size, len(policy.menu.features), keys.device)
    return _place_order(policy, nothing, context, predictor_state, policy.acquirer.init(keys), ledger, generator)


def acquisition_step(
    policy: Policy, state: LoopState, reveal: Reveal, generator: torch.Generator | None = None
) -> tuple[Float[Tensor, "B C"], LoopState]:
    """One step of the loop: the predictor reads what arrived, the acquirer orders for the next step, within the budget.

    Returns the logits after this step, and the state that holds the next request.
    """
    logits, context, predictor_state = policy.predictor.step(reveal, state.predictor)
    return logits, _place_order(policy, reveal, context, predictor_state, state.acquirer, state.ledger, generator)


def _place_order(
    policy: Policy,
    reveal: Reveal,
    context: Tensor,
    predictor_state: State,
    acquirer_state: State,
    ledger: Ledger,
    generator: torch.Generator | None,
) -> LoopState:
    costs = policy.costs(reveal.values.device)
    time = reveal.time + 1
    allowance = policy.budget.allow(ledger, reveal, costs)
    scores, acquirer_state = policy.acquirer.step(View(reveal, allowance, context, time), acquirer_state)
    selection = policy.selector.select(scores, allowance, costs, generator)
    ledger = policy.budget.charge(ledger, selection.request, costs, time)
    return LoopState(predictor_state, acquirer_state, ledger, scores, selection)


def measure(policy: Policy, batch: Batch, selection: Selection, t: int) -> Reveal:
    """What a request for step t brings from a recorded batch: the requested values that the record holds."""
    n = len(selection.request)
    held = batch.observed[:n, t].to(batch.values.dtype)
    asked = (selection.relaxed @ policy.reveals(held.device)).clamp(max=1.0)
    mask = asked * held
    return Reveal(
        values=batch.values[:n, t] * mask,
        mask=mask,
        age=torch.zeros_like(mask),
        time=torch.full((n,), t, device=mask.device),
    )


def roll_out(policy: Policy, batch: Batch, generator: torch.Generator | None = None) -> Rollout:
    """Run the policy on a batch of recorded series, each to its own end.

    Series are taken in the order of falling length, and only those that go on take part in a step: no work is done on
    padding, and a series' record does not depend on the others. The record comes back in the batch's own order.
    """
    by_length = torch.sort(batch.lengths, descending=True, stable=True).indices
    batch = tree_map(lambda tensor: tensor[by_length], batch)
    steps = int(batch.lengths[0])
    going = (batch.lengths.unsqueeze(0) > torch.arange(steps, device=batch.lengths.device).unsqueeze(1)).sum(1).tolist()

    state = begin(policy, batch.keys, generator)
    taken: list[tuple[Reveal, Scores, Selection, Tensor]] = []
    for t, n in enumerate(going):
        if n < len(state.selection.request):
            state = narrow(state, n)
        reveal = measure(policy, batch, state.selection, t)
        scores, selection = state.scores, state.selection
        logits, state = acquisition_step(policy, state, reveal, generator)
        taken.append((reveal, scores, selection, logits))

    reveals, scores_list, selections, logits_list = (list(column) for column in zip(*taken, strict=True))
    requests = stack_steps(selections, batch.size)
    record = Rollout(
        reveals=stack_steps(reveals, batch.size),
        scores=stack_steps(scores_list, batch.size),
        selections=requests,
        logits=stack_steps(logits_list, batch.size),
        valid=batch.lengths.unsqueeze(1) > torch.arange(steps, device=batch.lengths.device),
        cost=requests.request @ policy.costs(requests.request.device),
    )
    back = torch.argsort(by_length)
    return tree_map(lambda tensor: tensor[back], record)


@contextmanager
def inference(policy: Policy) -> Iterator[None]:
    """No gradients and no dropout within; afterwards the models are in the mode they were in."""
    modules: tuple[nn.Module, ...] = (policy.acquirer, policy.predictor)
    modes = [module.training for module in modules]
    for module in modules:
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in zip(modules, modes, strict=True):
            module.train(mode)
