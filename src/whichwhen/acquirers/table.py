"""What can be learned from the time step alone."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor, nn

from whichwhen.contracts import Acquirer
from whichwhen.types import Scores, State, Unit, View


class TableAcquirer(Acquirer):
    """A table of T×K log worths (or logits), learned as the learned acquirer is. Steps after the horizon use its last row.

    Any gain over this one comes from reacting to what was observed.
    """

    def __init__(self, n_orders: int, horizon: int, unit: Unit = "log-worth") -> None:
        super().__init__()
        self.unit = unit
        self.by_time = nn.Parameter(torch.zeros(horizon, n_orders))

    def start_at(self, worth: float) -> None:
        """Start with the same log worth everywhere."""
        with torch.no_grad():
            self.by_time.fill_(worth)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """Nothing to carry."""
        return {}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """The row of the step that it orders for."""
        return Scores(self.by_time[view.time.clamp(max=len(self.by_time) - 1)], self.unit), state
