"""How well scores put the right class above the others: AUROC and AUPRC.

Two ways to the same numbers. :func:`auroc` and :func:`auprc` are scikit-learn's, with a contract for the edge cases.
:class:`RankedScores` sorts once and then gives either for any number of weightings, which is what a bootstrap asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from whichwhen.evaluation._inputs import check_scores, check_weights

RankingMetric = Literal["auroc", "auprc"]


def auroc(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> float | None:
    """Area under the receiver operating curve; a tie counts half, so constant scores give .5.

    Args:
        scores: ``[N]`` or ``[N, 2]`` for two classes (of class 1, higher = more likely; any finite numbers), ``[N, C]`` for
            more: the mean over the classes of each one against the rest.
        labels: ``[N]``, positions in the classes.
        weights: ``[N]``, how much each row counts; None = all the same.

    Returns:
        The area, or None where some class has no rows (of positive weight), or all of them: there is nothing to rank then.
    """
    return _one_against_rest(roc_auc_score, scores, labels, weights)


def auprc(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> float | None:
    """Average precision, the step-wise area under precision against recall; constant scores give the share of positives.

    Arguments and result as in :func:`auroc`.
    """
    return _one_against_rest(average_precision_score, scores, labels, weights)


def _one_against_rest(
    area: Callable[..., float], scores: np.ndarray, labels: np.ndarray, weights: np.ndarray | None
) -> float | None:
    columns, found = check_scores(scores, labels)
    counted = check_weights(weights, len(found))
    keep = counted > 0
    columns, found, counted = columns[keep], found[keep], counted[keep]
    pairs = [(1, columns)] if columns.ndim == 1 else list(enumerate(columns.T))
    areas = []
    for c, column in pairs:
        positive = found == c
        if not positive.any() or positive.all():
            return None
        areas.append(float(area(positive, column, sample_weight=counted)))
    return float(np.mean(areas))


@dataclass(frozen=True)
class RankedScores:
    """Scores sorted once, for AUROC and AUPRC under many weightings.

    Attributes:
        parts: for each class against the rest: the rows from the highest score down, whether each is of the class, and the
            last place of each run of equal scores.
    """

    parts: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]

    @classmethod
    def of(cls, scores: np.ndarray, labels: np.ndarray) -> RankedScores:
        """Scores and labels as in :func:`auroc`."""
        columns, found = check_scores(scores, labels)
        pairs = [(1, columns)] if columns.ndim == 1 else list(enumerate(columns.T))
        parts = []
        for c, column in pairs:
            order = np.argsort(-column, kind="stable")
            ends = np.append(np.flatnonzero(np.diff(column[order])), len(order) - 1)
            parts.append((order, found[order] == c, ends))
        return cls(tuple(parts))

    def metric(self, name: RankingMetric, weights: np.ndarray) -> float | None:
        """One of the two areas where rows count as the weights ``[N]`` say; None as in :func:`auroc`."""
        areas = []
        for order, positive, ends in self.parts:
            by_rank = weights[order]
            hits = np.cumsum(by_rank * positive)[ends]
            taken = np.cumsum(by_rank)[ends]
            false = taken - hits
            if hits[-1] <= 0 or false[-1] <= 1e-12 * taken[-1]:
                return None
            if name == "auroc":
                width, height = np.diff(false, prepend=0.0), hits - np.diff(hits, prepend=0.0) / 2
                areas.append(float(width @ height / (hits[-1] * false[-1])))
            else:
                precision = hits / np.where(taken > 0, taken, 1.0)
                areas.append(float(np.diff(hits, prepend=0.0) @ precision / hits[-1]))
        return float(np.mean(areas))
