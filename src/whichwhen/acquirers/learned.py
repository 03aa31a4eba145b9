"""The paper's acquirer: a small network on what has just been seen; and the same with a memory."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from whichwhen.acquirers._inputs import Turns, ViewInput
from whichwhen.contracts import Acquirer
from whichwhen.types import Scores, State, View


class _Network(Acquirer):
    """What the two have in common: what they read, and what waiting adds.

    Args:
        inputs: what it reads.
        turns: a way of its own for waiting to the scores; None = there is none.
    """

    scores: nn.Linear

    def __init__(self, inputs: ViewInput, turns: Turns | None) -> None:
        super().__init__()
        self.reads_context = inputs.reads_context
        self.inputs = inputs
        self.turns = turns

    def start_from(self, scores: Float[Tensor, " K"]) -> None:
        """The same scores whatever is seen, before anything is learned."""
        with torch.no_grad():
            self.scores.weight.zero_()
            self.scores.bias.copy_(scores)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """What inputs and turns have to keep; nothing, as a rule."""
        return {**self.inputs.init(len(keys)), **(self.turns.init(len(keys)) if self.turns else {})}

    def _read(self, view: View, state: State) -> tuple[Float[Tensor, "B W"], State]:
        """The view as numbers. What an order is worth in nats does not depend on its price, which training never showed."""
        if self.unit == "nats" and view.allowance.price is not None:
            view = replace(view, allowance=replace(view.allowance, price=None))
        return self.inputs(view, state)

    def _scored(self, scores: Tensor, view: View, state: State, kept: State) -> tuple[Scores, State]:
        if self.turns is not None:
            waiting, waited = self.turns(view, state)
            scores, kept = scores + waiting, {**kept, **waited}
        return Scores(scores, self.unit), kept


class LearnedAcquirer(_Network):
    """One hidden layer with ReLU on the last observation, its mask and the time step that it orders for.

    The paper's sizes: 4 units (m-FordA) or 8 (SpokenArabicDigits), the bare time step, no context. The initial request comes
    from the same network, with nothing observed and time 0. It has no memory of its own.
    """

    def __init__(self, inputs: ViewInput, hidden: int = 32, turns: Turns | None = None) -> None:
        super().__init__(inputs, turns)
        self.hidden = nn.Linear(inputs.width, hidden)
        self.scores = nn.Linear(hidden, inputs.n_orders)

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """Logits of the approximate conditional mutual information."""
        first, last = self.hidden, self.scores
        inputs, kept = self._read(view, state)
        hidden = torch.relu(F.linear(inputs, first.weight, first.bias))
        # weights by input: the product that their gradient takes is four times as fast at a handful of units
        return self._scored(torch.addmm(last.bias, hidden, last.weight.t().contiguous()), view, state, kept)


class RecurrentAcquirer(_Network):
    """The same inputs, remembered by a GRU: what was seen at any earlier step can tell what to order.

    Its own state carries the gradient from step to step; with ``gradient="detached"`` what it reads does not.
    """

    def __init__(self, inputs: ViewInput, hidden: int = 32, turns: Turns | None = None, memory: int = 32) -> None:
        super().__init__(inputs, turns)
        self.memory = nn.GRUCell(inputs.width, memory)
        self.hidden = nn.Linear(inputs.width + memory, hidden)
        self.scores = nn.Linear(hidden, inputs.n_orders)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """An empty memory beside what inputs and turns keep."""
        return {"memory": self.scores.weight.new_zeros(len(keys), self.memory.hidden_size), **super().init(keys)}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """Logits from what is seen now and what is remembered, this step included."""
        inputs, kept = self._read(view, state)
        memory = self.memory(inputs, state["memory"])
        hidden = torch.relu(self.hidden(torch.cat([inputs, memory], -1)))
        return self._scored(self.scores(hidden), view, state, {**kept, "memory": memory})
