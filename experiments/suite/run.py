"""Run jobs: train in a folder named by the spec's hash, evaluate at all budgets, append a record.

Finished runs are not run again, unfinished ones go on from their checkpoint, and a second process on the same folders shares
the work: a lock per run keeps the two apart.
"""

from __future__ import annotations

import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from filelock import FileLock, Timeout

from experiments.suite.jobs import PRICES, Job, mean_costs
from experiments.suite.records import FORMAT, Record, append_record, finished, pack
from experiments.suite.reuse import Saved, keep_warm_up, kept_forests, start_from_warm_up, take_settled_rule
from whichwhen.errors import WhichwhenError
from whichwhen.specs import BudgetSpec, DataSpec, RunSpec


@dataclass(frozen=True)
class Outcome:
    """What became of a job; ``elsewhere`` = another process is at it."""

    job: Job
    state: Literal["done", "failed", "elsewhere"]
    record: Record | None = None
    error: str = ""


def run_jobs(
    jobs: Sequence[Job], out: Path, runs: Path, workers: int = 1, tell: Callable[[Outcome], None] = lambda outcome: None
) -> list[Outcome]:
    """Run what has no record yet; returns what became of it.

    Args:
        jobs: the grid.
        out: the folder of the records.
        runs: the folder of the run folders.
        workers: processes.
        tell: called with each outcome.
    """
    from joblib import Parallel, delayed

    out, runs = out.absolute(), runs.absolute()
    runs.mkdir(parents=True, exist_ok=True)
    there = finished(jobs, out)
    left = [job for job in jobs if job.name not in there]
    outcomes: list[Outcome] = []
    for patient in (False, True):  # what another process is at is waited for once all else is done
        parallel = Parallel(n_jobs=workers, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
        work = partial(run_job, out=out, runs=runs, patient=patient)
        elsewhere = []
        for outcome in parallel(delayed(work)(job) for job in left):
            if outcome.state == "elsewhere":
                elsewhere.append(outcome.job)
            else:
                outcomes.append(outcome)
                tell(outcome)
        left = elsewhere
    return outcomes


def run_job(job: Job, out: Path, runs: Path, patient: bool = False) -> Outcome:
    """One job, unless another process is at it, or after that (``patient``). Nothing that goes wrong leaves this function."""
    import torch

    torch.set_num_threads(1)
    try:
        with FileLock(runs / f"{job.hash}.lock", timeout=-1 if patient else 0):
            if (known := finished([job], out).get(job.name)) is not None:
                return Outcome(job, "done", known)
            try:
                record = measure_minirocket(job) if job.spec is None else measure(job, job.spec, runs / job.hash)
                append_record(out, record)
                return Outcome(job, "done", record)
            except Exception as error:  # whatever it is, the other runs go on
                reason = str(error) if isinstance(error, WhichwhenError) else f"{type(error).__name__}: {error}"
                (runs / f"{job.hash}.failed.txt").write_text(f"{job.name}\n{traceback.format_exc()}", encoding="utf-8")
                return Outcome(job, "failed", error=reason)
    except Timeout:
        return Outcome(job, "elsewhere")


@lru_cache(maxsize=1)
def _load(spec: DataSpec, seed: int) -> tuple[Any, float]:
    """A data set and the CPU seconds that loading it took; kept for the next job on the same one."""
    from whichwhen.data import load_dataset

    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = load_dataset(spec, seed)
    return data, time.process_time() - began


def measure(job: Job, spec: RunSpec, folder: Path) -> Record:
    """Train a job, or take what is in its folder, and evaluate it at all its budgets."""
    from whichwhen import artifacts
    from whichwhen.training import train

    data, loading = _load(spec.data, spec.seed)
    runs, saved = folder.parent, Saved()
    with warnings.catch_warnings(), kept_forests(runs, saved):
        warnings.simplefilter("ignore")
        reused = take_settled_rule(folder, runs, spec, data) or start_from_warm_up(folder, runs, spec, data)
        result = train(spec, folder, data=data, resume=True, on_epoch=keep_warm_up(runs, spec, len(data.train)))
    began = time.process_time()
    models = artifacts.load_candidates(folder)
    everything = float(sum(models[0].policy.menu.prices))
    evaluations = [row for point in _plan(job, everything) for row in _evaluate(point, spec, models, data)]
    return _facts(job) | {
        "command": command(spec, folder.parent),
        "commit": result["commit"],
        "finished": time.time(),
        "cpu_seconds": round(result["cpu_seconds"] + loading + saved.seconds, 2),
        "saved_seconds": round(loading + saved.seconds + reused, 2),
        "evaluation_seconds": round(time.process_time() - began, 2),
        "kept": result["kept"],
        "candidates": [
            {name: row[name] for name in ("acquirer", "title", "kept", "validation_loss")} for row in result["candidates"]
        ],
        "columns": [len(data.features), int(data.provenance.real[0].sum())],
        "everything": everything,
        "n": [len(data.train), len(data.validation), len(data.test)],
        "evaluations": evaluations,
    }


def _facts(job: Job) -> Record:
    """What is known of a job before it has run."""
    return {
        "format": FORMAT,
        "name": job.name,
        "dataset": job.setting.dataset,
        "fakes": job.setting.fakes,
        "shifted": job.setting.shifted,
        "acquirer": job.acquirer,
        "asked": job.asked,
        "effort": job.effort,
        "seed": job.seed,
        "spec_hash": job.hash,
        "spec": None if job.spec is None else job.spec.model_dump(mode="json", exclude_defaults=True),
        "plan": job.plan,
    }


@dataclass(frozen=True)
class _Point:
    """A budget to evaluate at. ``kind`` None = the model's own, where there is nothing to spend or no limit."""

    kind: Literal["per-step", "mean-cost", "price"] | None
    amount: float | None
    paired: bool = True
    network_only: bool = False


def _plan(job: Job, everything: float) -> list[_Point]:
    """The budgets of a job; those beyond the menu are left out."""
    if job.asked is None:
        return [_Point(None, None)]
    caps = sorted({job.asked, *job.caps})
    points = [_Point("per-step", amount) for amount in caps if amount <= everything]
    points += [_Point("mean-cost", amount) for amount in job.means]
    if job.curve:
        real = _real_columns(job)
        points += [_Point("mean-cost", amount, paired=False) for amount in mean_costs(real) if amount not in job.means]
    if job.prices:
        points += [_Point("price", i, paired=False, network_only=True) for i in range(PRICES)]
    return points


def _real_columns(job: Job) -> float:
    from experiments.suite.jobs import REAL

    return float(REAL[job.setting.dataset])


def _evaluate(point: _Point, spec: RunSpec, models: Sequence[Any], data: Any) -> list[Record]:
    """The run at one budget: what serves it best of network and rule, and the network by itself where that is the rule."""
    if spec.acquirer.kind != "learned":
        return [_one(point, [spec.acquirer.kind], spec, models, data)[0]]
    networks = [model for model in models if model.card.acquirer == "learned-only"]
    if point.network_only:
        return [_one(point, ["learned-only"], spec, networks, data)[0]]
    own = models[:1] if (point.kind, point.amount) == ("per-step", spec.budget.per_step) else models
    found, chosen = _one(point, ["learned"], spec, own, data)
    if chosen is networks[0]:
        return [found | {"rows": ["learned", "learned-only"]}]
    return [found, _one(point, ["learned-only"], spec, networks, data)[0]]


def _one(point: _Point, rows: list[str], spec: RunSpec, models: Sequence[Any], data: Any) -> tuple[Record, Any]:
    """An evaluation at one budget by the model that serves it best on validation, and that model."""
    from whichwhen.afterwards import walk_then_read
    from whichwhen.evaluation import evaluate
    from whichwhen.evaluation.choice import choose_at_budget
    from whichwhen.evaluation.prices import price_range

    amount = point.amount
    if point.kind == "price":
        low, high = price_range(models[0])
        amount = float(np.geomspace(low, high, PRICES)[int(amount or 0)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if point.kind is None:
            model, policy = models[0], models[0].policy
        else:
            chosen = choose_at_budget(models, _budget(spec, point, amount), data.validation)
            model, policy = chosen.model, chosen.policy
    test = evaluate(policy, data.test, data.provenance, loop=walk_then_read)
    found: Record = {
        "rows": rows,
        "kept": model.card.acquirer,
        "budget_kind": point.kind,
        "budget": amount,
        "accuracy": test.metrics.accuracy,
        "loss": test.metrics.loss,
        "cost_per_step": test.metrics.cost_per_step,
        "real_fraction": test.metrics.real_fraction,
        "n": test.metrics.n,
        "price": getattr(policy.budget, "price", None),
    }
    if reach := [str(one.message) for one in caught if "no price reaches" in str(one.message)]:
        found["out_of_reach"] = reach[0]
    if point.kind in (None, "per-step"):
        validation = evaluate(policy, data.validation, loop=walk_then_read).metrics
        found |= {"validation_loss": validation.loss, "validation_accuracy": validation.accuracy}
    if point.paired:
        found["correct"] = pack(test.predictions == test.labels)
    return found, model


def _budget(spec: RunSpec, point: _Point, amount: float | None) -> BudgetSpec:
    match point.kind:
        case "per-step":
            return spec.budget.at(per_step=amount)
        case "mean-cost":
            return spec.budget.at(mean_cost=amount)
        case _:
            return spec.budget.at(price=amount)


def command(spec: RunSpec, runs: Path) -> str:
    """The command line that trains this run by itself."""
    words = ["whichwhen train", spec.data.name]
    for part in (spec.data, spec.budget, spec.acquirer, spec.training):
        for name, facts in type(part).model_fields.items():
            value = getattr(part, name)
            if name == "name" or value == facts.default:
                continue
            flag = part._flag(name)
            words.append(flag if value is True else f"{flag} {value:g}" if isinstance(value, float) else f"{flag} {value}")
    return " ".join([*words, f"--seed {spec.seed}", f"--out {runs.name}/{spec.hash}"])


def measure_minirocket(job: Job) -> Record:
    """The accuracy of aeon's MiniRocket on the whole real series, trained on the archive's whole training part."""
    from aeon.classification.convolution_based import MiniRocketClassifier

    data, _ = _load(job.setting.data, 0)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = max(data.longest, 9)
        train, validation, test = (
            np.nan_to_num(part.padded(np.arange(len(part)), steps=steps)).transpose(0, 2, 1)
            for part in (data.train, data.validation, data.test)
        )
        classifier = MiniRocketClassifier(random_state=0, n_jobs=1)
        classifier.fit(np.concatenate([train, validation]), np.concatenate([data.train.labels, data.validation.labels]))
        right = np.asarray(classifier.predict(test)) == data.test.labels
    real = len(data.features)
    return _facts(job) | {
        "command": f"python -m experiments suite --only {job.name}",
        "commit": None,
        "finished": time.time(),
        "cpu_seconds": round(time.process_time() - began, 2),
        "saved_seconds": 0.0,
        "evaluation_seconds": 0.0,
        "kept": "minirocket",
        "candidates": [],
        "columns": [real, real],
        "everything": float(real),
        "n": [len(data.train), len(data.validation), len(data.test)],
        "evaluations": [
            {
                "rows": ["minirocket"],
                "budget_kind": None,
                "budget": None,
                "accuracy": float(right.mean()),
                "loss": None,
                "cost_per_step": float(real),
                "real_fraction": 1.0,
                "n": len(right),
                "price": None,
                "correct": pack(right),
            }
        ],
    }
