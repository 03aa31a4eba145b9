"""Everything that a user can get wrong: one line, exit code 2, no traceback, nothing overwritten or lost."""

import json
import shlex
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from safetensors.torch import save_file

from support import TINY, TRAIN_TINY, contents, run_whichwhen, ts_rows, ts_text, write_archive
from whichwhen.cli import main
from whichwhen.data import synthetic
from whichwhen.reports.progress import TrainingProgress

OWN = ("train", "ucr:Own", "--data-dir", "data", "--epochs", "1", "--width", "4", "--layers", "1", "--budget", "1")
TINY_WORDS = tuple(word for word in TRAIN_TINY if word != "--quiet")
SMALL_TINY = ("train", "synthetic:tiny", "--width", "4", "--layers", "1", "--trees", "5")
RECIPE = (*SMALL_TINY, "--effort", "0.01", "--out", "new")
GOOD = ts_text(ts_rows())
NEVER = ts_text([f"1,2,3,{i}:nan,nan,nan,nan:{'ab'[i % 2]}" for i in range(12)])


@pytest.fixture(autouse=True, scope="module")
def tiny_task() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(synthetic.TASKS, "tiny", TINY)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_task: None) -> Path:
    folder = tmp_path_factory.mktemp("bad") / "run"
    assert main([*TRAIN_TINY, "--json", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def unfinished(tmp_path_factory: pytest.TempPathFactory, tiny_task: None) -> Path:
    folder = tmp_path_factory.mktemp("bad") / "run"

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingProgress, "epoch", stop)
        assert main([*TRAIN_TINY, "--out", str(folder)]) == 130
    assert (folder / "checkpoint.safetensors").is_file()
    return folder


@pytest.fixture
def here(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, finished: Path, unfinished: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The working directory: a finished run, an unfinished one, no data folder, no network."""
    shutil.copytree(finished, tmp_path / "run")
    shutil.copytree(unfinished, tmp_path / "half")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WHICHWHEN_DATA", raising=False)
    monkeypatch.setenv("WHICHWHEN_CACHE", str(tmp_path_factory.mktemp("cache")))

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tmp_path


@dataclass(frozen=True)
class Case:
    """A mistake: what is there, what is typed, and what the message must speak of."""

    name: str
    words: tuple[str, ...]
    says: tuple[str, ...]
    prepare: Callable[[Path], object] = lambda here: None


def archive(train: str = GOOD, test: str = GOOD, name: str = "Own") -> Callable[[Path], object]:
    return lambda here: write_archive(here / "data", train, test, name)


def with_row(row: str) -> str:
    return ts_text([*ts_rows()[:5], row, *ts_rows()[6:]])


def edit_json(path: str, edit: Callable[[Any], object]) -> Callable[[Path], object]:
    def prepare(here: Path) -> None:
        content = json.loads((here / path).read_text())
        edit(content)
        (here / path).write_text(json.dumps(content))

    return prepare


def write(path: str, content: bytes | str) -> Callable[[Path], object]:
    return lambda here: (here / path).write_bytes(content.encode() if isinstance(content, str) else content)


def cut(path: str, share: float) -> Callable[[Path], object]:
    def prepare(here: Path) -> None:
        content = (here / path).read_bytes()
        (here / path).write_bytes(content[: int(share * len(content))])

    return prepare


def remove(path: str) -> Callable[[Path], object]:
    return lambda here: (here / path).unlink()


def fewer_rows(here: Path) -> None:
    path = here / "run" / "pattern.parquet"
    pl.read_parquet(path).head(7).write_parquet(path)


def set_key(*keys: str, value: object) -> Callable[[Any], None]:
    def edit(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return edit


RUN_FILES = ("weights.safetensors", "history.jsonl", "series.parquet", "pattern.parquet", "samples.parquet", "result.json")
TO_RUN = (*TINY_WORDS, "--out", "run")

ISSUE_CASES = [
    # data
    Case("unknown data set", ("train", "m-ford"), ("'m-ford'", "did you mean m-forda?")),
    Case("unknown data set, another", ("data", "spoken-arabic-digit"), ("did you mean spoken-arabic-digits?",)),
    Case("unknown archive", ("data", "ucr:japanesevowels"), ("'japanesevowels'", "did you mean ucr:JapaneseVowels?")),
    Case(
        "data folder without the files",
        ("train", "m-forda", "--data-dir", "data"),
        ("FordA/FordA_TRAIN.ts", "data folder data", "--data-dir", "timeseriesclassification.com"),
        archive(),
    ),
    Case(
        "data folder without the test file",
        ("train", "m-forda", "--data-dir", "data"),
        ("no file FordA/FordA_TEST.ts",),
        lambda here: (archive(name="FordA")(here), (here / "data" / "FordA" / "FordA_TEST.ts").unlink()),
    ),
    Case(
        "no network",
        ("train", "m-forda"),
        ("FordA is not here", "timeseriesclassification.com", "FordA_TRAIN.ts", "--data-dir", "WHICHWHEN_DATA"),
    ),
    Case("one class", OWN, ("one class (a)", "two"), archive(*[ts_text(ts_rows(labels=("a",)), ("a",))] * 2)),
    Case("a series of length 1", OWN, ("series 5", "1 step", "2 steps"), archive(with_row("1:2:b"))),
    Case("a series of length 1 in test", OWN, ("series 5", "test part"), archive(test=with_row("1:2:b"))),
    Case("a feature never observed in training", OWN, ("'x1'", "never observed"), archive(NEVER)),
    Case("inf", OWN, ("inf", "series 5", "step 3", "'x1'"), archive(with_row("1,2,3,4:5,6,7,inf:b"))),
    Case("inf in test", OWN, ("inf", "test part"), archive(test=with_row("1,-inf,3,4:5,6,7,8:b"))),
    # budgets
    Case("budget 0", (*TO_RUN, "--budget", "0"), ("budget is 0", "above 0")),
    Case("budget negative", (*TO_RUN, "--budget", "-2"), ("budget is -2", "above 0")),
    Case("budget nan", (*TO_RUN, "--budget", "nan"), ("budget is nan",)),
    Case("budget above the menu", (*TINY_WORDS, "--budget", "5", "--out", "new"), ("budget 5", "4 orders", "1 to 4")),
    Case("budget below an order", (*TINY_WORDS, "--budget", "0.5", "--out", "new"), ("budget 0.5", "1 to 4")),
    Case("evaluate with budget 0", ("evaluate", "run", "--budget", "0"), ("budget is 0", "above 0")),
    Case("evaluate with budget nan", ("evaluate", "run", "--budget", "nan"), ("budget is nan", "above 0")),
    Case("mean cost 0", (*RECIPE, "--mean-cost", "0"), ("mean-cost is 0", "above 0", "--mean-cost")),
    Case("mean cost negative", (*RECIPE, "--mean-cost", "-1"), ("mean-cost is -1", "above 0")),
    Case("mean cost nan", (*RECIPE, "--mean-cost", "nan"), ("mean-cost is nan", "above 0")),
    Case("mean cost infinite", (*RECIPE, "--mean-cost", "inf"), ("mean-cost is inf", "finite")),
    Case(
        "mean cost above everything",
        (*RECIPE, "--mean-cost", "4.5"),
        ("mean cost of 4.5", "costs 4 in all", "at most 4", "--acquirer complete"),
    ),
    Case("mean cost above everything for a rule", (*RECIPE, "--mean-cost", "5", "--acquirer", "static"), ("mean cost of 5",)),
    Case("price 0", (*RECIPE, "--price", "0"), ("price is 0", "above 0", "--price")),
    Case("price below 0", (*RECIPE, "--price", "-0.1"), ("price is -0.1", "above 0")),
    Case("price nan", (*RECIPE, "--price", "nan"), ("price is nan",)),
    Case("total below 0", (*RECIPE, "--total", "-3"), ("total is -3", "above 0")),
    *(
        Case(f"{one} and {other}", (*RECIPE, one, "1", other, "1"), (f"{one} and {other} together", "one of them"))
        for one, other in (("--mean-cost", "--price"), ("--mean-cost", "--total"), ("--price", "--total"))
    ),
    Case(
        "all three",
        (*RECIPE, "--total", "1", "--price", "1", "--mean-cost", "1"),
        ("--mean-cost and --price and --total together",),
    ),
    Case("a price of what can't be compared", (*RECIPE, "--price", "1", "--acquirer", "random"), ("--price", "random")),
    Case("mean cost with epochs", (*TINY_WORDS, "--mean-cost", "1", "--out", "new"), ("--mean-cost with --epochs", "recipe")),
    *(
        Case(f"evaluate with {flag} {value}", ("evaluate", "run", flag, value), (f"{flag[2:]} is {value}", "above 0"))
        for flag in ("--mean-cost", "--price", "--total")
        for value in ("0", "-1", "nan")
    ),
    Case(
        "evaluate with a mean cost above everything", ("evaluate", "run", "--mean-cost", "9"), ("mean cost of 9", "at most 4")
    ),
    Case(
        "evaluate with two budgets",
        ("evaluate", "run", "--mean-cost", "1", "--price", "1"),
        ("--mean-cost and --price together",),
    ),
    # effort
    *(
        Case(f"effort {effort}", (*SMALL_TINY, "--effort", effort, "--out", "new"), ("effort is", "quick, normal, thorough"))
        for effort in ("0", "-1", "nan", "inf", "1e9")
    ),
    Case("effort and epochs", (*TINY_WORDS, "--effort", "quick", "--out", "new"), ("effort and epochs together", "--epochs")),
    Case("effort of the demo", ("demo", "--effort", "0", "--out", "new"), ("effort is 0",)),
    *(
        Case(
            f"{flag} without epochs",
            (*RECIPE, flag, value),
            (f"{flag} without --epochs", "both or neither", "add --epochs"),
        )
        for flag, value in (
            ("--patience", "3"),
            ("--choose-by", "loss"),
            ("--warm-up", "1"),
            ("--weight-decay", "0"),
            ("--schedule", "constant"),
            ("--clip", "0"),
            ("--gradient", "full"),
            ("--level-gain", "0.1"),
            ("--min-epochs", "2"),
        )
    ),
    Case("kept epochs without epochs", (*RECIPE, "--save-epochs"), ("--save-epochs without --epochs", "add --epochs")),
    Case(
        "the paper's selector without epochs",
        (*RECIPE, "--selector", "sequential"),
        ("selector without epochs", "--preset paper"),
    ),
    Case("evaluate with budget above", ("evaluate", "run", "--budget", "9"), ("budget 9", "1 to 4")),
    Case("demo with budget above", ("demo", "--budget", "99", "--effort", "0.01", "--out", "new"), ("budget 99", "42 orders")),
    # run folders
    *(
        Case(f"evaluate without {name}", ("evaluate", "run"), ("half written", name, "--resume"), remove(f"run/{name}"))
        for name in RUN_FILES
    ),
    Case("plot half a run", ("plot", "half"), ("half is half written", "weights.safetensors", "--resume")),
    Case("evaluate half a run", ("evaluate", "half"), ("half is half written", "whichwhen train --spec half/spec.json")),
    Case(
        "spec of another version",
        ("evaluate", "run"),
        ("run/spec.json has format 99", "whichwhen 7.0", "format 3", "train anew"),
        edit_json("run/spec.json", lambda content: content.update(format=99, version="7.0")),
    ),
    Case(
        "result of another version",
        ("evaluate", "run"),
        ("run/result.json has format 0", "format 3"),
        edit_json("run/result.json", set_key("format", value=0)),
    ),
    Case(
        "resume a run of another version",
        (*TO_RUN, "--resume"),
        ("run/spec.json has format 99",),
        edit_json("run/spec.json", set_key("format", value=99)),
    ),
    Case(
        "spec edited",
        ("evaluate", "run"),
        ("run/spec.json", "seed: 5 and 0", "undo the edit"),
        edit_json("run/spec.json", set_key("spec", "seed", value=5)),
    ),
    Case(
        "spec edited to a wrong type",
        ("evaluate", "run"),
        ("run/spec.json", "training.epochs"),
        edit_json("run/spec.json", set_key("spec", "training", "epochs", value="many")),
    ),
    Case(
        "spec edited out of range",
        ("evaluate", "run"),
        ("run/spec.json", "epochs is 0"),
        edit_json("run/spec.json", set_key("spec", "training", "epochs", value=0)),
    ),
    Case(
        "spec with an unknown field",
        ("evaluate", "run"),
        ("run/spec.json", "training.epoch"),
        edit_json("run/spec.json", set_key("spec", "training", "epoch", value=1)),
    ),
    Case(
        "spec edited, and resumed as edited",
        (*TO_RUN, "--seed", "5", "--resume"),
        ("run",),
        edit_json("run/spec.json", set_key("spec", "seed", value=5)),
    ),
    Case("spec garbage", ("evaluate", "run"), ("run/spec.json", "JSON"), write("run/spec.json", '{"spec": ')),
    Case("spec binary", ("evaluate", "run"), ("run/spec.json",), write("run/spec.json", b"\xff\x00")),
    Case("result garbage", ("evaluate", "run"), ("run/result.json", "JSON"), write("run/result.json", "garbage")),
    Case("result a list", ("evaluate", "run"), ("run/result.json",), write("run/result.json", "[]")),
    Case(
        "result without its budget",
        ("evaluate", "run"),
        ("run/result.json", "budget"),
        edit_json("run/result.json", lambda content: content.pop("budget")),
    ),
    Case(
        "result without its acquirer",
        ("plot", "run"),
        ("run/result.json", "acquirer"),
        edit_json("run/result.json", lambda content: content.pop("acquirer")),
    ),
    Case(
        "result with a number for a part",
        (*TO_RUN, "--resume"),
        ("run/result.json", "test"),
        edit_json("run/result.json", set_key("test", value=3)),
    ),
    Case("weights cut off", ("evaluate", "run"), ("run/weights.safetensors",), cut("run/weights.safetensors", 0.5)),
    Case("weights empty", ("evaluate", "run"), ("run/weights.safetensors",), write("run/weights.safetensors", b"")),
    Case(
        "weights of another program",
        ("evaluate", "run"),
        ("run/weights.safetensors",),
        lambda here: save_file({"layer": torch.zeros(2)}, here / "run" / "weights.safetensors"),
    ),
    Case("history garbage", ("plot", "run"), ("run/history.jsonl",), write("run/history.jsonl", "garbage\n")),
    Case("history of other records", ("plot", "run"), ("run/history.jsonl",), write("run/history.jsonl", '{"epoch": 1}\n')),
    Case("history of lists", ("plot", "run"), ("run/history.jsonl",), write("run/history.jsonl", "[]\n")),
    Case("pattern cut off", ("plot", "run"), ("run/pattern.parquet",), cut("run/pattern.parquet", 0.5)),
    Case("pattern without some rows", ("plot", "run"), ("run/pattern.parquet",), fewer_rows),
    Case(
        "checkpoint cut off",
        (*TINY_WORDS, "--out", "half", "--resume"),
        ("half/checkpoint.safetensors",),
        cut("half/checkpoint.safetensors", 0.5),
    ),
    Case(
        "checkpoint of another program",
        (*TINY_WORDS, "--out", "half", "--resume"),
        ("half/checkpoint.safetensors",),
        lambda here: save_file({"layer": torch.zeros(2)}, here / "half" / "checkpoint.safetensors", {"state": "{}"}),
    ),
    Case(
        "spec of an unfinished run edited",
        (*TINY_WORDS, "--out", "half", "--resume", "--seed", "5"),
        ("half/checkpoint.safetensors", "another spec"),
        edit_json("half/spec.json", set_key("spec", "seed", value=5)),
    ),
    Case("not a run folder", ("evaluate", "."), ("not a run folder", "spec.json")),
    Case("no such folder", ("evaluate", "nowhere"), ("nowhere", "whichwhen train --out")),
    Case("a file for a run folder", ("plot", "file"), ("file",), write("file", "mine")),
    # out folders
    Case("another run", (*TO_RUN, "--seed", "1"), ("run holds another run", "seed: 1 and 0", "--out")),
    Case("another run, resumed", (*TO_RUN, "--seed", "1", "--resume"), ("run holds another run", "--out")),
    Case("another unfinished run", (*TINY_WORDS, "--out", "half", "--epochs", "9"), ("training.epochs: 9 and 2", "--out")),
    Case("this run again", TO_RUN, ("already holds this run, finished", "--resume")),
    Case("this unfinished run again", (*TINY_WORDS, "--out", "half"), ("already holds this run, unfinished", "--resume")),
    Case("a file", (*TINY_WORDS, "--out", "file"), ("file is a file", "--out"), write("file", "mine")),
    Case("below a file", (*TINY_WORDS, "--out", "file/run"), ("file", "--out"), write("file", "mine")),
    Case("files of others", (*TINY_WORDS, "--out", "."), ("something else than a run", "--out")),
    Case("demo into a file", ("demo", "--effort", "0.01", "--out", "file"), ("file",), write("file", "mine")),
]

OTHER_CASES = [
    Case("unknown verb", ("fly",), ("'fly'", "data, pack, train, evaluate, plot, demo")),
    Case("unknown preset", ("train", "m-forda", "--preset", "papers"), ("'papers'", "one of default, paper")),
    Case("a figure that can't be drawn", ("data", "m-forda", "--plot", "x.bmp"), ("x.bmp", ".png, .pdf, .svg")),
    Case("a figure of nothing", ("data", "--plot", "x.png"), ("--plot without a data set",)),
    Case("a figure below a file", ("data", "synthetic:tiny", "--plot", "file/x.png"), ("file",), write("file", "mine")),
    Case(
        "a folder for a figure",
        ("data", "synthetic:tiny", "--plot", "a.png"),
        ("a.png",),
        lambda here: (here / "a.png").mkdir(),
    ),
    Case("plot into a file", ("plot", "run", "--out", "file"), ("file",), write("file", "mine")),
    Case("plot without runs", ("plot",), ("no run folder",)),
    Case("test curve without saved epochs", ("plot", "run", "--test-curve"), ("no saved epochs", "--save-epochs")),
    Case("no such device", (*TINY_WORDS, "--out", "new", "--device", "abacus"), ("'abacus'", "--device cpu")),
    Case("a device that is not here", (*TINY_WORDS, "--out", "new", "--device", "cuda:99"), ("'cuda:99'", "--device cpu")),
    Case("a device that holds nothing", (*TINY_WORDS, "--out", "new", "--device", "meta"), ("'meta'", "--device cpu")),
    Case("no threads", (*TINY_WORDS, "--out", "new", "--threads", "0"), ("threads is 0",)),
    Case("no epochs", (*TINY_WORDS, "--out", "new", "--epochs", "0"), ("epochs is 0", "at least 1")),
    Case("negative seed", (*TINY_WORDS, "--out", "new", "--seed", "-1"), ("seed is -1",)),
    Case("negative seed of data", ("data", "synthetic:tiny", "--seed", "-1"), ("seed is -1",)),
    Case("no m", ("data", "m-forda", "--m", "0"), ("m is 0",)),
    Case(
        "m too large",
        ("data", "m-forda", "--m", "3", "--data-dir", "data"),
        ("m is 3", "4 samples", "1 to 2"),
        archive(*[ts_text(ts_rows(n_features=1))] * 2, name="FordA"),
    ),
    Case("shift without fakes", (*TINY_WORDS, "--shift", "--out", "new"), ("shift without fakes", "--fakes")),
    Case("shift of a task", (*TINY_WORDS, "--shift", "--fakes", "gp", "--out", "new"), ("shift on synthetic:tiny",)),
    Case("validation of everything", (*TINY_WORDS, "--validation", "1", "--out", "new"), ("validation is 1",)),
    Case("too little data", (*OWN, "--validation", "0.05"), ("12 in all",), archive()),
    Case("no spec file", ("train", "--spec", "nowhere.json"), ("nowhere.json",)),
    Case("a spec file of something else", ("train", "--spec", "own.json"), ("own.json",), write("own.json", "{}")),
    Case("a bare spec that is not JSON", ("train", "--spec", "own.json"), ("own.json",), write("own.json", "no")),
    *(
        Case(f"data for budget {budget}", ("data", "synthetic:tiny", "--budget", budget), ("budget",))
        for budget in ("0", "-1", "nan", "inf")
    ),
    Case("data folder that is a file", ("data", "m-forda", "--data-dir", "file"), ("FordA_TRAIN.ts",), write("file", "mine")),
    Case("train file cut off", OWN, ("Own_TRAIN.ts", "cut short"), archive(GOOD[: -len(ts_rows()[-1]) // 2])),
    Case("test file cut off", OWN, ("Own_TEST.ts", "cut short"), archive(test=GOOD[: -len(ts_rows()[-1]) // 2])),
    Case("test file cut off in a label", OWN, ("Own",), archive(test=GOOD.rstrip("\n")[:-1])),
    Case(
        "a binary file",
        OWN,
        ("Own_TRAIN.ts",),
        lambda here: (archive()(here), write("data/Own/Own_TRAIN.ts", b"\xff\x00")(here)),
    ),
    Case("other columns in test", OWN, ("2", "3"), archive(test=ts_text(ts_rows(n_features=3)))),
]


def by_name(cases: list[Case]) -> dict[str, Any]:
    return {"argvalues": cases, "ids": [case.name for case in cases]}


def refuse(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err.strip()


@pytest.mark.parametrize("case", **by_name(ISSUE_CASES + OTHER_CASES))
def test_it_is_refused_in_one_line_and_nothing_is_lost(case: Case, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.prepare(here)
    before = contents(here)
    message = refuse(case.words, capsys)
    for word in case.says:
        assert word in message
    assert contents(here) == before


@pytest.mark.parametrize("case", **by_name(ISSUE_CASES))
def test_the_message_says_got_expected_and_what_to_do(case: Case, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case.prepare(here)
    parts = refuse(case.words, capsys).split("; ")
    at = next((i for i, part in enumerate(parts) if part.startswith("expected ")), None)
    assert at is not None
    assert 0 < at < len(parts) - 1


@pytest.mark.parametrize("batch_size", ["4", "64"], ids=["within an epoch", "in its last step"])
def test_a_loss_that_explodes_is_no_result(batch_size: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_archive(here / "data", GOOD, GOOD)
    words = (*OWN, "--learning-rate", "1e30", "--clip", "0", "--batch-size", batch_size, "--quiet", "--out", "new")
    message = refuse(words, capsys)
    assert "--learning-rate" in message
    assert not (here / "new" / "result.json").exists()


@pytest.mark.parametrize("name", [*RUN_FILES, "checkpoint"])
def test_following_the_advice_finishes_a_half_written_run(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = "half" if name == "checkpoint" else "run"
    expected = json.loads((here / "run" / "result.json").read_text())["test"]
    if name != "checkpoint":
        (here / folder / name).unlink()
    message = refuse(("evaluate", folder), capsys)
    command = message.split("`")[1]
    assert command.startswith("whichwhen train ")
    assert main(shlex.split(command)[1:]) == 0
    capsys.readouterr()
    assert main(["evaluate", folder, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {key: document[key] for key in expected} == expected


def test_a_run_refuses_data_with_other_columns_by_name(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_archive(here / "data", GOOD, GOOD)
    assert main([*OWN, "--out", "own", "--quiet"]) == 0
    wide = ts_text(ts_rows(n_features=3))
    write_archive(here / "wide", wide, wide)
    before = contents(here)
    message = refuse(("evaluate", "own", "--data-dir", "wide"), capsys)
    assert "unknown 'x2'" in message
    assert "the model's 2 columns: 'x0', 'x1'" in message
    assert contents(here) == before


def test_a_run_refuses_data_with_other_classes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_archive(here / "data", GOOD, GOOD)
    assert main([*OWN, "--out", "own", "--quiet"]) == 0
    other = ts_text(ts_rows(18, labels=("a", "b", "c")), ("a", "b", "c"))
    write_archive(here / "other", other, other)
    assert "c" in refuse(("evaluate", "own", "--data-dir", "other"), capsys)


def test_errors_for_machines_are_one_json_document(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "m-ford", "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    document = json.loads(err)
    assert document["error"] == "DataError"
    assert "did you mean m-forda?" in document["message"]


@pytest.mark.parametrize(
    "words",
    [
        ("train", "--nonsense"),
        ("train", "m-forda", "extra"),
        ("train", "--fakes", "foo"),
        ("train", "--budget", "much"),
        ("train", "--effort", "fast"),
        ("train", "--mean-cost", "little"),
        ("evaluate",),
        ("plot", "run", "--format", "bmp"),
        ("data", "--m", "1.5"),
    ],
    ids=" ".join,
)
def test_words_that_are_no_flags_end_with_code_2(
    words: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(here)
    with pytest.raises(SystemExit) as stopped:
        main(list(words))
    assert stopped.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"whichwhen {words[0]} --help" in err
    assert contents(here) == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fly",), "unknown verb 'fly'"),
        (("train", "japanese-vowels", "--budget", "0"), "budget is 0"),
        (("evaluate", "nowhere"), "no run folder nowhere"),
        (("data", "m-ford"), "did you mean m-forda?"),
        ((*OWN, "--out", "new"), "inf in series 5"),
    ],
    ids=["verb", "budget", "folder", "name", "inf"],
)
def test_as_a_process_it_is_the_same(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    archive(with_row("1,inf,3,4:5,6,7,8:b"))(tmp_path)
    before = contents(tmp_path)
    done = run_whichwhen(*words, cwd=tmp_path, WHICHWHEN_DATA="", WHICHWHEN_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
    assert contents(tmp_path) == before


def test_an_option_that_is_given_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "a.csv", "--labels", "one.csv", "--labels=other.csv"]) == 2
    assert "--labels is given 2 times" in capsys.readouterr().err


def test_a_value_near_the_end_of_single_precision_trains_and_can_be_loaded(tmp_path: Path) -> None:
    rows = ["id,t,a,died", *(f"{i},{t},{1e30 if (i, t) == (3, 1) else i + t / 3},{i % 2}" for i in range(30) for t in range(3))]
    (tmp_path / "a.csv").write_text("\n".join(rows))
    words = ("--id", "id", "--time", "t", "--label", "died", "--effort", "0.005", "--width", "4", "--layers", "1", "--quiet")
    assert main(["train", str(tmp_path / "a.csv"), *words, "--out", str(tmp_path / "run")]) == 0
    assert main(["evaluate", str(tmp_path / "run")]) == 0
