"""Results as terminal tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from whichwhen.data.frames import TableReport
from whichwhen.reports.kept import difference_to, kept_rule, not_kept, with_kept


def results_table(results: Mapping[str, Mapping[str, Any]], title: str) -> Table:
    """One line per run: accuracy, cost per step, share of requests spent on real features.

    A narrow terminal breaks a name between words, never within one.
    """
    table = Table(title=title, title_justify="left", caption_justify="left")
    names = {name: with_kept(name, result) for name, result in results.items()}
    table.add_column("acquirer", min_width=longest_word(*names.values()))
    known = any(result["test"]["real_fraction"] is not None for result in results.values())
    columns = (
        "test accuracy",
        "validation accuracy",
        "cost per step",
        *(("requests on real features",) if known else ()),
        "CPU s",
    )
    for name in columns:
        table.add_column(name, justify="right")
    for name, result in results.items():
        test = result["test"]
        table.add_row(
            names[name],
            f"{test['accuracy']:.3f}",
            f"{result['validation']['accuracy']:.3f}",
            f"{test['cost_per_step']:.2f}",
            *((share(test["real_fraction"]),) if known else ()),
            f"{result['cpu_seconds']:.0f}",
        )
    return table


def candidates_line(result: Mapping[str, Any]) -> str:
    """What was kept and what the other would have given on test: ``kept learned .983; round robin of 6 .976 (…)``."""
    kept = next(row for row in result["candidates"] if row["kept"])
    line = f"kept {kept['title']}: {kept['test']['accuracy']:.3f}"
    for row in not_kept(result):
        line += f"; {row['title']} would have given {row['test']['accuracy']:.3f} (difference {difference_to(row)})"
    if kept_rule(result):
        line += "; a fixed rule is enough here"
    return line


def longest_word(*texts: str) -> int:
    """Length of the longest word of some texts."""
    return max((len(word) for text in texts for word in text.split()), default=0)


def share(value: float | None) -> str:
    """A share as a percentage; a dash where there is none."""
    return "–" if value is None else f"{100 * value:.0f} %"


def print_table_report(report: TableReport, console: Console) -> None:
    """What was found in a table of one's own: facts, missing values by column, classes, warnings."""
    short, middle, long = report.lengths
    facts = {
        "table": f"{report.table} ({report.layout}, {report.rows} rows)",
        "series": f"{report.series} in {report.groups} groups: "
        + ", ".join(f"{count} {name}" for name, count in report.parts.items()),
        "steps": f"{report.steps} of width {report.step}; {short} to {long} a series, median {middle:g}",
        "classes": ", ".join(f"{name} ({count})" for name, count in report.classes.items()),
    }
    if report.merged:
        facts["repeats"] = f"{report.merged} identical rows merged"
    if report.ignored:
        facts["not used"] = ", ".join(report.ignored)
    for name, fact in facts.items():
        console.print(f"{name:<10}{fact}", highlight=False, soft_wrap=True)
    table = Table("feature", "kind")
    table.add_column("steps without a value", justify="right")
    for name in report.features:
        table.add_row(name, "static" if name in report.static else "", share(report.missing[name]))
    console.print(table)
    for line in report.warnings:
        console.print(f"warning: {line}", highlight=False, soft_wrap=True)


def benchmark_table(document: Mapping[str, Any]) -> Table:
    """What ``whichwhen bench`` measured, against its limits."""
    table = Table(title="CPU time and memory, as ratios", title_justify="left")
    table.add_column("what")
    for name in ("measured", "limit"):
        table.add_column(name, justify="right")

    def limit(value: float | None, sign: str = "≤") -> str:
        return "" if value is None else f"{sign} {value:g}"

    for row in document["training"]:
        name = row["setting"]["name"]
        table.add_row(f"fast ÷ bare: {name}", f"{row['ratio']:.2f}", limit(row["setting"]["limit"]))
        if "literal_to_fast" in row:
            table.add_row(f"literal ÷ fast: {name}", f"{row['literal_to_fast']:.2f}", limit(4.0, "≥"))
    evaluation = document["evaluation"]
    table.add_row("evaluation ÷ plain predictor pass", f"{evaluation['ratio']:.2f}", limit(2.5))
    table.add_row("evaluated series per CPU second", f"{evaluation['series_per_cpu_second']:.0f}", "")
    for row in document["session"]:
        for when in ("early", "late"):
            seconds = row[f"{when}_cpu_seconds"]
            table.add_row(f"session step, {row['predictor']}, {when} (CPU ms)", f"{1000 * seconds:.2f}", limit(1.0))
    for row in document["memory"]:
        table.add_row(f"peak memory ÷ bare: {row['setting']}", f"{row['ratio']:.2f}", limit(2.5))
    for name, exponent in document["growth"]["exponents"].items():
        table.add_row(f"growth exponent with {name}", f"{exponent:.2f}", limit(1.1))
    streaming = document["streaming"]
    table.add_row("peak memory from disk, 4 N series ÷ N", f"{streaming['memory_ratio']:.2f}", limit(1.1))
    table.add_row("an epoch from disk ÷ from memory", f"{streaming['cpu_ratio']:.2f}", limit(1.25))
    return table
