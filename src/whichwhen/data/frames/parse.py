"""A table as series on a regular grid of steps.

The rule: step s of a series is the time from ``start + s·width`` to just before ``start + (s + 1)·width``, where start is the
series' own first time in the table (rows without a value count). Of several values in one step the last one counts. Steps
without a row are steps at which nothing was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from whichwhen.data.frames.columns import ABOUT, MOST, Times, need_column, read_texts, read_times, refuse_nulls
from whichwhen.data.frames.files import Frame, read_frame
from whichwhen.data.frames.series import SeriesColumns, read_series_columns
from whichwhen.data.frames.values import Cells, fill_long, fill_wide
from whichwhen.errors import DataError, SpecError, hint
from whichwhen.specs import TableSpec

_TOLERANCE = 1e-6
"""Of a step's width: a time this little before a boundary counts as on it, as 3 · 0.1 is not quite 0.3."""
_ROUNDED = 0.01
"""Of a step's width: times this near to multiples of it are on a regular grid."""
_SPARSEST = 10


@dataclass(frozen=True)
class ParsedTable:
    """N series in the order of their ids, raw; R steps in all.

    Attributes:
        where: name for messages.
        ids: ``[N]`` text; numbers: ``[N]`` int64, the ids themselves where they are whole numbers, else their places.
        values: ``[R, F]`` float32, NaN = not measured; static columns last, the same at each step.
        offsets: ``[N + 1]``.
        features, static: names of all F columns, and of those that are static.
        columns: what belongs to whole series: labels, groups, weights, subgroups.
        step_labels: ``[R]`` text, or None.
        layout, rows, step, merged, unsorted, ignored, notes: for the report.
    """

    where: str
    ids: np.ndarray
    numbers: np.ndarray
    values: np.ndarray
    offsets: np.ndarray
    features: tuple[str, ...]
    static: tuple[str, ...]
    columns: SeriesColumns
    step_labels: np.ndarray | None
    layout: str
    rows: int
    step: str
    merged: int
    unsorted: int
    ignored: tuple[str, ...]
    notes: tuple[str, ...]


def parse_table(table: Frame, spec: TableSpec, labels: pl.DataFrame | None = None, where: str = "") -> ParsedTable:
    """Read a table as its spec says; ``labels`` is the second table, with one row a series; ``where`` its name in messages."""
    frame, name = read_frame(table, spec.names)
    where = where or name
    check_roles(frame.columns, spec, where)
    long = is_long(frame.columns, spec, where)
    ids = read_texts(frame[spec.id or ""])
    refuse_nulls(ids, "id", where)
    times = read_times(frame[spec.time or ""], where)
    known, of_row = number_series(frame[spec.id or ""], ids)
    grid, notes, unsorted = _make_grid(times, of_row, known, spec, where)

    static, others = tuple(spec.static or ()), _others(spec, long)
    columns = read_series_columns(frame, labels, spec, known, of_row, where)
    _check_ignore(frame, spec, long, where)
    cells = Cells(of_row, times.ticks, grid.rows, grid.total, where, spec.id or "", known)
    if long:
        features, values, merged = fill_long(frame, spec, cells)
        used = {*others, *static}
        ignored = tuple(name for name in frame.columns if name not in used)
    else:
        names = [name for name in frame.columns if name not in {*others, *static, *(spec.ignore or ())}]
        features, values, merged = fill_wide(frame, names, cells)
        ignored = tuple(name for name in frame.columns if name in (spec.ignore or ()))
    for name in static:
        if name in features:
            raise DataError(f"{where}: {name!r} is a feature and a static column", do="rename one of them")
    if static:
        lengths = np.diff(grid.offsets)
        values = np.column_stack([values, *(np.repeat(columns.static[name], lengths) for name in static)]).astype(np.float32)
    elif not features:
        raise DataError(f"{where}: no feature columns", expected="at least one beside those of --id, --time and --label")
    return ParsedTable(
        where=where,
        ids=known,
        numbers=_numbers(frame[spec.id or ""], known),
        values=values,
        offsets=grid.offsets,
        features=(*features, *static),
        static=static,
        columns=columns,
        step_labels=_step_labels(frame, spec, cells, grid.offsets) if spec.label_each_step else None,
        layout="long" if long else "wide",
        rows=frame.height,
        step=grid.step,
        merged=merged,
        unsorted=unsorted,
        ignored=ignored,
        notes=notes,
    )


def check_roles(columns: Sequence[str], spec: TableSpec, where: str) -> None:
    """Raise where id, time or label are not named, or id or time are not there."""
    for role in ("id", "time"):
        name = getattr(spec, role)
        if name is None:
            raise SpecError(f"{where} without --{role}", expected="--id, --time and --label", do=f"add --{role} COLUMN")
        need_column(columns, name, role, where)
    if spec.label is None:
        raise SpecError(f"{where} without --label", expected="--id, --time and --label", do="add --label COLUMN")


def is_long(columns: Sequence[str], spec: TableSpec, where: str) -> bool:
    """Whether a table with these columns has one measurement a row."""
    both = spec.feature in columns and spec.value in columns
    named = spec.feature != "feature" or spec.value != "value"
    if spec.layout == "long" or (spec.layout == "auto" and named):
        need_column(columns, spec.feature, "feature", where)
        need_column(columns, spec.value, "value", where)
        return True
    return spec.layout == "auto" and both


def _others(spec: TableSpec, long: bool) -> set[str]:
    """Columns that are no features."""
    names = {spec.id, spec.time, spec.label, spec.group, spec.weight, *(spec.subgroups or ())}
    if long:
        names |= {spec.feature, spec.value}
    return {name for name in names if name}


def _check_ignore(frame: pl.DataFrame, spec: TableSpec, long: bool, where: str) -> None:
    known = list(frame.columns)
    if long:
        known += read_texts(frame[spec.feature]).drop_nulls().unique().to_list()
    for name in spec.ignore or ():
        if name not in known:
            raise DataError(f"{where}: no column {name!r} to ignore", do=hint(name, known) or "change --ignore")


def number_series(column: pl.Series, ids: pl.Series) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ids in order, numbers by size, ``[N]`` text; and which of them each row has, ``[rows]``."""
    distinct, place = np.unique(ids.to_numpy().astype(str), return_inverse=True)
    if _whole(column):
        order = np.argsort(distinct.astype(np.int64), kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return distinct[order], rank[place]
    return distinct, place.astype(np.int64)


def _whole(column: pl.Series) -> bool:
    if column.dtype.is_float():
        column = column.fill_nan(None)
        return bool(((column == column.floor()) & (column.abs() < MOST)).all())
    return column.dtype.is_integer() and column.dtype not in (pl.UInt64, pl.Int128)


def _numbers(column: pl.Series, known: np.ndarray) -> np.ndarray:
    return known.astype(np.int64) if _whole(column) else np.arange(len(known), dtype=np.int64)


@dataclass(frozen=True)
class _Grid:
    rows: np.ndarray
    offsets: np.ndarray
    step: str

    @property
    def total(self) -> int:
        return int(self.offsets[-1])


def _make_grid(
    times: Times, of_row: np.ndarray, known: np.ndarray, spec: TableSpec, where: str
) -> tuple[_Grid, tuple[str, ...], int]:
    """Where each row of the table lies on the grid; notes on what was found; rows out of order."""
    order = np.argsort(of_row, kind="stable")
    back = (np.diff(of_row[order]) == 0) & (np.diff(times.ticks[order]) < 0)
    unsorted = int(back.sum())
    notes: list[str] = []
    if unsorted:
        first = int(order[1:][back].min()) + 1
        notes.append(
            f"column {spec.time!r}: {unsorted} rows come before an earlier row of their series, the first is row {first}; "
            "they were put in the order of time"
        )
    start = np.full(len(known), times.ticks.max())
    np.minimum.at(start, of_row, times.ticks)
    since = times.ticks - start[of_row]
    order = np.lexsort((since, of_row))
    new = np.append(True, (np.diff(of_row[order]) != 0) | (np.diff(since[order]) != 0))
    stamps = np.bincount(of_row[order[new]], minlength=len(known))
    last = np.zeros(len(known), dtype=since.dtype)
    np.maximum.at(last, of_row, since)
    step = spec.step or common_width(times, since, last, int(new.sum()), spec, where)
    width = times.width(step, f"{where}, column {spec.time!r}")
    exact = isinstance(width, int) and times.whole
    before = 0.5 if step.startswith(ABOUT) else _TOLERANCE  # of times that were rounded, the nearest step
    at = since // width if exact else np.floor(since / width + before).astype(np.int64)
    lengths = np.zeros(len(known), dtype=np.int64)
    np.maximum.at(lengths, of_row, at + 1)
    far = np.flatnonzero((lengths > 10_000) & (lengths > 100 * stamps))
    if len(far):
        raise DataError(
            f"{where}: {spec.id} {known[far[0]]} spans {lengths[far[0]]} steps of {times.text(width)} with "
            f"{stamps[far[0]]} times",
            expected="times close together",
            do=f"check column {spec.time!r} for a stray date, or use a wider --step",
        )
    short = np.flatnonzero(lengths < 2)
    if len(short):
        raise DataError(
            f"{where}: {spec.id} {known[short[0]]} has 1 step of {times.text(width)} ({len(short)} such series)",
            expected="at least 2 steps in each series",
            do="drop such series, or use a narrower --step",
        )
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return _Grid(offsets[of_row] + at, offsets, step), tuple(notes), unsorted


def common_width(times: Times, since: np.ndarray, last: np.ndarray, stamps: int, spec: TableSpec, where: str) -> str:
    """The largest width that all times are multiples of, if the grid is not mostly empty then; as ``--step`` takes it."""
    width = max(int(np.gcd.reduce(since)), 1) if times.whole else _even_width(since)
    if not width or (last // width + 1).sum() > _SPARSEST * stamps + 100:
        found = f"; all are multiples of {times.text(width)}, which leaves most steps empty" if width else ""
        raise DataError(
            f"{where}: the times in column {spec.time!r} are not on a regular grid{found}",
            expected="a width of the steps",
            do=f"add --step, say --step {_usual_width(times, last, stamps)}",
        )
    return times.text(width) if times.whole else f"{ABOUT}{width:g}"


def _even_width(since: np.ndarray) -> float:
    """The least time since a series' start, if all are multiples of it but for rounding; else 0."""
    least = float(since[since > 0].min(initial=np.inf))
    if not np.isfinite(least):
        return 0.0
    most = since / least
    width = float(since.max() / round(float(most.max())))  # the longest time is the least rounded
    away = np.abs(since / width - np.round(since / width))
    return float(f"{width:.6g}") if away.max() < _ROUNDED else 0.0


def _usual_width(times: Times, last: np.ndarray, stamps: int) -> str:
    """What lies between two times on average, to a round number: with it there are about as many steps as times."""
    mean = float(last.sum()) / max(1, stamps - len(last))
    if not times.clock:
        return f"{float(f'{mean:.1g}') or 1:g}"
    units = [(7 * 86400, "w"), (86400, "d"), (3600, "h"), (60, "m"), (1, "s")]
    seconds, unit = next((one for one in units if mean >= one[0] * 10**6), (1, "s"))
    return f"{max(1, round(mean / 10**6 / seconds))}{unit}"


def _step_labels(frame: pl.DataFrame, spec: TableSpec, cells: Cells, offsets: np.ndarray) -> np.ndarray:
    """``[R]`` text: of a step's rows the last one's; a step without a row keeps the label before it."""
    column = read_texts(frame[spec.label or ""])
    refuse_nulls(column, "label", cells.where)
    texts = column.to_numpy().astype(str)
    order = np.lexsort((np.arange(len(texts)), cells.ticks, cells.of_row))
    same = (np.diff(cells.of_row[order]) == 0) & (np.diff(cells.ticks[order]) == 0)
    clash = np.flatnonzero(same & (texts[order][1:] != texts[order][:-1]))
    if len(clash):
        one, other = sorted((int(order[clash[0]]), int(order[clash[0] + 1])))
        raise DataError(
            f"{cells.where}, rows {one + 1} and {other + 1}: labels {texts[one]!r} and {texts[other]!r} for {cells.id} "
            f"{cells.known[cells.of_row[one]]} at one time",
            expected="one label a time",
        )
    last = np.full(offsets[-1], -1)
    last[cells.at[order]] = order
    filled = np.maximum.accumulate(np.where(last >= 0, np.arange(len(last)), -1))  # each series begins with a row
    return texts[last[filled]]
