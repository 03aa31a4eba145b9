"""Data frames as X: through :mod:`whichwhen.data.frames`, which puts a long or wide table onto a grid of steps."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from whichwhen.errors import InputError, ParameterError
from whichwhen.menu import Feature, Menu, Order
from whichwhen.specs import parse_spec

_NOT_HERE = ("labels", "label_each_step", "test", "menu")


@dataclass(frozen=True)
class TableSeries:
    """The N series of a table, in the order of their ids.

    Attributes:
        ids: ``[N]`` text.
        series: ``[T_i, F]`` for each, NaN = not measured.
        names: of the F features; static columns come last.
        labels, groups, weights: ``[N]``, where the table has them; else None. Labels are whole numbers where all of them are,
            else text.
        menu: free orders for static columns, all others at cost 1; None where no column is static.
        step: the width of a step.
    """

    ids: np.ndarray
    series: list[np.ndarray]
    names: tuple[str, ...]
    labels: np.ndarray | None
    groups: np.ndarray | None
    weights: np.ndarray | None
    menu: Menu | None
    step: str

    @property
    def X(self) -> list[np.ndarray]:  # noqa: N802 (scikit-learn's name)
        """The series as arrays ``(features, time)``."""
        return [one.T for one in self.series]


def is_table(X: Any, table: Any) -> bool:  # noqa: N803 (scikit-learn's name)
    """Whether X is to be read as a table: a data frame, and it was said what its columns are."""
    return table is not None and (isinstance(X, pl.DataFrame | pl.LazyFrame) or _is_pandas(X))


def read_table(X: Any, table: Any, names: Sequence[str] | None = None, step: str | None = None) -> TableSeries:  # noqa: N803
    """Series from a data frame.

    Args:
        X: a data frame of polars or pandas.
        table: what its columns are, a ``TableSpec`` or its fields.
        names: features of a fitted model, to put columns into its order; labels, groups and weights need not be there then.
        step: the width of its steps.
    """
    try:
        frames = importlib.import_module("whichwhen.data.frames.parse")
        compare = importlib.import_module("whichwhen.data.frames.compare")
    except ModuleNotFoundError:
        raise InputError(
            "a data frame, for which this version has no reader (whichwhen.data.frames)",
            expected="arrays (series, features, time)",
            do="pass such arrays, or install a version that has it",
        ) from None
    frame = _as_polars(X)
    spec = _read_spec(table, frames.TableSpec)
    if step is not None:
        spec = spec.model_copy(update={"step": step})
    if names is not None:
        aside = {spec.group, spec.weight, *(spec.subgroups or ())} - {None, *(spec.static or ())}
        frame = frame.drop([name for name in frame.columns if name in aside])
        spec = spec.model_copy(update={"group": None, "weight": None, "subgroups": None})
        if spec.label not in frame.columns:
            frame = frame.with_columns(pl.lit("?").alias(spec.label))
    parsed = frames.parse_table(frame, spec)
    values = parsed.values
    if names is not None:
        values, notes = compare.align(parsed, names)
        for note in notes:
            warnings.warn(note, UserWarning, stacklevel=2)
    return TableSeries(
        ids=parsed.ids,
        series=[one.astype(np.float64) for one in np.split(values, parsed.offsets[1:-1])],
        names=parsed.features if names is None else tuple(names),
        labels=None if parsed.columns.labels is None else _numbers(parsed.columns.labels),
        groups=parsed.columns.groups,
        weights=parsed.columns.weights,
        menu=_free_static(parsed.features, parsed.static),
        step=parsed.step,
    )


def refuse_labels_beside(*given: Any) -> None:
    """A table holds labels, groups and weights itself."""
    if any(one is not None for one in given):
        raise InputError(
            "y, groups or sample_weight beside a table",
            expected="them as columns of it",
            do="name the columns in table (label, group, weight)",
        )


def _read_spec(table: Any, kind: Any) -> Any:
    if table is None:
        raise ParameterError(
            "no table", expected='what the columns are, say table={"id": "stay", "time": "hour", "label": "died"}'
        )
    spec = table if isinstance(table, kind) else parse_spec(kind, dict(table), "table")
    for name in _NOT_HERE:
        if getattr(spec, name):
            raise ParameterError(f"{name} in table", expected="a frame that holds all; the menu is a parameter of its own")
    return spec


def _is_pandas(X: Any) -> bool:  # noqa: N803
    return type(X).__name__ == "DataFrame" and type(X).__module__.startswith("pandas")


def _as_polars(X: Any) -> pl.DataFrame:  # noqa: N803
    if isinstance(X, pl.LazyFrame):
        return X.collect()
    if isinstance(X, pl.DataFrame):
        return X
    if _is_pandas(X):  # by way of lists: pl.from_pandas needs pyarrow for text
        return pl.DataFrame({str(name): X[name].tolist() for name in X.columns}, strict=False, nan_to_null=True)
    raise InputError(f"a table of type {type(X).__name__}", expected="a data frame of polars or pandas")


def _numbers(labels: np.ndarray) -> np.ndarray:
    try:
        return labels.astype(np.int64)
    except ValueError:
        return labels


def _free_static(features: Sequence[str], static: Sequence[str]) -> Menu | None:
    if not static:
        return None
    orders = [Order(name, (name,), 0.0, free=True) if name in static else Order(name, (name,)) for name in features]
    return Menu(tuple(Feature(name) for name in features), tuple(orders))
