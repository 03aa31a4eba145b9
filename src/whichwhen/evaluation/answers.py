"""Which requests a partly observed record could answer."""

from __future__ import annotations

import numpy as np

from whichwhen.errors import DataError


def unanswered_share(requested: np.ndarray, answered: np.ndarray) -> float | None:
    """Share of the requests ``[N, T, K]`` that the record could not answer; None where nothing was requested."""
    _check_requests(requested, answered)
    total = int(requested.sum())
    return 1 - int(answered.sum()) / total if total else None


def answered_until(requested: np.ndarray, answered: np.ndarray) -> np.ndarray:
    """Whether all requests up to each step were answered, ``[N, T]``; the last column speaks for the whole series.

    Args:
        requested, answered: ``[N, T, K]`` bool; an order counts as answered when all that it reveals is in the record.
    """
    _check_requests(requested, answered)
    return np.asarray(np.cumprod((answered | ~requested).all(2), axis=1).astype(bool))


def _check_requests(requested: np.ndarray, answered: np.ndarray) -> None:
    if requested.ndim != 3 or requested.shape != answered.shape or requested.dtype != bool or answered.dtype != bool:
        raise DataError(
            f"requests of shape {requested.shape} and type {requested.dtype}, answers of shape {answered.shape} and type "
            f"{answered.dtype}",
            expected="both [N, T, K] bool",
        )
    if (answered & ~requested).any():
        series, step, order = np.argwhere(answered & ~requested)[0]
        raise DataError(f"series {series}, step {step}: order {order} was answered but not requested", expected="a subset")
