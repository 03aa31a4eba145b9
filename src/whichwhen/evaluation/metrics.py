"""The numbers that are reported of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Metrics:
    """What is reported of a policy on a set of series.

    Attributes:
        accuracy: share of series whose last prediction is right.
        loss: mean cross-entropy of the last prediction, in nats.
        cost_per_step: billed cost over all steps of all series.
        real_fraction: share of the requested orders that reveal a real feature; None where nothing was requested or
            nobody said what is real.
        n: number of series.
        auroc, auprc: of the second class against the first, where there are two and both occur; else None.
        requested_cost: billed over a whole series, the mean.
        delivered_cost: of it, what the record could answer.
        unanswered: share of the requests that it could not.

    Where every step has its own label, accuracy, loss, auroc and auprc are over all steps of all series.
    """

    accuracy: float
    loss: float
    cost_per_step: float
    real_fraction: float | None
    n: int
    auroc: float | None = None
    auprc: float | None = None
    requested_cost: float = 0.0
    delivered_cost: float = 0.0
    unanswered: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As in ``result.json``."""
        return asdict(self)


def real_fraction(requested: np.ndarray, real: np.ndarray) -> float | None:
    """Share of requests spent on real orders.

    Args:
        requested: ``[T, K]``, how often each order was requested at each step.
        real: ``[T', K]`` bool with T' >= T, which of them are real there.
    """
    total = float(requested.sum())
    return float((requested * real[: len(requested)]).sum()) / total if total else None
