"""Orders ranked once, on the training data, by a random forest."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from whichwhen.contracts import Acquirer
from whichwhen.menu import Menu
from whichwhen.types import Scores, State, View


class StaticAcquirer(Acquirer):
    """The same orders at every step (one segment), or at every step of a segment of time.

    ``segments`` equal parts of the horizon each get scores of their own, from :meth:`fit`. Steps after the horizon belong to
    the last one.
    """

    reacts = False
    scores: Tensor

    def __init__(self, n_orders: int, segments: int, horizon: int) -> None:
        super().__init__()
        self.horizon = horizon
        self.register_buffer("scores", torch.zeros(segments, n_orders))

    def fit(self, importance: np.ndarray, menu: Menu) -> None:
        """Take over importances ``[T, F]`` per step and feature, added up per order and divided by its cost."""
        steps = torch.arange(self.horizon)
        self.scores.zero_().index_add_(0, self._segment(steps), torch.from_numpy(worth_per_cost(importance, menu)).float())

    def _segment(self, time: Tensor) -> Tensor:
        return (time * len(self.scores) // self.horizon).clamp(max=len(self.scores) - 1)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """Nothing to carry."""
        return {}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """The importances of the segment that it orders for."""
        return Scores(self.scores[self._segment(view.time)]), state


def worth_per_cost(importance: np.ndarray, menu: Menu) -> np.ndarray:
    """``[T, K]``: the importance ``[T, F]`` of what each order reveals, per unit of its cost; 0 for free orders."""
    per_order = importance @ menu.reveals.T.astype(importance.dtype)
    paid = menu.costs > 0
    return np.where(paid, per_order / np.where(paid, menu.costs, 1), 0.0)


def forest_importance(
    values: np.ndarray, labels: np.ndarray, trees: int = 1000, seed: int = 0, jobs: int = -1, extra: bool = False
) -> np.ndarray:
    """Importance ``[T, F]`` of each feature at each step, from a forest on whole series.

    Args:
        values: ``[N, T, F]``, 0 after the end of a series.
        labels: ``[N]``.
        trees: number of trees; everything else is scikit-learn's default, as in the paper.
        seed: of the forest.
        jobs: threads; the result does not depend on it.
        extra: extremely randomised trees instead of the paper's random forest: a third of the time, and on m-FordA with noise a
            better ranking (docs/log.md).

    The paper does not say how a forest ranks features of a time series. Here each (step, feature) is a column, and a
    feature's importance is the sum over its steps.
    """
    from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

    n, steps, features = values.shape
    forest = (ExtraTreesClassifier if extra else RandomForestClassifier)(n_estimators=trees, random_state=seed, n_jobs=jobs)
    forest.fit(values.reshape(n, steps * features), labels)
    importance: np.ndarray = forest.feature_importances_.reshape(steps, features)
    return importance
