"""What runs share changes nothing in what they give."""

from dataclasses import replace

import pytest
from experiments.suite.jobs import Job, Setting, make_job
from experiments.suite.records import load_records
from experiments.suite.run import run_jobs

from whichwhen import artifacts


def small(kind: str, asked: float | None = 2.0) -> Job:
    job = make_job(Setting("japanese-vowels"), kind, asked, 0, 0.01)
    assert job.spec is not None
    own = ("caps", "means") if kind == "learned" else ()
    return replace(job, spec=job.spec.change(acquirer__trees=10), curve=False, prices=False, **dict.fromkeys(own, ()))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Records of learned, the rule that it settled, and others: in one folder, and each in a folder of its own."""
    folder = tmp_path_factory.mktemp("reuse")
    jobs = [small("learned")]
    (outcome,) = run_jobs(jobs, folder / "out", folder / "runs")
    assert outcome.error == ""
    found = artifacts.load_candidates(folder / "runs" / jobs[0].hash)
    (rule,) = {model.card.acquirer for model in found} - {"learned-only"}
    jobs += [small(rule), small("learned-only"), small("complete", None)]
    assert [outcome.error for outcome in run_jobs(jobs[1:], folder / "out", folder / "runs")] == ["", "", ""]
    for job in jobs:
        run_jobs([job], folder / "alone", folder / f"runs-{job.acquirer}")
    return jobs, load_records(folder / "out"), load_records(folder / "alone"), folder


def test_evaluations_are_those_of_runs_by_themselves(shared):
    _, together, alone, _ = shared
    for one in alone:
        (other,) = (record for record in together if record["name"] == one["name"])
        assert other["evaluations"] == one["evaluations"]


def test_the_rule_and_the_warm_ups_were_not_trained_again(shared):
    jobs, together, alone, _ = shared
    saved = {record["name"]: record["saved_seconds"] for record in together}
    by_itself = {record["name"]: record["saved_seconds"] for record in alone}
    for job in jobs[1:]:
        assert saved[job.name] > by_itself[job.name]


def test_a_history_reads_as_that_of_a_run_by_itself(shared):
    jobs, _, _, folder = shared
    taken, alone = folder / "runs" / jobs[1].hash, folder / f"runs-{jobs[1].acquirer}" / jobs[1].hash
    for name in ("phase", "step", "epoch", "loss", "validation_loss"):
        assert [line[name] for line in artifacts.load_history(taken)] == [line[name] for line in artifacts.load_history(alone)]
