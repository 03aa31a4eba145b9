"""Whether a probability of .3 comes true three times in ten, and the one number that mends it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation._inputs import check_probabilities, check_scores, check_weights

Binning = Literal["equal-width", "equal-mass"]

COLDEST, HOTTEST = 0.01, 100.0


@dataclass(frozen=True)
class Reliability:
    """Predicted against observed, in M bins.

    Attributes:
        edges: ``[M + 1]``; bin i holds what lies above edge i (the first bin: from it on), up to edge i + 1.
        confidence: ``[M]``, mean predicted probability; NaN in an empty bin.
        observed: ``[M]``, share that came true; NaN in an empty bin.
        counts: ``[M]``, rows in each bin.
        mass: ``[M]``, sum of their weights; the counts where all weights are 1.
    """

    edges: np.ndarray
    confidence: np.ndarray
    observed: np.ndarray
    counts: np.ndarray
    mass: np.ndarray

    @property
    def expected_error(self) -> float:
        """Mean distance between predicted and observed, each bin by its mass: the expected calibration error."""
        full = self.mass > 0
        gaps = np.abs(self.confidence[full] - self.observed[full])
        return float(gaps @ self.mass[full] / self.mass.sum())

    def rows(self) -> list[dict[str, Any]]:
        """One row per bin that is not empty, ready for JSON."""
        return [
            {
                "from": float(self.edges[i]),
                "to": float(self.edges[i + 1]),
                "confidence": float(self.confidence[i]),
                "observed": float(self.observed[i]),
                "count": int(self.counts[i]),
            }
            for i in np.flatnonzero(self.mass > 0)
        ]


def reliability_curve(
    probabilities: np.ndarray,
    labels: np.ndarray,
    bins: int = 10,
    binning: Binning = "equal-width",
    weights: np.ndarray | None = None,
) -> Reliability:
    """Mean predicted probability and observed share, bin by bin.

    Two classes: of class 1, as a rare event is what the number is about. More classes: of the predicted class, so
    "observed" is the accuracy there (the usual top-label calibration).

    Args:
        probabilities: ``[N]`` or ``[N, 2]`` (of class 1), or ``[N, C]``.
        labels: ``[N]``, positions in the classes.
        bins: how many.
        binning: ``equal-width`` from 0 to 1, or ``equal-mass``: quantiles of the predictions. Equal predictions share a bin,
            so with ties there may be fewer bins than asked for.
        weights: ``[N]``, how much each row counts; they do not move the edges.
    """
    if bins < 1:
        raise SpecError(f"{bins} bins", expected="at least 1")
    columns, found = check_scores(probabilities, labels)
    check_probabilities(columns)
    counted = check_weights(weights, len(found))
    if not counted.sum() > 0:
        raise DataError("weights that are all 0", expected="some series that count")
    if columns.ndim == 1:
        predicted, true = columns, found == 1
    else:
        predicted, true = columns.max(1), columns.argmax(1) == found
    if binning == "equal-width":
        edges = np.linspace(0.0, 1.0, bins + 1)
    else:
        uppers = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, bins + 1)[1:], method="inverted_cdf"))
        edges = np.append(predicted.min(), uppers)
    places = np.searchsorted(edges[1:-1], predicted, side="left")
    size = len(edges) - 1
    mass = np.bincount(places, counted, size)
    safe = np.where(mass > 0, mass, np.nan)
    confidence = np.bincount(places, counted * predicted, size) / safe
    observed = np.bincount(places, counted * true, size) / safe
    return Reliability(edges, confidence, observed, np.bincount(places, minlength=size), mass)


def expected_calibration_error(
    probabilities: np.ndarray,
    labels: np.ndarray,
    bins: int = 10,
    binning: Binning = "equal-width",
    weights: np.ndarray | None = None,
) -> float:
    """Mean distance between predicted probability and observed share over the bins of :func:`reliability_curve`."""
    return reliability_curve(probabilities, labels, bins, binning, weights).expected_error


@dataclass(frozen=True)
class TemperatureFit:
    """What all logits are to be divided by.

    Attributes:
        temperature: above 1 = the model was too sure.
        loss_before, loss_after: mean log loss in nats on the rows it was fitted on, at temperature 1 and at this one.
    """

    temperature: float
    loss_before: float
    loss_after: float


def apply_temperature(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Probabilities ``[..., C]`` from logits ``[..., C]`` divided by the temperature. Which class is ahead does not change."""
    if not (math.isfinite(temperature) and temperature > 0):
        raise SpecError(f"temperature {temperature}", expected="a finite number above 0")
    return np.exp(_log_softmax(np.asarray(logits, dtype=np.float64) / temperature))


def fit_temperature(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> TemperatureFit:
    """The temperature of least log loss on validation rows, between 0.01 and 100; 1 where no other is better.

    The loss is convex in 1/T, so it has one valley in log T as well: its slope is bisected there, which can't diverge. Where
    the classes come apart perfectly the best temperature is 0, and the lower limit is returned.

    Args:
        logits: ``[N, C]``; rows of several steps may stand below each other.
        labels: ``[N]``, positions in the classes.
        weights: ``[N]``, how much each row counts.
    """
    found = np.asarray(logits, dtype=np.float64)
    if found.ndim != 2:
        raise DataError(f"logits of shape {found.shape}", expected="[N, C]")
    _, targets = check_scores(found, labels)
    counted = check_weights(weights, len(targets))
    if not counted.sum() > 0:
        raise DataError("weights that are all 0", expected="some series that count")
    counted = counted / counted.sum()
    rows = np.arange(len(targets))

    def loss(log_temperature: float) -> float:
        return float(-counted @ _log_softmax(found * math.exp(-log_temperature))[rows, targets])

    def slope(log_temperature: float) -> float:
        """Of the loss along log T, up to a positive factor: the true logit minus the one that is expected."""
        shares = np.exp(_log_softmax(found * math.exp(-log_temperature)))
        return float(counted @ (found[rows, targets] - (shares * found).sum(1)))

    before = loss(0.0)
    low, high = math.log(COLDEST), math.log(HOTTEST)
    if slope(low) >= 0:
        best = low
    elif slope(high) <= 0:
        best = high
    else:
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        best = (low + high) / 2
    after = loss(best)
    return TemperatureFit(math.exp(best), before, after) if after < before else TemperatureFit(1.0, before, before)


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))
