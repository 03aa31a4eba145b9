import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from builders import ACQUIRERS, PREDICTORS, tiny_dataset, tiny_spec
from support import TINY
from whichwhen import artifacts
from whichwhen.data import load_dataset, synthetic
from whichwhen.errors import FeatureError, RunFolderError, SpecError
from whichwhen.evaluation import evaluate
from whichwhen.model import FORMAT, make_model
from whichwhen.specs import RunSpec
from whichwhen.training import train

SPEC = tiny_spec(data__name="synthetic:tiny", training__save_epochs=True, budget__per_step=2)
FILES = {
    "spec.json",
    "weights.safetensors",
    "history.jsonl",
    "series.parquet",
    "pattern.parquet",
    "samples.parquet",
    "result.json",
}


@pytest.fixture(autouse=True, scope="module")
def tiny_task() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(synthetic.TASKS, "tiny", TINY)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tiny_task: None) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "deep" / "run"
    train(SPEC, folder)
    return folder


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run"))


# what is in a run folder


def test_a_finished_run_has_all_documented_files_and_no_others(run: Path) -> None:
    assert {path.name for path in run.iterdir()} == FILES | {"epochs"}
    assert [path.name for path in sorted((run / "epochs").iterdir())] == [f"{i:04d}.safetensors" for i in (1, 2, 3)]


def test_result_has_the_documented_keys(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    for part in ("test", "validation"):
        assert {"accuracy", "cost_per_step", "real_fraction"} <= result[part].keys()
        assert 0 <= result[part]["accuracy"] <= 1
        assert 0 <= result[part]["real_fraction"] <= 1
        assert result[part]["cost_per_step"] == 2
    assert result["seed"] == 0
    assert result["cpu_seconds"] > 0
    assert result["spec_hash"] == SPEC.hash
    assert result["commit"] is None or len(result["commit"].removesuffix("+changes")) == 40
    assert (result["test"]["n"], result["validation"]["n"]) == (20, 8)


def test_series_add_up_to_the_result(run: Path) -> None:
    series = pl.read_parquet(run / "series.parquet")
    test = artifacts.load_result(run)["test"]
    assert {"label", "prediction", "cost"} <= set(series.columns)
    assert len(series) == 20
    assert (series["label"] == series["prediction"]).mean() == test["accuracy"]
    assert series["cost"].sum() / series["length"].sum() == test["cost_per_step"]
    labels = synthetic.TASKS["tiny"].make("test", 20, 0).labels
    assert series.sort(pl.col("id").cast(pl.Int64))["label"].to_list() == [str(label) for label in labels]


def test_pattern_adds_up_to_the_result(run: Path) -> None:
    pattern = artifacts.load_pattern(run)
    assert len(pattern) == 5 * 4
    assert pattern["order"].to_list()[:4] == ["x0", "x1", "x2", "x3"]
    assert pattern.filter(pl.col("real")).select("step", "order").rows() == [(t, "x1") for t in range(5)]
    per_step = pattern.group_by("step").agg(pl.col("share").sum())["share"].to_list()
    assert per_step == pytest.approx([2] * 5)
    on_real = pattern.filter(pl.col("real"))["share"].sum() / pattern["share"].sum()
    assert on_real == pytest.approx(artifacts.load_result(run)["test"]["real_fraction"])


def test_history_has_a_line_per_epoch(run: Path) -> None:
    history = artifacts.load_history(run)
    assert [line["epoch"] for line in history] == [1, 2, 3]
    assert {"loss", "accuracy", "validation_loss", "validation_accuracy", "best"} <= history[0].keys()
    assert max(line["epoch"] for line in history if line["best"]) == artifacts.load_result(run)["best_epoch"]


def test_weights_are_those_of_the_chosen_epoch(run: Path) -> None:
    best = artifacts.load_result(run)["best_epoch"]
    chosen, saved = artifacts.load_model(run), artifacts.load_model(run / "epochs" / f"{best:04d}.safetensors")
    assert chosen.fingerprint == saved.fingerprint
    line = artifacts.load_history(run)[best - 1]
    data = load_dataset(SPEC.data)
    assert evaluate(chosen.policy, data.validation).metrics.accuracy == line["validation_accuracy"]


def test_the_spec_file_is_the_spec(run: Path) -> None:
    assert artifacts.load_spec(run) == artifacts.load_spec(run / "spec.json") == SPEC


def test_a_loaded_model_reaches_the_recorded_numbers(run: Path) -> None:
    data = load_dataset(SPEC.data)
    result = artifacts.load_result(run)
    model = artifacts.load_model(run)
    for split in ("test", "validation"):
        assert evaluate(model.policy, data.split(split), data.provenance).metrics.to_dict() == result[split]


def test_the_weights_file_alone_is_a_whole_model(run: Path, tmp_path: Path) -> None:
    alone = Path(shutil.copy(run / "weights.safetensors", tmp_path / "model.safetensors"))
    model = artifacts.load_model(alone)
    assert model.fingerprint == artifacts.load_model(run).fingerprint
    assert model.card.spec == SPEC
    assert model.card.features == ("x0", "x1", "x2", "x3")
    assert model.card.classes == ("0", "1")


# saving and loading models


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("kind", ACQUIRERS)
def test_a_saved_model_does_the_same(kind: str, predictor: str, tmp_path: Path) -> None:
    data = tiny_dataset()
    model = make_model(tiny_spec(acquirer__kind=kind, predictor__kind=predictor), data)
    artifacts.save_model(tmp_path / "m.safetensors", model)
    again = artifacts.load_model(tmp_path / "m.safetensors")
    assert again.card == model.card
    assert again.fingerprint == model.fingerprint
    one, other = (evaluate(m.policy, data.test, data.provenance) for m in (model, again))
    assert one.metrics == other.metrics
    assert one.requested.tolist() == other.requested.tolist()


def test_scaling_travels_with_the_weights(tmp_path: Path) -> None:
    data = load_dataset("japanese-vowels", fakes="noise", n_fakes=2)
    spec = tiny_spec(data__name="japanese-vowels", data__fakes="noise", data__n_fakes=2)
    artifacts.save_model(tmp_path / "m.safetensors", make_model(spec, data))
    card = artifacts.load_model(tmp_path / "m.safetensors").card
    assert card.mean == tuple(data.scaler.mean)
    assert card.std == tuple(data.scaler.std)
    assert card.features[-2:] == ("fake0", "fake1")
    assert (card.horizon, card.longest) == (26, 29)


def test_fingerprints_tell_weights_and_columns_apart(run: Path) -> None:
    model = artifacts.load_model(run)
    before = model.fingerprint
    assert artifacts.load_model(run).fingerprint == before
    with torch.no_grad():
        next(model.policy.predictor.parameters()).view(-1)[0].add_(1e-3)
    assert model.fingerprint != before


# columns are bound to weights


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["x0", "x1", "x2"], ("without 'x3'",)),
        (["x0", "x1", "x2", "x3", "age"], ("unknown 'age'",)),
        (["x0", "x1", "x2", "pulse"], ("without 'x3'", "unknown 'pulse'")),
        (["x0", "x2", "x1", "x3"], ("another order", "'x2' stands where 'x1' should")),
        ([], ("without 'x0', 'x1', 'x2', 'x3'",)),
        (["x0", "x0", "x1", "x2", "x3"], ("'x0'",)),
        (["x0", "x1", "x2", "x3", "x3"], ("'x3'",)),
    ],
    ids=["too few", "too many", "renamed", "reordered", "none", "first twice", "last twice"],
)
def test_other_columns_are_refused_by_name(names: list[str], words: tuple[str, ...], run: Path) -> None:
    with pytest.raises(FeatureError) as caught:
        artifacts.load_model(run).check_features(names)
    for word in (*words, "expected the model's 4 columns"):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_models_own_columns_are_accepted(run: Path) -> None:
    artifacts.load_model(run).check_features(["x0", "x1", "x2", "x3"])


# reading with suspicion


def rewrite_weights(path: Path, tensors: dict[str, torch.Tensor] | None = None, **metadata: str) -> None:
    with safe_open(path, "pt") as file:
        kept = {**file.metadata(), **metadata}
        own = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    save_file(own if tensors is None else tensors, path, kept)


def weights_of(path: Path) -> dict[str, torch.Tensor]:
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)


def refused(path: Path) -> str:
    with pytest.raises(RunFolderError) as caught:
        artifacts.load_model(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_version_that_reads_the_format_before_is_named(copy: Path) -> None:
    rewrite_weights(copy / "weights.safetensors", format="2", version="0.1.0")
    assert "620ff44" in refused(copy)


def test_weights_of_another_format_are_refused(copy: Path) -> None:
    rewrite_weights(copy / "weights.safetensors", format="7", version="9.9")
    message = refused(copy)
    for word in ("weights.safetensors has format 7", "whichwhen 9.9", f"expected format {FORMAT}", "train anew"):
        assert word in message


def test_weights_of_another_program_are_refused(tmp_path: Path) -> None:
    save_file({"layer": torch.zeros(2)}, tmp_path / "other.safetensors")
    assert "other.safetensors" in refused(tmp_path / "other.safetensors")


@pytest.mark.parametrize("what", ["missing", "shape", "unknown part", "unknown name"])
def test_weights_that_do_not_fit_the_card_are_refused(what: str, copy: Path) -> None:
    path = copy / "weights.safetensors"
    tensors = weights_of(path)
    name = next(iter(tensors))
    match what:
        case "missing":
            del tensors[name]
        case "shape":
            tensors[name] = torch.zeros(3, 1, 4, 1, 5)
        case "unknown part":
            tensors["foreign.weight"] = torch.zeros(2)
        case "unknown name":
            tensors["predictor.foreign"] = torch.zeros(2)
    rewrite_weights(path, tensors)
    assert "weights.safetensors" in refused(copy)


@pytest.mark.parametrize(
    "edit",
    [
        lambda card: card.pop("features"),
        lambda card: card.update(units=[]),
        lambda card: card.update(extra=1),
        lambda card: card.update(features=["a", "b"]),
        lambda card: card.update(classes=["only"]),
        lambda card: card.update(mean=[]),
    ],
    ids=["no features", "no units", "unknown field", "fewer features", "fewer classes", "no scaling"],
)
def test_a_card_that_does_not_fit_the_weights_is_refused(edit, copy: Path) -> None:
    path = copy / "weights.safetensors"
    with safe_open(path, "pt") as file:
        card = json.loads(file.metadata()["card"])
    edit(card)
    rewrite_weights(path, card=json.dumps(card))
    assert "weights.safetensors" in refused(copy)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 0.999])
def test_weights_that_were_cut_off_are_refused(share: float, copy: Path) -> None:
    path = copy / "weights.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: math.floor(share * len(content))])
    assert "weights.safetensors can't be read" in refused(copy)


def test_an_edited_spec_is_told_apart_from_the_weights(copy: Path) -> None:
    document = json.loads((copy / "spec.json").read_text())
    document["spec"]["budget"]["per_step"] = 3.0
    (copy / "spec.json").write_text(json.dumps(document))
    message = refused(copy)
    assert "budget.per_step: 3.0 and 2.0" in message
    assert "undo the edit" in message


@pytest.mark.parametrize("name", sorted(FILES - {"spec.json"}))
def test_a_folder_without_one_of_its_files_is_half_written(name: str, copy: Path) -> None:
    (copy / name).unlink()
    for load in (artifacts.load_model, artifacts.load_result):
        with pytest.raises(RunFolderError, match=f"half written: it has no {name}.*--resume"):
            load(copy)


def test_a_folder_that_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no run folder"):
        artifacts.load_model(tmp_path / "nowhere")
    with pytest.raises(RunFolderError, match="is not a run folder"):
        artifacts.load_model(tmp_path)
    with pytest.raises(RunFolderError, match="can't be read"):
        artifacts.load_model(tmp_path / "none.safetensors")


def test_differences_are_told_by_field() -> None:
    spec = RunSpec()
    assert artifacts.difference(spec, spec.change(seed=2)) == "seed: 0 and 2"
    assert (
        artifacts.difference(spec, spec.change(data__m=3, training__epochs=1))
        == "data.m: 10 and 3; training.epochs: None and 1"
    )


def test_a_budget_that_does_not_fit_the_columns_makes_no_model() -> None:
    with pytest.raises(SpecError, match="budget 6 per step for a menu of 5 orders; expected 1 to 5"):
        make_model(tiny_spec(budget__per_step=6), tiny_dataset())


def test_the_same_model_gives_the_same_bytes(run: Path, tmp_path: Path) -> None:
    model = artifacts.load_model(run)
    for name in ("one", "other"):
        artifacts.save_model(tmp_path / name, model, {"b": "text", "a": "text"})
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    assert artifacts.load_note(tmp_path / "one", "b") == "text"


@pytest.mark.parametrize("place", [-1, -500])
def test_weights_that_were_damaged_on_the_way_are_refused(place: int, copy: Path) -> None:
    path = copy / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    assert "damaged" in refused(copy)


def test_weights_that_are_no_numbers_are_refused(run: Path, tmp_path: Path) -> None:
    model = artifacts.load_model(run)
    next(model.policy.predictor.parameters()).data[..., 0] = float("nan")
    artifacts.save_model(tmp_path / "a.safetensors", model)
    assert "holds NaN" in refused(tmp_path / "a.safetensors")
