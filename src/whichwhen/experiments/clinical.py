"""Intensive care: quality against the cost of laboratory tests, on PhysioNet 2012 and 2019.

Free channels (vital signs, descriptors) always arrive; laboratory tests are paid for. A budget is a share of what the cohort's
own records cost in the mean, the same for every stay: a share of each stay's own record would tell how sick the patient was. It
becomes available evenly over the stay, with an advance, and is saved for what is wanted most (2012), or is open from the first
hour on (2019), where learned declines what is not worth its price; only what the record could deliver counts against it; what
was requested is reported, too. Each acquirer is trained once, for all budgets from 5 to 50 %.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from whichwhen import artifacts
from whichwhen.data import load_dataset
from whichwhen.data.clinical import recorded_cost
from whichwhen.data.store import Dataset
from whichwhen.evaluation import (
    Reliability,
    Scored,
    difference_at_cost,
    gap_closed,
    paired_metric_difference,
    reliability_curve,
)
from whichwhen.evaluation.statistics import mean_and_std
from whichwhen.experiments.paper import Cell, Job, choose
from whichwhen.files import write_json
from whichwhen.specs import AcquirerKind, AcquirerSpec, BudgetSpec, DataSpec, PredictorSpec, RunSpec, TrainingSpec
from whichwhen.training.others import SHARES, score_name

Clinical = Literal["physionet2012", "physionet2019"]
SEEDS = 3
OWN_FRACTION = 0.25
"""The budget of the runs themselves; the others are multiples of it."""
FRACTIONS = tuple(sorted((OWN_FRACTION, *(OWN_FRACTION * share for share in SHARES))))
ACQUIRERS: tuple[AcquirerKind, ...] = ("none", "complete", "learned", "random", "static", "table")
DATA: dict[str, DataSpec] = {
    "physionet2012": DataSpec(name="physionet2012", hours=4),
    "physionet2019": DataSpec(name="physionet2019", longest=72),
}
PREDICTORS: dict[str, PredictorSpec] = {
    "physionet2012": PredictorSpec(layers=3, dropout=0.3, carry=True, hinges=True),
    "physionet2019": PredictorSpec(layers=4, dropout=0.3, carry=True, hinges=True, bins=8, now=True),
}
EPOCHS = {"physionet2012": (16, 5), "physionet2019": (8, 3)}
"""How many, and how many of them are warm-up."""
PACES = {"physionet2012": ("saving", 0.1), "physionet2019": ("open", 0.0)}
"""How a budget becomes available, and the share of the full budget that is there at once, chosen on validation: for an alarm at
every hour, money that comes in three days is late."""
_LEARNING = {"training__sharpen": 10.0, "training__explore": 0.25}
_FOREST = {"acquirer__trees": 200}
"""Of 72 × 39 columns: 1000 trees would take four times as long as all the rest."""
_WORTH = {"training__objective": "value", "acquirer__context": True, "acquirer__freshness": True}
"""What an order is worth, in nats, and nothing that is worth less than the price which serves best on validation."""
MORE: dict[tuple[str, str], dict[str, Any]] = {
    ("physionet2019", "learned"): _WORTH,
    ("physionet2019", "table"): _LEARNING,
    ("physionet2019", "static"): _FOREST,
}
"""What an acquirer gets besides on a set, chosen on validation."""
CONTROLS = ("mask-only", "time-only")


@lru_cache(maxsize=4)
def full_budget(name: str, folder: Path | None = None) -> float:
    """100 %: what a stay of the longest kind costs at the mean cost of a step in the training part's records."""
    data = load_dataset(DATA[name], 0, folder)
    assert data.menu is not None
    cost = recorded_cost(data.train, data.menu).sum() + recorded_cost(data.validation, data.menu).sum()
    steps = data.train.lengths.sum() + data.validation.lengths.sum()
    return float(round(cost / steps * data.horizon, 2))


def clinical_grid(
    seeds: int = SEEDS, only: Sequence[str] = (), epochs: int | None = None, folder: Path | None = None
) -> tuple[Job, ...]:
    """Every acquirer on both sets, and everything measured on the controls; first seeds first."""
    jobs = []
    for name, data in DATA.items():
        full = full_budget(name, folder)
        rounds, warm_up = EPOCHS[name] if epochs is None else (epochs, min(1, epochs - 1))
        budget = BudgetSpec(
            total=full * OWN_FRACTION,
            bill="delivered",
            train_range=(full * min(FRACTIONS), full * max(FRACTIONS)),
        )
        base = RunSpec(
            data=data,
            budget=budget,
            acquirer=AcquirerSpec(budget=True),
            predictor=PREDICTORS[name],
            training=TrainingSpec(
                epochs=rounds,
                warm_up=warm_up,
                batch_size=64,
                learning_rate=0.003,
                choose_by="auroc",
            ),
        )
        for seed in range(seeds):
            for acquirer in ACQUIRERS:
                spec = base.change(acquirer__kind=acquirer, seed=seed, **MORE.get((name, acquirer), {}))
                if acquirer not in ("none", "complete"):  # else there is no limit, and nothing to pace
                    pace, advance = PACES[name]
                    spec = spec.change(budget__pace=pace, budget__advance=round(full * advance, 2))
                jobs.append(Job("clinical", Cell(name, "none"), spec))
            if seed == 0:
                for control in CONTROLS:
                    spec = base.change(data__control=control, acquirer__kind="complete", seed=seed)
                    jobs.append(Job("clinical", Cell(name, "none"), spec, control))
    jobs.sort(key=lambda job: job.spec.seed)
    return choose(jobs, only)


def points_of(record: Mapping[str, Any]) -> list[tuple[float, str, Mapping[str, Any]]]:
    """What a run was tested at: share of the full budget, test set, metrics. Without a limit the share is 1, or 0 for none."""
    acquirer = record["acquirer"]
    if acquirer in ("complete", "none"):
        fraction = 1.0 if acquirer == "complete" else 0.0
        return [(fraction, name, found) for name, found in record["tests"].items()]
    full = record["spec"]["budget"]["total"] / OWN_FRACTION
    own = [(OWN_FRACTION, name, found) for name, found in record["tests"].items()]
    return own + [(round(found["budget"] / full, 4), found["test_set"], found) for found in record["other_budgets"]]


def summarise_clinical(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per set, test set, acquirer and share of the full budget."""
    groups: dict[tuple[str, str, str, float], list[Mapping[str, Any]]] = {}
    for record in records:
        name = ", ".join(filter(None, (record["acquirer"], record["variant"])))
        for fraction, test_set, found in points_of(record):
            groups.setdefault((record["dataset"], test_set, name, fraction), []).append(found)
    rows = []
    for (dataset, test_set, acquirer, fraction), group in sorted(groups.items()):
        row: dict[str, Any] = {
            "dataset": dataset,
            "test_set": test_set,
            "acquirer": acquirer,
            "budget_fraction": fraction,
            "n_seeds": len(group),
        }
        for metric in ("auroc", "auprc"):
            row[f"{metric}_mean"], row[f"{metric}_std"] = mean_and_std([found[metric] for found in group])
        for cost in ("delivered_cost", "requested_cost", "unanswered"):
            row[cost] = float(np.mean([found[cost] for found in group]))
        rows.append(row)
    floors = {(row["dataset"], row["test_set"]): row["auroc_mean"] for row in rows if row["acquirer"] == "none"}
    tops = {(row["dataset"], row["test_set"]): row["auroc_mean"] for row in rows if row["acquirer"] == "complete"}
    for row in rows:
        key = (row["dataset"], row["test_set"])
        both = key in floors and key in tops and not any(row["acquirer"].endswith(control) for control in CONTROLS)
        row["gap_closed"] = gap_closed(row["auroc_mean"], floors[key], tops[key]) if both else None
    return rows


def write_differences(out: Path, runs: Path, jobs: Sequence[Job], folder: Path | None = None, draws: int = 300) -> list[Path]:
    """``differences.json``: learned against the others, with intervals, at equal budget and at equal cost of either kind.

    They are made from the scores in the run folders. Those in the file stay where not all of the runs behind them are here, as
    long as these runs are still those of ``jobs``.
    """
    path = out / "differences.json"
    rows: list[dict[str, Any]] = []
    for dataset in dict.fromkeys(job.cell.dataset for job in jobs):
        own = _with_scores(dataset, runs, jobs)
        data = load_dataset(DATA[dataset], 0, folder)
        for test_set in data.tests:
            scored = _scored(own, runs, data, test_set)
            found = _against_others(dataset, test_set, scored, draws)
            rows += [{**row, "runs": _compared(dataset, row["learned_minus"], own)} for row in found]
    known = {
        _place(row): row
        for row in (json.loads(path.read_text()) if path.is_file() else [])
        if row.get("runs") == _compared(row["dataset"], row["learned_minus"], jobs)
    }
    made = {_place(row): row for row in rows}
    whole = {place: row for place, row in made.items() if row["runs"] == _compared(row["dataset"], row["learned_minus"], jobs)}
    rows = list({**made, **known, **whole}.values())
    if not rows:
        return []
    write_json(path, rows)
    return [path]


def _place(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("dataset", "test_set", "budget_fraction", "learned_minus", "at_equal"))


def _compared(dataset: str, other: str, jobs: Sequence[Job]) -> str:
    """A short name of the runs behind a difference: those of learned and of the other acquirer."""
    sides = ("learned", other)
    hashes = [job.spec.hash for job in jobs if job.cell.dataset == dataset and job.acquirer in sides and not job.variant]
    return hashlib.sha256(" ".join(sorted(hashes)).encode()).hexdigest()[:12]


def calibration_curves(
    runs: Path, jobs: Sequence[Job], folder: Path | None = None
) -> dict[tuple[str, str], dict[str, Reliability]]:
    """By set and test set, then by acquirer: predicted against observed at the runs' own budget, all seeds together.

    Bins of equal mass, as most predictions are small. Runs without stored scores are left out.
    """
    curves: dict[tuple[str, str], dict[str, Reliability]] = {}
    for dataset in dict.fromkeys(job.cell.dataset for job in jobs):
        own = _with_scores(dataset, runs, jobs)
        if not own:
            continue
        data = load_dataset(DATA[dataset], 0, folder)
        for test_set in data.tests:
            for (acquirer, fraction), found in _scored(own, runs, data, test_set).items():
                if fraction in (OWN_FRACTION, {"complete": 1.0, "none": 0.0}.get(acquirer)):
                    shares, labels = np.concatenate(found.scores), np.concatenate(found.labels)
                    curve = reliability_curve(shares, labels, binning="equal-mass")
                    curves.setdefault((dataset, test_set), {})[acquirer] = curve
    return curves


def _with_scores(dataset: str, runs: Path, jobs: Sequence[Job]) -> list[Job]:
    return [
        job
        for job in jobs
        if job.cell.dataset == dataset and not job.variant and (runs / job.spec.hash / artifacts.SCORES).is_file()
    ]


def _scored(jobs: Sequence[Job], runs: Path, data: Dataset, test_set: str) -> dict[tuple[str, float], Scored]:
    """Every acquirer at every share of the full budget, all its seeds."""
    part = data.tests[test_set]
    labels = part.labels if part.step_labels is None else part.step_labels
    series = None if part.step_labels is None else np.repeat(np.arange(len(part)), part.lengths)
    groups: dict[tuple[str, float], list[tuple[np.ndarray, Mapping[str, Any]]]] = {}
    for job in jobs:
        run = runs / job.spec.hash
        result = artifacts.load_result(run)
        with np.load(run / artifacts.SCORES) as scores:
            for fraction, name, found in points_of({**result, "spec": job.spec.model_dump(), "variant": ""}):
                if name == test_set:
                    own = fraction in (OWN_FRACTION, 0.0, 1.0)
                    array = scores[score_name(name, None if own else found["budget"])].astype(np.float64)
                    groups.setdefault((job.acquirer, fraction), []).append((array, found))
    return {
        (acquirer, fraction): Scored(
            acquirer,
            fraction,
            [array for array, _ in group],
            [labels] * len(group),
            [found["requested_cost"] for _, found in group],
            [found["delivered_cost"] for _, found in group],
            None if series is None else [series] * len(group),
        )
        for (acquirer, fraction), group in groups.items()
    }


def _against_others(
    dataset: str, test_set: str, scored: Mapping[tuple[str, float], Scored], draws: int
) -> list[dict[str, Any]]:
    rows = []
    for fraction in FRACTIONS:
        learned = scored.get(("learned", fraction))
        if learned is None:
            continue
        for other in ("random", "static", "table", "complete", "none"):
            theirs = [one for (name, _), one in sorted(scored.items()) if name == other]
            at = {"complete": 1.0, "none": 0.0}.get(other, fraction)
            same = scored.get((other, at))
            if same is None or len(same.scores) != len(learned.scores):
                continue
            found: dict[str, Any] = {
                "budget": paired_metric_difference(
                    "auroc",
                    learned.scores,
                    same.scores,
                    learned.labels,
                    draws,
                    series=learned.series,
                )
            }
            if other in ("random", "static", "table"):
                for kind in ("delivered", "requested"):
                    found[kind] = difference_at_cost("auroc", learned, theirs, kind, draws)
            for equal, difference in found.items():
                if difference is not None:
                    rows.append(
                        {
                            "dataset": dataset,
                            "test_set": test_set,
                            "budget_fraction": fraction,
                            "learned_minus": other,
                            "at_equal": equal,
                            "metric": "auroc",
                            "difference": difference.mean,
                            "low": difference.low,
                            "high": difference.high,
                            "n_seeds": len(learned.scores),
                        }
                    )
    return rows
