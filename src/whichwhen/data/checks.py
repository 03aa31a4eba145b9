"""What series have to be like to be used."""

from __future__ import annotations

import numpy as np

from whichwhen.data.store import SeriesSet
from whichwhen.errors import DataError


def check_series(series: SeriesSet, classes: tuple[str, ...], name: str) -> None:
    """Raise :class:`DataError` where series can't be used: one class, a single step, infinite values. NaN = not measured."""
    where = f"{name} ({series.source} part)"
    if len(classes) < 2:
        raise DataError(
            f"{where}: labels with one class ({', '.join(classes)})",
            expected="at least two classes",
            do="use data with something to tell apart",
        )
    short = np.flatnonzero(series.lengths < 2)
    if len(short):
        raise DataError(
            f"{where}: series {short[0]} has {series.lengths[short[0]]} step",
            expected="at least 2 steps in each series",
            do="drop it, or use a smaller --m",
        )
    infinite = np.isinf(series.values)
    if infinite.any():
        bad = np.argwhere(infinite)
        row, column = bad[0]
        i = int(np.searchsorted(series.offsets, row, side="right")) - 1
        raise DataError(
            f"{where}: {series.values[row, column]} in series {i}, step {row - series.offsets[i]}, feature "
            f"{series.features[column].name!r} ({len(bad)} such values)",
            expected="finite values, or NaN for what was not measured",
            do="fill or drop them",
        )


def check_observed(train: SeriesSet, name: str) -> None:
    """Raise :class:`DataError` where no training series holds a value of some feature."""
    unseen = np.flatnonzero(np.isnan(train.values).all(axis=0))
    if len(unseen):
        raise DataError(
            f"{name}: feature {train.features[unseen[0]].name!r} is never observed in training ({len(unseen)} such columns)",
            expected="at least one value of each feature",
            do="leave the column out (--ignore for your own table), or use another --validation or --seed",
        )
