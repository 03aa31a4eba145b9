import json
import math
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from support import TINY, TRAIN_TINY, contents, run_whichwhen
from whichwhen import __version__, artifacts
from whichwhen.cli import VERBS, main
from whichwhen.data import CATALOG, synthetic
from whichwhen.presets import preset_spec
from whichwhen.reports.progress import TrainingProgress
from whichwhen.specs import AcquirerKind, RunSpec

FILES = {
    "spec.json",
    "weights.safetensors",
    "history.jsonl",
    "series.parquet",
    "pattern.parquet",
    "samples.parquet",
    "result.json",
}


SMALL_TINY = (
    *("train", "synthetic:tiny", "--batch-size", "16", "--quiet", "--trees", "5"),
    *("--width", "4", "--layers", "1", "--acquirer-hidden", "4"),
)
RECIPE_TINY = (*SMALL_TINY, "--effort", "0.005")


@pytest.fixture(autouse=True, scope="module")
def tiny_task() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(synthetic.TASKS, "tiny", TINY)
        patch.delenv("WHICHWHEN_DATA", raising=False)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tiny_task: None) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert main([*TRAIN_TINY, "--save-epochs", "--json", "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Run a verb that must work, and return what it printed."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str) -> str:
        capsys.readouterr()
        assert main(list(words)) == 0
        out, err = capsys.readouterr()
        assert err == "" or "--quiet" not in words
        return out

    return run


def result_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "result.json").read_text())


def same_weights(one: Path, other: Path) -> bool:
    mine, theirs = (load_file(folder / "weights.safetensors") for folder in (one, other))
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


# help


def help_text(verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as stopped:
        main([verb, "--help"])
    assert stopped.value.code == 0
    out, err = capsys.readouterr()
    assert err == ""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", out).split())


@pytest.mark.parametrize("verb", VERBS)
def test_help_shows_flags_and_defaults(verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = help_text(verb, capsys, monkeypatch)
    assert text.startswith(f"usage: whichwhen {verb}")
    assert "--json" in text
    assert "(default: " in text
    arguments, _ = VERBS[verb]
    for field in arguments.model_fields.values():
        if field.description:
            assert field.description in text


def leaves(spec: RunSpec) -> Iterator[tuple[str, str, Any]]:
    """Flag, description and default of every field of a run."""
    for name, part in type(spec).model_fields.items():
        value = getattr(spec, name)
        own = getattr(type(value), "model_fields", {name: part})
        for leaf, field in own.items():
            renamed = [extra.name for extra in field.metadata if getattr(extra, "name", None)]
            flag = renamed[0] if renamed else leaf.replace("_", "-")
            yield flag, field.description, value if leaf == name else getattr(value, leaf)


def test_every_field_of_a_run_is_a_flag_with_its_text_and_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = help_text("train", capsys, monkeypatch)
    flags = [flag for flag, _, _ in leaves(RunSpec())]
    assert len(set(flags)) == len(flags)
    for flag, description, default in leaves(RunSpec()):
        assert f"--{flag}" in text or flag == "name"
        assert f"{description} (default: {default})" in text


def test_the_whole_programs_help_lists_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for verb in ("data", "train", "evaluate", "demo", "plot"):
        assert f"\n  {verb} " in out


def test_no_words_at_all_show_the_help_as_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: whichwhen VERB" in capsys.readouterr().out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"whichwhen {__version__}\n"


def test_help_imports_neither_torch_nor_the_other_heavy_packages() -> None:
    code = """
import contextlib, io, sys
from whichwhen.cli import VERBS, main
for words in [["--help"], ["--version"], *([verb, "--help"] for verb in VERBS)]:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        main(words)
print([name for name in ("torch", "aeon", "sklearn", "matplotlib", "polars", "numba") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


# data


def test_data_lists_what_there_is_and_where_it_comes_from(call: Callable[..., str]) -> None:
    out = call("data")
    for entry in CATALOG:
        assert entry.name in out
    assert "aeon's wheel" in out


def test_data_lists_as_json(call: Callable[..., str], tmp_path: Path) -> None:
    rows = json.loads(call("data", "--json", "--data-dir", str(tmp_path)))
    assert [row["name"] for row in rows] == [entry.name for entry in CATALOG]
    origin = {row["name"]: row["from"] for row in rows}
    assert origin["japanese-vowels"] == "aeon's wheel"
    assert origin["m-forda"] == "not in the data folder"


def test_data_describes_one(call: Callable[..., str]) -> None:
    facts = json.loads(call("data", "japanese-vowels", "--fakes", "gp", "--n-fakes", "4", "--json"))
    assert (facts["train series"], facts["validation series"], facts["test series"]) == (216, 54, 370)
    assert facts["features"] == 16
    assert facts["of them real at step 0"] == 12
    assert facts["classes"] == list("123456789")
    assert facts["test lengths"] == "7-29"
    assert "japanese-vowels" in call("data", "japanese-vowels")


def test_data_tells_what_a_task_allows(call: Callable[..., str]) -> None:
    facts = json.loads(call("data", "synthetic:tiny", "--budget", "2", "--json"))
    known = TINY.reference(2)
    assert facts["random accuracy at budget 2"] == pytest.approx(known.random, abs=1e-4)
    assert facts["optimum accuracy at budget 2"] == pytest.approx(known.optimum, abs=1e-4)


def test_data_prints_what_a_task_is_meant_for(call: Callable[..., str]) -> None:
    facts = json.loads(call("data", "synthetic:pointer", "--json"))
    known = synthetic.TASKS["pointer"].reference(2)
    assert facts["meant for a budget per step of"] == 2
    assert facts["chance accuracy"] == 0.5
    for name in ("random", "greedy", "blind", "optimum"):
        assert facts[f"{name} accuracy at budget 2"] == pytest.approx(getattr(known, name), abs=1e-4)
    other = json.loads(call("data", "synthetic:planning", "--budget", "3", "--json"))
    assert other["meant for a budget per step of"] == 1
    assert "blind accuracy at budget 3" in other


def test_data_draws_samples(call: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "new" / "samples.png"
    facts = json.loads(call("data", "japanese-vowels", "--fakes", "zeros", "--shift", "--plot", str(path), "--json"))
    assert facts["plot"] == str(path)
    with Image.open(path) as image:
        assert min(image.size) > 300


# train


def test_train_prints_its_result_as_one_document(call: Callable[..., str], tmp_path: Path) -> None:
    document = json.loads(call(*TRAIN_TINY, "--json", "--out", str(tmp_path / "run")))
    assert document == result_of(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES


def test_train_prints_a_table_and_where_the_run_is(call: Callable[..., str], tmp_path: Path) -> None:
    out = call(*TRAIN_TINY, "--acquirer", "complete", "--out", str(tmp_path / "run"))
    test = result_of(tmp_path / "run")["test"]
    assert f"{test['accuracy']:.3f}" in out
    assert "4.00" in out
    assert str(tmp_path / "run") in out


def test_train_shows_progress_on_stderr_unless_told_not_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [word for word in TRAIN_TINY if word != "--quiet"]
    assert main([*words, "--out", str(tmp_path / "a")]) == 0
    out, err = capsys.readouterr()
    assert "epochs       2/2" in err
    assert "validation accuracy" in err
    assert "epochs       2/2" not in out


def test_without_out_the_folder_is_named_after_the_run(
    call: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call(*TRAIN_TINY, "--acquirer", "random", "--seed", "3")
    assert result_of(tmp_path / "runs" / "synthetic-tiny-random-3")["seed"] == 3


def test_a_run_can_be_started_again_from_its_spec(call: Callable[..., str], run: Path, tmp_path: Path) -> None:
    for source, target in ((run / "spec.json", tmp_path / "a"), (run, tmp_path / "b")):
        call("train", "--spec", str(source), "--quiet", "--out", str(target))
        again, first = result_of(target), result_of(run)
        for numbers in (again, first):
            del numbers["cpu_seconds"], numbers["commit"]
        assert again == first
        assert same_weights(target, run)
        assert (target / "series.parquet").read_bytes() == (run / "series.parquet").read_bytes()


def test_flags_change_a_spec(call: Callable[..., str], run: Path, tmp_path: Path) -> None:
    call("train", f"--spec={run}", "--epochs", "1", "--quiet", "--out", str(tmp_path / "a"))
    assert artifacts.load_spec(tmp_path / "a") == artifacts.load_spec(run).change(training__epochs=1)


@pytest.fixture
def specs_trained(monkeypatch: pytest.MonkeyPatch) -> list[RunSpec]:
    """The specs that training was asked for, without doing it."""
    seen: list[RunSpec] = []

    def train(spec: RunSpec, *_: Any, **__: Any) -> dict[str, Any]:
        seen.append(spec)
        return {}

    monkeypatch.setattr("whichwhen.training.train", train)
    return seen


@pytest.mark.parametrize(
    "words",
    [
        ("m-forda", "--preset", "paper"),
        ("spoken-arabic-digits", "--preset=paper"),
        ("--preset", "paper", "--out", "x", "spoken-arabic-digits"),
        ("--preset", "paper", "--out", "spoken-arabic-digits", "m-forda"),
    ],
)
def test_the_papers_preset_fits_the_data_set(words: tuple[str, ...], specs_trained: list[RunSpec]) -> None:
    assert main(["train", *words, "--fakes", "noise", "--json"]) == 0
    name = "m-forda" if "m-forda" in words else "spoken-arabic-digits"
    assert specs_trained == [preset_spec("paper", name).change(data__fakes="noise")]


def test_the_shape_that_is_to_be_kept(specs_trained: list[RunSpec]) -> None:
    words = "train m-forda --fakes noise --acquirer learned --budget 5 --seed 0 --out DIR --json"
    assert main(words.split()) == 0
    assert specs_trained == [RunSpec().change(data__name="m-forda", data__fakes="noise", budget__per_step=5)]


def test_every_acquirer_trains(call: Callable[..., str], tmp_path: Path) -> None:
    for kind in get_args(AcquirerKind):
        words = (*TRAIN_TINY, "--epochs", "1", "--trees", "5", "--segments", "2", "--acquirer", kind)
        result = json.loads(call(*words, "--json", "--out", str(tmp_path / kind)))
        assert result["acquirer"] == kind
        assert result["test"]["cost_per_step"] == {"complete": 4, "none": 0}.get(kind, 1)
        assert result["test"]["real_fraction"] == {"complete": 0.25, "none": None, "oracle": 1}.get(
            kind, result["test"]["real_fraction"]
        )


@pytest.mark.parametrize("kind", get_args(AcquirerKind))
def test_every_acquirer_trains_by_the_recipe(kind: str, call: Callable[..., str], tmp_path: Path) -> None:
    words = (*RECIPE_TINY, "--segments", "2", "--acquirer", kind)
    result = json.loads(call(*words, "--json", "--out", str(tmp_path / kind)))
    assert result["acquirer"] == kind
    assert (result["kept"] == kind) != (kind == "learned")
    assert [row["kept"] for row in result["candidates"]].count(True) == (kind == "learned")
    cost = result["test"]["cost_per_step"]
    assert cost == {"complete": 4, "none": 0}.get(kind, cost)
    assert cost <= 1 or kind == "complete"
    assert json.loads(call("evaluate", str(tmp_path / kind), "--json"))["cost_per_step"] == cost


# resume


def stop_after(epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def show(self: TrainingProgress, state: Any) -> None:
        if len(state.history) == epoch:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingProgress, "epoch", show)


def test_an_interrupted_run_says_how_to_go_on_and_goes_on(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], call: Callable[..., str]
) -> None:
    out = tmp_path / "run"
    words = (*TRAIN_TINY, "--save-epochs", "--out", str(out))
    with pytest.MonkeyPatch.context() as patch:
        stop_after(1, patch)
        assert main(list(words)) == 130
    err = capsys.readouterr().err
    assert "--resume" in err
    assert str(out) in err
    assert "Traceback" not in err
    assert not (out / "result.json").exists()
    call(*words, "--resume")
    assert contents(out).keys() == contents(run).keys()
    assert same_weights(out, run)
    for name in ("series.parquet", "pattern.parquet", "samples.parquet", "spec.json"):
        assert (out / name).read_bytes() == (run / name).read_bytes()
    assert result_of(out)["test"] == result_of(run)["test"]


def test_resuming_a_finished_run_reads_its_result(call: Callable[..., str], run: Path) -> None:
    before = contents(run)
    assert json.loads(call(*TRAIN_TINY, "--save-epochs", "--json", "--resume", "--out", str(run))) == result_of(run)
    assert contents(run) == before


def test_resume_into_a_new_folder_just_trains(call: Callable[..., str], tmp_path: Path) -> None:
    call(*TRAIN_TINY, "--resume", "--out", str(tmp_path / "new"))
    assert result_of(tmp_path / "new")["epochs"] == 2


# evaluate


def test_evaluate_gives_the_numbers_of_the_result(call: Callable[..., str], run: Path) -> None:
    before = contents(run)
    for split in ("test", "validation"):
        document = json.loads(call("evaluate", str(run), "--split", split, "--json"))
        assert {name: document[name] for name in result_of(run)[split]} == result_of(run)[split]
        assert (document["split"], document["budget"], document["seed"]) == (split, 1, 0)
    assert contents(run) == before


def test_evaluate_is_on_test_by_default(call: Callable[..., str], run: Path) -> None:
    assert json.loads(call("evaluate", str(run), "--json"))["accuracy"] == result_of(run)["test"]["accuracy"]
    assert f"{result_of(run)['test']['accuracy']:.4g}" in call("evaluate", str(run))


@pytest.mark.parametrize("how", [("--epochs", "1"), ("--effort", "0.005")], ids=" ".join)
def test_evaluate_with_another_total_bills_it_as_the_model_was_trained(
    how: tuple[str, ...], call: Callable[..., str], tmp_path: Path
) -> None:
    call(*SMALL_TINY, *how, "--total", "6", "--bill", "delivered", "--out", str(tmp_path / "run"))
    own = json.loads(call("evaluate", str(tmp_path / "run"), "--json"))
    again = json.loads(call("evaluate", str(tmp_path / "run"), "--total", "6", "--json"))
    assert again == own
    assert (own["budget kind"], own["budget"]) == ("total", 6)
    assert 0 < own["delivered_cost"] <= 6


def test_evaluate_with_another_budget(call: Callable[..., str], run: Path) -> None:
    document = json.loads(call("evaluate", str(run), "--budget", "3", "--json"))
    assert document["cost_per_step"] == document["budget"] == 3


def test_evaluate_of_a_plain_set_is_short_with_calibration(call: Callable[..., str], run: Path, tmp_path: Path) -> None:
    plot = tmp_path / "curve.png"
    document = json.loads(call("evaluate", str(run), "--plot", str(plot), "--json"))
    assert document["plot"] == str(plot)
    with Image.open(plot) as picture:
        assert min(picture.size) > 300
    found = document["calibration"]
    assert sum(row["count"] for row in found["curve"]) == document["n"] == TINY.n_test
    assert not {"detection", "subgroups", "estimates", "refused"} & document.keys()
    lines = call("evaluate", str(run)).splitlines()
    assert [line.split()[0] for line in lines[-3:]] == ["calibration_error", "temperature", "calibration_error_after"]
    assert lines[-3].split()[1] == f"{found['expected_calibration_error']:.4g}"


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--false-alarms", "0.1"], "label for each step"), (["--plot", "curve.txt"], "a figure called curve.txt")],
)
def test_evaluate_refuses_what_the_set_has_not(
    words: list[str], said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(run), *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_evaluate_of_a_table_with_labels_per_step_subgroups_and_holes(call: Callable[..., str], tmp_path: Path) -> None:
    rng = random.Random(0)
    lines = ["stay,hour,a,b,septic,ward"]
    for stay in range(80):
        sick, onset = stay % 3 == 0, rng.randrange(1, 4)
        for hour in range(5):
            late = int(sick and hour >= onset)
            b = "" if rng.random() < 0.3 else f"{rng.gauss(2.0 * late, 1):.3f}"
            lines.append(f"{stay},{hour},{rng.gauss(late, 1):.3f},{b},{late},{'north' if stay % 2 else 'south'}")
    table = tmp_path / "own.csv"
    table.write_text("\n".join(lines) + "\n")
    out = str(tmp_path / "run")
    small = ("--epochs", "1", "--width", "4", "--layers", "1", "--acquirer-hidden", "4", "--budget", "1", "--quiet")
    given = ("--id", "stay", "--time", "hour", "--label", "septic", "--label-each-step", "--subgroups", "ward")
    call("train", str(table), *given, "--test-share", "0.5", *small, "--out", out)
    document = json.loads(call("evaluate", out, "--false-alarms", "0.3", "--json"))
    assert document["detection"]["false_alarms"] == 0.3
    assert [row["value"] for row in document["subgroups"]] == ["north", "south"]
    assert sum(row["n"] for row in document["subgroups"]) == document["n"]
    assert {row["estimator"] for row in document["estimates"]} == {"naive", "restricted-by-step", "ipw-by-step"}
    shown = call("evaluate", out, "--false-alarms", "0.3")
    for words in ("Alarms at 0.3 false alarms", "By subgroup", " north ", "If all requests had been answered", "restricted"):
        assert words in shown
    assert "estimates" not in json.loads(call("evaluate", out, "--no-estimate", "--json"))


@pytest.mark.parametrize(("columns", "bought"), [(4, 1), (1, 1), (12, 3)])
@pytest.mark.parametrize("how", [("--epochs", "1"), ("--effort", "0.005")], ids=" ".join)
def test_a_table_of_few_columns_trains_with_the_default_budget(
    columns: int, bought: int, how: tuple[str, ...], call: Callable[..., str], tmp_path: Path
) -> None:
    rng = random.Random(0)
    names = [f"c{i}" for i in range(columns)]
    lines = [",".join(["stay", "hour", "died", *names])]
    for stay in range(40):
        for hour in range(4):
            values = (f"{rng.gauss(stay % 2, 1):.3f}" for _ in names)
            lines.append(",".join([str(stay), str(hour), str(stay % 2), *values]))
    table = tmp_path / "own.csv"
    table.write_text("\n".join(lines) + "\n")
    small = ("--width", "4", "--layers", "1", "--trees", "5", *how, "--quiet", "--json")
    given = ("--id", "stay", "--time", "hour", "--label", "died", "--test-share", "0.3")
    result = json.loads(call("train", str(table), *given, *small, "--out", str(tmp_path / "run")))
    assert (result["budget_kind"], result["budget"]) == ("per-step", bought)
    assert 0 <= result["test"]["cost_per_step"] <= bought
    shown = call("train", str(table), *given, *small[:-1], "--seed", "1", "--out", str(tmp_path / "other"))
    assert f"budget {bought} per step, seed 1" in " ".join(shown.split())  # a long title takes two lines
    assert "requests on real features" not in shown


@pytest.mark.parametrize(("given", "told"), [((), True), (("--predictor-now",), False), (("--predictor", "gru"), False)])
def test_where_labels_change_a_predictor_of_the_mean_alone_is_warned_of(
    given: tuple[str, ...], told: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = tmp_path / "own.csv"
    rows = [f"{stay},{hour},{stay / 9 + hour},{int(stay % 2 and hour > 1)}" for stay in range(40) for hour in range(3)]
    table.write_text("\n".join(["stay,hour,a,septic", *rows]) + "\n")
    small = ("--epochs", "1", "--width", "4", "--layers", "1", "--budget", "1", "--json", "--batch-size", "4")
    own = ("--id", "stay", "--time", "hour", "--label", "septic", "--label-each-step", "--test-share", "0.2")
    assert main(["train", str(table), *own, *small, *given, "--out", str(tmp_path / "run")]) == 0
    assert ("--predictor-now" in capsys.readouterr().err) == told


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "budget 1 per step"),
        (("--budget", "2"), "budget 2 per step"),
        (("--mean-cost", "1.5"), "mean cost 1.5 per step"),
        (("--total", "4"), "total 4"),
        (("--price", "0.01"), "price 0.01"),
        (("--price", "0.01", "--budget", "2"), "price 0.01, at most 2 per step"),
    ],
)
@pytest.mark.filterwarnings("ignore::whichwhen.errors.BudgetWarning")
def test_the_title_says_which_budget_counts(
    given: tuple[str, ...], said: str, call: Callable[..., str], tmp_path: Path
) -> None:
    shown = call(*RECIPE_TINY, *given, "--out", str(tmp_path / "run"))
    assert f", {said}, seed 0" in shown


def test_a_folder_with_brackets_in_its_name_is_shown_as_it_is(call: Callable[..., str], run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run[b]"
    folder.symlink_to(run)
    assert str(folder) in call("evaluate", str(folder))


# plot


def test_plot_draws_into_the_first_run_by_default(call: Callable[..., str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    call(*TRAIN_TINY, "--out", str(out))
    before = contents(out)
    printed = call("plot", str(out)).split()
    assert printed == [str(out / "pattern.png"), str(out / "curves.png")]
    for path in printed:
        with Image.open(path) as image:
            assert min(image.size) > 300
    assert {name: data for name, data in contents(out).items() if not name.endswith(".png")} == before


def test_plot_several_runs_into_a_new_folder(call: Callable[..., str], run: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    call(*TRAIN_TINY, "--acquirer", "random", "--out", str(other))
    before = contents(run)
    target = tmp_path / "new" / "figures"
    document = json.loads(call("plot", str(run), str(other), "--out", str(target), "--format", "svg", "--json"))
    assert document == {"figures": [str(target / "pattern.svg"), str(target / "curves.svg")]}
    assert sorted(contents(target)) == ["curves.svg", "pattern.svg"]
    assert contents(run) == before


def test_the_test_curve_is_read_from_saved_epochs(
    call: Callable[..., str], run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from whichwhen.reports import figures

    drawn: dict[str, Any] = {}
    draw = figures.draw_curves
    monkeypatch.setattr(figures, "draw_curves", lambda histories, test: drawn.update(test) or draw(histories, test))
    call("plot", str(run), "--test-curve", "--out", str(tmp_path))
    best = result_of(run)["best_epoch"]
    assert len(drawn["learned"]) == 2
    assert math.isclose(drawn["learned"][best - 1], result_of(run)["test"]["accuracy"])


# as a process


def test_real_data_from_one_command_to_the_next(tmp_path: Path) -> None:
    words = "train ucr:BasicMotions --fakes gp --n-fakes 3 --epochs 1 --budget 2 --width 4 --layers 1 --json --out run"
    trained = run_whichwhen(*words.split(), cwd=tmp_path, WHICHWHEN_DATA="", WHICHWHEN_CACHE=str(tmp_path / "cache"))
    assert (trained.returncode, trained.stderr) == (0, "")
    result = json.loads(trained.stdout)
    assert result["test"]["cost_per_step"] == 2
    evaluated = run_whichwhen("evaluate", "run", "--json", cwd=tmp_path, WHICHWHEN_DATA="")
    assert (evaluated.returncode, evaluated.stderr) == (0, "")
    document = json.loads(evaluated.stdout)
    assert {name: document[name] for name in result["test"]} == result["test"]
    assert {path.name for path in tmp_path.iterdir()} == {"run"}


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", [("--help",), ("data", "--json")], ids=" ".join)
def test_a_reader_that_leaves_early_causes_no_complaint(words: tuple[str, ...], unbuffered: str, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "whichwhen", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(writing)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--acquirer-hidden", "0"),
        ("--acquirer-time-features", "-1"),
        ("--predictor-time-features", "-1"),
        ("--bins", "-1"),
        ("--trees", "0"),
        ("--batch-size", "0"),
    ],
)
def test_a_number_out_of_range_is_answered_with_the_flag_that_it_was_given_by(
    flag: str, value: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*TRAIN_TINY, flag, value, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert f"{flag[2:]} is {value}" in said
    assert f"change {flag}" in said
