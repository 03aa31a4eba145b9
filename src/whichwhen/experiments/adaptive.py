"""Tasks on which only reacting, or planning ahead, works: which objective learns it, against exact references."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from whichwhen import artifacts
from whichwhen.contracts import Selector
from whichwhen.data import load_dataset, reference, synthetic
from whichwhen.data.tasks.base import ChainTask
from whichwhen.evaluation.statistics import mean_and_std
from whichwhen.experiments.paper import Cell, Job, choose
from whichwhen.files import write_json
from whichwhen.noise import Generator, gumbel
from whichwhen.rollout import inference, roll_out
from whichwhen.selection import HardTopK
from whichwhen.specs import AcquirerKind, AcquirerSpec, BudgetSpec, DataSpec, PredictorSpec, RunSpec
from whichwhen.types import Allowance, Scores, Selection

SEEDS = 5
TASKS = ("pointer", "planning", "triage", "exact")


@dataclass(frozen=True)
class Method:
    """An acquirer and what it learns from."""

    acquirer: AcquirerKind
    objective: str


METHODS = (
    Method("random", "end-to-end"),
    Method("table", "end-to-end"),
    Method("learned-only", "end-to-end"),
    Method("learned-only", "greedy-cmi"),
    Method("learned-only", "value"),
    Method("learned-only", "foresight"),
)


def adaptive_grid(seeds: int = SEEDS, only: Sequence[str] = (), effort: float | str = "normal") -> tuple[Job, ...]:
    """Every task with every method, at the budget that the task is meant for; first seeds first.

    Args:
        seeds: how many per task and method.
        only: words to choose by, see :func:`whichwhen.experiments.paper.choose`.
        effort: of training; less than normal for a trial.
    """
    jobs = []
    for name in TASKS:
        base = RunSpec(
            data=DataSpec(name=f"synthetic:{name}"),
            budget=BudgetSpec(per_step=synthetic.find_task(name).budget),
            acquirer=AcquirerSpec(hidden=64, context=True),
            predictor=PredictorSpec(layers=3, dropout=0.0),
        )
        base = base.change(training__effort=effort)
        for method in METHODS:
            spec = base.change(acquirer__kind=method.acquirer, training__objective=method.objective)
            if name == "pointer" and method.acquirer == "learned-only":
                spec = spec.change(acquirer__value_features=4)  # eight levels to tell apart
            cell = Cell(f"synthetic:{name}", "none")
            jobs += [Job("adaptive", cell, spec.change(seed=seed), method.objective) for seed in range(seeds)]
    jobs.sort(key=lambda job: job.spec.seed)
    return choose(jobs, only)


def summarise_adaptive(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per task, acquirer and objective, with what is reachable beside it."""
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault((record["dataset"], record["acquirer"], record["variant"]), []).append(record)
    rows = []
    for (task, acquirer, objective), group in groups.items():
        spec = RunSpec.model_validate(group[0]["spec"])
        assert spec.budget.per_step is not None
        known = reference(spec.data, spec.budget.per_step)
        assert known is not None
        mean, std = mean_and_std([record["test"]["accuracy"] for record in group])
        rows.append(
            {
                "task": task.removeprefix("synthetic:"),
                "acquirer": acquirer,
                "objective": objective,
                "budget": spec.budget.per_step,
                "n_seeds": len(group),
                "mean": mean,
                "std": std,
                "optimum": known.optimum,
                "chance": known.chance,
                "blind": known.blind,
                "greedy": known.greedy,
                "share": (mean - known.chance) / (known.optimum - known.chance),
            }
        )
    places = {method: i for i, method in enumerate(METHODS)}
    return sorted(rows, key=lambda row: (TASKS.index(row["task"]), places[Method(row["acquirer"], row["objective"])]))


def write_exact(out: Path, runs: Path, jobs: Sequence[Job]) -> list[Path]:
    """``exact.json``: how near the value scores of the finished runs on the enumerable task come to the exact information."""
    rows = [
        {"task": "exact", "seed": job.spec.seed, "spec_hash": job.spec.hash, **against_exact_information(runs / job.spec.hash)}
        for job in jobs
        if job.cell.dataset == "synthetic:exact" and job.variant == "value" and artifacts.is_finished(runs / job.spec.hash)
    ]
    if not rows:
        return []
    write_json(out / "exact.json", rows)
    return [out / "exact.json"]


@dataclass(frozen=True)
class AtRandom(Selector):
    """Any orders that the budget pays for, all equally likely, whatever their scores are."""

    def select(
        self,
        scores: Scores,
        allowance: Allowance,
        costs: Float[Tensor, " K"],
        generator: Generator | None = None,
        noise: Tensor | None = None,
    ) -> Selection:
        """Take the highest of ``noise``, ``[B, K]``; a price means nothing here."""
        if noise is None:
            noise = gumbel(scores.values.shape, scores.values, generator)
        return HardTopK().select(Scores(noise), replace(allowance, price=None), costs)


def against_exact_information(run: Path) -> dict[str, float]:
    """How near the scores of a finished run come to the exact conditional mutual information of each order, in nats.

    On the test series of an enumerable task, along the requests that the policy makes, and along random ones.
    """
    model = artifacts.load_model(run)
    spec = model.card.spec
    task: Any = synthetic.find_task(spec.data.name.removeprefix("synthetic:"))
    assert isinstance(task, ChainTask)
    data = load_dataset(spec.data, spec.seed)
    batch = data.test.hindsight(np.arange(len(data.test))).batch
    symbols = task.chain.symbols(data.test.padded() * data.scaler.std + data.scaler.mean)
    found: dict[str, float] = {}
    for name, policy in (("own", model.policy), ("random", model.policy.with_selector(AtRandom()))):
        with inference(policy):
            record = roll_out(policy, batch, torch.Generator().manual_seed(0))
        beliefs = task.chain.follow(symbols, record.selections.request.numpy() > 0)
        exact = np.stack([task.chain.information_of_each(beliefs[:, t], t) for t in range(batch.steps)], 1)
        scores = record.scores.values.numpy()
        found[f"correlation_{name}"] = float(np.corrcoef(exact.ravel(), scores.ravel())[0, 1])
        found[f"mean_error_{name}"] = float(np.abs(exact - scores).mean())
    return found
