"""Checks that all metrics share: probabilities, labels and weights that fit each other."""

from __future__ import annotations

import numpy as np

from whichwhen.errors import DataError


def check_scores(scores: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scores ``[N]`` or ``[N, C]`` as float64 and labels ``[N]`` as integers, or :class:`DataError`.

    Scores ``[N]`` and ``[N, 2]`` come back as ``[N]``, those of class 1.
    """
    scores, found = np.asarray(scores, dtype=np.float64), np.asarray(labels)
    if scores.ndim not in (1, 2) or found.shape != scores.shape[:1] or scores.shape[1:] == (1,):
        raise DataError(
            f"scores of shape {scores.shape} with labels of shape {found.shape}",
            expected="scores [N] or [N, C] with C > 1, labels [N]",
        )
    if not len(found):
        raise DataError("no series", expected="at least one to score")
    if not np.isfinite(scores).all():
        row = int(np.argwhere(~np.isfinite(scores))[0][0])
        raise DataError(f"score {scores[row]} in row {row}", expected="finite scores", do="look for what went wrong before")
    classes = 2 if scores.ndim == 1 else scores.shape[1]
    whole = found.astype(np.int64)
    wrong = np.flatnonzero((whole != found) | (whole < 0) | (whole >= classes))
    if len(wrong):
        raise DataError(f"label {found[wrong[0]]} in row {wrong[0]}", expected=f"whole numbers from 0 to {classes - 1}")
    return (scores[:, 1] if classes == 2 and scores.ndim == 2 else scores), whole


def check_weights(weights: np.ndarray | None, n: int) -> np.ndarray:
    """Weights ``[n]`` as float64, all 1 where none are given, or :class:`DataError`."""
    if weights is None:
        return np.ones(n)
    out = np.asarray(weights, dtype=np.float64)
    if out.shape != (n,):
        raise DataError(f"weights of shape {out.shape}", expected=f"one for each of {n} rows")
    bad = np.flatnonzero(~np.isfinite(out) | (out < 0))
    if len(bad):
        raise DataError(f"weight {out[bad[0]]} in row {bad[0]}", expected="finite numbers that are not negative")
    return out


def check_probabilities(probabilities: np.ndarray) -> None:
    """Raise :class:`DataError` for what can't be a probability."""
    bad = np.argwhere((probabilities < -1e-9) | (probabilities > 1 + 1e-6))
    if len(bad):
        raise DataError(
            f"probability {probabilities[tuple(bad[0])]} in row {bad[0][0]}",
            expected="numbers from 0 to 1",
            do="pass probabilities, not logits (apply_temperature makes them)",
        )
