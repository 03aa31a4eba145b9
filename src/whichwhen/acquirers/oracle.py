"""The one acquirer that is told which features are real: a reference, not a method."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from whichwhen.contracts import Acquirer
from whichwhen.provenance import Provenance
from whichwhen.types import Scores, State, View


class OracleAcquirer(Acquirer):
    """Asks for real features only, each as often as the others.

    With R real orders and a budget of b it takes b that are spread over the R, and their neighbours at the next step. It is
    not told which of the real ones are informative, so a learned acquirer can beat it.
    """

    scores: Tensor

    def __init__(self, n_orders: int, steps: int) -> None:
        super().__init__()
        self.register_buffer("scores", torch.full((steps, n_orders), -torch.inf))

    def tell(self, truth: Provenance, reveals: np.ndarray) -> None:
        """Take over the truth; ``reveals`` is ``[K, F]``, and an order is real where one of its features is."""
        real = truth.of_orders(reveals)
        scores = torch.full(real.shape, -torch.inf)
        for t, row in enumerate(real):
            columns = np.flatnonzero(row)
            ranks = np.empty(len(columns))
            if len(columns):
                ranks[(_spread(len(columns)) + t) % len(columns)] = np.arange(len(columns))
            scores[t, torch.from_numpy(columns)] = torch.from_numpy(-ranks).float()
        self.scores.copy_(scores)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """Nothing to carry."""
        return {}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """The row of the step that it orders for."""
        return Scores(self.scores[view.time.clamp(max=len(self.scores) - 1)]), state


def _spread(count: int) -> np.ndarray:
    """0 … count-1 in a sequence whose beginnings lie evenly (bit reversal)."""
    bits = max(1, (count - 1).bit_length())
    reversed_ = [int(f"{i:0{bits}b}"[::-1], 2) for i in range(2**bits)]
    return np.array([i for i in reversed_ if i < count])
