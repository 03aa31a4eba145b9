"""Features without information, and real features that move.

Fakes are drawn per series from (seed, source, series id), one feature after the other: they do not depend on the batch, on the
validation split, on labels, or on how many further fakes there are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whichwhen import keyed
from whichwhen.data.store import SeriesSet
from whichwhen.errors import DataError
from whichwhen.menu import Feature
from whichwhen.provenance import Provenance
from whichwhen.specs import FakeKind

NOISE_STD = 0.5
"""Standard deviation of the noise fakes, as in the paper."""
GP_VARIANCE = 0.5
"""The paper's "amplitude coefficient" 0.5 is scikit-learn's ``0.5 * RBF``: a variance, so a standard deviation of 0.71."""
GP_LENGTH_SCALE = 1.5
"""In steps; the paper gives no unit. The paper's bounds on it matter only when a GP is fitted, which none is."""


def add_fakes(real: SeriesSet, kind: FakeKind, count: int, seed: int) -> SeriesSet:
    """The series with ``count`` fake columns after the real ones."""
    if kind == "none":
        return real
    fakes = make_fakes(real, kind, count, seed)
    names = tuple(Feature(f"fake{i}") for i in range(count))
    return replace(real, values=np.concatenate([real.values, fakes], 1), features=(*real.features, *names))


def make_fakes(like: SeriesSet, kind: FakeKind, count: int, seed: int) -> np.ndarray:
    """Fake columns ``[sum of lengths, count]`` for the series of a set."""
    if kind == "zeros":
        return np.zeros((len(like.values), count), dtype=np.float32)
    out = np.empty((len(like.values), count), dtype=np.float32)
    for i, series_id in enumerate(like.ids):
        start, end = like.offsets[i], like.offsets[i + 1]
        rng = keyed.series_rng(seed, "fakes", like.source, int(series_id))
        out[start:end] = rng.standard_normal((count, end - start), dtype=np.float32).T
    if kind == "noise":
        out *= NOISE_STD
    else:
        _correlate(out, like)
    return out


def _correlate(white: np.ndarray, like: SeriesSet) -> None:
    """Turn white noise into GP samples, in place, all series of one length at a time.

    The Cholesky factor for a shorter series is the corner of that for a longer one, so one factor serves all.
    """
    lengths = like.lengths
    factor = gp_factor(int(lengths.max()))
    for length in np.unique(lengths):
        rows = like.offsets[:-1][lengths == length][:, None] + np.arange(length)
        white[rows] = factor[:length, :length] @ white[rows]


def gp_factor(steps: int) -> np.ndarray:
    """Cholesky factor ``[T, T]`` of the GP's covariance over the steps 0 … T-1, float32."""
    gap = np.arange(steps)[:, None] - np.arange(steps)
    covariance = GP_VARIANCE * np.exp(-0.5 * (gap / GP_LENGTH_SCALE) ** 2)
    factor: np.ndarray = np.linalg.cholesky(covariance + 1e-6 * np.eye(steps)).astype(np.float32)
    return factor


def real_start(step: np.ndarray, n_real: int, n_fakes: int, horizon: int) -> np.ndarray:
    """The first column of the real features at each step, when they are shifted.

    Time is cut into segments of ``max(1, ⌊R·T/(R+F)⌋)`` steps, T being the horizon (the longest training series, not the
    series' own length, which would tell the future). In segment j the real features stand in columns j·R … j·R+R-1. Where
    that would run past the last column (the rest after the last whole segment; an F that R does not divide), the block stays
    at the last R columns: the paper's "for the rest of the series".
    """
    segment = max(1, n_real * horizon // (n_real + n_fakes))
    start: np.ndarray = np.minimum(step // segment * n_real, n_fakes)
    return start


def shift_columns(start: np.ndarray, n_real: int, n_fakes: int) -> np.ndarray:
    """Which column (real ones first) stands at each place, ``[rows, R + F]``, for the given first places of the real ones.

    The fakes fill the other places in their own order: against start 0, the first ``start`` fakes have moved to the front,
    which is the paper's swap.
    """
    place = np.arange(n_real + n_fakes)
    start = start[:, None]
    columns: np.ndarray = np.where(place < start, n_real + place, np.where(place < start + n_real, place - start, place))
    return columns


def shift(series: SeriesSet, n_real: int, horizon: int) -> SeriesSet:
    """The series with their real columns (the first ``n_real``) moving as time goes on."""
    n_fakes = len(series.features) - n_real
    if n_fakes < 1:
        raise DataError("real features to shift, but no fakes", expected="at least one fake feature")
    columns = shift_columns(real_start(series.steps, n_real, n_fakes, horizon), n_real, n_fakes)
    names = tuple(Feature(f"place{i}") for i in range(n_real + n_fakes))
    return replace(series, values=np.take_along_axis(series.values, columns, 1), features=names)


def provenance(n_real: int, n_fakes: int, shifted: bool, steps: int, horizon: int) -> Provenance:
    """Which columns are real at each step."""
    start = real_start(np.arange(steps), n_real, n_fakes, horizon) if shifted else np.zeros(steps, dtype=int)
    return Provenance(shift_columns(start, n_real, n_fakes) < n_real)
