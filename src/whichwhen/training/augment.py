"""Noise on the values of training series, against overfitting to people, devices and irrelevant columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from whichwhen.data.store import SeriesSet
from whichwhen.noise import NoisePool
from whichwhen.types import Hindsight

OFFSET = 0.3
"""Standard deviation of what is added to a whole column of a series, in standard deviations of that column."""
NOISE = 0.3
"""The same for what is added to each value."""
_ROWS = 20_000
"""Rows that say how the values of a column are spread."""
_FEW_VALUES = 32
"""A column with at most so many values is a code or a level, and stays as it is."""


def spread_of(series: SeriesSet) -> Float[Tensor, " F"]:
    """The standard deviation of each column over some training rows; 0 for columns with few distinct values."""
    rows = np.linspace(0, len(series.values) - 1, min(len(series.values), _ROWS)).astype(np.int64)
    values = series.values[rows]
    out = np.zeros(values.shape[1], np.float32)
    for column in range(values.shape[1]):
        seen = values[:, column][~np.isnan(values[:, column])]
        if len(np.unique(seen)) > _FEW_VALUES:
            out[column] = seen.std()
    return torch.from_numpy(out)


def augmented(known: Hindsight, spread: Float[Tensor, " F"], noise: NoisePool) -> Hindsight:
    """The same series with each column of a series moved up or down, and noise on each value; nothing where none was seen."""
    batch = known.batch
    size, steps, features = batch.values.shape
    offset = noise.take((size, 1, features), "normal") * (OFFSET * spread)
    each = noise.take((size, steps, features), "normal") * (NOISE * spread)
    moved = batch.values + each.add_(offset).to(batch.values.device)
    return replace(known, batch=replace(batch, values=torch.where(batch.observed, moved, batch.values)))
