from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from experiments.suite.__main__ import write_tables
from experiments.suite.jobs import Job, Setting, make_job
from experiments.suite.records import RECORDS, append_record, load_records, pack, unpack
from experiments.suite.run import run_jobs

JV = Setting("japanese-vowels")


def small(kind: str, asked: float | None, **plan: object) -> Job:
    job = make_job(JV, kind, asked, 0, 0.01)
    assert job.spec is not None
    return replace(job, spec=job.spec.change(acquirer__trees=10), **{"curve": False, "prices": False, **plan})


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Job], Path, Path]:
    folder = tmp_path_factory.mktemp("suite")
    jobs = [small("learned", 2.0, caps=(1.0,), means=(1.0,), prices=True), small("static", 2.0), small("complete", None)]
    outcomes = run_jobs(jobs, folder / "out", folder / "runs")
    assert [outcome.error for outcome in outcomes] == ["", "", ""]
    return jobs, folder / "out", folder / "runs"


def test_finished_runs_are_not_run_again(done):
    jobs, out, runs = done
    before = (out / RECORDS).read_bytes()
    assert run_jobs(jobs, out, runs) == []
    assert (out / RECORDS).read_bytes() == before


def test_a_lost_record_comes_from_the_run_folder(done, tmp_path, monkeypatch):
    jobs, out, runs = done
    first, *_ = (out / RECORDS).read_text().splitlines(keepends=True)
    (tmp_path / RECORDS).write_text(first[:100])  # a process was killed while writing it
    monkeypatch.setattr("whichwhen.training.run.fit_model", None)  # nothing is trained
    (outcome,) = run_jobs(jobs[:1], tmp_path, runs)
    (record,) = load_records(tmp_path)
    assert outcome.record == record
    assert record["evaluations"] == load_records(out)[0]["evaluations"]


def test_learned_and_learned_only_are_at_every_budget_of_the_plan(done):
    _, out, _ = done
    record = load_records(out)[0]
    at = {(row, one["budget_kind"], one["budget"]) for one in record["evaluations"] for row in one["rows"]}
    for row in ("learned", "learned-only"):
        assert {(row, "per-step", 1.0), (row, "per-step", 2.0), (row, "mean-cost", 1.0)} <= at
    assert sum(kind == "price" for _, kind, _ in at) == 12
    assert record["columns"] == [42, 12]
    assert record["command"].startswith("whichwhen train japanese-vowels --fakes noise --budget 2 --trees 10 --effort 0.01")
    for one in record["evaluations"]:
        if "correct" in one:
            assert unpack(one["correct"], one["n"]).mean() == pytest.approx(one["accuracy"])


def test_tables_are_written_from_the_records(done):
    _, out, _ = done
    text = write_tables(out)
    assert "learned - static, every archive set and budget" in text
    for name in ("summary", "differences", "targets"):
        assert (out / f"{name}.json").stat().st_size > 100


def test_half_a_line_hides_no_other(done, tmp_path):
    _, out, _ = done
    record = load_records(out)[0]
    append_record(tmp_path, record)
    with (tmp_path / RECORDS).open("a") as file:
        file.write('{"format":1,"na')
    append_record(tmp_path, {**record, "name": "other"})
    assert [one["name"] for one in load_records(tmp_path)] == [record["name"], "other"]


def test_bits_come_back():
    flags = np.random.default_rng(0).random(370) < 0.5
    assert (unpack(pack(flags), 370) == flags).all()
