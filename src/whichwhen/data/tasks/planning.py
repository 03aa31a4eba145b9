"""A task on which the best first order tells nothing yet: greedy acquirers fail on it, planning wins.

Of K vaults, one carries the label from step ``opens`` on, the same one throughout a series; before that, all are noise. Only
the key says which, only at step 0, and it tells nothing about the label at that step or the next. The bait votes weakly at
every step. At budget 1, who reads the key gives up a bait. Who looks one step ahead always takes the bait, as that tells more
than a vault that may be the wrong one.

All values are discrete: votes are ±1, noise is a fair coin, the key has K evenly spaced levels from -1 to 1. After step 0 the
key's column is noise over the same levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whichwhen.data.exact import Chain, evenly, vote
from whichwhen.data.tasks.base import ChainTask


@dataclass(frozen=True)
class PlanningTask(ChainTask):
    """Columns: the key, the bait, K vaults.

    Attributes:
        vaults, steps: K and T.
        opens: the first step at which a vault carries the label.
        bait, right: how often the bait and the vault that carries the label tell it truly.
        n_train, n_test: number of series.
        budget: the budget per step that it is meant for.
    """

    about: str = "a key, useless alone, tells where the label will be two steps later; a bait tells a little now (budget 1)"
    vaults: int = 4
    steps: int = 5
    opens: int = 2
    bait: float = 0.61
    right: float = 0.88
    n_train: int = 12000
    n_test: int = 2000
    budget: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Of the F = 2 + K columns."""
        return ("key", "bait", *(f"vault{i}" for i in range(self.vaults)))

    def build(self) -> Chain:
        """The state is (label, vault that carries it), and stays."""
        size = self.vaults
        label, vault = (axis.ravel() for axis in np.indices((2, size)))
        width = max(size, 2)
        emit = np.zeros((self.steps, 2 + size, len(label), width))
        emit[0, 0] = np.eye(size, width)[vault]
        emit[1:, 0, :, :size] = 1 / size
        emit[:, 1, :, :2] = vote(2 * label - 1, self.bait)
        for column in range(size):
            emit[: self.opens, 2 + column, :, :2] = 0.5
            emit[self.opens :, 2 + column, :, :2] = vote(2 * label - 1, np.where(vault == column, self.right, 0.5))
        levels = np.full((2 + size, width), np.nan)
        levels[0, :size], levels[1:, :2] = evenly(size), (-1, 1)
        return Chain(np.full(len(label), 1 / len(label)), label, np.eye(len(label)), emit, levels)

    def fold(self, belief: np.ndarray) -> np.ndarray:
        """The vaults can change places, and so can the two labels."""
        table = np.round(belief.reshape(2, self.vaults), 12)
        if table[0].sum() < table[1].sum():
            table = table[::-1]
        return table[:, np.lexsort(table)].ravel()
