"""What belongs to whole series: label, static columns, group, weight, subgroups; from the table or from a second one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from whichwhen.data.frames.columns import need_column, read_numbers, read_texts, refuse_nulls
from whichwhen.errors import DataError
from whichwhen.specs import TableSpec


@dataclass(frozen=True)
class SeriesColumns:
    """For N series.

    Attributes:
        labels: ``[N]`` text; None where each step has its own.
        static: by name ``[N]`` float64, NaN = not known.
        groups: ``[N]`` text, or None.
        weights: ``[N]`` float32, or None.
        subgroups: by name ``[N]`` text; what is not known is ``unknown``.
    """

    labels: np.ndarray | None
    static: Mapping[str, np.ndarray]
    groups: np.ndarray | None
    weights: np.ndarray | None
    subgroups: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class _Place:
    """A table, which series its rows belong to (-1 = none of them), and its name."""

    frame: pl.DataFrame
    of_row: np.ndarray
    where: str


def read_series_columns(
    frame: pl.DataFrame, labels: pl.DataFrame | None, spec: TableSpec, known: np.ndarray, of_row: np.ndarray, where: str
) -> SeriesColumns:
    """Each column from the table of labels where that has it, else from the table itself."""
    places = [_Place(frame, of_row, where)]
    if labels is not None:
        places.insert(0, _second(labels, spec, known))

    def find(name: str, role: str) -> _Place:
        place = next((place for place in places if name in place.frame.columns), places[-1])
        need_column(place.frame.columns, name, role, place.where)
        return place

    def texts(name: str, role: str, instead: str | None = None) -> np.ndarray:
        place = find(name, role)
        column = read_texts(place.frame[name])
        if instead is None:
            refuse_nulls(column, role, place.where)
        first = _first_rows(place, column, role, known, spec)
        return np.where(first >= 0, column.fill_null("").to_numpy().astype(str)[first], instead or "")

    def numbers(name: str, role: str) -> np.ndarray:
        place = find(name, role)
        column = read_numbers(place.frame[name], place.where, "use numbers, or --subgroups for names")
        first = _first_rows(place, pl.Series(name, column).fill_nan(None), role, known, spec)
        return np.where(first >= 0, column[first], np.nan)

    if spec.label_each_step:
        need_column(frame.columns, spec.label or "", "label", where)
    return SeriesColumns(
        labels=None if spec.label_each_step else texts(spec.label or "", "label"),
        static={name: numbers(name, "static") for name in spec.static or ()},
        groups=texts(spec.group, "group") if spec.group else None,
        weights=_weights(numbers(spec.weight, "weight"), spec, known, where) if spec.weight else None,
        subgroups={name: texts(name, "subgroups", "unknown") for name in spec.subgroups or ()},
    )


def _second(labels: pl.DataFrame, spec: TableSpec, known: np.ndarray) -> _Place:
    where = spec.labels or "the table of labels"
    need_column(labels.columns, spec.id or "", "id", where)
    ids = read_texts(labels[spec.id or ""])
    refuse_nulls(ids, "id", where)
    place = {one: i for i, one in enumerate(known.tolist())}
    of_row = np.array([place.get(one, -1) for one in ids.to_list()], dtype=np.int64)
    without = np.setdiff1d(np.arange(len(known)), of_row)
    if len(without):
        raise DataError(
            f"{where}: no row for {spec.id} {known[without[0]]} ({len(without)} such series)",
            expected="a row for each series of the table",
            do="add it, or drop the series",
        )
    return _Place(labels, of_row, where)


def check_all_measured(labels: pl.DataFrame, spec: TableSpec, *known: np.ndarray) -> None:
    """Raise where the table of labels names an id that no table has rows of."""
    where = spec.labels or "the table of labels"
    measured = {one for ids in known for one in ids.tolist()}
    lost = [(row, one) for row, one in enumerate(read_texts(labels[spec.id or ""]).to_list(), 1) if one not in measured]
    if lost:
        row, one = lost[0]
        raise DataError(
            f"{where}, row {row}: {spec.id} {one} has no rows in the table ({len(lost)} such ids)",
            expected="measurements of each id",
            do="drop it from the labels, or check that the ids are written alike",
        )


def _first_rows(place: _Place, column: pl.Series, role: str, known: np.ndarray, spec: TableSpec) -> np.ndarray:
    """The first row of each series that holds something, ``[N]``, -1 = none; raises where a series holds two things."""
    there = np.flatnonzero(column.is_not_null().to_numpy() & (place.of_row >= 0))
    series = place.of_row[there]
    first = np.full(len(known), -1)
    first[series[::-1]] = there[::-1]
    found = column.gather(there)
    other = (found != column.gather(first[series])).arg_true()
    if len(other):
        row = int(there[int(other[0])])
        at = int(first[place.of_row[row]])
        do = "add --label-each-step where each step has its own" if role == "label" else f"leave it out of --{role}"
        raise DataError(
            f"{place.where}, rows {at + 1} and {row + 1}: column {column.name!r} changes within {spec.id} "
            f"{known[place.of_row[row]]}, from {column[at]!r} to {column[row]!r}",
            expected=f"one {role} for each series",
            do=do,
        )
    return first


def _weights(weights: np.ndarray, spec: TableSpec, known: np.ndarray, where: str) -> np.ndarray:
    bad = np.flatnonzero(~(weights > 0))
    if len(bad):
        raise DataError(
            f"{where}: weight {weights[bad[0]]:g} of {spec.id} {known[bad[0]]} in column {spec.weight!r}",
            expected="a number above 0 for each series",
        )
    return weights.astype(np.float32)
