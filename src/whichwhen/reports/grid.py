"""Everything that is made of a grid's records: tables in three notations, figures as PNG and PDF, one HTML page."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from whichwhen import artifacts
from whichwhen.data import load_dataset
from whichwhen.errors import DataError, DataWarning, RunFolderError
from whichwhen.experiments.paper import Cell, Job
from whichwhen.experiments.records import RECORDS, load_records, make_record, pattern_of
from whichwhen.files import write_text
from whichwhen.reports.comparison import FAKES, LABELS, all_tables, budget_words, cell_label, policy_name, row_key
from whichwhen.reports.figures import draw_curves, draw_kinds, draw_patterns, save_figure
from whichwhen.reports.kept import with_kept
from whichwhen.specs import DataSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES, TABLES = "figures", "tables"
DRAWN = ("random", "static", "round-robin", "learned")
"""Acquirers whose patterns are drawn side by side."""


def load_any(folder: Path) -> list[dict[str, Any]]:
    """The records of a grid, of a folder of run folders, or of one run folder."""
    if (folder / RECORDS).is_dir():
        return load_records(folder)
    if not folder.is_dir():
        raise RunFolderError(f"no folder {folder}", expected="a folder of `whichwhen paper`, `demo` or `train`")
    if (folder / artifacts.SPEC).is_file():
        artifacts.check_finished(folder)
        return [_record_of(folder)]
    runs = sorted(path.parent for path in folder.glob(f"*/{artifacts.SPEC}"))
    finished = [run for run in runs if artifacts.is_finished(run)]
    unfinished = [run for run in runs if run not in finished]
    if unfinished and not finished:
        artifacts.check_finished(unfinished[0])
    if not finished:
        raise RunFolderError(
            f"{folder} holds neither records nor finished runs",
            expected="a folder of `whichwhen paper`, `demo` or `train`",
            do="pass one of those",
        )
    if unfinished:
        names = ", ".join(run.name for run in unfinished)
        warnings.warn(DataWarning(f"left out, as they are not finished: {names}"), stacklevel=2)
    return _told_apart({run.name: _record_of(run) for run in finished})


def _told_apart(records: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Name the run folder in records that would otherwise be the same seed of the same row, so that none is dropped."""
    keys = {name: (*row_key(record), record["seed"]) for name, record in records.items()}
    counts = Counter(keys.values())
    return [record | {"variant": name} if counts[keys[name]] > 1 else record for name, record in records.items()]


def _record_of(run: Path) -> dict[str, Any]:
    spec = artifacts.load_spec(run).change(training__save_epochs=False)
    command = f"whichwhen train --spec {run / artifacts.SPEC}"
    return make_record(Job("run", Cell(spec.data.name, spec.data.fakes, spec.data.shift), spec, command=command), run)


def write_tables(records: Sequence[Mapping[str, Any]], out: Path) -> list[Path]:
    """``tables.md`` and ``tables.tex``."""
    tables = all_tables(records)
    markdown, latex = out / f"{TABLES}.md", out / f"{TABLES}.tex"
    write_text(markdown, "\n".join(table.markdown() for table in tables))
    write_text(latex, "\n".join(table.latex() for table in tables))
    return [markdown, latex]


def write_figures(
    records: Sequence[Mapping[str, Any]], out: Path, data_dir: Path | None = None
) -> tuple[list[Path], list[str]]:
    """All figures as PNG and PDF; what could not be drawn is said in words."""
    drawn = record_figures(records)
    missing: list[str] = []
    try:
        drawn |= data_figures(records, data_dir)
    except DataError as error:
        missing.append(f"no figures of data samples: {error}")
    paths = []
    for name, figure in drawn.items():
        for form in ("png", "pdf"):
            path = out / FIGURES / f"{name}.{form}"
            save_figure(figure, path)
            paths.append(path)
    return paths, missing


def record_figures(records: Sequence[Mapping[str, Any]]) -> dict[str, Figure]:
    """Acquisition patterns and training curves, by name, from the records alone.

    Of patterns and curves the first seed of each setting is drawn.
    """
    first = first_seeds(records)
    figures: dict[str, Figure] = {}
    for preset in dict.fromkeys(record["preset"] for record in records):
        own = [record for record in first if record["preset"] == preset]
        figures |= _pattern_figures(own, preset)
        curves = [
            record for record in own if record["acquirer"] in ("complete", "learned") and "test_accuracy" in record["history"]
        ]
        curves.sort(key=lambda record: (tuple(FAKES).index(record["fakes"]), record["acquirer"]))
        if curves:
            titles = {f"{record['acquirer']}, {record['fakes']}": record for record in curves}
            figures[f"curves-{preset}"] = draw_curves(
                {title: history_lines(record) for title, record in titles.items()},
                {title: record["history"]["test_accuracy"] for title, record in titles.items()},
            )
    return figures


def _pattern_figures(records: Sequence[Mapping[str, Any]], preset: str) -> dict[str, Figure]:
    """The patterns of each setting and budget, side by side."""
    groups: dict[tuple[Cell, str], list[Mapping[str, Any]]] = {}
    for record in records:
        if record["acquirer"] in DRAWN:
            cell = Cell(record["dataset"], record["fakes"], record["shifted"])
            groups.setdefault((cell, budget_words(record)), []).append(record)
    several = len({budget for _, budget in groups}) > 1
    figures = {}
    for (cell, budget), group in groups.items():
        group.sort(key=lambda record: DRAWN.index(record["acquirer"]))
        if len(group) > 1:
            name = "-".join(["pattern", preset, cell.name, *(budget.replace(",", "").split() if several else [])])
            patterns = {with_kept(policy_name(record), record): pattern_table(record) for record in group}
            figures[name.replace(":", "-")] = draw_patterns(patterns)
    return figures


def data_figures(records: Sequence[Mapping[str, Any]], data_dir: Path | None = None) -> dict[str, Figure]:
    """A series of each data set: plain, with each kind of fake, shifted."""
    figures = {}
    for name in dict.fromkeys(record["dataset"] for record in records):
        own = [record for record in records if record["dataset"] == name]
        plain = DataSpec.model_validate({**own[0]["spec"]["data"], "fakes": "none", "shift": False})
        kinds: dict[str, Any] = {"plain": plain}
        used = {(record["fakes"], record["shifted"]) for record in own}
        for fakes, shifted in sorted(used, key=lambda kind: (kind[1], tuple(FAKES).index(kind[0]))):
            if fakes != "none":
                kinds[cell_label(name, fakes, shifted)] = plain.model_copy(update={"fakes": fakes, "shift": shifted})
        figures[f"samples-{name}".replace(":", "-")] = draw_kinds(
            {
                title if title != "plain" else LABELS.get(name, name): load_dataset(spec, 0, data_dir)
                for title, spec in kinds.items()
            }
        )
    return figures


def first_seeds(records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of each setting, acquirer and budget the record with the lowest seed."""
    found: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for record in sorted(records, key=lambda record: record["seed"]):
        found.setdefault(row_key(record), record)
    return list(found.values())


def pattern_table(record: Mapping[str, Any]) -> pl.DataFrame:
    """A record's pattern over all classes, as :func:`whichwhen.artifacts.load_pattern` gives it."""
    share, going, real = pattern_of(record)
    total = (share * going[:, :, None]).sum(0) / np.maximum(going.sum(0), 1)[:, None]
    orders, steps = record["pattern"]["orders"], len(total)
    return pl.DataFrame(
        {
            "step": np.repeat(np.arange(steps), len(orders)),
            "order": orders * steps,
            "share": total.ravel(),
            "real": real.ravel(),
        }
    )


def history_lines(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A record's history as lines, with the chosen epoch marked at the point that is nearest to it."""
    history = record["history"]
    nearest = min(history["epoch"], key=lambda epoch: abs(epoch - record["best_epoch"]))
    names = ("loss", "accuracy", "validation_loss", "validation_accuracy")
    return [
        {"epoch": epoch, "best": epoch == nearest, **{name: history[name][i] for name in names}}
        for i, epoch in enumerate(history["epoch"])
    ]
