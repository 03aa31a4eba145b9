"""What each part of the learned acquirer brings: the best recipe with one thing changed at a time, on two tasks.

- shifted: m-FordA with 30 constant fakes and real features that move, the recipe of preset ``best``. It learns under prices;
  the paper's selector does not know any, so that it is compared under a fixed budget.
- pointer: the synthetic task on which only reacting to what was observed works, with the objective that solves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whichwhen.evaluation.statistics import mean_and_std
from whichwhen.experiments.adaptive import adaptive_grid
from whichwhen.experiments.paper import BUDGET, FORDA, Cell, Job, choose
from whichwhen.presets import best_spec
from whichwhen.specs import AcquirerSpec, DataSpec, RunSpec

SEEDS = 3
BASE = "as-it-is"


@dataclass(frozen=True)
class Ablation:
    """One change to a recipe: what is measured (as in the issue's table), in words, as fields of the spec."""

    name: str
    part: str
    words: str
    changes: Mapping[str, Any] = field(default_factory=dict)


_FIXED: dict[str, Any] = {
    "budget__price": None,
    "budget__cap": None,
    "budget__train_range": None,
    "acquirer__budget": False,
}
_PENALTY: dict[str, Any] = {"selector__kind": "sequential", "selector__repeat": "penalty"}
_COMMON = (
    Ablation("no-time", "time features", "the bare step number, as in the paper", {"acquirer__time_features": 0}),
    Ablation("memory", "recurrence", "a recurrent memory of 32 units in the acquirer", {"acquirer__memory": 32}),
    Ablation("no-warm-up", "warm-up", "no epochs of the predictor alone", {"training__warm_up": 0}),
    Ablation("cold", "temperature", "0.3 instead of 1", {"selector__temperature": 0.3}),
    Ablation("hot", "temperature", "3 instead of 1", {"selector__temperature": 3.0}),
)
ABLATIONS: dict[str, tuple[Ablation, ...]] = {
    "shifted": (
        Ablation(BASE, "", "preset best: learned under prices, one-shot top-k, replay"),
        Ablation("context", "context", "the acquirer reads the predictor's state", {"acquirer__context": True}),
        *_COMMON,
        Ablation("full", "replay", "end to end: the gradient through later inputs, too", {"training__gradient": "full"}),
        Ablation("fixed", "prices", "a fixed budget of 5 instead of prices", _FIXED),
        Ablation("penalty", "selector", "fixed budget, the paper's draws with its penalty", {**_FIXED, **_PENALTY}),
    ),
    "pointer": (
        Ablation(BASE, "", "foresight, context, sines of the values, one-shot top-k, replay"),
        Ablation("no-context", "context", "without the predictor's state", {"acquirer__context": False}),
        Ablation("no-sines", "value features", "the bare values", {"acquirer__value_features": 0}),
        *_COMMON,
        Ablation("end-to-end", "objective", "the prediction loss alone", {"training__objective": "end-to-end"}),
        Ablation(
            "full",
            "replay",
            "the prediction loss, its gradient through later inputs, too",
            {"training__objective": "end-to-end", "training__gradient": "full"},
        ),
        Ablation(
            "penalty",
            "selector",
            "the prediction loss, the paper's draws with its penalty",
            {"training__objective": "end-to-end", **_PENALTY},
        ),
    ),
}


def ablation_grid(seeds: int = SEEDS, only: Sequence[str] = (), epochs: int | None = None) -> tuple[Job, ...]:
    """Both tasks with every change; first seeds first. The variant of a job is ``task-change``."""
    jobs = []
    for task, (cell, base) in _bases().items():
        if epochs is not None:
            base = base.change(training__epochs=epochs, training__warm_up=max(0, min(base.training.warm_up, epochs - 1)))
        for ablation in ABLATIONS[task]:
            spec = base.change(**ablation.changes)
            jobs += [Job("ablations", cell, spec.change(seed=seed), f"{task}-{ablation.name}") for seed in range(seeds)]
    jobs.sort(key=lambda job: job.spec.seed)
    return choose(jobs, only)


def _bases() -> dict[str, tuple[Cell, RunSpec]]:
    cell = Cell(FORDA, "zeros", shifted=True)
    shifted = best_spec(DataSpec(name=FORDA, fakes="zeros", shift=True), AcquirerSpec(), BUDGET)
    pointer = adaptive_grid(1, ("synthetic:pointer", "learned", "foresight"))[0]
    return {"shifted": (cell, shifted), "pointer": (pointer.cell, pointer.spec)}


def summarise_ablations(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per task and change: accuracy, requests, and the distance from the recipe as it is, over the seeds of both."""
    groups: dict[str, dict[int, Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(record["variant"], {})[record["seed"]] = record
    rows = []
    for task, ablations in ABLATIONS.items():
        base = groups.get(f"{task}-{BASE}", {})
        for ablation in ablations:
            group = groups.get(f"{task}-{ablation.name}")
            if not group:
                continue
            tests = {seed: record["test"] for seed, record in group.items()}
            mean, std = mean_and_std([test["accuracy"] for test in tests.values()])
            differences = [tests[seed]["accuracy"] - base[seed]["test"]["accuracy"] for seed in tests if seed in base]
            real = [test["real_fraction"] for test in tests.values() if test["real_fraction"] is not None]
            rows.append(
                {
                    "task": task,
                    "change": ablation.name,
                    "part": ablation.part,
                    "words": ablation.words,
                    "n_seeds": len(group),
                    "mean": mean,
                    "std": std,
                    "difference": mean_and_std(differences)[0] if differences else None,
                    "cost_per_step": mean_and_std([test["cost_per_step"] for test in tests.values()])[0],
                    "real_fraction": mean_and_std(real)[0] if real else None,
                }
            )
    return rows
