"""What earlier versions understood is answered with what takes its place."""

from pathlib import Path

import pytest

from support import contents
from whichwhen.cli import VERBS, main, removed
from whichwhen.cli.removed import FLAGS, OF_VERBS, VALUES
from whichwhen.specs import RunSpec

GONE = {
    *("--pace", "--advance", "--cap", "--train-budgets", "--train-draw", "--thrift", "--sharpen", "--explore", "--jitter"),
    *("--stretch", "--time-gate", "--acquirer-budget", "--acquirer-turns", "--acquirer-prior", "--acquirer-freshness"),
    *("--acquirer-values", "--acquirer-rate"),
}
"""Fields of a run in the version before."""
NAMES = {
    "--cap": ("--budget", "--price"),
    "--pace": ("price", "validation"),
    "--thrift": ("--mean-cost", "--price"),
    "--train-budgets": ("one model serves every budget",),
    "--acquirer-prior": ("--acquirer learned",),
    "--sharpen": ("nothing takes its place",),
    "--explore": ("recipe",),
}
"""Of some of them, what has to be named, whatever the table says."""


def refused(words: tuple[str, ...], where: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a command line is refused with; nothing is written."""
    monkeypatch.chdir(where)
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("error: ")
    assert "removed" in err
    assert "Traceback" not in err
    assert contents(where) == {}
    return err


def test_all_that_is_gone_is_answered() -> None:
    assert set(FLAGS) == GONE
    assert set(removed.VERBS) == {"ablations", "assumptions", "clinical"}
    assert set(VALUES) == {("--preset", "best"), ("--selector", "top-k")}


def test_nothing_that_is_there_is_called_removed() -> None:
    own = {
        type(getattr(RunSpec(), part))._flag(field)
        for part in RunSpec.model_fields
        if part != "seed"
        for field in type(getattr(RunSpec(), part)).model_fields
    }
    assert own & set(FLAGS) == set()
    assert set(VERBS) & set(removed.VERBS) == set()
    for verb, flag in OF_VERBS:
        assert flag[2:] not in VERBS[verb][0].model_fields


@pytest.mark.parametrize("flag", sorted(FLAGS))
@pytest.mark.parametrize(
    "form",
    [lambda flag: (flag, "1"), lambda flag: (f"{flag}=1",), lambda flag: (f"--no-{flag[2:]}",), lambda flag: (flag,)],
    ids=["apart", "joined", "no", "bare"],
)
def test_a_removed_flag(form, flag, tmp_path, monkeypatch, capsys) -> None:
    said = refused(("train", "japanese-vowels", *form(flag), "--out", "run"), tmp_path, monkeypatch, capsys)
    assert form(flag)[0].split("=")[0] in said
    assert FLAGS[flag] in said
    for name in NAMES.get(flag, ()):
        assert name in said


def test_a_removed_flag_with_an_underscore_is_one(tmp_path, monkeypatch, capsys) -> None:
    said = refused(("train", "--train_budgets", "1", "5"), tmp_path, monkeypatch, capsys)
    assert FLAGS["--train-budgets"] in said


@pytest.mark.parametrize("verb", ["evaluate", "demo"])
def test_a_removed_flag_of_another_verb(verb, tmp_path, monkeypatch, capsys) -> None:
    assert FLAGS["--pace"] in refused((verb, "--pace", "saving"), tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize(("flag", "value"), sorted(VALUES))
@pytest.mark.parametrize("joined", [False, True])
def test_a_removed_value(joined, flag, value, tmp_path, monkeypatch, capsys) -> None:
    words = (f"{flag}={value}",) if joined else (flag, value)
    said = refused(("train", "m-forda", *words), tmp_path, monkeypatch, capsys)
    assert f"{flag} {value}" in said
    assert VALUES[flag, value] in said


@pytest.mark.parametrize("verb", sorted(removed.VERBS))
def test_a_removed_verb(verb, tmp_path, monkeypatch, capsys) -> None:
    said = refused((verb, "--seeds", "1"), tmp_path, monkeypatch, capsys)
    assert repr(verb) in said
    assert removed.VERBS[verb] in said


@pytest.mark.parametrize(("verb", "flag"), sorted(OF_VERBS))
def test_a_flag_that_a_verb_no_longer_has(verb, flag, tmp_path, monkeypatch, capsys) -> None:
    said = refused((verb, flag, "1"), tmp_path, monkeypatch, capsys)
    assert f"{flag} of `whichwhen {verb}`" in said
    assert OF_VERBS[verb, flag] in said


def test_what_replaces_a_flag_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    own = {
        type(part)._flag(field)
        for part in (getattr(RunSpec(), name) for name in RunSpec.model_fields if name != "seed")
        for field in type(part).model_fields
    }
    said = " ".join([*FLAGS.values(), *VALUES.values()])
    for word in said.replace(";", " ").split():
        if word.startswith("--"):
            assert word in own


def test_a_removed_flag_is_told_to_machines_as_json(tmp_path, monkeypatch, capsys) -> None:
    import json

    monkeypatch.chdir(tmp_path)
    assert main(["train", "--pace", "even", "--json"]) == 2
    document = json.loads(capsys.readouterr().err)
    assert document["error"] == "SpecError"
    assert FLAGS["--pace"] in document["message"]
