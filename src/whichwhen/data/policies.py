"""Exact accuracies of acquisition policies on a small discrete task, by dynamic programming over beliefs.

At each step one request, a set of cells, is chosen on the belief so far; after the last step the likeliest class is named.
All values count the best predictor. Cells that tell nothing at their step are left out of requests before anything is counted.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from whichwhen.data.exact import Chain

Cells = tuple[int, ...]

_TIE = 1e-9
_MOST_PLANS = 4000


@dataclass(frozen=True)
class Accuracy:
    """Of three policies.

    Attributes:
        optimum: the best policy that reacts to what it measures.
        greedy: the best of those that take, at every step, a request that tells most about the label at that step; of
            requests that tell the same, say nothing, it takes the one that turns out best.
        random: a request drawn anew at each step.
    """

    optimum: float
    greedy: float
    random: float


def uniform_requests(n_features: int, budget: int, fakes: int = 0) -> dict[Cells, float]:
    """Requests for ``budget`` of ``n_features`` columns and ``fakes`` further ones that tell nothing, all sets equally likely.

    Returns the columns that matter of each, with their chance.
    """
    size = min(budget, n_features + fakes)
    whole = math.comb(n_features + fakes, size)
    return {
        cells: math.comb(fakes, size - count) / whole
        for count in range(max(0, size - fakes), min(size, n_features) + 1)
        for cells in itertools.combinations(range(n_features), count)
    }


@dataclass
class Solver:
    """Values of policies that may make some requests at each step.

    Attributes:
        chain: the task.
        requests: the allowed sets of columns, with the chance that a random policy takes each.
        fold: one belief for all that differ by names only (of columns that can change places, of classes); for speed.
    """

    chain: Chain
    requests: dict[Cells, float]
    fold: Callable[[np.ndarray], np.ndarray] = lambda belief: belief
    _known: dict[tuple[int, bytes], np.ndarray] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._at = [self._effective(t) for t in range(self.chain.steps)]
        self._best_at = [_largest(effective) for effective in self._at]

    def accuracy(self) -> Accuracy:
        """Of the optimal, the greedy and the random policy."""
        return Accuracy(*self._values(0, self.chain.prior).tolist())

    def blind(self) -> float | None:
        """The best accuracy with requests that depend on time alone; None where there are too many plans to try."""
        plans = math.prod(
            math.comb(len(choices) + len(run) - 1, len(run)) for run in self._runs() for choices in [self._best_at[run[0]]]
        )
        return max(self._plans(0, self.chain.prior[None], 0)) if plans <= _MOST_PLANS else None

    def states(self) -> Iterator[tuple[int, np.ndarray]]:
        """Every belief ``[H]`` on which a request can have to be made, with the step that the request is for."""
        level = {_key(self.chain.prior): self.chain.prior}
        for t in range(self.chain.steps):
            yield from ((t, belief) for belief in level.values())
            reached = (
                after for belief in level.values() for cells in self._at[t] for _, after in self._after(t, belief, cells)
            )
            level = {_key(belief): belief for belief in reached}

    def _effective(self, t: int) -> dict[Cells, float]:
        chances: dict[Cells, float] = defaultdict(float)
        for cells, chance in self.requests.items():
            chances[tuple(cell for cell in cells if self.chain.telling[t, cell])] += chance
        return dict(chances)

    def _after(self, t: int, belief: np.ndarray, cells: Cells) -> Iterator[tuple[float, np.ndarray]]:
        """The possible beliefs at the next step, with their chances."""
        outcomes = self.chain.branch(belief, t, cells)
        for chance, outcome in zip(outcomes.sum(-1), outcomes, strict=True):
            if chance > 0:
                yield float(chance), outcome / chance @ self.chain.move

    def _values(self, t: int, belief: np.ndarray) -> np.ndarray:
        """``[3]``, in the order of :class:`Accuracy`."""
        if t == self.chain.steps:
            return np.full(3, (belief @ self.chain.classes).max())
        belief = self.fold(belief)
        key = (t, _key(belief))
        if key not in self._known:
            of = {
                cells: sum(
                    (chance * self._values(t + 1, after) for chance, after in self._after(t, belief, cells)), np.zeros(3)
                )
                for cells in self._at[t]
            }
            told = {cells: float(self.chain.information(belief, t, cells)) for cells in self._best_at[t]}
            most = max(told.values())
            self._known[key] = np.array(
                [
                    max(of[cells][0] for cells in self._best_at[t]),
                    max(of[cells][1] for cells in self._best_at[t] if told[cells] >= most - _TIE),
                    sum(chance * of[cells][2] for cells, chance in self._at[t].items()),
                ]
            )
        return self._known[key]

    def _plans(self, t: int, joint: np.ndarray, first: int) -> Iterator[float]:
        """Accuracies of all plans from step t on; ``joint`` ``[O, H]`` is the mass of what was seen and the state."""
        if t == self.chain.steps:
            yield float((joint @ self.chain.classes).max(-1).sum())
            return
        alike = t + 1 < self.chain.steps and self._alike(t)
        for i in range(first, len(self._best_at[t])):
            seen = self.chain.branch(joint, t, self._best_at[t][i]).reshape(-1, joint.shape[-1]) @ self.chain.move
            yield from self._plans(t + 1, seen[seen.any(-1)], i if alike else 0)

    def _alike(self, t: int) -> bool:
        """Whether step t can change places with the next one."""
        return self.chain.still and bool((self.chain.emit[t] == self.chain.emit[t + 1]).all())

    def _runs(self) -> list[list[int]]:
        """The steps, those together that can change places."""
        runs = [[0]]
        for t in range(1, self.chain.steps):
            if self._alike(t - 1):
                runs[-1].append(t)
            else:
                runs.append([t])
        return runs


def _largest(sets: Iterable[Cells]) -> list[Cells]:
    """Those that are not part of another: to measure more is never worse."""
    sets = list(sets)
    return [one for one in sets if not any(set(one) < set(other) for other in sets)]


def _key(belief: np.ndarray) -> bytes:
    return np.round(belief, 10).tobytes()
