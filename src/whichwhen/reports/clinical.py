"""Quality against cost of laboratory tests: table and figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from whichwhen.evaluation import Reliability
from whichwhen.reports.comparison import TextTable
from whichwhen.reports.figures import draw_reliability, save_figure

COLOURS = {"learned": "#c1272d", "random": "#777777", "static": "#0000a7", "table": "#008176"}
MARKERS = {"learned": "o", "random": "D", "static": "s", "table": "^"}
TITLES = {"physionet2012": "PhysioNet 2012", "physionet2019": "PhysioNet 2019"}


def clinical_tables(rows: Sequence[Mapping[str, Any]]) -> list[TextTable]:
    """One per set and test set: AUROC by acquirer and share of the full budget, with what was delivered and requested."""
    tables = []
    for dataset, test_set in dict.fromkeys((row["dataset"], row["test_set"]) for row in rows):
        body = [
            (
                row["acquirer"],
                f"{row['budget_fraction']:.0%}",
                _number(row["auroc_mean"], row["auroc_std"]),
                _number(row["auprc_mean"], row["auprc_std"]),
                f"{row['delivered_cost']:.1f}",
                f"{row['requested_cost']:.1f}",
                "–" if row["gap_closed"] is None else f"{row['gap_closed']:.0%}",
                str(row["n_seeds"]),
            )
            for row in rows
            if (row["dataset"], row["test_set"]) == (dataset, test_set)
        ]
        head = ("acquirer", "budget", "AUROC", "AUPRC", "delivered", "requested", "gap", "n")
        note = "Gap: how much of the way from nothing bought to everything is gone; n: seeds."
        tables.append(TextTable(_title(dataset, test_set), head, tuple(body), note))
    return tables


def draw_frontier(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """AUROC against delivered cost, a panel per test set; bars and bands are one standard deviation over seeds.

    The points of the acquirers stand a little beside each other, so that all bars can be seen.
    """
    places = list(dict.fromkeys((row["dataset"], row["test_set"]) for row in rows))
    figure = Figure(figsize=(4.4 * len(places), 4.1), layout="constrained")
    axes = figure.subplots(1, len(places), squeeze=False)
    for axis, (dataset, test_set) in zip(axes[0], places, strict=True):
        own = [row for row in rows if (row["dataset"], row["test_set"]) == (dataset, test_set)]
        width = max((row["delivered_cost"] for row in own if row["acquirer"] in COLOURS), default=1.0)
        for i, (acquirer, colour) in enumerate(COLOURS.items()):
            line = sorted((row for row in own if row["acquirer"] == acquirer), key=lambda row: row["delivered_cost"])
            if line:
                axis.errorbar(
                    [row["delivered_cost"] + (i - 1.5) * 0.008 * width for row in line],
                    [row["auroc_mean"] for row in line],
                    [row["auroc_std"] or 0 for row in line],
                    color=colour,
                    marker=MARKERS[acquirer],
                    markersize=4.5,
                    capsize=2.5,
                    elinewidth=0.9,
                    linewidth=1.4,
                    label=acquirer,
                )
        for acquirer, style, label in (("complete", "-", "everything"), ("none", ":", "free channels only")):
            for row in own:
                if row["acquirer"] == acquirer:
                    middle, spread = row["auroc_mean"], row["auroc_std"] or 0
                    axis.axhline(middle, color="black", linestyle=style, linewidth=1, label=label)
                    axis.axhspan(middle - spread, middle + spread, color="black", alpha=0.06, linewidth=0)
        axis.set_title(_title(dataset, test_set), fontsize=10)
        axis.set_xlabel("delivered cost of laboratory tests per stay")
        axis.set_ylabel("AUROC")
        axis.grid(alpha=0.3)
    named: dict[str, Any] = {}
    for axis in axes[0]:
        named |= {label: handle for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside lower center",
        ncols=len(named) if len(places) > 1 else 3,
        fontsize=8,
        frameon=False,
    )
    return figure


def write_frontier(rows: Sequence[Mapping[str, Any]], out: Path) -> list[Path]:
    """``frontier.png`` and ``.pdf``; nothing where there are no rows."""
    return _save(draw_frontier(rows), out / "frontier") if rows else []


def write_calibration(curves: Mapping[tuple[str, str], Mapping[str, Reliability]], out: Path) -> list[Path]:
    """``calibration-SET.png`` and ``.pdf``: predicted against observed, a panel per test set and a curve per acquirer."""
    made: list[Path] = []
    for dataset in dict.fromkeys(dataset for dataset, _ in curves):
        panels = {_title(name, part): own for (name, part), own in curves.items() if name == dataset}
        made += _save(draw_reliability(panels, fit=True), out / f"calibration-{dataset}")
    return made


def _save(figure: Figure, stem: Path) -> list[Path]:
    made = [stem.with_suffix(".png"), stem.with_suffix(".pdf")]
    for path in made:
        save_figure(figure, path)
    return made


def _number(mean: float, std: float | None) -> str:
    return f"{mean:.3f}" if std is None else f"{mean:.3f} ± {std:.3f}"


def _title(dataset: str, test_set: str) -> str:
    return TITLES[dataset] if test_set == "test" else f"{TITLES[dataset]}, test set {test_set}"
