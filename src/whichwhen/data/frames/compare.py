"""New tables against the one that was learned from: the same columns, in like units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from whichwhen.data.frames.files import Frame
from whichwhen.data.frames.parse import ParsedTable, parse_table
from whichwhen.data.store import SeriesSet
from whichwhen.errors import FeatureError, hint
from whichwhen.specs import TableSpec

_EDGE = 0.001
_RATIO = 20.0


def check_new_table(train: SeriesSet, table: Frame, spec: TableSpec, labels: pl.DataFrame | None = None) -> list[str]:
    """Check a table against the series that a model learned from (raw values, as in :class:`Source`).

    Raises :class:`FeatureError` where a feature is missing. Columns in another order are fine: a table has names. Returns
    warnings, each naming its column: further columns, and values whose middle lies outside nearly all of training's or
    whose spread is more than 20 times larger or smaller, as after a change of units.
    """
    names = [feature.name for feature in train.features]
    parsed = parse_table(table, spec, labels)
    values, notes = align(parsed, names)
    return notes + compare_lengths(train.lengths, np.diff(parsed.offsets), spec) + compare_values(names, train.values, values)


def compare_lengths(train: np.ndarray, new: np.ndarray, spec: TableSpec) -> list[str]:
    """A warning where new series have so many or so few steps that their times may be in another unit."""
    before, now = float(np.median(train)), float(np.median(new))
    if 1 / _RATIO <= now / before <= _RATIO:
        return []
    return [f"column {spec.time!r}: the median series has {now:g} steps, training's {before:g}: check its units"]


def align(table: ParsedTable, names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Values of a new table in the order of training's features, ``[R, F]``, and notes."""
    place = {name: i for i, name in enumerate(table.features)}
    further = [name for name in table.features if name not in names]
    notes = []
    lost = [name for name in names if name not in place]
    if lost and table.layout == "wide":
        raise FeatureError(
            f"{table.where}: no column {lost[0]!r}" + (f" ({len(lost)} such columns)" if len(lost) > 1 else ""),
            expected=f"the features of training: {', '.join(names[:12])}{', …' if len(names) > 12 else ''}",
            do=hint(lost[0], further) or "add it, empty where nothing was measured",
        )
    if lost and len(lost) == len(names):
        raise FeatureError(
            f"{table.where}: none of the features of training",
            expected=f"some of {', '.join(names[:12])}{', …' if len(names) > 12 else ''}",
            do=hint(lost[0], further),
        )
    notes += [f"feature {name!r} is never measured in {table.where}" for name in lost]
    notes += [f"column {name!r} of {table.where} is not one of training's features: it was left out" for name in further]
    empty = np.full(len(table.values), np.nan, dtype=np.float32)
    return np.column_stack([table.values[:, place[name]] if name in place else empty for name in names]), notes


def compare_values(names: Sequence[str], train: np.ndarray, new: np.ndarray) -> list[str]:
    """Warnings on columns ``[rows, F]`` whose new values look like other units."""
    warnings = []
    for name, old, fresh in zip(names, train.T, new.T, strict=True):
        old, fresh = old[~np.isnan(old)].astype(np.float64), fresh[~np.isnan(fresh)].astype(np.float64)
        if len(old) and not len(fresh):
            warnings.append(f"column {name!r} holds no value, and training's does")
        if not len(old) or not len(fresh):
            continue
        low, quarter, three, high = np.quantile(old, [_EDGE, 0.25, 0.75, 1 - _EDGE])
        middle, spread, before = np.median(fresh), np.subtract(*np.quantile(fresh, [0.75, 0.25])), three - quarter
        if not low <= middle <= high:
            warnings.append(
                f"column {name!r}: the median is {middle:.4g}, outside {low:.4g} to {high:.4g}, where training's values lie: "
                "check its units"
            )
        elif before > 0 and spread > 0 and not 1 / _RATIO <= spread / before <= _RATIO:
            warnings.append(
                f"column {name!r}: the middle half of the values spans {spread:.4g}, training's {before:.4g}: check its units"
            )
    return warnings
