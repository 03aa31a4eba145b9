"""From a table of one's own to what every source of data comes down to, and the report about it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from whichwhen.data.frames.compare import align, compare_lengths, compare_values
from whichwhen.data.frames.files import Frame, read_frame
from whichwhen.data.frames.parse import ParsedTable, parse_table
from whichwhen.data.frames.report import TableReport, make_report
from whichwhen.data.frames.series import check_all_measured
from whichwhen.data.store import SeriesSet, Source, copies
from whichwhen.errors import DataError
from whichwhen.menu import Feature, Menu, Order
from whichwhen.menu_files import load_menu
from whichwhen.specs import TableSpec


@dataclass(frozen=True)
class OpenTable:
    """A table as data, and what was found in it."""

    source: Source
    report: TableReport


def load_table(table: Frame, spec: TableSpec, labels: Frame | None = None, test: Frame | None = None) -> Source:
    """A table as a source of data: raw values, NaN = not measured.

    Args:
        table: a polars DataFrame or LazyFrame, or the path of a Parquet or CSV file.
        spec: what its columns are. Its ``labels``, ``test`` and ``menu`` are paths of files.
        labels, test: frames in place of the spec's files.
    """
    return open_table(table, spec, labels, test).source


def describe_table(table: Frame, spec: TableSpec, labels: Frame | None = None, test: Frame | None = None) -> TableReport:
    """What a table holds: series, lengths, missing values, classes, and what may be a mistake. Arguments: load_table."""
    return open_table(table, spec, labels, test).report


def open_table(table: Frame, spec: TableSpec, labels: Frame | None = None, test: Frame | None = None) -> OpenTable:
    """Source and report at once. Arguments: load_table."""
    labels = spec.labels if labels is None else labels
    test = spec.test if test is None else test
    second = None if labels is None else read_frame(labels, spec.names)[0]
    parsed = parse_table(table, spec, second)
    if np.isnan(parsed.values).all():
        raise DataError(
            f"{parsed.where}: nothing was measured in any of {len(parsed.features)} feature columns",
            expected="numbers in some cells",
            do="check what the columns hold",
        )
    same_grid = spec.model_copy(update={"step": parsed.step})  # never a width of the test table's own
    tested = None if test is None else parse_table(test, same_grid, second)
    if second is not None:
        check_all_measured(second, spec, parsed.ids, *([] if tested is None else [tested.ids]))

    texts = parsed.columns.labels if parsed.step_labels is None else parsed.step_labels
    classes = sort_classes(texts.tolist() if texts is not None else (), parsed.where)
    features = tuple(Feature(name) for name in parsed.features)
    menu = make_menu(spec, features, parsed.static)
    features = features if menu is None else menu.features
    groups, keys = _groups(parsed)
    whole = make_series(parsed, parsed.values, classes, groups, features, "train")
    notes: list[str] = []
    if tested is None:
        held = _held_out(whole, keys, spec.test_share)
        train, tests = whole.take(np.flatnonzero(~held)), replace(whole.take(np.flatnonzero(held)), source="test")
    else:
        values, notes = align(tested, parsed.features)
        train, tests = whole, make_series(tested, values, classes, _groups(tested)[0], features, "test")
        notes += _both(parsed, tested, spec)
        _refuse_the_same(parsed, tested, values)
        notes += compare_lengths(np.diff(parsed.offsets), np.diff(tested.offsets), spec)
        notes += compare_values(parsed.features, parsed.values, values)
    _refuse_never_observed(train, parsed)
    report = make_report(parsed, classes, len(set(groups.tolist())), {"train": len(train), "test": len(tests)}, features, notes)
    return OpenTable(Source(train, {"test": tests}, classes, menu), report)


def sort_classes(texts: Iterable[str], where: str) -> tuple[str, ...]:
    """The distinct ones, by number where all are numbers, else by the alphabet."""
    found = sorted(set(texts))
    try:
        found.sort(key=float)
    except ValueError:
        found.sort()
    if len(found) < 2:
        raise DataError(
            f"{where}: labels with one class ({', '.join(found)})", expected="at least two classes", do="check --label"
        )
    return tuple(found)


def make_series(
    table: ParsedTable,
    values: np.ndarray,
    classes: tuple[str, ...],
    groups: np.ndarray,
    features: tuple[Feature, ...],
    part: str,
) -> SeriesSet:
    """A table's series. With labels per step, a series' own is the last class that occurs in it: whether it has the event."""
    steps = None if table.step_labels is None else _codes(table.step_labels, classes, table)
    if steps is not None:
        labels = np.maximum.reduceat(steps, table.offsets[:-1])
    else:
        labels = _codes(table.columns.labels if table.columns.labels is not None else np.array([]), classes, table)
    return SeriesSet(
        source=part,
        values=values,
        offsets=table.offsets,
        labels=labels,
        ids=table.numbers,
        groups=groups,
        features=features,
        step_labels=steps,
        weights=table.columns.weights,
        subgroups=table.columns.subgroups,
        names=None if np.array_equal(table.ids, table.numbers.astype(str)) else table.ids,
    )


def _codes(texts: np.ndarray, classes: tuple[str, ...], table: ParsedTable) -> np.ndarray:
    place = {name: i for i, name in enumerate(classes)}
    if strange := sorted(set(texts.tolist()) - set(classes)):
        raise DataError(
            f"{table.where}: label {strange[0]!r}, which no training series has",
            expected=f"one of {', '.join(classes)}",
            do="check --label",
        )
    return np.array([place[one] for one in texts.tolist()], dtype=np.int64)


def _groups(table: ParsedTable) -> tuple[np.ndarray, np.ndarray]:
    """``[N]`` numbers of groups, and ``[N]`` texts that say which; without --group, only exact copies belong together."""
    if table.columns.groups is not None:
        keys = table.columns.groups
        return np.unique(keys, return_inverse=True)[1].astype(np.int64), keys
    values = np.split(table.values, table.offsets[1:-1])
    groups = copies(values)
    return groups, table.ids[groups]


def _held_out(series: SeriesSet, keys: np.ndarray, share: float) -> np.ndarray:
    """``[N]`` bool: which series are for testing. Whole groups, about ``share`` of each class, by a hash of the group's name.

    It depends on nothing else, so that another seed, order of rows or machine has the same test part.
    """
    names, group, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    chance = [hashlib.sha256(name.encode()).digest() for name in names.tolist()]
    label = np.zeros(len(names), dtype=np.int64)
    np.maximum.at(label, group, series.labels)
    held = np.zeros(len(names), dtype=bool)
    for one in range(int(label.max()) + 1):
        turns = sorted(np.flatnonzero(label == one).tolist(), key=chance.__getitem__)
        before = np.cumsum([0, *sizes[turns]])
        taken = int(np.searchsorted(before, share * before[-1]))
        held[turns[: max(min(taken, len(turns) - 2), 0)]] = True  # two groups at least are left to train and to choose on
    if not held.any():
        raise DataError(
            f"{len(series)} series in {len(names)} groups are too few for a test part",
            expected="at least 3 groups of a class",
            do="use more data, or give --test",
        )
    return held[group]


def _both(train: ParsedTable, test: ParsedTable, spec: TableSpec) -> list[str]:
    """Groups must not be on both sides; ids may start anew in each table."""
    if train.columns.groups is not None and test.columns.groups is not None:
        shared = sorted(set(train.columns.groups.tolist()) & set(test.columns.groups.tolist()))
        if shared:
            raise DataError(
                f"{spec.group} {shared[0]} is in {train.where} and in {test.where} ({len(shared)} such groups)",
                expected="groups that are not split",
                do="move its series to one side",
            )
        return []
    shared = sorted(set(train.ids.tolist()) & set(test.ids.tolist()))
    if not shared:
        return []
    places = f"{train.where} and in {test.where}"
    return [f"column {spec.id!r}: {len(shared)} ids are in {places}, the first is {shared[0]}: they count as other series"]


def _refuse_the_same(train: ParsedTable, test: ParsedTable, values: np.ndarray) -> None:
    """What was learned by heart says nothing about new series."""
    if np.array_equal(train.ids, test.ids) and np.array_equal(train.values, values, equal_nan=True):
        raise DataError(
            f"{test.where} holds the same series as {train.where}",
            expected="other series to test on",
            do="leave out --test to hold some out, or name another table",
        )


def _refuse_never_observed(train: SeriesSet, table: ParsedTable) -> None:
    for i, feature in enumerate(train.features):
        if np.isnan(train.values[:, i]).all():
            raise DataError(
                f"{table.where}: feature {feature.name!r} is never observed in training",
                expected="at least one value",
                do=f"leave it out with --ignore {feature.name}",
            )


def make_menu(spec: TableSpec, features: tuple[Feature, ...], static: tuple[str, ...]) -> Menu | None:
    """The file's; else each feature at cost 1, static ones free; None where that is the plain menu."""
    if spec.menu is not None:
        return load_menu(Path(spec.menu), features, free=static)
    if not static:
        return None
    if len(static) == len(features):
        raise DataError("only static columns", expected="at least one feature that changes with time", do="change --static")
    free = {name: Order(name, (name,), 0.0, free=True) for name in static}
    return Menu(features, tuple(free.get(feature.name, Order(feature.name, (feature.name,))) for feature in features))
