"""What was found in a table, before anything is trained on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from whichwhen.data.frames.parse import ParsedTable
from whichwhen.menu import Feature


@dataclass(frozen=True)
class TableReport:
    """The facts about a table.

    Attributes:
        table: its name; layout: long or wide; rows: of the file.
        series, groups: how many; parts: series of each part that they were split into.
        step: width of a step; steps: of all series; lengths: shortest, median and longest series, in steps.
        features: names of the columns, static ones among them; static: those that are the same at each step of a series.
        missing: share of steps without a value, by feature.
        classes: number of series, or of steps where each has its own label, by class.
        constant: features with a single value; duplicates: pairs of features with the same content.
        merged: identical repeats; unsorted: rows out of the order of time; ignored: columns that were not used.
        warnings: what may be a mistake, one line each.
    """

    table: str
    layout: str
    rows: int
    series: int
    groups: int
    parts: Mapping[str, int]
    step: str
    steps: int
    lengths: tuple[int, float, int]
    features: tuple[str, ...]
    static: tuple[str, ...]
    missing: Mapping[str, float]
    classes: Mapping[str, int]
    constant: tuple[str, ...]
    duplicates: tuple[tuple[str, str], ...]
    merged: int
    unsorted: int
    ignored: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


def make_report(
    table: ParsedTable,
    classes: Sequence[str],
    n_groups: int,
    parts: Mapping[str, int],
    features: Sequence[Feature],
    more: Sequence[str] = (),
) -> TableReport:
    """Look at a table as it was read; ``features`` knows plausible ranges, ``more`` are further warnings."""
    names, values = table.features, table.values
    lengths = np.diff(table.offsets)
    texts = table.columns.labels if table.step_labels is None else table.step_labels
    there = ~np.isnan(values)
    constant = tuple(name for name, column, seen in zip(names, values.T, there.T, strict=True) if _single(column[seen]))
    duplicates = _duplicates(names, values, constant)
    warnings = list(table.notes)
    warnings += [f"column {name!r} has the same value throughout: it tells nothing" for name in constant]
    warnings += [f"columns {one!r} and {other!r} are the same: one of them is enough" for one, other in duplicates]
    for feature, column in zip(features, values.T, strict=True):
        outside = int(((column < feature.low) | (column > feature.high)).sum())
        if outside:
            warnings.append(
                f"column {feature.name!r}: {outside} values outside {feature.low:g} to {feature.high:g}, its range in the "
                "menu: other units, or mistakes"
            )
    return TableReport(
        table=table.where,
        layout=table.layout,
        rows=table.rows,
        series=len(table.ids),
        groups=n_groups,
        parts=dict(parts),
        step=table.step,
        steps=int(lengths.sum()),
        lengths=(int(lengths.min()), float(np.median(lengths)), int(lengths.max())),
        features=names,
        static=table.static,
        missing={name: round(1 - float(seen.mean()), 6) for name, seen in zip(names, there.T, strict=True)},
        classes={name: int(np.count_nonzero(texts == name)) for name in classes},
        constant=constant,
        duplicates=duplicates,
        merged=table.merged,
        unsorted=table.unsorted,
        ignored=table.ignored,
        warnings=(*warnings, *more),
    )


def _single(found: np.ndarray) -> bool:
    return len(found) > 0 and bool((found == found[0]).all())


def _duplicates(names: Sequence[str], values: np.ndarray, constant: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Features whose cells are equal, missing ones too; constant ones are reported by themselves."""
    first: dict[bytes, str] = {}
    pairs = []
    for name, column in zip(names, values.T, strict=True):
        if name in constant:
            continue
        earlier = first.setdefault(np.ascontiguousarray(column + np.float32(0)).tobytes(), name)
        if earlier != name:
            pairs.append((earlier, name))
    return tuple(pairs)
