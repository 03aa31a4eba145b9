"""What every synthetic task offers, and what the discrete ones share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np

from whichwhen import keyed
from whichwhen.data.exact import Chain
from whichwhen.data.policies import Solver, uniform_requests
from whichwhen.data.store import Reference, SeriesSet
from whichwhen.menu import Feature, Menu, whole


@runtime_checkable
class Task(Protocol):
    """A task whose best acquisition is known.

    Attributes:
        about: one line for the list of data sets.
        budget: the budget per step that the task is meant for.
        n_train, n_test: number of series.
        n_features, steps: F and T.
        real: ``[T, F]`` bool, where the label is; None where that depends on the series.
        own_menu: what can be ordered, where that is part of the task; None = each column by itself, at cost 1.
    """

    @property
    def about(self) -> str: ...  # noqa: D102 (above)
    @property
    def budget(self) -> int: ...  # noqa: D102
    @property
    def n_train(self) -> int: ...  # noqa: D102
    @property
    def n_test(self) -> int: ...  # noqa: D102
    @property
    def n_features(self) -> int: ...  # noqa: D102
    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def real(self) -> np.ndarray | None: ...  # noqa: D102
    @property
    def own_menu(self) -> Menu | None: ...  # noqa: D102

    def make(self, source: str, count: int, seed: int) -> SeriesSet:
        """``count`` series for one part of the data; each depends on (seed, source, its place) alone."""

    def reference(self, budget: float, fakes: int = 0) -> Reference:
        """What can be reached at a budget per step, every column at cost 1, beside ``fakes`` columns without information."""


@dataclass(frozen=True)
class ChainTask(ABC):
    """A task that is drawn from, and solved on, a :class:`Chain`."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Of the F columns."""

    @abstractmethod
    def build(self) -> Chain:
        """Its probabilities."""

    @cached_property
    def chain(self) -> Chain:
        """Its probabilities, made once."""
        return self.build()

    def fold(self, belief: np.ndarray) -> np.ndarray:
        """One belief ``[H]`` for all that differ by names only."""
        return belief

    @property
    def n_features(self) -> int:
        """F."""
        return len(self.names)

    @property
    def real(self) -> None:
        """Where the label is depends on the series."""
        return

    @property
    def own_menu(self) -> None:
        """Each column by itself."""
        return

    @property
    def features(self) -> tuple[Feature, ...]:
        """The F columns."""
        return tuple(Feature(name) for name in self.names)

    @property
    def menu(self) -> Menu:
        """What can be ordered, at which cost."""
        return Menu.one_per_feature(self.features)

    def make(self, source: str, count: int, seed: int) -> SeriesSet:
        """``count`` series for one part of the data; each depends on (seed, source, its place) alone.

        Series are drawn independently, so equal ones do not belong together.
        """
        purpose, shape = f"synthetic {type(self).__name__}", (self.chain.steps, 1 + self.n_features)
        luck = np.stack([keyed.series_rng(seed, purpose, source, i).random(shape) for i in range(count)])
        labels, values = self.chain.draw(luck)
        return SeriesSet.from_list(list(values), labels, self.features, source, np.arange(count), seed)

    def reference(self, budget: float, fakes: int = 0) -> Reference:
        """By dynamic programming over beliefs; ``blind`` is None at budgets with too many plans to try."""
        solver = Solver(self.chain, uniform_requests(self.n_features, whole_orders(budget), fakes), self.fold)
        found = solver.accuracy()
        chance = float((self.chain.prior @ self.chain.classes).max())
        return Reference(chance, found.optimum, found.random, solver.blind(), found.greedy)


def whole_orders(budget: float) -> int:
    """How many orders of cost 1 a budget pays for."""
    return int(whole(budget))
