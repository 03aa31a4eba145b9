"""A grid of runs on one machine or many. What is finished is never run again, what was killed goes on, what fails is noted.

Every run has a folder of its own, named by the hash of its spec, and a lock beside it: two processes on one folder share the
work. What arrives is a small record per run (:mod:`whichwhen.experiments.records`), written by the process that asked for it.
"""

from __future__ import annotations

import json
import os
import socket
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from filelock import FileLock, Timeout

from whichwhen import artifacts
from whichwhen.errors import EngineError, MissingExtraError, WhichwhenError
from whichwhen.experiments.paper import Job
from whichwhen.experiments.records import RECORDS, load_record, make_record, record_path, write_summary
from whichwhen.files import write_json

FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """What became of a job: ``elsewhere`` = another process is at it."""

    job: Job
    state: Literal["done", "failed", "elsewhere"]
    record: dict[str, Any] | None = None
    error: str = ""
    trace: str = ""


@dataclass
class GridState:
    """Where a grid stands, for whoever watches it."""

    jobs: tuple[Job, ...]
    runs: Path
    workers: int
    started: float = field(default_factory=time.time)
    done: dict[str, dict[str, Any]] = field(default_factory=dict)
    found: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)

    def running(self) -> dict[str, int]:
        """How many lines of its history each job that is under way has, by name."""
        names = {job.name for job in self.jobs} - set(self.done) - set(self.failed)
        found: dict[str, int] = {}
        for path in self.runs.glob("*.running"):
            try:
                note = json.loads(path.read_text(encoding="utf-8"))
                history = self.runs / path.stem / artifacts.HISTORY
                lines = history.read_bytes().count(b"\n") if history.is_file() else 0
            except (OSError, ValueError):
                continue  # it has just been finished
            if note["name"] in names and note["started"] >= self.started - 1:
                found[note["name"]] = lines
        return found

    def seconds_left(self) -> float | None:
        """By the seconds and the lines of history of finished runs of the same kind; None before the first has finished."""
        if not self.done:
            return None
        kinds: dict[tuple[str, ...], list[tuple[float, int]]] = {}
        jobs = {job.name: job for job in self.jobs}
        for name, record in self.done.items():
            for kind in _kinds(jobs[name]):
                kinds.setdefault(kind, []).append((record["cpu_seconds"], record["epochs"]))
        running, left = self.running(), 0.0
        for job in self.jobs:
            if job.name in self.done or job.name in self.failed or job.name in self.elsewhere:
                continue
            seconds, lines = np.mean(next(kinds[kind] for kind in _kinds(job) if kind in kinds), axis=0)
            left += float(seconds) * (1 - min(0.95, running.get(job.name, 0) / max(1.0, float(lines))))
        return left / self.workers


def _kinds(job: Job) -> list[tuple[str, ...]]:
    """What the time of a run may be guessed from, nearest first."""
    return [(job.preset, job.cell.dataset, job.acquirer), (job.preset, job.cell.dataset), (job.preset,), ()]


class Engine(ABC):
    """Contract: runs a function on many jobs at once, ``workers`` of them, and gives the outcomes back as they come."""

    workers: int

    @abstractmethod
    def run(self, function: Callable[[Job], Outcome], jobs: Sequence[Job]) -> Iterator[Outcome]:
        """One outcome per job, in any order."""


@dataclass(frozen=True)
class JoblibEngine(Engine):
    """Processes on this machine."""

    workers: int = 1
    most_deaths: int = 2

    def run(self, function: Callable[[Job], Outcome], jobs: Sequence[Job]) -> Iterator[Outcome]:
        """As joblib hands them back; a job whose worker dies is tried again, and after ``most_deaths`` given up."""
        from joblib import Parallel, delayed
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        left, deaths = {job.name: job for job in jobs}, 0
        while left:
            # after a death: one at a time, so that it is known whose it was
            at_once = list(left.values()) if not deaths else list(left.values())[:1]
            parallel = Parallel(n_jobs=self.workers, return_as="generator_unordered", batch_size=1, pre_dispatch="n_jobs")
            try:
                for outcome in parallel(delayed(function)(job) for job in at_once):
                    left.pop(outcome.job.name)
                    deaths = 0
                    yield outcome
            except TerminatedWorkerError as error:
                deaths += 1
                if len(at_once) == 1 and deaths > self.most_deaths:
                    (job,) = at_once
                    left.pop(job.name)
                    deaths = 0
                    yield Outcome(job, "failed", error=f"its process died: {str(error).splitlines()[0]}")


@dataclass(frozen=True)
class RayEngine(Engine):
    """Workers of a Ray cluster; without an address, one is started on this machine.

    Every node must see the data and the run folders at the same paths. A job whose worker dies goes on elsewhere, from its
    last checkpoint.
    """

    workers: int = 1
    address: str | None = None
    retries: int = 3

    def run(self, function: Callable[[Job], Outcome], jobs: Sequence[Job]) -> Iterator[Outcome]:
        """As Ray hands them back."""
        try:
            import ray
        except ImportError:
            raise MissingExtraError("ray", "the ray engine") from None

        @ray.remote(num_cpus=1, max_retries=self.retries)
        def work(job: Job) -> Outcome:
            return function(job)

        mine = not ray.is_initialized()
        if mine:
            self._join(ray)
        try:
            waiting = {work.remote(job): job for job in jobs}
            while waiting:
                ready, _ = ray.wait(list(waiting), num_returns=1)
                job = waiting.pop(ready[0])
                try:
                    outcome: Outcome = ray.get(ready[0])
                except ray.exceptions.RayError as error:
                    outcome = Outcome(job, "failed", error=f"its process died: {str(error).splitlines()[0]}")
                yield outcome
        finally:
            if mine:
                ray.shutdown()

    def _join(self, ray: Any) -> None:
        local: dict[str, Any] = {} if self.address else {"num_cpus": self.workers, "include_dashboard": False}
        host, _, port = (self.address or "").rpartition(":")
        try:
            if host and port.isdigit():  # Ray itself would wait for half a minute, and may end the process
                socket.create_connection((host, int(port)), timeout=5).close()
            ray.init(address=self.address, log_to_driver=False, configure_logging=False, **local)
        except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            raise EngineError(
                f"no Ray cluster can be joined at {self.address} ({(str(error) or type(error).__name__).splitlines()[0]})",
                expected="the address that `ray start --head` printed, or auto, and that cluster's token",
                do="start one, or leave --address out",
            ) from None


def run_grid(
    jobs: Iterable[Job],
    out: Path,
    runs: Path,
    *,
    engine: Engine | None = None,
    folder: Path | None = None,
    on_change: Callable[[GridState, Outcome | None], None] = lambda state, outcome: None,
) -> GridState:
    """Run what is not finished yet, write a record for each run, and the summary.

    Args:
        jobs: the grid.
        out: for records, failures and summary.
        runs: for run folders.
        engine: where to compute; by default here, one at a time.
        folder: where archives lie.
        on_change: called at the start with None, and with each outcome.
    """
    engine = engine or JoblibEngine()
    out, runs = out.absolute(), runs.absolute()
    for place in (out / RECORDS, runs):
        place.mkdir(parents=True, exist_ok=True)
    state = GridState(tuple(jobs), runs, engine.workers)
    for job in state.jobs:
        record = load_record(out, job)
        if record is not None:
            state.done[job.name] = record
    state.found = len(state.done)
    on_change(state, None)
    left = [job for job in state.jobs if job.name not in state.done]
    for patient in (False, True):  # what another process is at is waited for once all else is done
        for outcome in engine.run(partial(run_job, runs=runs, folder=folder, patient=patient), left):
            _keep(state, out, outcome)
            on_change(state, outcome)
        left = [job for job in left if job.name in state.elsewhere]
    write_summary(out)
    return state


def _keep(state: GridState, out: Path, outcome: Outcome) -> None:
    name = outcome.job.name
    failure = out / FAILED / f"{name}.json"
    state.elsewhere.discard(name)
    if outcome.state == "elsewhere":
        state.elsewhere.add(name)
    elif outcome.record is not None:
        write_json(record_path(out, outcome.job), outcome.record, indent=None)
        write_summary(out)
        failure.unlink(missing_ok=True)
        state.done[name] = outcome.record
    else:
        failure.parent.mkdir(exist_ok=True)
        content = {"name": name, "error": outcome.error, "trace": outcome.trace}
        write_json(failure, {**content, "spec": outcome.job.spec.model_dump(mode="json")})
        state.failed[name] = outcome.error


def run_job(job: Job, *, runs: Path, folder: Path | None = None, patient: bool = False) -> Outcome:
    """Train a job in its folder, unless another process is at it, or after that (``patient``).

    Nothing that goes wrong in it leaves this function.
    """
    import torch

    from whichwhen.training import train

    torch.set_num_threads(1)
    place = runs / job.spec.hash
    note = runs / f"{job.spec.hash}.running"
    try:
        with FileLock(runs / f"{job.spec.hash}.lock", timeout=-1 if patient else 0):
            started = {"name": job.name, "pid": os.getpid(), "host": socket.gethostname(), "started": time.time()}
            write_json(note, started)
            try:
                train(job.spec, place, folder=folder, resume=True)
                return Outcome(job, "done", make_record(job, place, folder))
            except Exception as error:  # whatever it is, the other runs go on
                reason = str(error) if isinstance(error, WhichwhenError) else f"{type(error).__name__}: {error}"
                return Outcome(job, "failed", error=reason, trace=traceback.format_exc())
            finally:
                note.unlink(missing_ok=True)
    except Timeout:
        return Outcome(job, "elsewhere")
