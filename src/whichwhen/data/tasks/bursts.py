"""Information that comes in bursts: a budget per step wastes most of it, a total is spent when it pays.

The label y is a coin. A burst of L steps begins at a random step; in it each of F probes is N(y·μ, 1), at other steps N(0, 1).
The alarm, free of charge, is 1 at a step whose next step is in the burst, else 0. Who sees n values of the burst can do no
better than the sign of their sum: accuracy Φ(μ√n).
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
class BurstTask:
    """A free alarm and F probes that tell the label during the burst alone.

    Attributes:
        probes, steps, length, signal: F, T, L and μ.
        n_train, n_test: number of series.
        budget: the budget per step that it is meant for; in total, that times T.
    """

    about: str = "a free alarm says when 8 probes tell the label: in one burst of 3 of 16 steps"
    probes: int = 8
    steps: int = 16
    length: int = 3
    signal: float = 0.4
    n_train: int = 4000
    n_test: int = 2000
    budget: int = 1

    @property
    def n_features(self) -> int:
        """The alarm and the probes."""
        return 1 + self.probes

    @property
    def real(self) -> None:
        """Where the label is depends on the series."""
        return

    @property
    def features(self) -> tuple[Feature, ...]:
        """The alarm first."""
        return (Feature("alarm"), *(Feature(f"probe{i}") for i in range(self.probes)))

    @property
    def own_menu(self) -> Menu:
        """The alarm is free, each probe costs 1."""
        free = Order("alarm", ("alarm",), cost=0.0, free=True)
        return Menu(self.features, (free, *(Order(feature.name, (feature.name,)) for feature in self.features[1:])))

    def make(self, source: str, count: int, seed: int) -> SeriesSet:
        """``count`` series for one part of the data."""
        values = np.zeros((count, self.steps, self.n_features))
        labels = np.zeros(count, dtype=np.int64)
        for i in range(count):
            rng = keyed.series_rng(seed, "synthetic bursts", source, i)
            labels[i] = rng.integers(2)
            start = int(rng.integers(1, self.steps - self.length + 1))
            values[i, start - 1 : start - 1 + self.length, 0] = 1
            values[i, :, 1:] = rng.standard_normal((self.steps, self.probes))
            values[i, start : start + self.length, 1:] += self.signal * (2 * labels[i] - 1)
        return SeriesSet.from_list(list(values), labels, self.features, source, np.arange(count), seed)

    def reference(self, budget: float, fakes: int = 0) -> Reference:
        """At a budget per step; without looking at the alarm there is nothing better to do either."""
        each = min(whole_orders(budget), self.probes)
        optimum = self.accuracy(each * self.length)
        ways = math.comb(self.probes + fakes, each)
        step = np.array([math.comb(self.probes, n) * math.comb(fakes, each - n) / ways for n in range(each + 1)])
        chances = np.ones(1)
        for _ in range(self.length):
            chances = np.convolve(chances, step)
        random = float(sum(chance * self.accuracy(n) for n, chance in enumerate(chances)))
        return Reference(0.5, optimum, random, blind=optimum, greedy=optimum)

    def of_total(self, total: float) -> float:
        """The best accuracy with so much for the whole series."""
        return self.accuracy(min(whole_orders(total), self.length * self.probes))

    def accuracy(self, seen: int) -> float:
        """Of the best predictor after so many values of the burst."""
        return 0.5 * (1 + math.erf(self.signal * math.sqrt(seen) / math.sqrt(2)))
