import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from killed_runs import PLACES, RECIPE, RECIPE_PLACES, SPEC
from safetensors.torch import load_file

from builders import features_of, recipe_spec, tiny_dataset, tiny_policy, tiny_spec
from whichwhen import artifacts
from whichwhen.artifacts import load_model, load_result
from whichwhen.data import SeriesSet
from whichwhen.errors import RunFolderError
from whichwhen.evaluation import evaluate
from whichwhen.menu import Menu, Order
from whichwhen.provenance import Provenance
from whichwhen.training import run as run_module
from whichwhen.training import train

FILES = {
    "spec.json",
    "weights.safetensors",
    "history.jsonl",
    "series.parquet",
    "pattern.parquet",
    "samples.parquet",
    "result.json",
}


def history(folder):
    return [{k: v for k, v in line.items() if k != "cpu_seconds"} for line in artifacts.load_history(folder)]


def metrics(result):
    return {name: value for name, value in result.items() if name not in ("cpu_seconds", "commit")}


def files_of(folder):
    """All but what a kill left half written."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.suffix != ".part"}


def assert_same_run(one, other):
    """The same weights to the bit, history and metrics; the clock apart."""
    assert files_of(one) == files_of(other)
    for path in sorted(one.rglob("*.safetensors")):
        tensors, others = load_file(path), load_file(other / path.relative_to(one))
        assert tensors.keys() == others.keys()
        for name, tensor in tensors.items():
            assert tensor.numpy().tobytes() == others[name].numpy().tobytes(), name
    assert history(one) == history(other)
    assert metrics(load_result(one)) == metrics(load_result(other))
    for name in ("series.parquet", "pattern.parquet"):
        assert pl.read_parquet(one / name).equals(pl.read_parquet(other / name))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that nothing happened to."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    train(tiny_spec(**SPEC), folder, data=tiny_dataset())
    return folder


@pytest.fixture(scope="module")
def by_recipe(tmp_path_factory):
    """The same by the recipe."""
    folder = tmp_path_factory.mktemp("runs") / "by_recipe"
    train(recipe_spec(**RECIPE), folder, data=tiny_dataset())
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The same runs, really killed at several places."""
    folder = tmp_path_factory.mktemp("killed")
    script = Path(__file__).with_name("killed_runs.py")
    done = subprocess.run([sys.executable, script, folder], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == [f"{place.__name__} -9" for place in (*PLACES, *RECIPE_PLACES)]
    return folder


# -- kill and resume


@pytest.mark.parametrize(("place", "left"), [(place.__name__, left) for place, left in PLACES.items()])
def test_a_killed_run_that_is_resumed_ends_as_one_that_was_not_killed(place, left, killed, finished):
    folder = killed / place
    assert not (folder / "result.json").exists()
    with pytest.raises(RunFolderError):
        load_model(folder)
    trained = []
    train(
        tiny_spec(**SPEC),
        folder,
        data=tiny_dataset(),
        resume=True,
        on_epoch=lambda state: trained.append(len(state.history)),
    )
    assert trained == [1, 2, 3, 4][4 - left :]
    assert_same_run(finished, folder)
    assert not (folder / "checkpoint.safetensors").exists()


@pytest.mark.parametrize(("place", "left"), [(place.__name__, left) for place, left in RECIPE_PLACES.items()])
def test_so_does_one_by_the_recipe(place, left, killed, by_recipe):
    folder = killed / place
    assert not artifacts.is_finished(folder)
    trained = []
    train(
        recipe_spec(**RECIPE),
        folder,
        data=tiny_dataset(),
        resume=True,
        on_epoch=lambda state: trained.append(len(state.history)),
    )
    assert trained == list(range(1, 11))[10 - left :]
    assert_same_run(by_recipe, folder)


def test_the_best_epoch_of_this_run_is_not_its_last(finished):
    assert load_result(finished)["best_epoch"] < 3  # or the tests above could not tell the two apart


def test_a_finished_run_is_read_and_not_trained_again(finished, monkeypatch):
    monkeypatch.setattr(run_module, "fit_model", None)
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
    assert train(tiny_spec(**SPEC), finished, data=tiny_dataset(), resume=True) == load_result(finished)
    assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before


@pytest.mark.parametrize("changes", [{}, {"seed": 1}])
def test_a_run_is_never_overwritten(changes, finished):
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    with pytest.raises(RunFolderError, match=r"already holds this run|seed: 1 and 2"):
        train(tiny_spec(**(SPEC | changes)), finished, data=tiny_dataset())
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == before


# -- the test set is read once, after the choice


def test_the_test_set_changes_neither_weights_nor_history(finished, tmp_path):
    data = tiny_dataset()
    rng = np.random.default_rng(0)
    scrambled = replace(
        data.test, labels=rng.permutation(data.test.labels), values=rng.normal(size=data.test.values.shape).astype("f4")
    )
    train(tiny_spec(**SPEC), tmp_path / "run", data=replace(data, tests={"test": scrambled}))
    one, other = (load_file(folder / "weights.safetensors") for folder in (finished, tmp_path / "run"))
    assert all(one[name].numpy().tobytes() == other[name].numpy().tobytes() for name in one)
    assert history(finished) == history(tmp_path / "run")
    results = [load_result(folder) for folder in (finished, tmp_path / "run")]
    assert results[0]["validation"] == results[1]["validation"]
    assert results[0]["test"] != results[1]["test"]


@pytest.mark.parametrize(
    ("make", "changes"),
    [(tiny_spec, {"training__epochs": 2}), (recipe_spec, {"training__effort": 0.002, "acquirer__kind": "learned-only"})],
)
def test_the_test_set_is_evaluated_once_when_the_weights_are_on_disk(make, changes, tmp_path, monkeypatch):
    data, seen = tiny_dataset(), []

    def spy(policy, series, *args, **kwargs):
        seen.append((series is data.test, (tmp_path / "run" / "weights.safetensors").exists()))
        return evaluate(policy, series, *args, **kwargs)

    monkeypatch.setattr(run_module, "evaluate", spy)
    train(make(**changes), tmp_path / "run", data=data)
    assert [saved for is_test, saved in seen if is_test] == [True]


# -- the run folder


def test_a_run_folder_holds_what_it_should(finished):
    assert {path.name for path in finished.iterdir()} == FILES | {"epochs"}
    assert len(list((finished / "epochs").iterdir())) == 4


def test_the_result_has_the_agreed_keys(finished):
    result = json.loads((finished / "result.json").read_text())
    assert {"test", "validation", "seed", "commit", "cpu_seconds"} <= result.keys()
    for split in ("test", "validation"):
        assert {"accuracy", "cost_per_step", "real_fraction"} <= result[split].keys()
    assert result["seed"] == SPEC["seed"]
    assert result["epochs"] == 4
    assert result["cpu_seconds"] > 0


def test_the_saved_model_reaches_what_the_result_says(finished):
    model, data, result = load_model(finished), tiny_dataset(), load_result(finished)
    for split in ("test", "validation"):
        assert evaluate(model.policy, data.split(split), data.provenance).metrics.to_dict() == result[split]
    best = history(finished)[result["best_epoch"] - 1]
    assert best["validation_accuracy"] == result["validation"]["accuracy"]
    chosen = load_file(finished / "epochs" / f"{result['best_epoch']:04d}.safetensors")
    kept = load_file(finished / "weights.safetensors")
    assert all(kept[name].numpy().tobytes() == chosen[name].numpy().tobytes() for name in kept)


def test_the_series_table_says_what_became_of_each_test_series(finished):
    data, table, result = tiny_dataset(), pl.read_parquet(finished / "series.parquet"), load_result(finished)
    assert table["id"].to_list() == data.test.ids.astype(str).tolist()
    assert table["label"].to_list() == [data.classes[label] for label in data.test.labels]
    assert table["length"].to_list() == data.test.lengths.tolist()
    assert (table["label"] == table["prediction"]).mean() == result["test"]["accuracy"]
    assert table["cost"].sum() / table["length"].sum() == result["test"]["cost_per_step"]
    assert (table["cost"] == 2 * table["length"]).all()


def test_the_pattern_table_says_what_was_requested_when(finished):
    data, table = tiny_dataset(), pl.read_parquet(finished / "pattern.parquet")
    assert len(table) == 3 * 7 * 5
    for label in range(3):
        lengths = data.test.lengths[data.test.labels == label]
        own = table.filter(pl.col("class") == f"class{label}")
        going = [int((lengths > t).sum()) for t in range(7)]
        assert own["going"].to_list() == [count for count in going for _ in range(5)]
        assert own.group_by("step", maintain_order=True).agg(pl.col("requested").sum())["requested"].to_list() == [
            2 * n for n in going
        ]
        assert own["real"].to_list() == data.provenance.real.ravel().tolist()
    together = artifacts.load_pattern(finished)
    assert together.group_by("step").agg(pl.col("share").sum())["share"].to_list() == pytest.approx([2.0] * 7)


def test_the_samples_table_holds_all_requests_of_three_series_of_each_class(finished):
    data, table = tiny_dataset(), artifacts.load_samples(finished)
    for label in range(3):
        own = table.filter(pl.col("class") == f"class{label}")
        rows = [int(i) for i in range(len(data.test)) if data.test.labels[i] == label][:3]
        assert own["id"].unique(maintain_order=True).to_list() == [str(data.test.ids[i]) for i in rows]
        assert own.height == sum(data.test.lengths[rows])
    assert set(table["orders"].list.len().to_list()) == {2}


def test_a_run_can_be_started_again_from_its_spec(finished, tmp_path):
    train(artifacts.load_spec(finished), tmp_path / "again", data=tiny_dataset())
    assert_same_run(finished, tmp_path / "again")


def test_another_seed_gives_another_run(finished, tmp_path):
    train(tiny_spec(**(SPEC | {"seed": 1})), tmp_path / "other", data=tiny_dataset())
    one, other = (load_file(folder / "weights.safetensors") for folder in (finished, tmp_path / "other"))
    assert not any(one[name].equal(other[name]) for name in one)


RULES_AND_REFERENCES = ["random", "static", "static-by-time", "round-robin", "complete", "none", "oracle"]


@pytest.mark.parametrize("make", [tiny_spec, recipe_spec])
@pytest.mark.parametrize("kind", [*RULES_AND_REFERENCES, "learned", "learned-only", "table"])
def test_every_kind_of_acquirer_can_be_trained_and_loaded(kind, make, tmp_path):
    data = tiny_dataset(n_train=18)
    brief = {"training__epochs": 1} if make is tiny_spec else {"training__effort": 0.002}
    result = train(make(acquirer__kind=kind, **brief), tmp_path / "run", data=data)
    model = load_model(tmp_path / "run")
    assert evaluate(model.policy, data.test, data.provenance).metrics.to_dict() == result["test"]
    assert result["kept"] == model.card.acquirer
    if kind in RULES_AND_REFERENCES or make is tiny_spec:
        assert result["test"]["cost_per_step"] == {"complete": 5, "none": 0}.get(kind, 2)
    assert result["test"]["cost_per_step"] <= {"complete": 5}.get(kind, 2)
    assert result["test"]["real_fraction"] == {"none": None, "oracle": 1.0, "complete": 0.4}.get(
        kind, result["test"]["real_fraction"]
    )


def test_what_was_not_kept_can_be_loaded_and_gives_what_the_result_says(by_recipe):
    data, result = tiny_dataset(), load_result(by_recipe)
    models = {model.card.acquirer: model for model in artifacts.load_candidates(by_recipe)}
    assert len(models) == len(result["candidates"]) == 2
    assert models.keys() == {row["acquirer"] for row in result["candidates"]}
    (kept,) = (row for row in result["candidates"] if row["kept"])
    assert kept["acquirer"] == result["kept"]
    assert kept["test"] == result["test"]
    for row in result["candidates"]:
        found = evaluate(models[row["acquirer"]].policy, data.test, data.provenance)
        assert found.metrics.to_dict() == row["test"]
        assert row["kept_minus_this"] == pytest.approx(result["test"]["accuracy"] - row["test"]["accuracy"])


@pytest.mark.parametrize("make", [tiny_spec, recipe_spec])
@pytest.mark.parametrize("lost", ["series.parquet", "pattern.parquet", "result.json"])
def test_a_run_that_lost_its_results_is_evaluated_again_and_not_trained_again(lost, make, finished, by_recipe, tmp_path):
    done, spec = (finished, tiny_spec(**SPEC)) if make is tiny_spec else (by_recipe, recipe_spec(**RECIPE))
    shutil.copytree(done, tmp_path / "run")
    (tmp_path / "run" / lost).unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "fit_model", lambda *_, **__: pytest.fail("trained again"))
        train(spec, tmp_path / "run", data=tiny_dataset(), resume=True)
    assert artifacts.is_finished(tmp_path / "run")
    assert_same_run(done, tmp_path / "run")


@pytest.mark.parametrize(("key", "value"), [("test", {"accuracy": "abc"}), ("cpu_seconds", "x"), ("seed", None)])
def test_a_result_with_a_wrong_kind_of_value_is_refused_by_name(key, value, tmp_path):
    spec, path = tiny_spec(training__epochs=1), tmp_path / "run" / "result.json"
    train(spec, tmp_path / "run", data=tiny_dataset())
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(RunFolderError, match=rf"result\.json does not fit: {key}"):
        train(spec, tmp_path / "run", data=tiny_dataset(), resume=True)


def test_the_pattern_of_panels_is_real_where_one_of_their_features_is(tmp_path):
    menu = Menu(tuple(features_of(3)), (Order("pair", ("x0", "x1")), Order("single", ("x2",))))
    policy = tiny_policy("none", n_features=3, menu=menu)
    series = SeriesSet.from_list([np.zeros((2, 3)), np.ones((2, 3))], np.array([0, 1]), features_of(3))
    truth = Provenance(np.array([[True, False, False], [False, False, True]]))
    run_module.write_pattern(tmp_path / "p.parquet", evaluate(policy, series, truth), menu, truth, ("a", "b"))
    table = pl.read_parquet(tmp_path / "p.parquet")
    assert table["class"].to_list() == ["a"] * 4 + ["b"] * 4
    assert table.filter(pl.col("class") == "b").select("step", "order", "real").rows() == [
        (0, "pair", True),
        (0, "single", False),
        (1, "pair", False),
        (1, "single", True),
    ]


def test_a_second_run_into_the_same_folder_is_refused_while_the_first_goes_on(tmp_path):
    spec, refusals = tiny_spec(**SPEC), []

    def meddle(state):
        for resume in (False, True):
            with pytest.raises(RunFolderError) as caught:
                train(spec, tmp_path / "run", data=tiny_dataset(), resume=resume)
            refusals.append(str(caught.value))

    train(spec, tmp_path / "run", data=tiny_dataset(), on_epoch=meddle)
    assert any("another process is training into" in refusal for refusal in refusals)
    assert artifacts.is_finished(tmp_path / "run")
    assert not (tmp_path / "run" / "lock.part").exists()
