import errno
import json
import pickle
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import recipe_spec, tiny_spec
from whichwhen.artifacts import load_model
from whichwhen.cli import main
from whichwhen.data import Dataset, Scaler, SeriesSet, StoreWriter, load_dataset, open_store, split_by_group
from whichwhen.data.clinical import recorded_cost
from whichwhen.data.frames import load_table, pack_table
from whichwhen.data.moments import Moments
from whichwhen.data.rows import StoredRows
from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation import evaluate
from whichwhen.menu import Feature, Menu, Order
from whichwhen.model import make_model
from whichwhen.specs import DataSpec, RunSpec
from whichwhen.training import requests
from whichwhen.training.class_weights import class_weights
from whichwhen.training.run import fit_model
from whichwhen.training.trained import Trained

CLASSES = ("a", "b", "c")
PARTS = ("train", "validation", "test")


def raw_sets(
    seed: int = 0, missing: float = 0.3, counts: tuple[int, ...] = (30, 12, 9), more: bool = True
) -> dict[str, SeriesSet]:
    """Raw series of 2 to 7 steps of 4 features in units of their own; with ``more``, all that a set can have."""
    rng = np.random.default_rng(seed)
    features = [Feature("x", "mmol/l", 0.0), *(Feature(f"x{i}") for i in range(3))]
    sets, first = {}, 0
    for name, count in zip(PARTS, counts, strict=True):
        lengths = rng.integers(2, 8, count)
        series = [rng.standard_normal((n, 4)) * [1, 10, 0.1, 1] + [0, 100, 5, -3] for n in lengths]
        one = SeriesSet.from_list(series, rng.integers(0, 3, count), features, "test" if name == "test" else "train")
        values = one.values.copy()
        values[rng.random(values.shape) < missing] = np.nan
        if name == "train":
            values[0] = [0, 100, 5, -3]
        one = replace(one, values=values, ids=one.ids + first, groups=one.groups + first)
        if more:
            one = replace(
                one,
                step_labels=rng.integers(0, 3, len(values)),
                weights=rng.random(count).astype(np.float32) + 0.1,
                subgroups={"ward": np.array(["A", "B 2", "ü"])[rng.integers(0, 3, count)], "sex": np.array(["f"] * count)},
            )
        sets[name], first = one, first + count
    return sets


def write(folder: Path, sets: dict[str, SeriesSet], chunk: int = 7, menu: Menu | None = None) -> Path:
    with StoreWriter(folder, sets["train"].features, CLASSES, menu) as writer:
        for name, part in sets.items():
            for start in range(0, len(part), chunk):
                writer.add(name, part.take(np.arange(start, min(start + chunk, len(part)))))
    return folder


def in_memory(sets: dict[str, SeriesSet], like: Dataset) -> Dataset:
    """The same data set with its values in memory, scaled as the one on disk is."""
    scaled = {name: replace(part, values=like.scaler.apply(part.values)) for name, part in sets.items()}
    return replace(like, train=scaled["train"], validation=scaled["validation"], tests={"test": scaled["test"]})


def assert_same_batch(one: SeriesSet, other: SeriesSet, rows: np.ndarray, salt: int | None = 3) -> None:
    a, b = one.hindsight(rows, salt=salt), other.hindsight(rows, salt=salt)
    for name in ("values", "observed", "lengths", "keys"):
        assert torch.equal(getattr(a.batch, name), getattr(b.batch, name)), name
    assert a.batch.values.stride() == b.batch.values.stride()
    assert torch.equal(a.labels, b.labels)
    for name in ("step_labels", "weights"):
        mine, yours = getattr(a, name), getattr(b, name)
        assert (mine is None) == (yours is None)
        assert mine is None or (mine.dtype == yours.dtype and torch.equal(mine, yours))
    assert all((one.subgroups[name] == other.subgroups[name]).all() for name in one.subgroups)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    missing=st.sampled_from([0.0, 0.3, 0.9]),
    more=st.booleans(),
    chunk=st.integers(1, 40),
    data=st.data(),
)
def test_batches_from_disk_are_those_from_memory(tmp_path_factory, seed, missing, more, chunk, data):
    sets = raw_sets(seed, missing, more=more)
    stored = open_store(write(tmp_path_factory.mktemp("s") / "a.series", sets, chunk))
    memory = in_memory(sets, stored)
    for name in PARTS:
        one, other = memory.split(name), stored.split(name)
        assert isinstance(other.values, StoredRows)
        assert (one.complete, len(one.values)) == (other.complete, len(other.values))
        np.testing.assert_array_equal(one.missing, other.missing)
        rows = np.array(data.draw(st.lists(st.integers(0, len(one) - 1), min_size=1, max_size=20)))
        assert_same_batch(one, other, rows)
        fewer = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=5)))
        assert_same_batch(one.take(rows), other.take(rows), fewer, None)
        assert_same_batch(one.take(rows).take(fewer), other.take(rows).take(fewer), np.arange(len(fewer)))
        np.testing.assert_array_equal(one.take(rows).missing, other.take(rows).missing)
        np.testing.assert_array_equal(one.take(rows).padded(steps=9), other.take(rows).padded(steps=9))
        np.testing.assert_array_equal(one.series(int(rows[0])), other.series(int(rows[0])))


def assert_same_training(one: Trained, other: Trained) -> None:
    """Weights, budget and history are equal bit by bit, those of what was not kept, too."""
    models = [[trained.model, *(candidate.model for candidate in trained.candidates)] for trained in (one, other)]
    for mine, yours in zip(*models, strict=True):
        assert mine.card == yours.card
        assert mine.policy.budget == yours.policy.budget
        assert mine.tensors().keys() == yours.tensors().keys()
        for name, tensor in mine.tensors().items():
            assert torch.equal(tensor, yours.tensors()[name]), name
    assert [candidate.loss for candidate in one.candidates] == [candidate.loss for candidate in other.candidates]
    assert one.screened == other.screened
    histories = [[{k: v for k, v in line.items() if k != "cpu_seconds"} for line in t.state.history] for t in (one, other)]
    assert histories[0] == histories[1]


@pytest.mark.filterwarnings("ignore::whichwhen.errors.BudgetWarning")
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"budget__per_step": None, "budget__mean_cost": 1.5},
        {"acquirer__kind": "learned-only", "budget__per_step": None, "budget__total": 5.0, "predictor__bins": 4},
        {"acquirer__kind": "round-robin"},
        {"training__effort": "normal", "training__epochs": 2},
    ],
    ids=["learned", "mean cost", "total", "round robin", "epochs"],
)
def test_training_from_disk_gives_the_same_weights_as_from_memory(tmp_path, more, changes):
    sets = raw_sets(more=more)
    stored = open_store(write(tmp_path / "a.series", sets))
    memory = in_memory(sets, stored)
    assert torch.equal(class_weights(memory.train, 3), class_weights(stored.train, 3))
    spec = recipe_spec(training__class_weight="balanced", **changes)
    inside, outside = (fit_model(make_model(spec, data), data) for data in (memory, stored))
    assert_same_training(inside, outside)
    one, other = (evaluate(inside.model.policy, data.test, samples=1, batch_size=4) for data in (memory, stored))
    assert one.metrics == other.metrics
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    if not changes:
        phases = [line["phase"] for line in outside.state.history]
        assert phases == ["warm-up", "joint", "settle", "rule"] * 2 + ["refit", "rule refit"]


def test_series_that_are_joined_on_disk_read_as_they_do_in_memory(tmp_path):
    sets = raw_sets()
    stored = open_store(write(tmp_path / "a.series", sets))
    memory = in_memory(sets, stored)
    outside, inside = (data.train.joined(data.validation) for data in (stored, memory))
    assert len(outside.values) == len(inside.values)
    assert outside.complete == inside.complete
    rows = np.random.default_rng(0).integers(0, len(inside), 50)
    np.testing.assert_array_equal(outside.padded(rows), inside.padded(rows))
    one, other = outside.hindsight(rows), inside.hindsight(rows)
    for name in ("labels", "step_labels", "weights"):
        assert torch.equal(getattr(one, name), getattr(other, name))
    assert torch.equal(one.batch.keys, other.batch.keys)


def test_requests_that_are_too_many_for_memory_go_to_a_file_and_the_weights_are_the_same(tmp_path, monkeypatch):
    data = open_store(write(tmp_path / "a.series", raw_sets()))
    inside = fit_model(make_model(recipe_spec(), data), data)
    made = []
    on_disk = requests._on_disk
    monkeypatch.setattr(requests, "_on_disk", lambda shape: made.append(on_disk(shape)) or made[-1])
    monkeypatch.setattr(requests, "_IN_MEMORY", 1)
    outside = fit_model(make_model(recipe_spec(), data), data)
    assert made
    assert all(isinstance(bits, np.memmap) for bits in made)
    assert_same_training(inside, outside)


class Reads:
    """How many rows of the values of a folder's parts are read at once; the samples of whole tables are kept small."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        real = StoredRows.__getitem__

        def counted(table: StoredRows, lines: np.ndarray | slice) -> np.ndarray:
            found = real(table, lines)
            if table.path.name == "values":
                self.rows.append(len(np.unique(lines)) if isinstance(lines, np.ndarray) else len(found))
            return found

        monkeypatch.setattr(StoredRows, "__getitem__", counted)


@pytest.mark.parametrize("more", [False, True])
def test_no_phase_reads_more_at_once_than_a_batch_or_a_sample(tmp_path, monkeypatch, more):
    """All but the samples for forest, noise and bins are batches of training, or of 512 series at most."""
    stored = open_store(write(tmp_path / "a.series", raw_sets(counts=(700, 600, 12), more=more), chunk=400))
    most = int(np.sort(stored.train.lengths)[-512:].sum())
    sample = stored.horizon * 4
    for name, value in (("FOREST_CELLS", 50 * sample), ("BIN_CELLS", 50 * sample)):
        monkeypatch.setattr(f"whichwhen.model.{name}", value)
    monkeypatch.setattr("whichwhen.training.augment._ROWS", 300)
    reads = Reads(monkeypatch)
    model = make_model(recipe_spec(predictor__bins=4, training__effort=0.005), stored)
    trained = fit_model(model, stored)
    assert len({line["phase"] for line in trained.state.history}) == 6
    assert reads.rows
    assert max(reads.rows) <= most < len(stored.train.values)


def peak_of_training(folder: Path, spec: RunSpec) -> int:
    """Bytes that numpy and Python held at once, at most, from opening the folder to trained weights."""
    tracemalloc.start()
    try:
        data = open_store(folder)
        fit_model(make_model(spec, data), data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_table(tmp_path, monkeypatch):
    """Four times the series: a tenth of what they would fill is all that is held of each of them beside its place."""
    steps, columns = 10, 72
    monkeypatch.setattr("whichwhen.model.FOREST_CELLS", 100 * steps * columns)
    monkeypatch.setattr("whichwhen.training.augment._ROWS", 1000)
    monkeypatch.setattr(requests, "_IN_MEMORY", 1)
    rng = np.random.default_rng(0)
    features = [Feature(f"x{i}") for i in range(columns)]

    def folder(count: int) -> Path:
        with StoreWriter(tmp_path / f"{count}.series", features, CLASSES) as writer:
            for start in range(0, count, 200):
                for name, size in (("train", 200), *((part, 30) for part in PARTS[1:] if start == 0)):
                    series = [rng.standard_normal((steps, columns)) for _ in range(size)]
                    one = SeriesSet.from_list(series, np.arange(size) % 3, features, "test" if name == "test" else "train")
                    first = PARTS.index(name) * 10**6 + start
                    writer.add(name, replace(one, ids=np.arange(size) + first, groups=np.arange(size) + first))
        return tmp_path / f"{count}.series"

    spec = recipe_spec(acquirer__kind="learned-only", training__effort=0.002)
    few, many = (folder(count) for count in (600, 2400))
    peak_of_training(few, spec)  # what is made once
    growth = peak_of_training(many, spec) - peak_of_training(few, spec)
    assert growth < 0.1 * 1800 * steps * columns * 4


@pytest.mark.parametrize("make", [tiny_spec, recipe_spec])
@pytest.mark.parametrize("kind", ["static", "round-robin"])
def test_the_forest_of_a_fixed_rule_sees_a_sample_of_what_is_too_large(tmp_path, monkeypatch, kind, make):
    stored = open_store(write(tmp_path / "a.series", raw_sets()))
    seen = []
    monkeypatch.setattr("whichwhen.model.FOREST_CELLS", 10 * stored.horizon * 4)

    def importance(values, *_, **__):
        seen.append(values)
        return np.ones(values.shape[1:], np.float32)

    monkeypatch.setattr("whichwhen.model.forest_importance", importance)
    make_model(make(acquirer__kind=kind), stored)
    assert seen[0].shape == (10, stored.horizon, 4)
    assert np.isfinite(seen[0]).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(0, 200), max_size=6), scale=st.sampled_from([1e-3, 1.0, 1e4]))
def test_moments_of_chunks_are_those_of_the_whole(seed, cuts, scale):
    rng = np.random.default_rng(seed)
    values = (rng.standard_normal((200, 4)) * scale + [0, 1e3, -5, 7]).astype(np.float32)
    values[rng.random(values.shape) < 0.4] = np.nan
    values[:, 2] = 12345.678
    values[:, 3] = np.nan
    moments = Moments(4)
    for chunk in np.split(values, sorted(cuts)):
        moments.add(chunk)
    found, whole = moments.scaler(), Scaler.fit(values.astype(np.float64))
    np.testing.assert_allclose(found.mean, whole.mean, rtol=1e-12)
    np.testing.assert_allclose(found.std[:2], whole.std[:2], rtol=1e-9)
    assert found.std[2] == found.std[3] == 1
    assert moments.count.tolist() == (~np.isnan(values)).sum(0).tolist()


def test_menu_features_and_facts_come_back(tmp_path):
    sets = raw_sets()
    menu = Menu(sets["train"].features, (Order("panel", ("x", "x0"), 3.0, turnaround=2), Order("x1", ("x1",), 0.0, free=True)))
    data = open_store(write(tmp_path / "a.series", sets, menu=menu), seed=5)
    assert data.menu == menu
    assert data.features == sets["train"].features
    assert data.classes == CLASSES
    assert data.horizon == max(sets["train"].lengths.max(), sets["validation"].lengths.max())
    assert data.longest == max(part.lengths.max() for part in sets.values())
    assert (data.train.source, data.validation.source, data.test.source) == ("train", "train", "test")
    assert data.train.seed == 5
    np.testing.assert_array_equal(data.train.groups, sets["train"].groups)
    memory = in_memory(sets, data)
    np.testing.assert_array_equal(recorded_cost(data.train, menu), recorded_cost(memory.train, menu))
    copy = pickle.loads(pickle.dumps(data.train))
    np.testing.assert_array_equal(copy.series(3), data.train.series(3))


def test_the_whole_table_is_never_read_by_accident(tmp_path):
    data = open_store(write(tmp_path / "a.series", raw_sets()))
    for reads in (np.isnan, np.asarray, np.nanmean):
        with pytest.raises(DataError, match="at once"):
            reads(data.train.values)
    with pytest.raises(IndexError):
        data.train.values[np.array([len(data.train.values)])]


def test_reads_take_what_was_asked_for_and_no_more(tmp_path, monkeypatch):
    from whichwhen.data import rows as module

    data = open_store(write(tmp_path / "a.series", raw_sets()))
    reads = []
    real = module._read_at
    monkeypatch.setattr(module, "_read_at", lambda file, view, at: reads.append((at, len(view))) or real(file, view, at))
    series, wanted = data.train, np.array([20, 3, 4, 11])
    series.padded(wanted)
    row = 4 * 4
    assert sum(size for _, size in reads) == series.lengths[wanted].sum() * row
    assert reads == sorted(reads)
    assert len(reads) == 3  # 3 and 4 lie side by side


@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=30))
@settings(max_examples=30, deadline=None)
def test_a_group_has_one_part_in_any_company(groups):
    together = split_by_group(np.array(groups))
    assert together.tolist() == [split_by_group(np.array([group]))[0] for group in groups]
    assert set(together) <= set(PARTS)


def test_shares_of_the_split():
    parts = split_by_group(np.arange(20_000), validation=0.25, test=0.2)
    shares = {part: (parts == part).mean() for part in PARTS}
    assert shares == pytest.approx({"train": 0.6, "validation": 0.2, "test": 0.2}, abs=0.01)
    assert "test" not in split_by_group(np.arange(1000), test=0.0)


@pytest.mark.parametrize("fault", ["disk", "feature", "label", "infinite", "group", "no test", "never", "columns", "stop"])
def test_a_writer_that_fails_leaves_nothing(tmp_path, monkeypatch, fault):
    sets = raw_sets()
    train = sets["train"]
    expected: type[BaseException] = DataError
    if fault == "disk":
        import whichwhen.data.on_disk as module

        real, room = module._put, iter(range(20))

        def put(file, content):
            if next(room, None) is None:
                real(file, content[:3])
                raise OSError(errno.ENOSPC, "No space left on device")
            real(file, content)

        monkeypatch.setattr(module, "_put", put)
    elif fault == "feature":
        sets["test"] = replace(sets["test"], features=sets["test"].features[::-1])
    elif fault == "label":
        sets["test"] = replace(sets["test"], labels=sets["test"].labels + 1)
    elif fault == "infinite":
        values = sets["test"].values.copy()
        values[-1, 0] = np.inf
        sets["test"] = replace(sets["test"], values=values)
    elif fault == "group":
        sets["validation"] = replace(sets["validation"], groups=train.groups[: len(sets["validation"])])
    elif fault == "no test":
        del sets["test"]
    elif fault == "never":
        values = train.values.copy()
        values[:, 2] = np.nan
        sets["train"] = replace(train, values=values)
    elif fault == "columns":
        chunks = iter([train.take(np.arange(3)), replace(train.take(np.arange(3)), weights=None)])
        monkeypatch.setattr(SeriesSet, "take", lambda *_: next(chunks))
    elif fault == "stop":
        expected = KeyboardInterrupt
        monkeypatch.setattr("whichwhen.data.on_disk.write_json", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(expected):
        write(tmp_path / "a.series", sets)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_never_overwritten(tmp_path):
    folder = write(tmp_path / "a.series", raw_sets())
    with pytest.raises(DataError, match="there already"):
        write(folder, raw_sets(1))
    assert len(open_store(folder).train) == 30


def test_folders_that_are_no_good_are_refused(tmp_path):
    folder = write(tmp_path / "a.series", raw_sets())
    about = (folder / "about.json").read_text()
    with pytest.raises(DataError, match="no folder"):
        load_dataset(str(tmp_path / "b.series"))
    (tmp_path / "c.series").mkdir()
    with pytest.raises(DataError, match="holds no series"):
        load_dataset(str(tmp_path / "c.series"))
    for text in ("{", "[]", "{}"):
        (folder / "about.json").write_text(text)
        with pytest.raises(DataError, match="holds no series"):
            load_dataset(str(folder))
    (folder / "about.json").write_text(json.dumps(json.loads(about) | {"format": 99}))
    with pytest.raises(DataError, match=r"format 99.*expected format 1"):
        load_dataset(str(folder))
    (folder / "about.json").write_text(about)
    values = (folder / "train" / "values").read_bytes()
    (folder / "train" / "values").write_bytes(values[:-4])
    with pytest.raises(DataError, match="bytes; expected"):
        load_dataset(str(folder))
    (folder / "train" / "values").unlink()
    with pytest.raises(DataError, match="not there"):
        load_dataset(str(folder))
    (folder / "train" / "values").write_bytes(values)
    data = load_dataset(str(folder))
    with (folder / "train" / "values").open("r+b") as file:  # after it was opened
        file.truncate(16)
    with pytest.raises(DataError, match="ends early"):
        data.train.hindsight(np.arange(30))


@pytest.mark.parametrize("field", [{"fakes": "noise"}, {"id": "stay"}, {"validation": 0.5}, {"costs": "rising"}])
def test_what_was_settled_on_writing_can_not_be_asked_for_later(tmp_path, field):
    folder = write(tmp_path / "a.series", raw_sets())
    with pytest.raises(SpecError, match=f"--{next(iter(field))}"):
        load_dataset(str(folder), **field)


def test_prices_may_change_later(tmp_path):
    folder = write(tmp_path / "a.series", raw_sets())
    menu = tmp_path / "menu.yaml"
    menu.write_text("orders: {x: 4, rest of it: {cost: 2, features: [x0, x1, x2]}}\n")
    data = load_dataset(str(folder), menu=str(menu))
    assert data.menu is not None
    assert data.menu.prices == (4, 2)


def long_table(n: int = 60, seed: int = 0, text_ids: bool = False) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for stay in range(n):
        name, label = (f"s{stay}" if text_ids else stay * 3), ["lives", "dies"][stay % 2]
        for hour in range(int(rng.integers(2, 6))):
            rows.append((name, hour * 2, "pulse", float(rng.normal(80, 10)), label, f"p{stay // 2}", stay % 5))
            if rng.random() < 0.5:
                rows.append((name, hour * 2, "ph", float(rng.normal(7.4, 0.1)), label, f"p{stay // 2}", stay % 5))
        rows.append((name, 2, "rare" if stay % 8 == 7 else "pulse ", 1.0, label, f"p{stay // 2}", stay % 5))
    return pl.DataFrame(rows, ("stay", "hour", "feature", "value", "died", "patient", "age"), orient="row").sample(
        fraction=1.0, shuffle=True, seed=1
    )


def wide_table(n: int = 60) -> pl.DataFrame:
    long = long_table(n, text_ids=True)
    return long.pivot("feature", index=["stay", "hour", "died", "patient", "age"], values="value")


def content(data: Dataset) -> dict[str, dict[int, tuple[int, bytes]]]:
    """By part and id: label and values."""
    return {
        name: {int(part.ids[i]): (int(part.labels[i]), part.series(i).tobytes()) for i in range(len(part))}
        for name, part in (("train", data.train), ("validation", data.validation), ("test", data.test))
    }


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "frame"])
def test_packing_by_buckets_gives_what_packing_at_once_gives(tmp_path, layout, kind):
    table = long_table() if layout == "long" else wide_table()
    spec = DataSpec(name="t", id="stay", time="hour", label="died", group="patient", static=("age",))
    source = table
    if kind != "frame":
        source = tmp_path / f"t.{kind}"
        table.write_parquet(source) if kind == "parquet" else table.write_csv(source)
    reports = [pack_table(source, spec, tmp_path / f"{name}.series", cells=cells) for name, cells in (("a", 10**9), ("b", 900))]
    assert reports[0] == reports[1]
    assert reports[0].step == "2"
    assert reports[0].series == 60
    one, other = (open_store(tmp_path / f"{name}.series") for name in "ab")
    assert [feature.name for feature in one.features][-1] == "age"
    np.testing.assert_allclose(one.scaler.mean, other.scaler.mean, rtol=1e-12)
    other = replace(other, **{name: _scaled_as(other.split(name), one) for name in ("train", "validation")})
    other = replace(other, tests={"test": _scaled_as(other.test, one)})
    assert content(one) == content(other)
    patients = [set(part.groups.tolist()) for part in (one.train, one.validation, one.test)]
    assert sum(map(len, patients)) == len(set.union(*patients)) == 30


def _scaled_as(part: SeriesSet, like: Dataset) -> SeriesSet:
    return replace(part, values=replace(part.values, finish=like.scaler.apply))


def test_packing_reads_what_training_on_the_table_reads(tmp_path):
    table = long_table()
    spec = DataSpec(name="t", id="stay", time="hour", label="died", group="patient")
    pack_table(table, spec, tmp_path / "t.series", cells=600)
    stored, direct = open_store(tmp_path / "t.series"), load_table(table, spec)
    assert [f.name for f in stored.features] == [f.name for f in direct.train.features]
    assert stored.classes == direct.classes
    found = {key: own for part in content(stored).values() for key, own in part.items()}
    scaled = [replace(part, values=stored.scaler.apply(part.values)) for part in (direct.train, *direct.tests.values())]
    expected = {int(s.ids[i]): (int(s.labels[i]), s.series(i).tobytes()) for s in scaled for i in range(len(s))}
    assert found == expected


def test_packing_with_a_table_of_labels_and_one_to_test_on(tmp_path):
    table = long_table()
    labels = table.select("stay", "died", "patient").unique()
    test = long_table(20, seed=3).with_columns(pl.col("stay") + 1000, patient=pl.lit("q") + pl.col("patient"))
    everybody = pl.concat([labels, test.select("stay", "died", "patient").unique()])
    spec = DataSpec(name="t", id="stay", time="hour", label="died", labels="l.csv", group="patient")
    measured = table.drop("died", "patient", "age")
    report = pack_table(measured, spec, tmp_path / "t.series", everybody, test.drop("died", "patient", "age"), cells=900)
    assert report.parts["test"] == 20
    assert sum(report.parts.values()) == 80
    with pytest.raises(DataError, match="no row for stay"):
        pack_table(
            measured,
            spec,
            tmp_path / "u.series",
            labels.filter(pl.col("stay") < 90),
            test.drop("died", "patient", "age"),
            cells=900,
        )
    with pytest.raises(DataError, match="has no rows in the table"):
        pack_table(measured, spec, tmp_path / "u.series", everybody, cells=900)
    same = test.with_columns(patient=pl.lit("p1"))
    with pytest.raises(DataError, match=r"groups of .* are in the training table"):
        pack_table(table, spec.model_copy(update={"labels": None}), tmp_path / "u.series", test=same, cells=900)
    assert not (tmp_path / "u.series").exists()


def test_packing_labels_of_steps_weights_and_subgroups(tmp_path):
    table = (
        wide_table()
        .with_columns(weight=pl.col("age") + 0.5, sick=(pl.col("hour") > 4).cast(pl.Float64), ward=pl.col("age") % 2)
        .with_columns(stay=pl.col("stay").str.slice(1).cast(pl.Float64))
        .drop("died", "age")
    )
    fields = {"id": "stay", "time": "hour", "label": "sick", "group": "patient", "weight": "weight", "subgroups": ("ward",)}
    spec = DataSpec(name="t", label_each_step=True, **fields)
    pack_table(table, spec, tmp_path / "t.series", cells=900)
    stored, direct = open_store(tmp_path / "t.series"), load_table(table, spec)
    assert stored.classes == direct.classes == ("0", "1")
    expected = {int(part.ids[i]): (part, i) for part in (direct.train, *direct.tests.values()) for i in range(len(part))}
    seen = 0
    for part in (stored.train, stored.validation, stored.test):
        for i, key in enumerate(part.ids.tolist()):
            other, j = expected[key]
            mine, yours = part.hindsight(np.array([i])), other.hindsight(np.array([j]))
            assert torch.equal(mine.step_labels, yours.step_labels)
            assert torch.equal(mine.weights, yours.weights)
            assert part.subgroups["ward"][i] == other.subgroups["ward"][j]
            seen += 1
    assert seen == len(expected) == 60


def test_exact_copies_are_on_one_side_whatever_their_buckets(tmp_path):
    table = long_table(40)
    twin = table.with_columns(pl.col("stay") + 1_000_000)
    spec = DataSpec(name="t", id="stay", time="hour", label="died", ignore=("patient", "age"))
    pack_table(pl.concat([table, twin]), spec, tmp_path / "t.series", cells=100)
    data = open_store(tmp_path / "t.series")
    for part in (data.train, data.validation, data.test):
        assert {i % 1_000_000 for i in part.ids.tolist()} == {i for i in part.ids.tolist() if i < 1_000_000}


def test_from_a_table_to_a_run_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    long_table(80).write_parquet("t.parquet")
    pack = ["pack", "t.parquet", "--id", "stay", "--time", "hour", "--label", "died", "--ignore", "patient"]
    assert main([*pack, "--static", "age", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["folder"] == "t.series"
    assert main([*pack, "--static", "age"]) == 2  # it is there already
    assert main(["data", "t.series", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["names"] == ["ph", "pulse", "pulse ", "rare", "age"]
    assert main(["train", "t.series", "--effort", "0.005", "--width", "4", "--budget", "1", "--quiet", "--out", "run"]) == 0
    capsys.readouterr()
    assert main(["evaluate", "run", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["accuracy"] == json.loads(Path("run/result.json").read_text())["test"]["accuracy"]
    about = Path("t.series/about.json")
    about.write_text(about.read_text().replace('"notes": {}', '"notes": {"mended": 1}'))
    assert main(["evaluate", "run"]) == 2
    assert "has changed" in capsys.readouterr().err


def test_a_run_on_labels_of_steps_from_disk_with_bins(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    table = wide_table().with_columns(sick=(pl.col("hour") > pl.col("age") % 5).cast(pl.Int64)).drop("died")
    table.write_parquet("t.parquet")
    own = ["--id", "stay", "--time", "hour", "--label", "sick", "--label-each-step", "--group", "patient"]
    assert main(["pack", "t.parquet", *own]) == 0
    small = ["--effort", "0.005", "--budget", "1", "--width", "4", "--layers", "1", "--bins", "4", "--carry"]
    small += ["--batch-size", "8"]
    capsys.readouterr()
    assert main(["train", "t.series", *small, "--out", "run", "--json"]) == 0
    assert "--predictor-now" in capsys.readouterr().err
    assert main(["evaluate", "run", "--false-alarms", "0.3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["calibration"]["temperature"] > 0
    assert found["detection"]["false_alarms"] == 0.3
    data = open_store("t.series")
    edges = next(value for name, value in load_model("run").tensors().items() if name.endswith("edges"))
    rows = np.concatenate([data.train.series(i) for i in range(len(data.train))])
    assert np.allclose(edges, np.nanquantile(rows, np.linspace(0.01, 0.99, 5), axis=0).T, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing.series"], "pack nothing.series"),
        (["t.parquet", "--fakes", "noise"], "--fakes"),
        (["t.parquet", "--out", "folder"], "ends in .series"),
        (["t.parquet", "--id", "nobody", "--time", "hour", "--label", "died"], "no column 'nobody'"),
        (["t.parquet", "--id", "stay", "--time", "hour", "--label", "dead"], "no column 'dead'"),
        (["absent.parquet", "--id", "a", "--time", "b", "--label", "c"], "no file"),
        (["cut.parquet", "--id", "a", "--time", "b", "--label", "c"], "can't be read"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    long_table(10).write_parquet("t.parquet")
    Path("cut.parquet").write_bytes(Path("t.parquet").read_bytes()[:-40])
    assert main(["pack", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.parquet", "t.parquet"]
