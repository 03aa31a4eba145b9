"""An acquirer that would rather not ask than ask for little."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from whichwhen.contracts import Acquirer
from whichwhen.menu import LEAST_COST
from whichwhen.types import Scores, State, View


def relative_worth(scores: Float[Tensor, "*B K"], costs: Float[Tensor, " K"]) -> Float[Tensor, "*B K"]:
    """Logits on a common scale: the logarithm of each order's share of the softmax, per unit of cost.

    Logits mean something against each other only; as shares they can be compared between steps and series, too.
    """
    return torch.log_softmax(scores, -1) - costs.clamp(min=LEAST_COST).log()


class WithReserve(Acquirer):
    """Another acquirer, of whose orders those are wanted that reach a least relative worth.

    It makes scores that are logits answer to a price: the reserve is the one that serves best at that price on validation
    (:func:`whichwhen.evaluation.pacing.find_reserve`).
    """

    costs: Tensor

    def __init__(self, inner: Acquirer, reserve: float, costs: Float[Tensor, " K"]) -> None:
        super().__init__()
        self.inner = inner
        self.reserve = reserve
        self.register_buffer("costs", costs, persistent=False)
        self.reads_context = inner.reads_context

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """As inside."""
        return self.inner.init(keys)

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """As inside; what is below the reserve is not wanted."""
        scores, state = self.inner.step(view, state)
        worth = relative_worth(scores.values, self.costs)
        return Scores(worth.masked_fill(worth < self.reserve, -torch.inf), scores.unit), state
