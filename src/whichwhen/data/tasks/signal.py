"""One carrier among noise, at places that depend on time alone.

The label y ∈ {-1, +1} is a coin, and at every step exactly one of F features, the carrier, is N(y·μ, 1); the others
are N(0, 1). Who sees the carrier n times can do no better than the sign of its sum: accuracy Φ(μ√n). The best policy sees it at
every step, so its accuracy is Φ(μ√T) at any budget; a random one with b of F orders sees it Binomial(T, b/F) times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from whichwhen import keyed
from whichwhen.data.store import Reference, SeriesSet
from whichwhen.data.tasks.base import whole_orders
from whichwhen.menu import Feature, Menu, Order


@dataclass(frozen=True)
class SignalTask:
    """One carrier at each step.

    Attributes:
        stride: how many columns the carrier moves from one step to the next; 0 = it stays.
        first: its column at step 0.
        n_features, steps, signal: F, T and μ.
        n_train, n_test: number of series.
        budget: the budget per step that it is meant for.
        until: the step from which on nothing carries the label; None = it is there to the end.
        turnaround: of every order.
    """

    about: str
    stride: int
    first: int = 3
    n_features: int = 10
    steps: int = 12
    signal: float = 0.6
    n_train: int = 2000
    n_test: int = 1000
    budget: int = 1
    until: int | None = None
    turnaround: int = 1

    @property
    def told(self) -> int:
        """Number of steps at which there is something to see."""
        return self.steps if self.until is None else self.until

    @property
    def own_menu(self) -> Menu | None:
        """With its turnaround, where that is more than a step."""
        if self.turnaround == 1:
            return None
        names = [f"x{i}" for i in range(self.n_features)]
        orders = tuple(Order(name, (name,), turnaround=self.turnaround) for name in names)
        return Menu(tuple(Feature(name) for name in names), orders)

    def carrier(self, step: np.ndarray) -> np.ndarray:
        """The column that carries the label at each step."""
        column: np.ndarray = (self.first + self.stride * step) % self.n_features
        return column

    @property
    def real(self) -> np.ndarray:
        """``[T, F]``: True at the carrier."""
        steps = np.arange(self.steps)
        real: np.ndarray = (np.arange(self.n_features) == self.carrier(steps)[:, None]) & (steps < self.told)[:, None]
        return real

    def make(self, source: str, count: int, seed: int) -> SeriesSet:
        """``count`` series for one part of the data."""
        series, labels = [], np.zeros(count, dtype=np.int64)
        real = self.real
        for i in range(count):
            rng = keyed.series_rng(seed, "synthetic", source, i)
            labels[i] = rng.integers(2)
            series.append(rng.standard_normal((self.steps, self.n_features)) + self.signal * (2 * labels[i] - 1) * real)
        features = [Feature(f"x{i}") for i in range(self.n_features)]
        return SeriesSet.from_list(series, labels, features, source, seed=seed)

    def reference(self, budget: float, fakes: int = 0) -> Reference:
        """In closed form. Time alone tells where the carrier is, and the carrier alone tells something about the label."""
        share = min(1.0, whole_orders(budget) / (self.n_features + fakes))
        useful = min(self.told, self.steps - self.turnaround + 1)  # what is sampled later arrives after the end
        seen = [
            math.comb(useful, n) * share**n * (1 - share) ** (useful - n) * _phi(self.signal * math.sqrt(n))
            for n in range(useful + 1)
        ]
        optimum = _phi(self.signal * math.sqrt(useful)) if share else 0.5
        return Reference(0.5, optimum, sum(seen), blind=optimum, greedy=optimum)


def _phi(z: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * (1 + math.erf(z / math.sqrt(2)))
