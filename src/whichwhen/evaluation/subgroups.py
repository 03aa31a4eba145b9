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
        positives: those of class 1; None with more than two classes.
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
) -> list[SubgroupRow]:
    """A row for each value of each column, columns as given, values sorted.

    Args:
        subgroups: by name ``[N]`` text (a :class:`~whichwhen.data.store.SeriesSet` has them).
        probabilities: ``[N]`` or ``[N, 2]`` (of class 1), or ``[N, C]``.
        labels: ``[N]``.
        requested_cost, delivered_cost: ``[N]``, over the whole series.
        smallest: groups with fewer series are listed with their size and cost, but without quality, which would be noise.
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
    for name, column in columns.items():
        if np.asarray(column).shape != found.shape:
            raise DataError(
                f"{name!r} of shape {np.asarray(column).shape}", expected=f"one entry for each of {len(found)} series"
            )
    rows = []
    for name, column in subgroups.items():
        text = np.asarray(column).astype(str)
        for value in np.unique(text):
            own = text == value
            large = int(own.sum()) >= smallest
            rows.append(
                SubgroupRow(
                    column=name,
                    value=str(value),
                    n=int(own.sum()),
                    positives=int((found[own] == 1).sum()) if binary else None,
                    requested_cost=float(np.mean(requested_cost[own])),
                    delivered_cost=float(np.mean(delivered_cost[own])),
                    accuracy=float(right[own].mean()) if large else None,
                    auroc=auroc(scores[own], found[own]) if large else None,
                    mean_probability=float(confidence[own].mean()) if large else None,
                    observed_share=float(true[own].mean()) if large else None,
                )
            )
    return rows
