"""Who pays how much and gets what: cost and quality per subgroup."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation._inputs import check_probabilities, check_scores
from whichwhen.evaluation.ranking import auroc


@dataclass(frozen=True)
class SubgroupRow:
    """One value of one column. Quality is None in small groups, and where it is not defined.

    Attributes:
        column, value: which subgroup.
        n: its series.
        positives: those of class 1 (at any step, where each step has a label); None with more than two classes.
        requested_cost, delivered_cost: mean over the series.
        accuracy: share predicted rightly.
        auroc: as :func:`~whichwhen.evaluation.ranking.auroc`.
        mean_probability: mean predicted probability of class 1; with more classes, of the predicted class.
        observed_share: share of class 1; with more classes, the accuracy.
    """

    column: str
    value: str
    n: int
    positives: int | None
    requested_cost: float
    delivered_cost: float
    accuracy: float | None
    auroc: float | None
    mean_probability: float | None
    observed_share: float | None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def subgroup_rows(
    subgroups: Mapping[str, np.ndarray],
    probabilities: np.ndarray,
    labels: np.ndarray,
    requested_cost: np.ndarray,
    delivered_cost: np.ndarray,
    smallest: int = 20,
    owner: np.ndarray | None = None,
) -> list[SubgroupRow]:
    """A row for each value of each column, columns as given, values sorted.

    Args:
        subgroups: by name ``[N]`` text (a :class:`~whichwhen.data.store.SeriesSet` has them).
        probabilities: ``[N]`` or ``[N, 2]`` (of class 1), or ``[N, C]``; R rows instead of N with ``owner``.
        labels: ``[N]``, or ``[R]``.
        requested_cost, delivered_cost: ``[N]``, over the whole series.
        smallest: groups with fewer series are listed with their size and cost, but without quality, which would be noise.
        owner: ``[R]``, the series of each row, where every step of a series is a row: quality is then over steps.
    """
    if smallest < 1:
        raise SpecError(f"smallest group of {smallest}", expected="at least 1 series")
    scores, found = check_scores(probabilities, labels)
    check_probabilities(scores)
    binary = scores.ndim == 1
    predicted = (scores > 0.5).astype(np.int64) if binary else scores.argmax(1)
    right = predicted == found
    confidence, true = (scores, found == 1) if binary else (scores.max(1), right)
    columns = {**subgroups, "requested cost": requested_cost, "delivered cost": delivered_cost}
    n = len(found) if owner is None else len(requested_cost)
    for name, column in columns.items():
        if np.asarray(column).shape != (n,):
            raise DataError(f"{name!r} of shape {np.asarray(column).shape}", expected=f"one entry for each of {n} series")
    owner = np.arange(n) if owner is None else np.asarray(owner)
    if owner.shape != found.shape or not ((owner >= 0) & (owner < n)).all():
        raise DataError(f"{len(owner)} owners of {len(found)} rows", expected=f"a series from 0 to {n - 1} for each row")
    rows = []
    for name, column in subgroups.items():
        text = np.asarray(column).astype(str)
        for value in np.unique(text):
            members = text == value
            own = members[owner]
            large = int(members.sum()) >= smallest
            rows.append(
                SubgroupRow(
                    column=name,
                    value=str(value),
                    n=int(members.sum()),
                    positives=len(np.unique(owner[own & (found == 1)])) if binary else None,
                    requested_cost=float(np.mean(requested_cost[members])),
                    delivered_cost=float(np.mean(delivered_cost[members])),
                    accuracy=float(right[own].mean()) if large else None,
                    auroc=auroc(scores[own], found[own]) if large else None,
                    mean_probability=float(confidence[own].mean()) if large else None,
                    observed_share=float(true[own].mean()) if large else None,
                )
            )
    return rows
