import json
import random
from pathlib import Path

import numpy as np
import pytest

from clinical_files import clinical_folder, hours_text, stay_text, write_2012, write_2019
from whichwhen.cli import main
from whichwhen.data import load_dataset
from whichwhen.data.clinical import physionet2012, physionet2019


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHICHWHEN_DATA", raising=False)
    monkeypatch.setenv("WHICHWHEN_CACHE", str(tmp_path / "cache"))


def between(low: float, high: float, rng: random.Random) -> str:
    return f"{rng.uniform(low, high):.3f}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Both sets with a few stays in which everything is measured now and then."""
    rng = random.Random(0)

    def stay(record: int) -> str:
        rows = [(f"{rng.randrange(48):02}:30", f.name, between(f.low, f.high, rng)) for f in physionet2012.SERIES]
        return stay_text(record, rows, Height="170", Weight="80", ICUType=str(1 + record % 4))

    def hours(i: int) -> str:
        columns = {f.name: [between(f.low, f.high, rng) if rng.random() < 0.5 else "NaN" for _ in range(9)] for f in labs}
        return hours_text([0] * 8 + [i % 2], Unit1="1", Unit2="0", **columns)

    labs = physionet2019.FEATURES[:34]
    write_2012(tmp_path / "data", {record: stay(record) for record in range(100001, 100021)})
    return write_2019(tmp_path / "data", {f"p{100001 + i}": hours(i) for i in range(30)})


def describe(name: str, folder: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["data", name, "--data-dir", str(folder), *words]) == 0
    return capsys.readouterr().out


def test_data_describes_2012_with_both_test_sets_and_its_menu(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(describe("physionet2012", folder, capsys, "--json"))
    assert (facts["train series"] + facts["validation series"], facts["test b series"], facts["test c series"]) == (20, 2, 2)
    assert facts["features"] == 45
    assert facts["order 'blood gas'"] == "6: pH, PaCO2, PaO2, SaO2"
    assert facts["order 'bedside'"].startswith("free: HR, ")
    assert 0.5 < facts["train not measured"] < 0.9
    assert facts["rows"] > 20 * 37
    assert facts["mean cost of a record, train"] > 0


def test_data_describes_2019_with_its_positive_steps(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(describe("physionet2019", folder, capsys, "--json"))
    assert facts["train share of positive steps"] == pytest.approx(facts["train share of 'sepsis'"] / 9, abs=1e-3)
    assert facts["orders"] == 14
    assert facts["of them free"] == 2


def test_data_prints_facts_for_people(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = describe("physionet2012", folder, capsys)
    assert "order 'liver panel'" in out
    assert "subgroups by unit, train" in out


def test_the_list_says_whether_the_files_are_there(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place, says in ((folder, "data folder"), (tmp_path / "nowhere", "not in the data folder")):
        assert main(["data", "--json", "--data-dir", str(place)]) == 0
        origin = {row["name"]: row["from"] for row in json.loads(capsys.readouterr().out)}
        assert origin["physionet2012"] == origin["physionet2019"] == says


@pytest.mark.parametrize("name", ["physionet2012", "physionet2019"])
def test_a_missing_set_is_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", name, "--data-dir", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"no file {name}/" in err


@pytest.mark.parametrize("name", ["physionet2012", "physionet2019"])
def test_a_data_set_is_scaled_by_what_was_measured_in_training(name: str, folder: Path) -> None:
    data = load_dataset(name, folder=folder)
    varied = data.scaler.std != 1
    np.testing.assert_allclose(np.nanmean(data.train.values[:, varied], axis=0, dtype=np.float64), 0, atol=1e-4)
    assert data.menu is not None
    assert data.menu.features == data.features
    assert not set(data.train.groups.tolist()) & set(data.validation.groups.tolist())


def test_the_real_sets_are_ready_for_the_loop() -> None:
    data = load_dataset("physionet2012", folder=clinical_folder("physionet2012"))
    assert list(data.tests) == ["b", "c"]
    assert data.test is data.tests["b"]
    assert not np.isinf(data.train.values).any()
    again = load_dataset("physionet2012", folder=clinical_folder("physionet2012"))
    np.testing.assert_array_equal(data.train.values, again.train.values)
