"""Tables whose rows stay on disk and are read when they are asked for.

A :class:`StoredRows` can be indexed like an array, and that is all that a set of series asks of its values: no other code
knows whether they are in memory. Whatever would read the whole table by accident is refused.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from whichwhen.errors import DataError

BLOCK = 1 << 16
"""Rows that are looked at together where all of them have to be."""


@dataclass(frozen=True, eq=False)
class StoredRows:
    """A table ``[R, ...]`` in a file, row after row. Each read takes what was asked for, sorted by place, and nothing else.

    Attributes:
        path: the file: nothing but the cells.
        shape: of the file's whole table.
        dtype: of the file's cells.
        finish: what becomes of rows on reading: scaled, or of another type.
        missing: for a table of values, how many cells of each column are NaN, ``[F]``; None = not known.
        pieces: (starts ``[P]``, offsets ``[P + 1]``) where this is only some stretches of the file's rows, end to end: stretch
            i begins at the file's row ``starts[i]`` and is the rows ``offsets[i]:offsets[i + 1]`` here.
    """

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype
    finish: Callable[[np.ndarray], np.ndarray] = np.asarray
    missing: np.ndarray | None = None
    pieces: tuple[np.ndarray, np.ndarray] | None = None

    def __len__(self) -> int:
        return self.shape[0] if self.pieces is None else int(self.pieces[1][-1])

    def __getitem__(self, lines: np.ndarray | slice) -> np.ndarray:
        """Rows by number, an array of any shape, or by a slice: ``[*lines, ...]``."""
        if isinstance(lines, slice):
            lines = np.arange(*lines.indices(len(self)))
        distinct, place = np.unique(lines, return_inverse=True)
        if len(distinct) and not 0 <= distinct[0] <= distinct[-1] < len(self):
            raise IndexError(f"rows {distinct[0]} to {distinct[-1]} of a table of {len(self)}")
        found = self.finish(self._read(self._in_file(distinct)))
        return found[place.reshape(np.shape(lines))]

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise DataError(
            f"the whole of {self.path} at once", expected="some of its rows: it may be larger than memory", do="index it"
        )

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_file"}  # a copy opens it anew

    def stretches(self, starts: np.ndarray, offsets: np.ndarray) -> StoredRows:
        """Some stretches of it, end to end, without reading them."""
        complete = self.missing is not None and not self.missing.any()
        return replace(self, missing=self.missing if complete else None, pieces=(self._in_file(starts), offsets))

    def blocks(self) -> Iterator[np.ndarray]:
        """All rows, some at a time."""
        for start in range(0, len(self), BLOCK):
            yield self[start : start + BLOCK]

    def _in_file(self, lines: np.ndarray) -> np.ndarray:
        """Where rows are in the file."""
        if self.pieces is None:
            return lines
        starts, offsets = self.pieces
        piece = np.searchsorted(offsets, lines, side="right") - 1
        return starts[piece] + lines - offsets[piece]

    def _read(self, lines: np.ndarray) -> np.ndarray:
        """The file's rows, each once; what lies together is read together, from the front to the back."""
        order = np.argsort(lines, kind="stable") if self.pieces is not None else None
        lines = lines if order is None else lines[order]
        out = np.empty((len(lines), *self.shape[1:]), dtype=self.dtype)
        width = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        flat = memoryview(out.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        edges = np.flatnonzero(np.diff(lines) != 1) + 1
        for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(lines)], strict=True):
            if end > begin:
                self._fill(flat[begin * width : end * width], int(lines[begin]) * width)
        if order is None:
            return out
        back = np.empty_like(out)
        back[order] = out
        return back

    def _fill(self, view: memoryview, at: int) -> None:
        while len(view):
            count = _read_at(self._file, view, at)
            if not count:
                raise DataError(
                    f"{self.path} ends early", expected=f"{self.shape[0]} rows", do="write it anew; it has been cut short"
                )
            view, at = view[count:], at + count

    @cached_property
    def _file(self) -> int:
        """Opened at the first read, closed with the last reference."""
        file = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, file)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # what lies behind a series is not the next one asked for
        return file


@dataclass(frozen=True, eq=False)
class JoinedRows:
    """The rows of two tables, one after the other; each read goes to the table that holds them."""

    first: StoredRows | np.ndarray
    second: StoredRows | np.ndarray

    def __len__(self) -> int:
        return len(self.first) + len(self.second)

    def __getitem__(self, lines: np.ndarray | slice) -> np.ndarray:
        """Rows by number, an array of any shape, or by a slice: ``[*lines, ...]``."""
        if isinstance(lines, slice):
            lines = np.arange(*lines.indices(len(self)))
        flat = np.ravel(lines)
        later = flat >= len(self.first)
        found, others = self.first[flat[~later]], self.second[flat[later] - len(self.first)]
        out = np.empty((len(flat), *found.shape[1:]), found.dtype)
        out[~later], out[later] = found, others
        return out.reshape(*np.shape(lines), *found.shape[1:])


if TYPE_CHECKING:
    Table = np.ndarray  # to the type checker an array: who indexes it needs to know no more
else:
    Table = np.ndarray | StoredRows | JoinedRows


def join_tables(first: np.ndarray | StoredRows, second: np.ndarray | StoredRows) -> Table:
    """The rows of two tables, one after the other: in memory where both are."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.concatenate([first, second])
    return JoinedRows(first, second)  # type: ignore[return-value]


def take_stretches(table: np.ndarray | StoredRows, starts: np.ndarray, offsets: np.ndarray) -> Table:
    """Stretches of a table, end to end: rows ``offsets[i]:offsets[i + 1]`` of the result begin at row ``starts[i]``."""
    if isinstance(table, StoredRows):
        return table.stretches(starts, offsets)  # type: ignore[return-value]
    lines = np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(offsets[-1])
    return table[lines]


def missing_share(table: np.ndarray | StoredRows) -> np.ndarray:
    """Share of NaN in each column of ``[R, F]``, ``[F]`` float64."""
    if not isinstance(table, StoredRows):
        return np.isnan(table).mean(axis=0)
    missing = table.missing
    if missing is None:
        missing = np.sum([np.isnan(block).sum(axis=0) for block in table.blocks()], axis=0)
    return missing / len(table)


def has_missing(table: np.ndarray | StoredRows | JoinedRows) -> bool:
    """Whether a table has a NaN; some rows of a file that has one count as if they had, without a look."""
    if isinstance(table, JoinedRows):
        return has_missing(table.first) or has_missing(table.second)
    if isinstance(table, StoredRows):
        return table.missing is None or bool(table.missing.any())
    return bool(np.isnan(table).any())


def count_classes(table: np.ndarray | StoredRows, count: int) -> np.ndarray:
    """How often each class is among labels ``[R]``: ``[count]``."""
    if not isinstance(table, StoredRows):
        return np.bincount(table, minlength=count)
    counts: np.ndarray = np.sum([np.bincount(block, minlength=count) for block in table.blocks()], axis=0)
    return counts


def _read_at(file: int, view: memoryview, at: int) -> int:
    """Read into memory from a place in a file; returns how many bytes there were."""
    if hasattr(os, "preadv"):
        return os.preadv(file, [view], at)
    os.lseek(file, at, os.SEEK_SET)
    found = os.read(file, len(view))
    view[: len(found)] = found
    return len(found)
