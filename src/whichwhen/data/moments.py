"""Mean and spread of columns that are seen a chunk at a time."""

from __future__ import annotations

import numpy as np

from whichwhen.data.rows import BLOCK
from whichwhen.data.store import Scaler


class Moments:
    """Count, mean and sum of squared deviations of each of F columns, NaN left out; chunks are merged by Chan's formula."""

    def __init__(self, n_features: int) -> None:
        self.count = np.zeros(n_features, dtype=np.int64)
        self.mean, self.squares = np.zeros(n_features), np.zeros(n_features)

    def add(self, values: np.ndarray) -> None:
        """Further rows, ``[R, F]``."""
        for start in range(0, len(values), BLOCK):
            block = values[start : start + BLOCK].astype(np.float64)
            there = ~np.isnan(block)
            count = there.sum(axis=0)
            mean = np.where(there, block, 0).sum(axis=0) / np.maximum(count, 1)
            squares = np.square(np.where(there, block - mean, 0)).sum(axis=0)
            both = self.count + count
            share, gap = count / np.maximum(both, 1), mean - self.mean
            self.mean += gap * share
            self.squares += squares + np.square(gap) * self.count * share
            self.count = both

    def scaler(self) -> Scaler:
        """As :meth:`Scaler.fit` of all rows; a column that is constant or never observed keeps its spread."""
        std = np.sqrt(self.squares / np.maximum(self.count, 1))
        return Scaler(self.mean.copy(), np.where(std > 1e-12 * np.maximum(np.abs(self.mean), 1), std, 1.0))
