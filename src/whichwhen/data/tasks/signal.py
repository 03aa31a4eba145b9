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
from whichwhen.menu import Feature


@dataclass(frozen=True)
class SignalTask:
    """One carrier at each step.

    Attributes:
        stride: how many columns the carrier moves from one step to the next; 0 = it stays.
        first: its column at step 0.
        n_features, steps, signal: F, T and μ.
        n_train, n_test: number of series.
        budget: the budget per step that it is meant for.
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

    def carrier(self, step: np.ndarray) -> np.ndarray:
        """The column that carries the label at each step."""
        column: np.ndarray = (self.first + self.stride * step) % self.n_features
        return column

    @property
    def real(self) -> np.ndarray:
        """``[T, F]``: True at the carrier."""
        return np.arange(self.n_features) == self.carrier(np.arange(self.steps))[:, None]

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
        seen = [
            math.comb(self.steps, n) * share**n * (1 - share) ** (self.steps - n) * _phi(self.signal * math.sqrt(n))
            for n in range(self.steps + 1)
        ]
        optimum = _phi(self.signal * math.sqrt(self.steps)) if share else 0.5
        return Reference(0.5, optimum, sum(seen), blind=optimum, greedy=optimum)


def _phi(z: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * (1 + math.erf(z / math.sqrt(2)))
