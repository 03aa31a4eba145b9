"""What it brings to lift the paper's assumptions: equal costs, one budget per step, results at the next step.

- costs: m-FordA with noise fakes, where the i-th sample of a step costs i. A policy that knows, against one that was trained at
  equal costs and spends the same in the same way.
- bursts: a total that is spent when it pays, against the best that any budget per step can do (known exactly).
- total: the same on m-FordA, where nothing comes in bursts.
- delay: a task whose results take 3 steps, against the same task without the delay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whichwhen import artifacts
from whichwhen.budget import PerStep
from whichwhen.data import load_dataset, synthetic
from whichwhen.data.tasks import BurstTask
from whichwhen.evaluation import evaluate
from whichwhen.evaluation.statistics import mean_and_std
from whichwhen.experiments.paper import FORDA, Cell, Job, choose
from whichwhen.files import write_json
from whichwhen.presets import best_spec
from whichwhen.specs import AcquirerSpec, BudgetSpec, DataSpec, RunSpec, TrainingSpec

SEEDS = 3
BUDGET = 5.0
PRICES = {"bursts": (0.001, 0.05), "total": (3e-5, 3e-3)}
"""Between which prices are drawn in training, per unit of cost."""
NOISE = DataSpec(name=FORDA, fakes="noise")


def assumptions_grid(seeds: int = SEEDS, only: Sequence[str] = (), epochs: int | None = None) -> tuple[Job, ...]:
    """All comparisons; first seeds first. The variant of a job says which side of which comparison it is."""
    jobs = []
    for variant, (cell, spec) in _specs().items():
        if epochs is not None:
            spec = spec.change(training__epochs=epochs, training__warm_up=max(0, min(spec.training.warm_up, epochs - 1)))
        jobs += [Job("assumptions", cell, spec.change(seed=seed), variant) for seed in range(seeds)]
    jobs.sort(key=lambda job: job.spec.seed)
    return choose(jobs, only)


def _specs() -> dict[str, tuple[Cell, RunSpec]]:
    noise, burst = Cell(FORDA, "noise"), Cell("synthetic:bursts", "none")
    task = synthetic.find_task("bursts")
    learned = best_spec(NOISE, AcquirerSpec(), BUDGET)
    bursts = RunSpec(
        data=DataSpec(name="synthetic:bursts"),
        budget=BudgetSpec(per_step=task.budget),
        training=TrainingSpec(epochs=30, warm_up=10),
    )
    paced = {"acquirer__budget": True, "budget__pace": "price"}
    delay = RunSpec(budget=BudgetSpec(per_step=1), training=TrainingSpec(epochs=30, learning_rate=0.01))
    return {
        "costs-known": (noise, learned.change(data__costs="rising")),
        "costs-ignored": (noise, learned),
        "bursts-per-step": (burst, bursts),
        "bursts-total": (
            burst,
            bursts.change(budget__total=task.budget * task.steps, budget__train_range=PRICES["bursts"], **paced),
        ),
        "total-per-step": (noise, learned),
        "total-paced": (
            noise,
            learned.change(budget__total=BUDGET * 50, budget__train_range=PRICES["total"], training__sharpen=1.0, **paced),
        ),
        "delay-3": (Cell("synthetic:travel", "none"), delay.change(data__name="synthetic:travel")),
        "delay-1": (Cell("synthetic:nearby", "none"), delay.change(data__name="synthetic:nearby")),
    }


def summarise_assumptions(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per side of a comparison: accuracy, what was spent over a series, and the optimum where it is known."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["variant"], []).append(record)
    rows = []
    for variant in [name for name in _specs() if name in groups]:
        group = groups[variant]
        found = [record.get("at_rising_costs") or record["test"] for record in group]
        mean, std = mean_and_std([one["accuracy"] for one in found])
        comparison, _, side = variant.partition("-")
        rows.append(
            {
                "comparison": comparison,
                "side": side,
                "dataset": group[0]["dataset"],
                "n_seeds": len(group),
                "mean": mean,
                "std": std,
                "cost_per_series": sum(one["requested_cost"] for one in found) / len(found),
                "optimum": _optimum(variant),
            }
        )
    return rows


def _optimum(variant: str) -> float | None:
    task = synthetic.find_task("bursts")
    assert isinstance(task, BurstTask)
    match variant:
        case "bursts-per-step":
            return task.reference(task.budget).optimum
        case "bursts-total":
            return task.of_total(task.budget * task.steps)
        case "delay-1" | "delay-3":
            return synthetic.find_task("travel" if variant == "delay-3" else "nearby").reference(1).optimum
    return None


def at_rising_costs(run: Path, folder: Path | None = None) -> dict[str, Any]:
    """A model that was trained at equal costs, on the test set at rising ones: it asks in its own order for what still fits."""
    model = artifacts.load_model(run)
    spec = model.card.spec
    data = load_dataset(spec.data.model_copy(update={"costs": "rising"}), spec.seed, folder)
    assert data.menu is not None
    policy = replace(model.policy, menu=data.menu, budget=PerStep(BUDGET))
    return evaluate(policy, data.test, data.provenance).metrics.to_dict()


def add_rising_costs(out: Path, runs: Path, jobs: Sequence[Job], folder: Path | None = None) -> None:
    """Write what the policy that ignores costs reaches at rising ones into its records."""
    for job in jobs:
        path = out / "records" / f"{job.name}.json"
        if job.variant == "costs-ignored" and artifacts.is_finished(runs / job.spec.hash) and path.is_file():
            record = json.loads(path.read_text())
            if "at_rising_costs" not in record:
                write_json(path, {**record, "at_rising_costs": at_rising_costs(runs / job.spec.hash, folder)})
