"""Series that are called by texts, and not by numbers, from the table to the report."""

import json
from pathlib import Path

import polars as pl
import pytest

from whichwhen import artifacts
from whichwhen.cli import main
from whichwhen.data import open_store

COLUMNS = ("--id", "patient", "--time", "hour", "--label", "died")


def write_table(path: Path, count: int) -> Path:
    rows = [(f"Ä-{i:02d}", hour, i + hour / 9, i % 3, i % 2) for i in range(count) for hour in range(4)]
    pl.DataFrame(rows, schema=["patient", "hour", "a", "b", "died"], orient="row").write_csv(path)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("text") / "wards.csv", 30)


@pytest.fixture(scope="module")
def run(table: Path) -> Path:
    out = table.parent / "run"
    words = ("--effort", "0.005", "--width", "4", "--layers", "1", "--acquirer-hidden", "4", "--quiet")
    assert main(["train", str(table), *COLUMNS, *words, "--out", str(out)]) == 0
    return out


def test_series_and_samples_are_called_as_in_the_table(run: Path) -> None:
    series, samples = artifacts.load_series(run), artifacts.load_samples(run)
    assert all(name.startswith("Ä-") for name in series["id"])
    assert set(samples["id"]) <= set(series["id"])
    assert len(samples)


def test_the_run_can_be_reported(run: Path, tmp_path: Path) -> None:
    assert main(["report", str(run), "--out", str(tmp_path / "page.html")]) == 0
    assert main(["report", str(run), "--out", str(tmp_path / "values.html"), "--values"]) == 0
    assert json.dumps("id Ä-")[1:-1] in (tmp_path / "values.html").read_text(encoding="utf-8")


def test_pack_keeps_the_names(tmp_path: Path) -> None:
    table = write_table(tmp_path / "wards.csv", 200)
    folder = tmp_path / "wards.series"
    assert main(["pack", str(table), *COLUMNS, "--out", str(folder)]) == 0
    data = open_store(folder)
    names = {name for part in (data.train, data.validation, data.test) for name in part.names.tolist()}
    assert names == {f"Ä-{i:02d}" for i in range(200)}
    some = data.train.take(data.train.labels.nonzero()[0])
    assert all(int(name[2:]) % 2 == 1 for name in some.names.tolist())


def test_predictions_per_step_are_kept_where_steps_have_labels(run: Path, tmp_path: Path) -> None:
    assert not (run / "steps.parquet").exists()
    rows = [
        (f"p{i:02d}", hour, i % 2 + hour / 9 + i / 100, "ill" if i % 2 and hour > 1 else "well")
        for i in range(30)
        for hour in range(4)
    ]
    pl.DataFrame(rows, schema=["patient", "hour", "a", "state"], orient="row").write_csv(tmp_path / "a.csv")
    columns = ("--id", "patient", "--time", "hour", "--label", "state", "--label-each-step")
    words = ("--effort", "0.005", "--width", "4", "--layers", "1", "--acquirer-hidden", "4", "--quiet")
    assert main(["train", str(tmp_path / "a.csv"), *columns, *words, "--out", str(tmp_path / "run")]) == 0
    steps = pl.read_parquet(tmp_path / "run" / "steps.parquet")
    assert steps.columns == ["id", "step", "label", "p_ill", "p_well"]
    assert ((steps["p_ill"] + steps["p_well"] - 1).abs() < 1e-5).all()
    asked = {(name, hour): label for name, hour, _, label in rows}
    assert all(asked[name, step] == label for name, step, label in steps.select("id", "step", "label").iter_rows())
    right = (steps["label"] == pl.Series(["ill" if p > 0.5 else "well" for p in steps["p_ill"]])).mean()
    assert right == pytest.approx(artifacts.load_result(tmp_path / "run")["test"]["accuracy"])
