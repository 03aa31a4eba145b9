"""Quality against cost of laboratory tests: table and figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from whichwhen.reports.comparison import TextTable
from whichwhen.reports.figures import save_figure

COLOURS = {"learned": "#c1272d", "random": "#777777", "static": "#0000a7", "table": "#008176"}
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
        head = ("acquirer", "budget", "AUROC", "AUPRC", "delivered", "requested", "gap closed", "seeds")
        tables.append(TextTable(f"{TITLES[dataset]}, test set {test_set}", head, tuple(body)))
    return tables


def write_frontier(rows: Sequence[Mapping[str, Any]], out: Path) -> list[Path]:
    """``frontier.png`` and ``.pdf``: AUROC against delivered cost, a panel per test set, bars of one standard deviation."""
    places = list(dict.fromkeys((row["dataset"], row["test_set"]) for row in rows))
    if not places:
        return []
    figure = Figure(figsize=(4.2 * len(places), 3.4), layout="constrained")
    axes = figure.subplots(1, len(places), squeeze=False)
    for axis, (dataset, test_set) in zip(axes[0], places, strict=True):
        own = [row for row in rows if (row["dataset"], row["test_set"]) == (dataset, test_set)]
        for acquirer, colour in COLOURS.items():
            line = sorted((row for row in own if row["acquirer"] == acquirer), key=lambda row: row["delivered_cost"])
            if line:
                axis.errorbar(
                    [row["delivered_cost"] for row in line],
                    [row["auroc_mean"] for row in line],
                    [row["auroc_std"] or 0 for row in line],
                    color=colour,
                    marker="o",
                    markersize=4,
                    capsize=2,
                    linewidth=1.3,
                    label=acquirer,
                )
        for acquirer, style, label in (("complete", "-", "everything"), ("none", ":", "free channels only")):
            for row in own:
                if row["acquirer"] == acquirer:
                    axis.axhline(row["auroc_mean"], color="black", linestyle=style, linewidth=1, label=label)
        axis.set_title(f"{TITLES[dataset]}, test set {test_set}", fontsize=10)
        axis.set_xlabel("delivered cost of laboratory tests per stay")
        axis.set_ylabel("AUROC")
        axis.grid(alpha=0.3)
    axes[0][0].legend(fontsize=8, frameon=False)
    made = [out / "frontier.png", out / "frontier.pdf"]
    for path in made:
        save_figure(figure, path)
    return made


def _number(mean: float, std: float | None) -> str:
    return f"{mean:.3f}" if std is None else f"{mean:.3f} ± {std:.3f}"
