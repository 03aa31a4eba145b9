"""A cheap measurement early decides which expensive one, if any, is worth it.

A series is mild or has one of two disorders, for all its steps. The screen says which, at every step, and nothing about the
label. The label shows at the last step alone, before that all but the screen is noise: in mild series as votes in the two
routine columns; in a disorder, as the difference between its test's column and the control column, which drifts by more than
the difference. So a test takes control and test column, the whole budget of that step, and half of it tells little; two routine
orders are as dear as one test.

Every column costs 1 on the menu that all data sets share. :attr:`TriageTask.menu` has the same choice as prices: one order of
cost 2 for each test with its control. All values are discrete; each column by itself has the same distribution in every series.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whichwhen.data.exact import Chain, evenly, vote
from whichwhen.data.tasks.base import ChainTask
from whichwhen.menu import Menu, Order


@dataclass(frozen=True)
class TriageTask(ChainTask):
    """Columns: screen, control, two tests, two routine measurements.

    Attributes:
        steps: T.
        right, routine: how often a test (with its control) and a routine measurement tell the true label where they work.
        drift: number of values that the control can take, 2 apart.
        n_train, n_test: number of series.
        budget: the budget per step that it is meant for.
    """

    about: str = "a cheap screen says which of two expensive tests, if any, is worth it at the last step (budget 2)"
    steps: int = 3
    right: float = 0.97
    routine: float = 0.85
    drift: int = 4
    n_train: int = 4000
    n_test: int = 2000
    budget: int = 2

    @property
    def names(self) -> tuple[str, ...]:
        """Of the F = 6 columns."""
        return ("screen", "control", "test_a", "test_b", "routine_a", "routine_b")

    @property
    def menu(self) -> Menu:
        """Screen and routine measurements at cost 1, each test with its control at cost 2."""
        single = tuple(Order(name, (name,)) for name in ("screen", "routine_a", "routine_b"))
        tests = tuple(Order(name, ("control", name), cost=2.0) for name in ("test_a", "test_b"))
        return Menu(self.features, (*single, *tests))

    def build(self) -> Chain:
        """The state is (label, kind of series, sign of each test's difference, level of the control), and stays.

        Kinds are 0 = mild, 1 and 2 = the disorders of tests a and b.
        """
        label, kind, *signs, level = (axis.ravel() for axis in np.indices((2, 3, 2, 2, self.drift)))
        width = self.drift + 1
        late = np.zeros((6, len(label), width))
        late[0, :, :3] = np.eye(3)[kind]
        late[1] = np.eye(self.drift, width)[level]
        prior = np.full(len(label), 1 / (6 * self.drift))
        for i, sign in enumerate(signs):
            prior *= np.where(sign == label, *_or_else(np.where(kind == 1 + i, self.right, 0.5)))
            late[2 + i] = np.eye(width)[level + sign]
            late[4 + i, :, :2] = vote(2 * label - 1, np.where(kind == 0, self.routine, 0.5))
        early = late.copy()
        early[1:] = (prior @ late[1:])[:, None]
        levels = np.full((6, width), np.nan)
        levels[0, :3], levels[1, : self.drift], levels[4:, :2] = evenly(3), np.arange(self.drift) * 2 + 1 - self.drift, (-1, 1)
        levels[2:4] = np.arange(width) * 2 - self.drift
        return Chain(prior, label, np.eye(len(label)), np.stack([early] * (self.steps - 1) + [late]), levels)


def _or_else(chance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return chance, 1 - chance
