"""Figures: acquisition patterns, training curves, samples of the data. Readable in print, and without colour vision."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from whichwhen.data.store import Dataset
from whichwhen.errors import SpecError
from whichwhen.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from whichwhen.evaluation import Reliability

FORMATS = (".png", ".pdf", ".svg")
_INK = "#1f4e79"
_REAL = "#c2571a"
_RULE = "#008176"
_BANDS = {"warm-up": "warm-up", "joint": "joint", "settle": "settling"}
"""Phases of the recipe that follow each other, as they are called in figures."""


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, PDF or SVG, by the file's name; never half of one."""
    check_figure_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    form = path.suffix.lower().removeprefix(".")
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(form, {})  # the same figure, the same file
    write_atomically(path, lambda beside: figure.savefig(beside, format=form, dpi=160, metadata=undated))


def check_figure_path(path: Path) -> None:
    """Raise :class:`SpecError` for a kind of file that can't be drawn."""
    if path.suffix.lower() not in FORMATS:
        raise SpecError(f"a figure called {path.name}", expected=f"a name that ends in {', '.join(FORMATS)}")


def draw_patterns(patterns: Mapping[str, pl.DataFrame]) -> Figure:
    """How often each order was requested at each step, one panel per run; an outline marks the real features.

    Args:
        patterns: by title, the content of ``pattern.parquet``: step, order, share, real.
    """
    figure = _figure(min(3.4 * len(patterns) + 0.9, 15), 3.9)
    same = len({tuple(_matrix(pattern)[2]) for pattern in patterns.values()}) == 1
    panels = figure.subplots(1, len(patterns), sharey=same, squeeze=False)[0]
    image = None
    for panel, (title, pattern) in zip(panels, patterns.items(), strict=True):
        shares, real, orders = _matrix(pattern)
        image = panel.imshow(shares.T, aspect="auto", origin="upper", cmap="Blues", vmin=0, vmax=1, interpolation="none")
        if not real.all():
            _outline(panel, real.T)
        panel.set_title(_broken(title), fontsize=10)
        panel.set_xlabel("time step")
        panel.tick_params(labelsize=8)
        _integer_ticks(panel)
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
        if not same or panel is panels[0]:
            _order_ticks(panel, orders)
    panels[0].set_ylabel("order")
    if image is not None:
        bar = figure.colorbar(image, ax=list(panels), pad=0.015, fraction=0.05 / len(patterns) + 0.01)
        bar.set_label("share of series that requested it", fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return figure


def draw_curves(histories: Mapping[str, Sequence[Mapping[str, Any]]], test: Mapping[str, Sequence[float]]) -> Figure:
    """Loss and accuracy, one column per run: by optimiser step with the phases of the recipe, or by epoch.

    Args:
        histories: by title, the lines of ``history.jsonl``.
        test: by title, test accuracies per saved epoch, where they were computed afterwards.
    """
    figure = _figure(min(max(3.0 * len(histories) + 0.6, 4.4), 15), 4.7)
    panels = figure.subplots(2, len(histories), sharex="col", sharey="row", squeeze=False)
    for column, (title, history) in enumerate(histories.items()):
        loss, accuracy = panels[:, column]
        if "phase" in history[0]:
            _draw_phases(loss, accuracy, history)
        else:
            _draw_epochs(loss, accuracy, history, test.get(title))
        for panel in (loss, accuracy):
            panel.grid(alpha=0.25)
            panel.tick_params(labelsize=8)
            _integer_ticks(panel)
        loss.set_title(_broken(title), fontsize=10)
        accuracy.set_ylim(top=1.02)
    panels[0, 0].set_ylabel("loss (nats)")
    panels[1, 0].set_ylabel("accuracy")
    named = {line.get_label(): line for panel in panels.flat for line in panel.get_lines()}
    columns = min(len(named), 2 * len(histories))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=columns, fontsize=7, frameon=False)
    return figure


def _draw_epochs(loss: Axes, accuracy: Axes, history: Sequence[Mapping[str, Any]], test: Sequence[float] | None) -> None:
    """A run that was trained by epochs, with the one whose weights were kept."""
    epochs = [line["epoch"] for line in history]
    best = max((line["epoch"] for line in history if line["best"]), default=None)
    for panel, name in ((loss, "loss"), (accuracy, "accuracy")):
        panel.plot(epochs, [line[name] for line in history], color=_INK, lw=1.3, ls="--", label="training")
        panel.plot(epochs, [line[f"validation_{name}"] for line in history], color=_REAL, lw=1.5, label="validation")
        if best is not None:
            panel.axvline(best, color="0.6", lw=0.8, label="chosen epoch")
    if test is not None:
        accuracy.plot(epochs[: len(test)], test, color="black", lw=1.0, ls=":", label="test")
    accuracy.set_xlabel("epoch")


def _draw_phases(loss: Axes, accuracy: Axes, history: Sequence[Mapping[str, Any]]) -> None:
    """A run of the recipe: a line for each policy that was trained, broken where a phase ends.

    A rule beside the network settles from the end of the warm-up on: these lines lie over each other, at the optimiser steps
    that each policy itself has had.
    """
    starts = _phase_starts(history)
    ends = {name: starts[name] + max(_steps(history, name)) for name in starts}
    for panel, name in ((loss, "loss"), (accuracy, "accuracy")):
        for i, phase in enumerate(_BANDS):
            if phase in starts and i % 2:
                panel.axvspan(starts[phase], ends[phase], color="0.93", lw=0, zorder=0)
        for label, phases, key, colour, dashes in (
            ("training", ("warm-up", "joint", "settle"), name, _INK, "--"),
            ("validation", ("warm-up", "joint", "settle"), f"validation_{name}", _REAL, "-"),
            ("validation, best rule", ("rule",), f"validation_{name}", _RULE, "-"),
        ):
            steps, values = _broken_line(history, starts, phases, key)
            if steps:
                panel.plot(steps, values, color=colour, ls=dashes, lw=1.3, marker="o", ms=2.5, label=label)
        panel.set_xlim(left=0)
    for phase, words in _BANDS.items():
        if phase in starts:
            middle = (starts[phase] + ends[phase]) / 2
            place = loss.get_xaxis_transform()
            loss.text(middle, -0.03, words, transform=place, ha="center", va="top", fontsize=6.5, color="0.35")
    accuracy.set_xlabel("optimiser steps")


def _phase_starts(history: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The optimiser steps that a policy has had when each phase begins, for the phases that are there."""
    warm, joint = (max(_steps(history, name), default=0) for name in ("warm-up", "joint"))
    starts = {"warm-up": 0, "joint": warm, "settle": warm + joint, "rule": warm}
    return {name: start for name, start in starts.items() if _steps(history, name)}


def _steps(history: Sequence[Mapping[str, Any]], phase: str) -> list[int]:
    return [line["step"] for line in history if line["phase"] == phase]


def _broken_line(
    history: Sequence[Mapping[str, Any]], starts: Mapping[str, int], phases: Sequence[str], key: str
) -> tuple[list[float], list[float]]:
    """Points of some phases, with a gap wherever a phase begins; several attempts follow each other."""
    steps: list[float] = []
    values: list[float] = []
    for phase, lines in itertools.groupby(history, key=lambda line: line["phase"]):
        if phase not in phases:
            continue
        for line in lines:
            steps.append(starts[phase] + line["step"])
            values.append(line[key])
        steps.append(math.nan)
        values.append(math.nan)
    return steps[:-1], values[:-1]


def draw_reliability(panels: Mapping[str, Mapping[str, Reliability]], fit: bool = False) -> Figure:
    """Observed share against predicted probability, one panel per title and one line per curve; the diagonal is perfect.

    The area of a marker goes with the share of the rows in its bin.

    Args:
        panels: by title, the curves by label.
        fit: let the axes of each panel end where its curves do (rare events), instead of at 1.
    """
    figure = _figure(min(3.3 * len(panels) + 0.4, 15), 3.9)
    styles = ((_REAL, "o"), (_INK, "s"), ("#008176", "^"), ("#777777", "D"), ("#7b3294", "v"), ("black", "P"))
    for panel, (title, curves) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        top = max(_end_of(curve) for curve in curves.values()) if fit else 1.0
        panel.plot([0, top], [0, top], color="0.6", lw=0.8, ls=":")
        for (label, curve), (colour, marker) in zip(curves.items(), itertools.cycle(styles), strict=False):
            full = curve.mass > 0
            x, y = curve.confidence[full], curve.observed[full]
            panel.plot(x, y, color=colour, lw=1.2, label=f"{label}, error {curve.expected_error:.3f}")
            panel.scatter(x, y, s=6 + 90 * curve.mass[full] / curve.mass.sum(), color=colour, marker=marker, alpha=0.8)
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("predicted probability")
        panel.set_xlim(-0.02 * top, 1.02 * top)
        panel.set_ylim(-0.02 * top, 1.02 * top)
        panel.grid(alpha=0.25)
        panel.tick_params(labelsize=8)
        panel.legend(fontsize=7, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    figure.axes[0].set_ylabel("observed share")
    return figure


def _end_of(curve: Reliability) -> float:
    """The largest number of a curve; bins without rows have none."""
    full = curve.mass > 0
    return float(max(curve.confidence[full].max(), curve.observed[full].max()))


def draw_samples(data: Dataset, count: int = 2) -> Figure:
    """A few training series: lines on top, the same as an image below, real features told apart from fakes."""
    rows = _one_per_class(data, count)
    figure = _figure(4.2 * len(rows) + 0.6, 5.6)
    panels = figure.subplots(2, len(rows), squeeze=False, sharex="col")
    for column, i in enumerate(rows):
        values = data.train.series(i)
        real = data.provenance.real[: len(values)]
        lines, image = panels[0, column], panels[1, column]
        for k in range(values.shape[1]):
            lines.plot(values[:, k], color="0.75", lw=0.7, zorder=1)
            lines.plot(np.where(real[:, k], values[:, k], np.nan), color=_INK, lw=1.0, alpha=0.8, zorder=2)
        lines.set_title(f"{data.name}, series {data.train.ids[i]}, class {data.classes[data.train.labels[i]]}", fontsize=9)
        top = max(2.0, float(np.abs(values).max()))
        drawn = image.imshow(values.T, aspect="auto", cmap="RdBu_r", vmin=-top, vmax=top, interpolation="none")
        if not real.all():
            _outline(image, real.T)
        image.set_xlabel("time step")
        _integer_ticks(image)
        if column:
            image.set_yticks([])
        bar = figure.colorbar(drawn, ax=image, pad=0.02)
        bar.ax.tick_params(labelsize=7)
        for panel in (lines, image):
            panel.tick_params(labelsize=8)
    panels[0, 0].set_ylabel("scaled value")
    panels[1, 0].set_ylabel("feature")
    _order_ticks(panels[1, 0], [feature.name for feature in data.features])
    panels[0, 0].plot([], [], color=_INK, label="real")
    if not data.provenance.real.all():
        panels[0, 0].plot([], [], color="0.75", label="fake")
    panels[0, 0].legend(fontsize=7, loc="upper right")
    return figure


def draw_kinds(sets: Mapping[str, Dataset]) -> Figure:
    """The same series in several data sets (plain, with each kind of fake, shifted): real features outlined.

    Args:
        sets: by title; all made from the same series.
    """
    figure = _figure(min(2.9 * len(sets) + 0.8, 15), 3.6)
    panels = figure.subplots(1, len(sets), squeeze=False)[0]
    row = _one_per_class(next(iter(sets.values())), 1)[0]
    top = max(2.0, *(float(np.abs(data.train.series(row)).max()) for data in sets.values()))
    drawn: Any = None
    for panel, (title, data) in zip(panels, sets.items(), strict=True):
        values = data.train.series(row)
        drawn = panel.imshow(values.T, aspect="auto", cmap="RdBu_r", vmin=-top, vmax=top, interpolation="none")
        real = data.provenance.real[: len(values)]
        if not real.all():
            _outline(panel, real.T)
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("time step", fontsize=8)
        _integer_ticks(panel)
        panel.tick_params(labelsize=7)
        _order_ticks(panel, [feature.name for feature in data.features], 8)
    bar = figure.colorbar(drawn, ax=list(panels), pad=0.01, fraction=0.03)
    bar.set_label("scaled value; real features outlined", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return figure


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _matrix(pattern: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, list[str]]:
    steps = int(pattern["step"].max()) + 1  # type: ignore[arg-type]
    shares = pattern["share"].to_numpy().reshape(steps, -1)
    real = pattern["real"].to_numpy().reshape(steps, -1)
    return shares, real, pattern["order"].to_list()[: shares.shape[1]]


def _outline(panel: Axes, inside: np.ndarray) -> None:
    """A line around the True cells of an image ``[rows, columns]``."""
    rows, columns = inside.shape
    padded = np.pad(inside, 1)
    across = np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])
    down = np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])
    segments = [((c - 0.5, r - 0.5), (c + 0.5, r - 0.5)) for r, c in across]
    segments += [((c - 0.5, r - 0.5), (c - 0.5, r + 0.5)) for r, c in down]
    from matplotlib.collections import LineCollection

    panel.add_collection(LineCollection(segments, colors=_REAL, linewidths=1.1))
    panel.set_xlim(-0.7, columns - 0.3)
    panel.set_ylim(rows - 0.3, -0.7)


def _broken(title: str) -> str:
    """A title over as many lines as the width of a panel needs."""
    return textwrap.fill(title, 36, break_long_words=False, break_on_hyphens=False)


def _integer_ticks(panel: Axes) -> None:
    """No ticks between whole numbers on the x axis."""
    from matplotlib.ticker import MaxNLocator

    panel.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def _order_ticks(panel: Axes, names: Sequence[str], most: int = 15) -> None:
    every = max(1, -(-len(names) // most))
    places = list(range(0, len(names), every))
    panel.set_yticks(places, [names[i] for i in places], fontsize=7)


def _one_per_class(data: Dataset, count: int) -> list[int]:
    rows: list[int] = []
    for label in range(len(data.classes)):
        found = np.flatnonzero(data.train.labels == label)
        if len(found) and len(rows) < count:
            rows.append(int(found[0]))
    return rows
