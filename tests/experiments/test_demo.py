import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from support import contents
from whichwhen import artifacts
from whichwhen.cli import main
from whichwhen.data import load_dataset
from whichwhen.experiments import demo
from whichwhen.reports import figures
from whichwhen.specs import RunSpec
from whichwhen.training import run as training_run

NAMES = ["static", "round-robin", "learned", "complete"]
WORDS = ("demo", "--effort", "0.01", "--out")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The demo's folder, and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("WHICHWHEN_DATA", raising=False)
        patch.setenv("WHICHWHEN_CACHE", str(folder.parent / "cache"))
        patch.setenv("COLUMNS", "160")
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            assert main([*WORDS, str(folder)]) == 0
    assert not (folder.parent / "cache").exists()
    return folder, out.getvalue(), err.getvalue()


def test_four_runs_are_trained_on_the_carried_data(finished: tuple[Path, str, str]) -> None:
    folder = finished[0]
    for name in NAMES:
        artifacts.check_finished(folder / name)
        spec = artifacts.load_spec(folder / name)
        assert (spec.data.name, spec.data.fakes, spec.data.n_fakes) == ("japanese-vowels", "noise", 30)
        assert (spec.acquirer.kind, spec.budget.per_step) == (name, 1)
        assert (spec.training.epochs, spec.training.effort) == (None, 0.01)
        result = artifacts.load_result(folder / name)
        assert result["test"]["n"] == 370
        if name in ("static", "round-robin", "complete"):
            assert result["test"]["cost_per_step"] == (42 if name == "complete" else 1)
        else:
            assert 0 < result["test"]["cost_per_step"] <= 1
    assert artifacts.load_result(folder / "complete")["test"]["real_fraction"] == pytest.approx(12 / 42)


def test_the_table_has_a_line_per_acquirer(finished: tuple[Path, str, str]) -> None:
    folder, out, _ = finished
    rows = {line.strip("│ ").split()[0]: line for line in out.splitlines() if line.startswith("│")}
    assert list(rows) == NAMES
    for name, line in rows.items():
        test = artifacts.load_result(folder / name)["test"]
        assert f"{test['accuracy']:.3f}" in line
        assert f"{test['cost_per_step']:.2f}" in line
        assert f"{100 * test['real_fraction']:.0f} %" in line
    for words in ("accuracy", "cost per step", "requests on real features"):
        assert words in out


def test_what_validation_kept_is_said_with_what_the_other_would_have_given(finished: tuple[Path, str, str]) -> None:
    result = artifacts.load_result(finished[0] / "learned")
    kept, other = sorted(result["candidates"], key=lambda row: not row["kept"])
    (line,) = (line for line in finished[1].splitlines() if line.startswith("kept "))
    assert line.startswith(f"kept {kept['title']}: {kept['test']['accuracy']:.3f}")
    assert f"{other['title']} would have given {other['test']['accuracy']:.3f}" in line


def test_progress_shows_phase_round_loss_and_validation_accuracy(finished: tuple[Path, str, str]) -> None:
    err = finished[2]
    for name in NAMES:
        lines = [line for line in err.splitlines() if line.startswith(name)]
        rounds = len(artifacts.load_history(finished[0] / name))
        assert f"{rounds}/{rounds}" in lines[-1]
        for line in lines:
            assert "loss" in line
            assert ("validation accuracy" in line) == ("refit" not in line)
        assert "refit" in lines[-1]


def test_panels_say_which_rule_was_kept(finished: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[str]] = []
    for name in ("draw_patterns", "draw_curves"):
        draw = getattr(figures, name)
        monkeypatch.setattr(figures, name, lambda runs, *more, draw=draw: drawn.append(list(runs)) or draw(runs, *more))
    assert main([*WORDS, str(finished[0]), "--quiet"]) == 0
    assert main(["plot", *(str(finished[0] / name) for name in NAMES), "--out", str(finished[0].parent / "plots")]) == 0
    result = artifacts.load_result(finished[0] / "learned")
    kept = next(row for row in result["candidates"] if row["kept"])
    learned = "learned" if kept["acquirer"] == "learned-only" else f"learned (kept {kept['title']})"
    assert drawn == [["static", "round-robin", learned, "complete"]] * 4


@pytest.mark.parametrize("name", ["pattern.png", "curves.png"])
def test_figures_are_whole_and_not_blank(name: str, finished: tuple[Path, str, str]) -> None:
    with Image.open(finished[0] / name) as image:
        image.verify()
    with Image.open(finished[0] / name) as image:
        pixels = np.asarray(image.convert("L"), dtype=float)
    assert min(pixels.shape) > 300
    assert pixels.std() > 5


def test_the_records_hold_spec_result_and_command(finished: tuple[Path, str, str]) -> None:
    folder = finished[0]
    records = json.loads((folder / "summary.json").read_text())
    assert records["command"].startswith("whichwhen demo ")
    for words in ("--effort 0.01", "--fakes noise", "--n-fakes 30", "--budget 1", "--seed 0"):
        assert words in records["command"]
    assert [record["name"] for record in records["runs"]] == NAMES
    for record in records["runs"]:
        assert RunSpec.model_validate(record["spec"]) == artifacts.load_spec(folder / record["name"])
        assert record["test"] == artifacts.load_result(folder / record["name"])["test"]
        assert {"seed", "commit", "cpu_seconds"} <= record.keys()


def test_a_second_call_shows_what_is_there(
    finished: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = finished[0]
    before = {name: contents(folder / name) for name in NAMES}
    records = (folder / "summary.json").read_bytes()
    monkeypatch.setattr(training_run, "fit_model", None)
    monkeypatch.setattr(demo, "load_dataset", None)
    monkeypatch.setenv("COLUMNS", "160")
    assert main([*WORDS, str(folder)]) == 0
    out, err = capsys.readouterr()
    assert {name: contents(folder / name) for name in NAMES} == before
    assert (folder / "summary.json").read_bytes() == records
    assert [line for line in out.splitlines() if line.startswith("│")] == [
        line for line in finished[1].splitlines() if line.startswith("│")
    ]
    assert "already" in err


def test_json_is_one_document_with_all_runs(
    finished: tuple[Path, str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "new" / "record.json"
    assert main([*WORDS, str(finished[0]), "--json", "--record", str(record)]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert list(document) == NAMES
    assert document["learned"]["test"] == artifacts.load_result(finished[0] / "learned")["test"]
    assert err == ""
    assert json.loads(record.read_text()) == json.loads((finished[0] / "summary.json").read_text())


@pytest.mark.parametrize("change", [("--seed", "1"), ("--effort", "0.02"), ("--fakes", "gp")], ids=lambda words: words[0])
def test_another_demo_is_not_written_over_this_one(
    change: tuple[str, str], finished: tuple[Path, str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(finished[0])
    assert main([*WORDS, str(finished[0]), *change]) == 2
    _, err = capsys.readouterr()
    message = err.strip().splitlines()[-1]
    assert "holds another run" in message
    assert "--out" in message
    assert contents(finished[0]) == before


def test_files_of_others_in_the_folder_are_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("summary.json", "pattern.png", "curves.png"):
        (tmp_path / name).write_text("mine")
    monkeypatch.setattr(demo, "train", lambda *_, **__: pytest.fail("trained into a folder that is not its own"))
    assert main([*WORDS, str(tmp_path)]) == 2
    assert contents(tmp_path) == dict.fromkeys(("summary.json", "pattern.png", "curves.png"), b"mine")


def test_runs_on_the_same_data_load_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[Any] = []
    trained: dict[str, Any] = {}

    def load(*words: Any) -> Any:
        loads.append(load_dataset(*words))
        return loads[-1]

    def train(spec: RunSpec, out: Path, **rest: Any) -> dict[str, Any]:
        trained[out.name] = rest["data"]
        assert rest["resume"]
        return {"spec": spec.hash}

    monkeypatch.setattr(demo, "load_dataset", load)
    monkeypatch.setattr(demo, "train", train)
    specs = demo.demo_specs(RunSpec())
    results = demo.run_specs(specs, tmp_path)
    assert len(loads) == 1
    assert all(data is loads[0] for data in trained.values())
    assert results == {name: {"spec": specs[name].hash} for name in NAMES}


def test_the_four_differ_in_the_acquirer_alone() -> None:
    base = RunSpec().change(seed=4)
    for name, spec in demo.demo_specs(base).items():
        assert spec == base.change(acquirer__kind=name)


def test_an_interrupted_demo_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    began: list[str] = []

    def train(spec: RunSpec, out: Path, **_: Any) -> dict[str, Any]:
        began.append(out.name)
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "train", train)
    assert main([*WORDS, str(tmp_path / "new")]) == 130
    assert "same command goes on" in capsys.readouterr().err
    assert began == ["static"]
