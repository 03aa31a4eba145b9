"""What ``whichwhen evaluate`` says beside the metrics: calibration in a line, alarms, subgroups and estimates as tables."""

from __future__ import annotations

import itertools
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from whichwhen.evaluation import Measures
from whichwhen.evaluation.off_policy import Estimate
from whichwhen.reports.tables import share

_ESTIMATORS = {
    "naive": "as it stands",
    "restricted": "restricted",
    "ipw": "weighted",
}


def calibration_facts(found: Measures) -> dict[str, Any]:
    """Lines for the facts of an evaluation."""
    if found.calibration is None:
        return {}
    return {
        "calibration_error": found.calibration.before.expected_error,
        "temperature": found.calibration.temperature,
        "calibration_error_after": found.calibration.after.expected_error,
    }


def print_measures(found: Measures, console: Console) -> None:
    """The sections that the set has, each after an empty line."""
    if found.detection is not None:
        console.print("", _detection(found))
    if found.subgroups:
        console.print("", _subgroups(found))
    if found.estimates:
        console.print("", _estimates(found))
        reasons = dict.fromkeys(
            f"{_ESTIMATORS[name]}: {one.reason}" for by in found.estimates.values() for name, one in by.items() if one.reason
        )
        for line in reasons:
            console.print(f"refused, {line}", highlight=False, soft_wrap=True)
    for part, reason in found.refused.items():
        console.print(f"no {part}: {reason}", highlight=False, soft_wrap=True)


def _detection(found: Measures) -> Table:
    one = found.detection
    assert one is not None
    title = f"Alarms at {found.false_alarms:.3g} false alarms on validation: probability above {one.threshold:.3g}"
    table = _section("alarms", title=title)
    table.add_column(found.split, justify="right")
    table.add_row("series with an event / without", f"{one.n_events} / {one.n_free}")
    table.add_row("false alarms, of the series without", _share(one.false_alarm_rate))
    table.add_row("false alarms, of their steps", _share(one.false_alarm_rate_per_step))
    table.add_row("sensitivity: events with an alarm", _share(one.detection_rate))
    table.add_row("of the events, alarm before onset", _share(one.early_rate))
    table.add_row("their first alarm minus onset, mean / median (steps)", _pair(one.mean_delay, one.median_delay))
    table.add_row("events with an alarm from onset on", _share(one.detection_rate_from_onset))
    table.add_row(
        "first of those minus onset, mean / median (steps)", _pair(one.mean_delay_from_onset, one.median_delay_from_onset)
    )
    if one.n_positive_at_start:
        table.add_row("events that begin with the series", str(one.n_positive_at_start))
    return table


def _subgroups(found: Measures) -> Table:
    table = _section("subgroup", title="By subgroup (cost over a series)")
    binary = any(row.positives is not None for row in found.subgroups)
    for name in ("series", *(("positive",) if binary else ()), "requested", "delivered", "accuracy", "AUROC"):
        table.add_column(name, justify="right")
    for column, rows in itertools.groupby(found.subgroups, key=lambda row: row.column):
        table.add_row(column)
        for row in rows:
            counts = (str(row.n), *((str(row.positives),) if binary else ()))
            costs = (f"{row.requested_cost:.1f}", f"{row.delivered_cost:.1f}")
            table.add_row(f" {row.value}", *counts, *costs, _number(row.accuracy), _number(row.auroc))
    return table


def _estimates(found: Measures) -> Table:
    """The estimators are those of docs/missing.md."""
    n = len(found.evaluation.labels)
    table = _section("score", "estimator", title=f"If all requests had been answered (witnesses of {n} series)")
    for name in ("estimate", "95 %", "witnesses", "effective", "Σ w / n"):
        table.add_column(name, justify="right")
    for score, by in found.estimates.items():
        for i, (name, one) in enumerate(by.items()):
            table.add_row("" if i else score, _ESTIMATORS[name], *_estimate(one))
    return table


def _estimate(one: Estimate) -> tuple[str, ...]:
    value = "refused" if one.value is None else _number(one.value)
    between = "–" if one.low is None or one.high is None else f"{one.low:.3f}–{one.high:.3f}"
    ratio = "–" if one.weight_ratio is None else f"{one.weight_ratio:.2f}"
    size = ("–", "–") if one.estimator == "naive" else (str(one.n_answered), f"{one.effective_sample_size:.0f}")
    return value, between, *size, ratio


def _section(*columns: str, title: str) -> Table:
    return Table(*columns, title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))


def _share(value: float | None) -> str:
    return share(value) if value is None or not 0 < value < 0.1 else f"{100 * value:.1f} %"


def _pair(one: float | None, other: float | None) -> str:
    return "–" if one is None or other is None else f"{one:.1f} / {other:.1f}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
