"""The paper's acquirer: a small network on what has just been seen; and the same with a memory."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from whichwhen.acquirers._inputs import SINCE, Turns, ViewInput
from whichwhen.contracts import Acquirer
from whichwhen.types import Scores, State, View


class LearnedAcquirer(Acquirer):
    """One hidden layer with ReLU on the last observation, its mask and the time step that it orders for.

    The paper's sizes: 4 units (m-FordA) or 8 (SpokenArabicDigits), the bare time step, no context. The initial request comes
    from the same network, with nothing observed and time 0. It has no memory of its own; with ``context_size`` it reads the
    predictor's context, of that width, with ``budget`` what may be spent, with ``value_features`` waves of the values, with
    ``freshness`` how long ago each feature was seen; with ``turns``, what each order reveals, waiting has a way of its own
    to the scores.
    """

    def __init__(
        self,
        n_features: int,
        n_orders: int,
        horizon: int,
        hidden: int = 32,
        time_features: int = 8,
        context_size: int = 0,
        budget: bool = False,
        value_features: int = 0,
        delays: bool = False,
        freshness: bool = False,
        turns: Float[Tensor, "K F"] | None = None,
        values: bool = True,
    ) -> None:
        super().__init__()
        self.reads_context = context_size > 0
        wanted = (context_size, budget, value_features, delays, freshness, turns is not None, values)
        self.inputs = ViewInput(n_features, n_orders, horizon, time_features, *wanted)
        self.hidden = nn.Linear(self.inputs.width, hidden)
        self.scores = nn.Linear(hidden, n_orders)
        self.turns = None if turns is None else Turns(turns)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """What the inputs have to keep; nothing, as a rule."""
        return self.inputs.init(len(keys))

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """Logits of the approximate conditional mutual information."""
        first, last = self.hidden, self.scores
        inputs, state = self.inputs(view, state)
        hidden = torch.relu(F.linear(inputs, first.weight, first.bias))
        # weights by input: the product that their gradient takes is four times as fast at a handful of units
        scores = torch.addmm(last.bias, hidden, last.weight.t().contiguous())
        return Scores(scores if self.turns is None else scores + self.turns(state[SINCE], view.time), self.unit), state


class RecurrentAcquirer(Acquirer):
    """The same inputs, remembered by a GRU: what was seen at any earlier step can tell what to order.

    Its own state carries the gradient from step to step; with ``gradient="detached"`` what it reads does not.
    """

    def __init__(
        self,
        n_features: int,
        n_orders: int,
        horizon: int,
        hidden: int = 32,
        time_features: int = 8,
        context_size: int = 0,
        budget: bool = False,
        value_features: int = 0,
        delays: bool = False,
        freshness: bool = False,
        turns: Float[Tensor, "K F"] | None = None,
        values: bool = True,
        memory: int = 32,
    ) -> None:
        super().__init__()
        self.reads_context = context_size > 0
        wanted = (context_size, budget, value_features, delays, freshness, turns is not None, values)
        self.inputs = ViewInput(n_features, n_orders, horizon, time_features, *wanted)
        self.memory = nn.GRUCell(self.inputs.width, memory)
        self.hidden = nn.Linear(self.inputs.width + memory, hidden)
        self.scores = nn.Linear(hidden, n_orders)
        self.turns = None if turns is None else Turns(turns)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """An empty memory."""
        empty = self.scores.weight.new_zeros(len(keys), self.memory.hidden_size)
        return {"memory": empty, **self.inputs.init(len(keys))}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """Logits from what is seen now and what is remembered, this step included."""
        inputs, kept = self.inputs(view, state)
        memory = self.memory(inputs, state["memory"])
        hidden = torch.relu(self.hidden(torch.cat([inputs, memory], -1)))
        scores = self.scores(hidden) if self.turns is None else self.scores(hidden) + self.turns(kept[SINCE], view.time)
        return Scores(scores, self.unit), {**kept, "memory": memory}
