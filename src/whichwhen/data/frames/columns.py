"""Columns of a table: finding them, and reading them as numbers, texts and times. Rows are counted from 1 in messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from whichwhen.errors import DataError, SpecError, hint

_UNITS = {"us": 1, "ms": 1000, "s": 10**6, "m": 60 * 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_UNITS["w"] = 7 * _UNITS["d"]
MOST = 2.0**63
"""Whole numbers are below it."""
ABOUT = "~"
"""Before a step's width: times are multiples of it but for rounding, and belong to the nearest step."""
_OFFSET = r"(Z|[+-]\d{2}:?\d{2})$"
_FORMATS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")


def need_column(columns: Sequence[str], name: str, role: str, where: str) -> None:
    """Raise where a column is missing, with the nearest name."""
    if name not in columns:
        shown = ", ".join(columns[:12]) + (", …" if len(columns) > 12 else "")
        raise DataError(
            f"{where}: no column {name!r} for --{role}",
            expected=f"one of {shown}",
            do=hint(name, columns) or f"change --{role}",
        )


def read_numbers(column: pl.Series, where: str, do: str = "", rows: np.ndarray | None = None) -> np.ndarray:
    """Float64, NaN where nothing is; text, dates and infinite values are refused by row and column.

    Args:
        rows: numbers of the rows in the table, where the column is a part of it.
    """

    def row(at: int) -> int:
        return at + 1 if rows is None else int(rows[at])

    kind = column.dtype
    if kind in (pl.Categorical, pl.Enum):
        column, kind = column.cast(pl.String), pl.String()
    if kind == pl.String:
        cast = column.str.strip_chars().cast(pl.Float64, strict=False)
        bad = (cast.is_null() & column.is_not_null() & (column.str.strip_chars() != "")).arg_true()
        if len(bad):
            at = int(bad[0])
            if re.fullmatch(r"\s*[+-]?\d+,\d+\s*", column[at]):
                do = "write decimals with a point, as in 1.5"
            raise DataError(
                f"{where}, row {row(at)}: text {column[at]!r} in column {column.name!r} ({len(bad)} such rows)",
                expected="numbers",
                do=do,
            )
    elif kind.is_numeric() or kind in (pl.Boolean, pl.Null):
        cast = column.cast(pl.Float64)
    else:
        raise DataError(f"{where}: column {column.name!r} holds {kind}", expected="numbers", do=do)
    found = cast.fill_null(np.nan).to_numpy().astype(np.float64)
    with np.errstate(over="ignore"):
        bad_at = np.flatnonzero(np.isinf(found.astype(np.float32)))
    if len(bad_at):
        at = int(bad_at[0])
        raise DataError(
            f"{where}, row {row(at)}: {found[at]:g} in column {column.name!r} ({len(bad_at)} such rows)",
            expected="finite numbers",
            do="leave such cells empty",
        )
    return found


def read_texts(column: pl.Series) -> pl.Series:
    """Names: whole numbers without a point, whatever type they are stored as; null where nothing is."""
    if column.dtype.is_float():
        column = column.fill_nan(None)
        whole = column.drop_nulls()
        if bool(((whole == whole.floor()) & (whole.abs() < MOST)).all()):
            column = column.cast(pl.Int64)
    if column.dtype.is_nested() or column.dtype == pl.Object:
        raise DataError(f"column {column.name!r} holds {column.dtype}", expected="names or whole numbers", do="unpack it")
    return column.cast(pl.String)


def refuse_nulls(column: pl.Series, role: str, where: str) -> None:
    """Raise for the first empty cell."""
    empty = column.is_null().arg_true()
    if len(empty):
        raise DataError(
            f"{where}, row {int(empty[0]) + 1}: nothing in column {column.name!r} of --{role} ({len(empty)} such rows)",
            expected="a value in each row",
            do="fill or drop these rows",
        )


@dataclass(frozen=True)
class Times:
    """The times of all rows: whole numbers (of the column's unit, or microseconds of a clock), or fractions."""

    ticks: np.ndarray
    clock: bool

    @property
    def whole(self) -> bool:
        """Whether all of them are whole numbers."""
        return self.ticks.dtype.kind == "i"

    def width(self, step: str, where: str) -> int | float:
        """A step's width in ticks, from ``--step``, or from the table that this one goes with."""
        if self.clock:
            match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", step)
            if not match or match[2] not in _UNITS or float(match[1]) <= 0:
                raise SpecError(
                    f"{where}: times of a clock, and a step is {step!r}",
                    expected="a width such as 30s, 15m, 1h or 1d",
                    do="change --step, or give times as in the table for training",
                )
            return max(round(float(match[1]) * _UNITS[match[2]]), 1)
        try:
            width = float(step.removeprefix(ABOUT))
        except ValueError:
            width = np.nan
        if not (np.isfinite(width) and width > 0):
            raise SpecError(
                f"{where}: times that are numbers, and a step is {step!r}",
                expected="a number above 0, in the unit of --time",
                do="change --step, or give times as in the table for training",
            )
        return int(width) if width.is_integer() and self.whole else width

    def text(self, ticks: int | float) -> str:
        """A width as ``--step`` takes it."""
        if not self.clock:
            return str(ticks)
        for unit in ("w", "d", "h", "m", "s", "ms"):
            if ticks % _UNITS[unit] == 0:
                return f"{int(ticks) // _UNITS[unit]}{unit}"
        return f"{int(ticks)}us"


def read_times(column: pl.Series, where: str) -> Times:
    """From numbers, dates, date-times, durations, or text of them (ISO 8601, or hours:minutes since some start)."""
    refuse_nulls(column.fill_nan(None) if column.dtype.is_float() else column, "time", where)
    if column.dtype in (pl.Categorical, pl.Enum):
        column = column.cast(pl.String)
    if column.dtype == pl.String:
        column = _times_of_text(column, where)
    if column.dtype in (pl.Date, pl.Datetime):
        return Times(column.cast(pl.Datetime("us")).cast(pl.Int64).to_numpy(), clock=True)
    if column.dtype == pl.Duration:
        return Times(column.cast(pl.Duration("us")).cast(pl.Int64).to_numpy(), clock=True)
    if column.dtype == pl.Time:
        return Times(column.cast(pl.Int64).to_numpy() // 1000, clock=True)
    numbers = read_numbers(column, where, "give times as numbers or dates")
    if (numbers == np.floor(numbers)).all() and np.abs(numbers).max() < 2**53:
        return Times(numbers.astype(np.int64), clock=False)
    return Times(numbers, clock=False)


def _times_of_text(column: pl.Series, where: str) -> pl.Series:
    column = column.str.strip_chars()
    numbers = column.cast(pl.Float64, strict=False)
    if numbers.null_count() < len(column) / 2:  # numbers, as it seems: whoever reads them says where there are none
        return column
    parts = column.str.extract_groups(r"^(\d+):(\d{2})(?::(\d{2}))?$").struct.unnest().cast(pl.Int64)
    if not parts.to_series(0).null_count():
        hours, minutes, seconds = parts.fill_null(0).get_columns()
        return ((hours * 3600 + minutes * 60 + seconds) * 10**6).cast(pl.Duration("us")).alias(column.name)
    clock = column.str.slice(10)  # a date's own dashes are no offset
    offset = clock.str.extract(_OFFSET).str.replace("Z", "+00:00").str.replace(r"^([+-]\d{2})(\d{2})$", "$1:$2").fill_null("")
    kinds = offset.unique(maintain_order=True)
    if len(kinds) > 1:
        first, other = kinds[0], kinds[1]
        at = int((offset == other).arg_true()[0])
        raise DataError(
            f"{where}, row {at + 1}: time zones are mixed in column {column.name!r}: {column[at]!r} after {column[0]!r} "
            f"({other or 'none'} and {first or 'none'})",
            expected="one time zone",
            do="write all times in UTC",
        )
    plain = column.str.replace("T", " ").str.replace(r"(\d{2}:\d{2}.*?)(Z|[+-]\d{2}:?\d{2})$", "$1").str.strip_chars()
    parsed = plain.str.strptime(pl.Datetime("us"), _FORMATS[0], strict=False)
    for form in _FORMATS[1:]:
        parsed = parsed.fill_null(plain.str.strptime(pl.Datetime("us"), form, strict=False))
    bad = parsed.is_null().arg_true()
    if len(bad):
        at = int(bad[0])
        day_first = re.match(r"\s*\d{1,2}[./-]\d{1,2}[./-]\d{2,4}", column[at])
        raise DataError(
            f"{where}, row {at + 1}: text {column[at]!r} in column {column.name!r} of --time ({len(bad)} such rows)",
            expected="numbers or dates such as 2024-05-31 14:00",
            do="write the year first, then month and day" if day_first else "",
        )
    return parsed
