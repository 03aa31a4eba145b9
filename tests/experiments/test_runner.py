import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest
from filelock import FileLock
from safetensors.torch import load_file
from small_grids import small_job, small_jobs, write_data

from whichwhen import artifacts, training
from whichwhen.experiments import runner
from whichwhen.experiments.records import load_records, read_record
from whichwhen.experiments.runner import GridState, JoblibEngine, Outcome, run_grid, run_job

SCRIPT = Path(__file__).with_name("small_grids.py")
LONG = 60
"""Epochs of a run that is to be killed on the way."""


@dataclass(frozen=True)
class Place:
    """Where a grid reads and writes."""

    folder: Path

    @property
    def out(self):
        return self.folder / "out"

    @property
    def runs(self):
        return self.folder / "runs"

    def run(self, jobs, workers=1, **rest):
        return run_grid(jobs, self.out, self.runs, engine=JoblibEngine(workers), folder=self.folder / "data", **rest)

    def start(self, *words):
        """The grid of small_grids.py as a process group of its own."""
        return subprocess.Popen(
            [sys.executable, SCRIPT, self.folder, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )

    def records(self):
        return {path.stem: read_record(path) for path in (self.out / "records").glob("*.json")}

    def failures(self):
        return {path.stem: json.loads(path.read_text()) for path in (self.out / "failed").glob("*.json")}

    def under_way(self):
        """Epochs behind each run that isn't finished."""
        found = {}
        for note in self.runs.glob("*.running"):
            history = note.with_suffix("") / artifacts.HISTORY
            found[note.stem] = history.read_bytes().count(b"\n") if history.is_file() else 0
        return found


@pytest.fixture
def place(tmp_path):
    write_data(tmp_path / "data")
    return Place(tmp_path)


@pytest.fixture
def trained(monkeypatch):
    """Names of the folders that ``train`` really trained in, in this process."""
    calls, fit = [], training.run.fit

    def spy(model, *args, **rest):
        calls.append(model.card.spec.hash)
        return fit(model, *args, **rest)

    monkeypatch.setattr(training.run, "fit", spy)
    return calls


def wait_until(holds, process=None, seconds=600):
    """Look until something holds; fail if the process ends first."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        if process is not None and process.poll() is not None:
            pytest.fail(f"the grid ended too early: {process.communicate()}")
        if time.monotonic() > end:
            pytest.fail("it never happened")
        time.sleep(0.01)
    return found


def outcome_of(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out.splitlines()[-1])


def kill_group(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def assert_same_run(one, other):
    """The same weights to the bit, history, predictions and requests."""
    mine, others = (load_file(run / artifacts.WEIGHTS) for run in (one, other))
    assert mine.keys() == others.keys()
    assert all(tensor.equal(others[name]) for name, tensor in mine.items())
    lines = [[{**line, "cpu_seconds": 0} for line in artifacts.load_history(run)] for run in (one, other)]
    assert lines[0] == lines[1]
    for name in (artifacts.SERIES, artifacts.PATTERN, artifacts.SAMPLES):
        assert pl.read_parquet(one / name).equals(pl.read_parquet(other / name))
    results = [artifacts.load_result(run) for run in (one, other)]
    assert results[0]["test"] == results[1]["test"]


# -- what a grid leaves behind


@pytest.mark.parametrize("workers", [1, 2])
def test_every_job_gets_a_record_and_the_summary_a_row_per_setting(place, workers):
    jobs = [small_job("random", 0), small_job("random", 1), small_job("learned", 0)]
    told = []
    state = place.run(jobs, workers, on_change=lambda state, outcome: told.append(outcome))
    assert place.records().keys() == state.done.keys() == {job.name for job in jobs}
    assert state.found == 0
    assert not state.failed
    assert not state.elsewhere
    assert told[0] is None
    assert sorted((outcome.job.name, outcome.state) for outcome in told[1:]) == sorted((job.name, "done") for job in jobs)
    rows = json.loads((place.out / "summary.json").read_text())
    assert [(row["acquirer"], row["n_seeds"]) for row in rows] == [("random", 2), ("learned", 1)]
    assert not list(place.runs.glob("*.running"))
    for job in jobs:
        assert artifacts.is_finished(place.runs / job.spec.hash)


def test_two_workers_find_what_one_finds(place, tmp_path):
    write_data(tmp_path / "other" / "data")
    other, jobs = Place(tmp_path / "other"), small_jobs(3, 2)
    place.run(jobs, 1)
    other.run(jobs, 2)
    for job in jobs:
        assert_same_run(place.runs / job.spec.hash, other.runs / job.spec.hash)
    clock = {"finished": 0, "cpu_seconds": 0}
    assert {k: v | clock for k, v in place.records().items()} == {k: v | clock for k, v in other.records().items()}


# -- finished is finished


def test_a_finished_run_is_never_run_again(place, trained):
    jobs = small_jobs(2, 2)
    place.run(jobs)
    assert sorted(trained) == sorted(job.spec.hash for job in jobs)
    before = {
        path: path.stat().st_mtime_ns for path in place.folder.rglob("*") if path.is_file() and path.name != "summary.json"
    }
    trained.clear()
    told = []
    state = place.run(jobs, on_change=lambda state, outcome: told.append(outcome))
    assert trained == []
    assert state.found == 2
    assert told == [None]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_jobs_that_are_new_to_a_grid_are_all_that_is_run(place, trained):
    place.run(small_jobs(1, 2))
    trained.clear()
    jobs = small_jobs(2, 2)
    state = place.run(jobs)
    assert trained == [jobs[1].spec.hash]
    assert state.found == 1
    assert len(state.done) == 2


def test_a_lost_record_comes_again_from_the_run_without_training(place, trained):
    (job,) = small_jobs(1, 2)
    place.run([job])
    before = place.records()
    (place.out / "records" / f"{job.name}.json").unlink()
    trained.clear()
    place.run([job])
    assert trained == []
    assert place.records() == before


def test_a_job_whose_spec_has_changed_is_run_again_and_its_record_replaced(place, trained):
    (old,), (new,) = small_jobs(1, 2), small_jobs(1, 3)
    assert old.name == new.name
    place.run([old])
    trained.clear()
    place.run([new])
    assert trained == [new.spec.hash]
    assert place.records()[new.name]["spec_hash"] == new.spec.hash
    assert artifacts.is_finished(place.runs / old.spec.hash)


# -- failures


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failed_run_is_noted_with_its_error_and_the_others_go_on(place, workers):
    bad, good = small_job(name="ucr:Missing", fakes="none"), small_jobs(2, 2)
    state = place.run([bad, *good], workers)
    assert state.failed.keys() == place.failures().keys() == {bad.name}
    assert place.records().keys() == {job.name for job in good}
    (failure,) = place.failures().values()
    assert failure["name"] == bad.name
    assert "Missing" in failure["error"] or "no network" in failure["error"].lower()
    assert failure["error"] == state.failed[bad.name]
    assert "Traceback" in failure["trace"]
    assert failure["spec"] == bad.spec.model_dump(mode="json")
    assert not list(place.runs.glob("*.running"))


def test_whatever_goes_wrong_is_a_failure_and_a_later_success_removes_it(place, monkeypatch):
    jobs = small_jobs(2, 2)

    def fail(spec, *args, **rest):
        if spec.seed == 0:
            raise ZeroDivisionError("by zero")
        return train(spec, *args, **rest)

    train = training.train
    with monkeypatch.context() as patch:
        patch.setattr(training, "train", fail)
        state = place.run(jobs)
    assert state.failed == {jobs[0].name: "ZeroDivisionError: by zero"}
    assert place.records().keys() == {jobs[1].name}
    state = place.run(jobs)
    assert not state.failed
    assert place.failures() == {}
    assert place.records().keys() == {job.name for job in jobs}


def test_a_run_that_failed_on_the_way_goes_on_from_its_last_epoch(place, monkeypatch):
    (job,) = small_jobs(1, 4)
    evaluate, calls = training.epochs.evaluate, []

    def fail(*args, **rest):
        calls.append(1)
        if len(calls) == 3:
            raise MemoryError
        return evaluate(*args, **rest)

    with monkeypatch.context() as patch:
        patch.setattr(training.epochs, "evaluate", fail)
        assert place.run([job]).failed
    assert len(artifacts.load_history(place.runs / job.spec.hash)) == 2
    whole = Place(place.folder / "whole")
    write_data(whole.folder / "data")
    whole.run([job])
    assert not place.run([job]).failed
    assert_same_run(place.runs / job.spec.hash, whole.runs / job.spec.hash)


def test_the_summary_is_written_when_the_grid_is_interrupted(place, monkeypatch):
    jobs = small_jobs(2, 2)

    def interrupt(spec, *args, **rest):
        if spec.seed == 1:
            raise KeyboardInterrupt
        return train(spec, *args, **rest)

    train = training.train
    monkeypatch.setattr(training, "train", interrupt)
    with pytest.raises(KeyboardInterrupt):
        place.run(jobs)
    assert [row["n_seeds"] for row in json.loads((place.out / "summary.json").read_text())] == [1]


# -- more than one process


def test_a_run_that_another_process_is_at_is_left_to_it(place, trained):
    (job,) = small_jobs(1, 2)
    place.runs.mkdir()
    with FileLock(place.runs / f"{job.spec.hash}.lock"):
        assert run_job(job, runs=place.runs, folder=place.folder / "data").state == "elsewhere"
    assert not (place.runs / job.spec.hash).exists()
    assert run_job(job, runs=place.runs, folder=place.folder / "data").state == "done"


def test_what_another_process_is_at_is_waited_for_in_the_end(place):
    jobs, told = small_jobs(2, 2), []
    place.runs.mkdir()
    lock = FileLock(place.runs / f"{jobs[0].spec.hash}.lock", thread_local=False)
    lock.acquire()

    def watch(state, outcome):
        if outcome is not None:
            told.append((outcome.job.name, outcome.state))
            if len(told) == 2:  # all that could be done is done
                lock.release()

    state = run_grid(jobs, place.out, place.runs, engine=JoblibEngine(2), folder=place.folder / "data", on_change=watch)
    assert sorted(told[:2]) == sorted([(jobs[0].name, "elsewhere"), (jobs[1].name, "done")])
    assert told[2:] == [(jobs[0].name, "done")]
    assert not state.elsewhere
    assert place.records().keys() == {job.name for job in jobs}


def test_two_processes_on_one_folder_share_the_work(place):
    grids = [place.start("--count", "4", "--epochs", "10") for _ in range(2)]
    one, two = (outcome_of(grid) for grid in grids)
    names = {job.name for job in small_jobs(4, 10)}
    assert one["failed"] == two["failed"] == {}
    assert place.records().keys() == names
    for outcome in (one, two):
        assert set(outcome["done"]) == names
        assert outcome["elsewhere"] == []
    for job in small_jobs(4, 10):
        lines = artifacts.load_history(place.runs / job.spec.hash)
        assert [line["epoch"] for line in lines] == list(range(1, 11))
        seconds = [line["cpu_seconds"] for line in lines]
        assert seconds == sorted(seconds)  # one sitting, not two that were mixed
    assert not list(place.runs.glob("*.running"))
    assert len(load_records(place.out)) == 4


# -- kills


def caught_in_the_act(place, grid):
    """The hash of a run that is under way, a few epochs in."""
    return wait_until(lambda: next((name for name, epochs in place.under_way().items() if epochs >= 3), None), grid)


def test_a_grid_that_is_killed_goes_on_to_what_it_would_have_become(place):
    jobs = small_jobs(2, LONG)
    grid = place.start("--count", "2", "--epochs", str(LONG), "--workers", "2")
    try:
        caught = caught_in_the_act(place, grid)
    finally:
        kill_group(grid)
    (job,) = (job for job in jobs if job.spec.hash == caught)
    wait_until(lambda: is_free(place.runs / f"{caught}.lock"))
    assert not artifacts.is_finished(place.runs / caught)
    assert 3 <= len(artifacts.load_history(place.runs / caught)) < LONG
    state = place.run(jobs)
    assert state.done.keys() == {job.name for job in jobs}
    assert sorted(place.records()) == sorted(state.done)
    assert not list(place.runs.glob("*.running"))
    whole = Place(place.folder / "whole")
    write_data(whole.folder / "data")
    whole.run([job])
    assert_same_run(place.runs / caught, whole.runs / caught)


def is_free(path):
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except TimeoutError:
        return False
    lock.release()
    return True


def test_all_results_arrive_when_a_worker_is_killed(place):
    grid = place.start("--count", "3", "--epochs", str(LONG), "--workers", "2")
    try:
        victim = caught_in_the_act(place, grid)
        pid = json.loads((place.runs / f"{victim}.running").read_text())["pid"]
        assert pid != grid.pid
        os.kill(pid, signal.SIGKILL)
        outcome = outcome_of(grid)
    finally:
        if grid.poll() is None:
            kill_group(grid)
    names = sorted(job.name for job in small_jobs(3, LONG))
    assert outcome["done"] == names
    assert (outcome["failed"], outcome["elsewhere"]) == ({}, [])
    assert sorted(outcome["told"]) == [f"{name} done" for name in names]
    assert sorted(place.records()) == names
    for job in small_jobs(3, LONG):
        lines = artifacts.load_history(place.runs / job.spec.hash)
        assert [line["epoch"] for line in lines] == list(range(1, LONG + 1))


def die_on_seed_one(job):
    if job.spec.seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome(job, "done", record={})


def test_a_job_that_kills_every_worker_is_given_up_and_the_others_go_on():
    jobs = small_jobs(4, 2)
    outcomes = {outcome.job.spec.seed: outcome for outcome in JoblibEngine(2).run(die_on_seed_one, jobs)}
    assert {seed: outcome.state for seed, outcome in outcomes.items()} == {0: "done", 1: "failed", 2: "done", 3: "done"}
    assert "its process died" in outcomes[1].error


# -- where a grid stands


def state_of(jobs, runs, workers=1):
    return GridState(tuple(jobs), runs, workers)


def test_nothing_is_guessed_before_the_first_run_is_over(tmp_path):
    assert state_of(small_jobs(3, 2), tmp_path).seconds_left() is None


def test_the_time_left_is_what_like_runs_took_over_the_workers(tmp_path):
    jobs = [small_job("random", 0), small_job("random", 1), small_job("learned", 0), small_job("learned", 1)]
    state = state_of(jobs, tmp_path, workers=2)
    state.done[jobs[0].name] = {"cpu_seconds": 10.0, "epochs": 2}
    assert state.seconds_left() == pytest.approx((10 + 10 + 10) / 2)
    state.done[jobs[2].name] = {"cpu_seconds": 30.0, "epochs": 2}
    assert state.seconds_left() == pytest.approx((10 + 30) / 2)
    state.failed[jobs[1].name] = "no"
    assert state.seconds_left() == pytest.approx(30 / 2)
    state.elsewhere.add(jobs[3].name)
    assert state.seconds_left() == 0


@pytest.mark.parametrize("by", [{"training__epochs": 9}, {"training__epochs": None, "training__effort": 0.5}], ids=str)
def test_runs_under_way_are_measured_by_the_length_of_finished_ones(by, tmp_path):
    jobs = [small_job("learned", seed, **by) for seed in range(2)]
    state = state_of(jobs, tmp_path)
    state.done[jobs[0].name] = {"cpu_seconds": 8.0, "epochs": 4}
    note = tmp_path / f"{jobs[1].spec.hash}.running"
    note.write_text(json.dumps({"name": jobs[1].name, "pid": 1, "host": "here", "started": state.started}))
    assert state.running() == {jobs[1].name: 0}
    (tmp_path / jobs[1].spec.hash).mkdir()
    history = tmp_path / jobs[1].spec.hash / artifacts.HISTORY
    history.write_text("{}\n" * 3)
    assert state.running() == {jobs[1].name: 3}
    assert state.seconds_left() == pytest.approx(8 * (1 - 3 / 4))
    history.write_text("{}\n" * 4)
    assert 0 < state.seconds_left() < 1  # the test set is still to come
    state.done[jobs[1].name] = {"cpu_seconds": 8.0, "epochs": 4}
    assert state.running() == {}
    assert state.seconds_left() == 0


def test_notes_of_other_grids_of_dead_ones_and_half_written_ones_are_not_under_way(tmp_path):
    jobs = small_jobs(2, 4)
    state = state_of(jobs, tmp_path)
    note = {"name": jobs[0].name, "pid": 1, "host": "here", "started": state.started - 100}
    (tmp_path / "a.running").write_text(json.dumps(note))
    (tmp_path / "b.running").write_text(json.dumps({**note, "name": "another", "started": state.started}))
    (tmp_path / "c.running").write_text('{"name": "')
    assert state.running() == {}


def test_what_is_under_way_is_seen_from_outside(place, monkeypatch):
    (job,) = small_jobs(1, 3)
    place.runs.mkdir()
    state, seen = state_of([job], place.runs), []
    evaluate = training.epochs.evaluate
    monkeypatch.setattr(
        training.epochs, "evaluate", lambda *args, **rest: (seen.append(state.running()), evaluate(*args, **rest))[1]
    )
    run_job(job, runs=place.runs, folder=place.folder / "data")
    assert seen == [{job.name: epochs} for epochs in range(3)]
    assert state.running() == {}


def test_a_job_s_outcome_is_the_same_whoever_asks_for_it(place):
    (job,) = small_jobs(1, 2)
    place.runs.mkdir()
    first, second = (run_job(job, runs=place.runs, folder=place.folder / "data") for _ in range(2))
    assert first == second
    assert first.record["name"] == job.name
    assert run_job(replace(job, preset="run"), runs=place.runs).record["preset"] == "run"
    assert runner.FAILED == "failed"
