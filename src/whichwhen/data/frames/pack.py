"""A table of one's own into a folder of series, with a part of it in memory at a time.

Rows go into buckets by a hash of their id, so that each series is whole in one of them; each bucket is then read as a table
by itself. What has to be the same in all of them is settled before: width of the steps, classes, features, types of ids.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from whichwhen.data.frames.columns import MOST, Times, read_texts, read_times, refuse_nulls
from whichwhen.data.frames.compare import align, compare_values
from whichwhen.data.frames.files import Frame, LazyTable, as_whole, is_whole, read_frame
from whichwhen.data.frames.load import make_menu, make_series, sort_classes
from whichwhen.data.frames.parse import ParsedTable, check_roles, common_width, is_long, number_series, parse_table
from whichwhen.data.frames.report import TableReport
from whichwhen.data.frames.series import check_all_measured
from whichwhen.data.on_disk import StoreWriter, open_store, split_by_group
from whichwhen.data.rows import missing_share
from whichwhen.data.store import SeriesSet
from whichwhen.errors import DataError
from whichwhen.menu import Feature
from whichwhen.specs import DataSpec, TableSpec

CELLS = 1 << 24
"""Of the table that are in memory at once, about."""


def pack_table(
    table: Frame,
    spec: DataSpec,
    folder: Path | str,
    labels: Frame | None = None,
    test: Frame | None = None,
    cells: int = CELLS,
) -> TableReport:
    """Write a table as a folder of series for :func:`open_store`, and say what was in it.

    Args:
        table: the path of a Parquet or CSV file, or a polars frame.
        spec: what its columns are; ``validation`` and ``test_share`` are the parts, chosen by a hash of the group.
        folder: ``NAME.series``, not there yet.
        labels, test: frames in place of the spec's files.
        cells: of the table to hold at once.
    """
    labels, test = (spec.labels if labels is None else labels), (spec.test if test is None else test)
    second = None if labels is None else read_frame(labels, spec.names)[0]
    source = _Buckets(table, spec, second, cells)
    settled = spec.model_copy(update={"step": source.width()})
    classes = sort_classes(source.classes(), source.where)
    names = source.features()
    static = tuple(spec.static or ())
    features = tuple(Feature(name) for name in names)
    menu = make_menu(spec, features, static)
    features = features if menu is None else menu.features
    tally = _Tally(spec)
    with StoreWriter(folder, features, classes, menu) as writer:
        sample = None
        for parsed in source.parse(settled):
            values = parsed.values if parsed.features == names else _fit(parsed, names)
            sample = values if sample is None else sample
            series, keys = _series(parsed, values, classes, features, source.whole_ids)
            parts = split_by_group(keys, spec.validation, 0.0 if test is not None else spec.test_share)
            tally.add(parsed, series, parts)
            for part in ("train", "validation", "test"):
                writer.add(part, series.take(np.flatnonzero(parts == part)))
        if test is not None:
            tested = _Buckets(test, settled, second, cells)
            for place, parsed in enumerate(tested.parse(settled)):
                values, notes = align(parsed, names)
                if not place and sample is not None:
                    tally.notes += notes + compare_values(names, sample, values)
                series, _ = _series(parsed, values, classes, features, tested.whole_ids)
                tally.add_test(parsed, series)
                writer.add("test", series)
        if second is not None:
            check_all_measured(second, spec, np.array(sorted(tally.ids)))
        tally.check_parts(classes, test is not None)
    return tally.report(source, settled, names, classes, features, Path(folder))


class _Buckets:
    """A table in buckets of whole series."""

    def __init__(self, table: Frame, spec: TableSpec, labels: pl.DataFrame | None, cells: int) -> None:
        self.table, self.spec, self.labels, self.cells = LazyTable(table, spec.names), spec, labels, cells
        self.where = self.table.where
        self.columns = self.collect(self.table.lazy.head(0)).columns
        check_roles(self.columns, spec, self.where)
        self.long = is_long(self.columns, spec, self.where)
        self.lazy = self._with_settled_names()
        self.rows = int(self.collect(self.lazy.select(pl.len())).item())
        if not self.rows:
            raise DataError(f"{self.where} has no rows", expected="at least one")
        kind = self.collect(self.lazy.select(spec.id or "").head(0)).to_series().dtype
        self.whole_ids = kind.is_integer() and kind not in (pl.UInt64, pl.Int128)

    def collect(self, lazy: pl.LazyFrame) -> pl.DataFrame:
        """What a query gives, in memory."""
        return self.table.collect(lazy)

    def buckets(self, lazy: pl.LazyFrame, width: int) -> Iterator[tuple[pl.DataFrame, str]]:
        """Rows of a query of ``width`` columns, bucket by bucket, each with its name for messages."""
        count = math.ceil(self.rows * width / self.cells)
        for place in range(count):
            which = pl.col(self.spec.id or "").hash(0) % count == place
            frame = self.collect(lazy.filter(which) if count > 1 else lazy)
            if frame.height:
                yield frame, self.where if count == 1 else f"{self.where}, bucket {place + 1} of {count}"

    def parse(self, spec: TableSpec) -> Iterator[ParsedTable]:
        """Each bucket as a table of its own."""
        for frame, where in self.buckets(self.lazy, len(self.columns)):
            own = self.labels
            if own is not None and spec.id in own.columns:
                own = own.filter(read_texts(own[spec.id]).is_in(read_texts(frame[spec.id]).unique().to_list()))
            yield parse_table(frame, spec, own, where)

    def width(self) -> str:
        """Of a step: as asked for, or the largest one that all times are multiples of."""
        if self.spec.step is not None:
            return self.spec.step
        divisors, lasts, stamps, times = [0], [], 0, None
        for frame, where in self.buckets(self.lazy.select(self.spec.id or "", self.spec.time or ""), 2):
            ids = read_texts(frame[self.spec.id or ""])
            refuse_nulls(ids, "id", where)
            found = read_times(frame[self.spec.time or ""], where)
            _, of_row = number_series(frame[self.spec.id or ""], ids)
            start, end = (np.full(of_row.max() + 1, edge, found.ticks.dtype) for edge in (found.ticks.max(), found.ticks.min()))
            np.minimum.at(start, of_row, found.ticks)
            np.maximum.at(end, of_row, found.ticks)
            since = found.ticks - start[of_row]
            divisors.append(int(np.gcd.reduce(since)) if found.whole else 0)
            lasts.append(end - start)
            stamps += len(np.unique(np.stack([of_row.astype(since.dtype), since]), axis=1).T)
            times = found if times is None or times.whole else times
        assert times is not None
        exact = np.array(divisors) if times.whole else np.zeros(1)
        return common_width(Times(exact, times.clock), exact, np.concatenate(lasts), stamps, self.spec, self.where)

    def classes(self) -> list[str]:
        """All labels."""
        label = self.spec.label or ""
        if self.labels is not None and label in self.labels.columns:
            column = self.labels[label]
        elif label in self.columns:
            column = self.collect(self.lazy.select(pl.col(label).unique())).to_series()
        else:
            return ["", " "]  # whoever reads the first bucket says what is missing
        return read_texts(column).drop_nulls().unique().to_list()

    def features(self) -> tuple[str, ...]:
        """Names of all columns of the series, static ones last."""
        spec = self.spec
        static, ignored = tuple(spec.static or ()), set(spec.ignore or ())
        if self.long:
            found = read_texts(self.collect(self.lazy.select(pl.col(spec.feature).unique())).to_series()).drop_nulls()
            names = sorted(set(found.to_list()) - ignored)
        else:
            others = {spec.id, spec.time, spec.label, spec.group, spec.weight, *(spec.subgroups or ()), *static, *ignored}
            names = [name for name in self.columns if name not in others]
        return (*names, *static)

    def _with_settled_names(self) -> pl.LazyFrame:
        """Whole numbers that are stored as fractions become whole in all buckets or in none."""
        spec, lazy = self.spec, self.table.lazy
        roles = {spec.id, spec.label, spec.group, *(spec.subgroups or ())} & set(self.columns)
        for name, kind in self.collect(lazy.head(0)).schema.items():
            if name in self.table.names and kind == pl.String:
                if self.collect(lazy.select(is_whole(name).all())).item():
                    lazy = lazy.with_columns(as_whole(name))
            elif name in roles and kind.is_float():
                column = pl.col(name).fill_nan(None)
                whole = self.collect(lazy.select(((column == column.floor()) & (column.abs() < MOST)).all())).item()
                lazy = lazy.with_columns(column.cast(pl.Int64) if whole else column.cast(pl.String))
        return lazy


@dataclass
class _Tally:
    """What is counted over all buckets."""

    spec: DataSpec

    def __post_init__(self) -> None:
        self.classes: dict[str, Counter[int]] = {}
        self.labels: Counter[int] = Counter()
        self.groups: set[int] = set()
        self.ids: set[str] = set()
        self.lengths: list[np.ndarray] = []
        self.merged = self.unsorted = self.steps = 0
        self.notes: list[str] = []
        self.ignored: tuple[str, ...] = ()

    def add(self, parsed: ParsedTable, series: SeriesSet, parts: np.ndarray) -> None:
        """A bucket of the table."""
        for part in np.unique(parts).tolist():
            self.classes.setdefault(part, Counter()).update(series.labels[parts == part].tolist())
        self.labels.update((series.labels if series.step_labels is None else series.step_labels).tolist())
        self.groups.update(series.groups.tolist())
        self.ids.update(parsed.ids.tolist() if self.spec.labels else ())
        self.lengths.append(series.lengths)
        self.merged, self.unsorted = self.merged + parsed.merged, self.unsorted + parsed.unsorted
        self.ignored = parsed.ignored

    def add_test(self, parsed: ParsedTable, series: SeriesSet) -> None:
        """A bucket of the table to test on."""
        if self.spec.group and (shared := self.groups & set(series.groups.tolist())):
            raise DataError(
                f"{len(shared)} groups of {parsed.where} are in the training table, too",
                expected="groups that are not split",
                do="move their series to one side",
            )
        self.classes.setdefault("test", Counter()).update(series.labels.tolist())
        self.ids.update(parsed.ids.tolist() if self.spec.labels else ())

    def check_parts(self, classes: tuple[str, ...], tested: bool) -> None:
        """Raise where the training or the validation part lacks a class, or there is nothing to test on."""
        for part in ("train", "validation") if tested else ("train", "validation", "test"):
            lacking = [name for i, name in enumerate(classes) if not self.classes.get(part, Counter())[i]]
            if lacking and (part != "test" or len(lacking) == len(classes)):
                raise DataError(
                    f"no series of class {lacking[0]!r} in the {part} part ({len(self.groups)} groups in all)",
                    expected="every class in it",
                    do="train on the table itself: so few series need no folder",
                )

    def report(
        self,
        source: _Buckets,
        spec: DataSpec,
        names: tuple[str, ...],
        classes: tuple[str, ...],
        features: tuple[Feature, ...],
        folder: Path,
    ) -> TableReport:
        """The facts; constant and duplicate columns, which need all values at once, are not looked for."""
        lengths = np.concatenate(self.lengths)
        data = open_store(folder)
        parts = (data.train, data.validation, *(() if spec.test else data.tests.values()))
        steps = [int(part.offsets[-1]) for part in parts]
        missing = np.average([missing_share(part.values) for part in parts], axis=0, weights=steps)
        if self.unsorted:
            self.notes.append(f"column {spec.time!r}: {self.unsorted} rows were out of the order of time")
        return TableReport(
            table=source.where,
            layout="long" if source.long else "wide",
            rows=source.rows,
            series=len(lengths),
            groups=len(self.groups),
            parts={name: counts.total() for name, counts in self.classes.items()},
            step=spec.step or "",
            steps=int(lengths.sum()),
            lengths=(int(lengths.min()), float(np.median(lengths)), int(lengths.max())),
            features=names,
            static=tuple(spec.static or ()),
            missing={name: round(float(share), 6) for name, share in zip(names, missing, strict=True)},
            classes={name: self.labels[i] for i, name in enumerate(classes)},
            constant=(),
            duplicates=(),
            merged=self.merged,
            unsorted=self.unsorted,
            ignored=self.ignored,
            warnings=tuple(self.notes),
        )


def _series(
    parsed: ParsedTable, values: np.ndarray, classes: tuple[str, ...], features: tuple[Feature, ...], whole_ids: bool
) -> tuple[SeriesSet, np.ndarray]:
    """A bucket's series, and what they are split by ``[N]``: the group, or the content, so that exact copies stay together.

    Numbers of groups and of ids that are text are hashes: the same in each bucket, and in any order of rows.
    """
    if parsed.columns.groups is not None:
        keys = parsed.columns.groups
    else:
        keys = np.array([hashlib.sha256(one.tobytes()).hexdigest() for one in np.split(values, parsed.offsets[1:-1])])
    series = make_series(parsed, values, classes, _hashed(keys), features, "train")
    return (series if whole_ids else replace(series, ids=_hashed(parsed.ids))), keys


def _hashed(texts: np.ndarray) -> np.ndarray:
    """A whole number from 0 for each text, ``[N]``."""
    return np.array([int(hashlib.sha256(text.encode()).hexdigest()[:15], 16) for text in texts.tolist()], dtype=np.int64)


def _fit(parsed: ParsedTable, names: tuple[str, ...]) -> np.ndarray:
    """A bucket of a long table in which not every feature occurs, with all of them: ``[R, F]``."""
    place = {name: i for i, name in enumerate(names)}
    values = np.full((len(parsed.values), len(names)), np.nan, dtype=np.float32)
    values[:, [place[name] for name in parsed.features]] = parsed.values
    return values
