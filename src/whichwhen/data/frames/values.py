"""Measurements onto the grid: of one measurement a row, or of one step a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from whichwhen.data.frames.columns import read_numbers, read_texts, refuse_nulls
from whichwhen.errors import DataError
from whichwhen.specs import TableSpec

_DO = "mend it, leave the cell empty, or leave the column out with --ignore"


@dataclass(frozen=True)
class Cells:
    """Where the rows of a table go.

    Attributes:
        of_row: ``[rows]``, the series of each row; ticks: ``[rows]``, its time; at: ``[rows]``, its step on the grid.
        total: R, steps of all series.
        where, id, known: for messages: the table, the id column, the ids ``[N]``.
    """

    of_row: np.ndarray
    ticks: np.ndarray
    at: np.ndarray
    total: int
    where: str
    id: str
    known: np.ndarray


def fill_long(frame: pl.DataFrame, spec: TableSpec, cells: Cells) -> tuple[tuple[str, ...], np.ndarray, int]:
    """Features in the order of their names, ``[R, F]`` float32, and how many identical repeats were merged."""
    texts = read_texts(frame[spec.feature])
    refuse_nulls(texts, "feature", cells.where)
    names, code = np.unique(texts.to_numpy().astype(str), return_inverse=True)
    keep = np.flatnonzero(~np.isin(names, spec.ignore or ())[code])
    rows = keep + 1
    value = read_numbers(frame[spec.value].gather(keep), cells.where, "mend it, or leave the cell empty", rows)
    merged = 0
    for part, missing in ((~np.isnan(value), False), (np.isnan(value), True)):
        which = keep[part]
        order = np.lexsort((which, code[which], cells.ticks[which], cells.of_row[which]))
        which = which[order]
        found = value[part][order]
        same = np.ones(max(len(which) - 1, 0), dtype=bool)
        for key in (cells.of_row, cells.ticks, code):
            same &= np.diff(key[which]) == 0
        if missing:
            merged += int(same.sum())
            continue
        clash = np.flatnonzero(same & (np.diff(found) != 0))
        if len(clash):
            pair = which[clash[0]], which[clash[0] + 1]
            raise _conflict(cells, *pair, str(names[code[pair[0]]]), found[clash[0] :][:2])
        merged += int(same.sum())
        values = np.full((cells.total, len(names)), np.nan, dtype=np.float32)
        values[cells.at[which], code[which]] = found  # in the order of time: the last one stays
    left = ~np.isin(names, spec.ignore or ())
    return tuple(names[left].tolist()), values[:, left], merged


def fill_wide(frame: pl.DataFrame, names: Sequence[str], cells: Cells) -> tuple[tuple[str, ...], np.ndarray, int]:
    """Features in the order of the columns, ``[R, F]`` float32, and how many identical repeats were merged."""
    order = np.lexsort((np.arange(frame.height), cells.ticks, cells.of_row))
    twin = (np.diff(cells.of_row[order]) == 0) & (np.diff(cells.ticks[order]) == 0)
    alike = twin.copy()
    values = np.full((cells.total, len(names)), np.nan, dtype=np.float32)
    for place, name in enumerate(names):
        column = read_numbers(frame[name], cells.where, _DO)[order]
        there = np.flatnonzero(~np.isnan(column))
        if twin.any():
            same_time = np.concatenate([[0], np.cumsum(~twin)])  # rows of one time have one number
            clash = np.flatnonzero((np.diff(same_time[there]) == 0) & (np.diff(column[there]) != 0))
            if len(clash):
                pair = there[clash[0]], there[clash[0] + 1]
                raise _conflict(cells, order[pair[0]], order[pair[1]], name, column[list(pair)])
            alike &= (column[1:] == column[:-1]) | (np.isnan(column[1:]) & np.isnan(column[:-1]))
        values[cells.at[order[there]], place] = column[there]
    return tuple(names), values, int(alike.sum())


def _conflict(cells: Cells, one: np.int64, other: np.int64, feature: str, found: np.ndarray) -> DataError:
    return DataError(
        f"{cells.where}, rows {one + 1} and {other + 1}: {found[0]:g} and {found[1]:g} for {cells.id} "
        f"{cells.known[cells.of_row[one]]}, feature {feature!r}, at one time",
        expected="one value for each id, time and feature (identical repeats are merged)",
        do="decide which one is right",
    )
