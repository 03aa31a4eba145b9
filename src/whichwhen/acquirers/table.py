"""What can be learned from the time step alone."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from whichwhen.contracts import Acquirer
from whichwhen.types import Scores, State, View


class TableAcquirer(Acquirer):
    """A table of T×K logits, learned as the learned acquirer is. Steps after the horizon use its last row.

    Any gain over this one comes from reacting to what was observed.
    """

    def __init__(self, n_orders: int, horizon: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(horizon, n_orders))

    def start_from(self, scores: Float[Tensor, " K"]) -> None:
        """The same scores at every step, before anything is learned."""
        with torch.no_grad():
            self.table.copy_(scores)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """Nothing to carry."""
        return {}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """The row of the step that it orders for."""
        return Scores(self.table[view.time.clamp(max=len(self.table) - 1)], self.unit), state
