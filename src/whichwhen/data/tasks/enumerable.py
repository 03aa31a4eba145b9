"""A task so small that every state can be listed: the exact worth of each order, to hold scores against.

A hidden mode decides which of two columns tells the label; a third column tells the mode; a fourth votes weakly in both modes.
Everything is binary, and given label and mode all cells are independent. ``task.chain`` has the probabilities:
``chain.follow`` gives the beliefs along recorded series, ``chain.information_of_each`` the conditional mutual information of
every order there, in nats; ``policies.Solver(...).states()`` lists every belief that can be reached.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whichwhen.data.exact import Chain, vote
from whichwhen.data.tasks.base import ChainTask


@dataclass(frozen=True)
class EnumerableTask(ChainTask):
    """Columns: the mode, what tells the label in mode 0, what tells it in mode 1, a weak vote.

    Attributes:
        steps: T.
        mode, right, weak: how often the first, the second or third (in its mode), and the fourth column are right.
        n_train, n_test: number of series.
        budget: the budget per step that it is meant for.
    """

    about: str = "4 binary features, 3 steps: the exact worth of every order at every state is known (budget 1)"
    steps: int = 3
    mode: float = 0.9
    right: float = 0.85
    weak: float = 0.7
    n_train: int = 10000
    n_test: int = 2000
    budget: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Of the F = 4 columns."""
        return ("mode", "first", "second", "weak")

    def build(self) -> Chain:
        """The state is (label, mode), and stays."""
        label, mode = (axis.ravel() for axis in np.indices((2, 2)))
        sign = 2 * label - 1
        emit = np.stack(
            [
                vote(2 * mode - 1, self.mode),
                vote(sign, np.where(mode == 0, self.right, 0.5)),
                vote(sign, np.where(mode == 1, self.right, 0.5)),
                vote(sign, self.weak),
            ]
        )
        levels = np.tile([-1.0, 1.0], (4, 1))
        return Chain(np.full(4, 0.25), label, np.eye(4), np.stack([emit] * self.steps), levels)
