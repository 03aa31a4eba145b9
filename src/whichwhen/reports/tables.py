"""Results as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table


def results_table(results: Mapping[str, Mapping[str, Any]], title: str) -> Table:
    """One line per run: accuracy, cost per step, share of requests spent on real features."""
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column("acquirer")
    for name in ("test accuracy", "validation accuracy", "cost per step", "requests on real features", "CPU s"):
        table.add_column(name, justify="right")
    for name, result in results.items():
        test = result["test"]
        table.add_row(
            name,
            f"{test['accuracy']:.3f}",
            f"{result['validation']['accuracy']:.3f}",
            f"{test['cost_per_step']:.2f}",
            share(test["real_fraction"]),
            f"{result['cpu_seconds']:.0f}",
        )
    return table


def share(value: float | None) -> str:
    """A share as a percentage; a dash where there is none."""
    return "–" if value is None else f"{100 * value:.0f} %"
