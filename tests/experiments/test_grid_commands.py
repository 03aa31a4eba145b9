"""``whichwhen paper`` and ``whichwhen report`` as a user calls them, on a grid of a few small runs."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image
from small_grids import small_job, write_data

from whichwhen.cli import main
from whichwhen.experiments import paper

KEYS = {
    "dataset",
    "fakes",
    "shifted",
    "budget",
    "acquirer",
    "preset",
    "n_seeds",
    "mean",
    "std",
    "cost_per_step",
    "real_fraction",
}


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Folder of a finished grid: two acquirers, two seeds."""
    folder = tmp_path_factory.mktemp("grid")
    write_data(folder / "data")
    return folder, lambda *words: call(folder, *words)


def call(folder, *words, out="out", jobs=None):
    jobs = jobs or [small_job(acquirer, seed) for seed in (0, 1) for acquirer in ("random", "learned")]
    places = {"data-dir": "data", "out": out, "runs": "runs"}
    flags = [word for flag, place in places.items() for word in (f"--{flag}", str(folder / place))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "paper_grid", lambda **rest: tuple(jobs))
        return main(["paper", *flags, *words])


def test_a_grid_leaves_records_summary_tables_figures_and_a_page(grid, capsys, monkeypatch):
    folder, run = grid
    monkeypatch.setenv("COLUMNS", "200")
    assert run() == 0
    said = capsys.readouterr()
    out = folder / "out"
    assert len(list((out / "records").glob("*.json"))) == 4
    rows = json.loads((out / "summary.json").read_text())
    assert [row["acquirer"] for row in rows] == ["random", "learned"]
    for row in rows:
        assert set(row) >= KEYS | {"paper_mean", "paper_std"}
        assert row["n_seeds"] == 2
        assert f"{row['mean']:.3f} ± {row['std']:.3f}" in said.out
        assert f"{row['mean']:.3f} ± {row['std']:.3f}" in (out / "tables.md").read_text()
    assert "learned − random" in said.out
    with Image.open(out / "figures" / "pattern-paper-own-noise.png") as image:
        assert image.size[0] > 500
    assert (out / "figures" / "pattern-paper-own-noise.pdf").read_bytes().startswith(b"%PDF")
    assert "</html>" in (out / "report.html").read_text()
    assert re.search(r"4/4 .* accuracy \d\.\d+", said.err)


def test_a_second_call_runs_nothing_and_says_the_same(grid, capsys, monkeypatch):
    folder, run = grid
    run("--quiet")
    capsys.readouterr()
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("*.json")}
    assert run("--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["done"]) == 4
    assert document["failed"] == {}
    assert {path: path.stat().st_mtime_ns for path in (folder / "runs").rglob("*.json")} == before
    assert document["summary"] == json.loads((folder / "out" / "summary.json").read_text())


def test_a_failed_run_is_told_with_exit_code_1(grid, capsys, monkeypatch, tmp_path):
    folder, _ = grid
    monkeypatch.setenv("WHICHWHEN_CACHE", str(tmp_path / "cache"))
    jobs = [small_job("random", 0), small_job("random", 7, name="ucr:Missing")]
    assert call(folder, out="other", jobs=jobs) == 1
    said = capsys.readouterr()
    assert "failed: paper-missing-noise-random-7" in said.err
    assert len(list((folder / "other" / "records").glob("*.json"))) == 1


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("--jobs", "0"), "jobs is 0"),
        (("--seeds", "0"), "seeds is 0"),
        (("--address", "auto"), "--address without --engine ray"),
        (("--only", "m-forda", "nois"), "--only nois; expected words of this grid"),
        (("--epochs", "0"), "epochs is 0"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_2(words, part, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["paper", *words]) == 2
    err = capsys.readouterr().err
    assert part in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_report_of_no_grid_is_one_line(tmp_path, capsys):
    (tmp_path / "records").mkdir()
    assert main(["report", str(tmp_path)]) == 2
    assert "no records yet" in capsys.readouterr().err
    (tmp_path / "records" / "x.json").write_text("{")
    assert main(["report", str(tmp_path)]) == 2
    assert "x.json is not a record" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()
    assert Path(tmp_path / "records" / "x.json").read_text() == "{"
