"""A feature that tells where to look next.

One of K carriers tells the label at each step; which one is drawn anew for each step, and only the pointer, one step earlier,
names it. No table over time can know, and a pointer read tells nothing about the label by itself, so a greedy acquirer never
reads it.

All values are discrete. The carrier of a step is y ∈ {-1, +1} with chance ``right``, else -y; the others are fair coins: each
column by itself is a fair coin, whoever carries. The pointer has K evenly spaced levels from -1 to 1; which level is nearest is
the argmax of K linear functions of the value. The carrier of step 0 is named nowhere.

At budget 2 the best policy orders the pointer and the carrier that it named: T - 1 sure votes, and a guess at step 0.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from whichwhen.data.exact import Chain, evenly, vote
from whichwhen.data.store import Reference
from whichwhen.data.tasks.base import ChainTask, whole_orders

Law = list[tuple[float, float]]
"""What can be seen: for each outcome, its chance given label +1 and given label -1."""

_NOTHING: Law = [(1.0, 1.0)]


@dataclass(frozen=True)
class PointerTask(ChainTask):
    """The pointer in column 0, the K carriers after it.

    Attributes:
        carriers, steps: K and T.
        right: how often a carrier tells the true label.
        n_train, n_test: number of series.
        budget: the budget per step that it is meant for.
    """

    about: str = "a pointer names which of 8 features carries the label at the next step (budget 2)"
    carriers: int = 8
    steps: int = 4
    right: float = 0.88
    n_train: int = 20000
    n_test: int = 2000
    budget: int = 2

    @property
    def names(self) -> tuple[str, ...]:
        """Of the F = 1 + K columns."""
        return ("pointer", *(f"carrier{i}" for i in range(self.carriers)))

    def build(self) -> Chain:
        """The state is (label, carrier of this step, carrier of the next)."""
        size = self.carriers
        label, now, following = (axis.ravel() for axis in np.indices((2, size, size)))
        width = max(size, 2)
        emit = np.zeros((1 + size, len(label), width))
        emit[0] = np.eye(size, width)[following]
        for column in range(size):
            emit[1 + column, :, :2] = vote(2 * label - 1, np.where(now == column, self.right, 0.5))
        levels = np.full((1 + size, width), np.nan)
        levels[0, :size], levels[1:, :2] = evenly(size), (-1, 1)
        return Chain(
            prior=np.full(len(label), 1 / len(label)),
            label=label,
            move=((label[:, None] == label) & (following[:, None] == now)) / size,
            emit=np.broadcast_to(emit, (self.steps, *emit.shape)),
            levels=levels,
        )

    def reference(self, budget: float, fakes: int = 0) -> Reference:
        """Exact at every budget.

        Carriers are exchangeable, so a state is no more than (step, is the carrier known, odds of the label).
        """
        orders = min(whole_orders(budget), self.n_features + fakes)
        found = _Solver(self, orders, fakes)
        return Reference(0.5, found.optimum(), found.random(), found.blind(), found.greedy())

    def unnamed(self, count: int) -> Law:
        """Of ``count`` carriers when any of the K may be the one: by how many of them are +1."""

        def chance(agree: int) -> float:
            votes = 2 * (agree * self.right + (count - agree) * (1 - self.right))
            return math.comb(count, agree) * 0.5**count * (self.carriers - count + votes) / self.carriers

        return [(chance(up), chance(count - up)) for up in range(count + 1)]

    def named(self, share: float = 1.0) -> Law:
        """Of the named carrier, where it is among those measured with chance ``share``."""
        sure = [(share * self.right, share * (1 - self.right)), (share * (1 - self.right), share * self.right)]
        return [*sure, (1 - share, 1 - share)]


class _Solver:
    """Values of policies at a number of orders per step. ``log odds`` are those of label +1."""

    def __init__(self, task: PointerTask, orders: int, fakes: int) -> None:
        self.task, self.orders, self.fakes = task, orders, fakes
        self.carriers_alone = min(orders, task.carriers)
        self.all = orders > task.carriers  # the pointer, too, whatever else
        self._known: dict[tuple[int, bool, float], float] = {}

    def optimum(self) -> float:
        self._known = {}
        return self._best(0, False, 0.0)

    def greedy(self) -> float:
        """Carriers that may be the one tell something, the pointer nothing: it is read only where all is."""
        return self._of_plan([self.all] * self.task.steps)

    def blind(self) -> float:
        if self.all or not self.orders:
            return self._of_plan([self.all] * self.task.steps)
        plans = itertools.product((False, True), repeat=self.task.steps - 1)
        return max(self._of_plan([*plan, False]) for plan in plans)

    def random(self) -> float:
        """The sets of a step are drawn independently of those of others; only whether the pointer is in links two steps."""
        task = self.task
        whole = math.comb(task.n_features + self.fakes, self.orders)
        sets = [
            (bool(read), count, math.comb(task.carriers, count) * math.comb(self.fakes, self.orders - read - count) / whole)
            for read in (0, 1)
            for count in range(task.carriers + 1)
            if 0 <= self.orders - read - count <= self.fakes
        ]
        masses = {(False, 0.0): (1.0, 1.0)}
        for _ in range(task.steps):
            after: dict[tuple[bool, float], tuple[float, float]] = {}
            for (known, odds), mass in masses.items():
                for read, count, chance in sets:
                    _add(after, read, odds, mass, self._law(known, count), chance)
            masses = after
        return sum(max(mass) for mass in masses.values()) / 2

    def _law(self, known: bool, count: int) -> Law:
        return self.task.named(count / self.task.carriers) if known else self.task.unnamed(count)

    def _of_plan(self, reads: list[bool]) -> float:
        """Accuracy when time alone decides whether the pointer is read; the other orders go to any carriers."""
        masses = {(False, 0.0): (1.0, 1.0)}
        for read in reads:
            count = min(self.orders - read, self.task.carriers)
            after: dict[tuple[bool, float], tuple[float, float]] = {}
            for (known, odds), mass in masses.items():
                _add(after, read, odds, mass, self._law(known, count), 1.0)
            masses = after
        return sum(max(mass) for mass in masses.values()) / 2

    def _best(self, t: int, known: bool, odds: float) -> float:
        if t == self.task.steps:
            return 1 / (1 + math.exp(-abs(odds)))
        key = (t, known, odds)
        if key not in self._known:
            self._known[key] = max(self._expect(t, odds, law, read) for law, read in self._choices(known))
        return self._known[key]

    def _choices(self, known: bool) -> list[tuple[Law, bool]]:
        """What can be seen with the orders of one step, and whether the pointer is among it."""
        if not self.orders:
            return [(_NOTHING, False)]
        if known:
            both = self.orders > 1
            return [(self.task.named(), both)] if both else [(self.task.named(), False), (_NOTHING, True)]
        reading = (self.task.unnamed(min(self.orders - 1, self.task.carriers)), True)
        return [reading] if self.all else [reading, (self.task.unnamed(self.carriers_alone), False)]

    def _expect(self, t: int, odds: float, law: Law, read: bool) -> float:
        up = 1 / (1 + math.exp(-odds))
        return sum(
            (up * plus + (1 - up) * minus) * self._best(t + 1, read, _after(odds, plus, minus)) for plus, minus in law if plus
        )


def _after(odds: float, plus: float, minus: float) -> float:
    return round(odds + math.log(plus / minus), 12)


def _add(
    masses: dict[tuple[bool, float], tuple[float, float]],
    known: bool,
    odds: float,
    mass: tuple[float, float],
    law: Law,
    chance: float,
) -> None:
    """Add what one step's outcomes make of a mass (given +1, given -1) at some odds."""
    for plus, minus in law:
        if plus:
            key = (known, _after(odds, plus, minus))
            old = masses.get(key, (0.0, 0.0))
            masses[key] = (old[0] + mass[0] * plus * chance, old[1] + mass[1] * minus * chance)
