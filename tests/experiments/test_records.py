import base64
import json
import math
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from small_grids import small_job, write_data

from whichwhen import artifacts
from whichwhen.errors import RunFolderError
from whichwhen.evaluation.curves import accuracy_on_test
from whichwhen.experiments.paper import PAPER_NUMBERS, Cell
from whichwhen.experiments.records import (
    POINTS,
    correct_of,
    decimate,
    load_record,
    load_records,
    make_record,
    pack,
    pattern_of,
    read_record,
    record_path,
    squeeze,
    summarise,
    unpack,
    unsqueeze,
    write_summary,
)
from whichwhen.files import write_json
from whichwhen.specs import RunSpec
from whichwhen.training import train

SUMMARY_KEYS = {
    *("dataset", "fakes", "shifted", "budget", "acquirer", "preset", "n_seeds", "mean", "std"),
    *("cost_per_step", "real_fraction", "paper_mean", "paper_std"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A job, its finished run folder and its record."""
    folder = tmp_path_factory.mktemp("records")
    data = write_data(folder / "data")
    job = small_job("learned", 3, training__epochs=3, training__save_epochs=True)
    train(job.spec, folder / "run", folder=data)
    return job, folder / "run", make_record(job, folder / "run", data)


def put(out, record, **changes):
    """A record file, as if another run had written it."""
    record = {**record, **changes}
    record["spec_hash"] = RunSpec.model_validate(record["spec"]).hash
    (out / "records").mkdir(parents=True, exist_ok=True)
    write_json(out / "records" / f"{record['name']}.json", record)
    return record


def seeds_of(record, accuracies, **changes):
    """Records of a setting that differ in seed and test accuracy."""
    return [
        {
            **record,
            **changes,
            "name": f"{changes.get('acquirer', 'learned')}-{changes.get('fakes', 'zeros')}-{seed}",
            "seed": seed,
            "spec": {**record["spec"], "seed": seed},
            "test": {**record["test"], "accuracy": accuracy},
        }
        for seed, accuracy in enumerate(accuracies)
    ]


# -- packing


@given(hnp.arrays(np.uint8, hnp.array_shapes(max_dims=3, max_side=12)))
def test_squeezed_bytes_come_back(array):
    text = squeeze(array)
    assert text.isascii()
    assert np.array_equal(unsqueeze(text).reshape(array.shape), array)


@given(hnp.arrays(np.bool_, st.integers(0, 100)))
def test_packed_flags_come_back_in_an_eighth_of_the_bytes(flags):
    text = pack(flags)
    found = unpack(text, len(flags))
    assert found.dtype == bool
    assert np.array_equal(found, flags)
    assert len(base64.b64decode(text)) == math.ceil(len(flags) / 8)


def test_a_pattern_that_repeats_is_squeezed_small():
    assert len(squeeze(np.tile(np.arange(40, dtype=np.uint8), (10, 93, 1)))) < 400


@given(st.integers(1, 2000))
@settings(max_examples=60)
def test_a_history_is_thinned_evenly_with_its_ends(count):
    kept = decimate(count)
    assert kept[0] == 0
    assert kept[-1] == count - 1
    assert len(kept) == min(count, POINTS)
    gaps = np.diff(kept)
    assert (gaps > 0).all()
    assert gaps.size == 0 or gaps.max() - gaps.min() <= 1
    if count <= POINTS:
        assert kept == list(range(count))


# -- a record and its run folder


def test_a_record_says_what_was_run_and_how_it_ended(finished):
    job, run, record = finished
    result = artifacts.load_result(run)
    assert record["spec"] == job.spec.model_dump(mode="json")
    assert (record["name"], record["spec_hash"], record["seed"]) == (job.name, job.spec.hash, 3)
    assert (record["preset"], record["acquirer"], record["budget"]) == ("paper", "learned", 2)
    assert (record["dataset"], record["fakes"], record["shifted"]) == (job.cell.dataset, "noise", False)
    for name in ("commit", "version", "epochs", "best_epoch", "gain_of_last_fifth", "validation", "test", "cpu_seconds"):
        assert record[name] == result[name]
    assert record["levelled"] == (result["gain_of_last_fifth"] < 0.002)
    assert record["command"] == f"whichwhen paper --only {job.name}"


def test_a_record_says_what_validation_kept_and_at_which_budget(tmp_path):
    data = write_data(tmp_path / "data")
    job = small_job("learned", 0, training__epochs=None, training__effort=0.01, budget__per_step=None)
    train(job.spec, tmp_path / "run", folder=data)
    record, result = make_record(job, tmp_path / "run", data), artifacts.load_result(tmp_path / "run")
    for name in ("kept", "price", "candidates"):
        assert record[name] == result[name]
    assert len(record["candidates"]) == 2
    assert (record["budget_kind"], record["budget"]) == ("per-step", result["budget"])
    assert record["budget"] == 1  # a quarter of four orders
    lines = artifacts.load_history(tmp_path / "run")
    assert record["history"]["epoch"] == [line["epoch"] for line in lines if "refit" not in line["phase"]]


def test_a_run_without_a_limit_has_the_budget_of_its_setting_or_none(tmp_path):
    data = write_data(tmp_path / "data")
    for amount in (2, None):
        job = small_job("complete", 0, training__epochs=1, budget__per_step=amount)
        train(job.spec, tmp_path / f"{amount}", folder=data)
        assert make_record(job, tmp_path / f"{amount}", data)["budget"] == amount


def test_a_record_is_small_and_survives_json(finished):
    record = finished[2]
    text = json.dumps(record, allow_nan=False)
    assert json.loads(text) == record
    assert len(text) < 8000


def test_a_record_s_history_is_the_run_s_with_a_test_curve_where_epochs_were_saved(finished):
    _, run, record = finished
    lines, kept = artifacts.load_history(run), record["history"]
    assert kept["epoch"] == [line["epoch"] for line in lines]
    for name in ("loss", "accuracy", "validation_loss", "validation_accuracy"):
        assert kept[name] == pytest.approx([line[name] for line in lines], abs=1e-5)
    assert kept["test_accuracy"][record["best_epoch"] - 1] == pytest.approx(record["test"]["accuracy"], abs=1e-5)
    data = run.parent / "data"
    assert kept["test_accuracy"] == pytest.approx(accuracy_on_test(run, data), abs=1e-5)


def test_without_saved_epochs_there_is_no_test_curve(finished, tmp_path):
    job, run, _ = finished
    plain = replace(job, spec=job.spec.change(training__save_epochs=False, training__epochs=1))
    train(plain.spec, tmp_path / "run", folder=run.parent / "data")
    assert "test_accuracy" not in make_record(plain, tmp_path / "run")["history"]


def test_a_record_says_which_test_series_were_right(finished):
    _, run, record = finished
    series = artifacts.load_series(run).sort(pl.col("id").str.len_chars(), "id")
    correct = correct_of(record)
    assert correct.tolist() == (series["label"] == series["prediction"]).to_list()
    assert correct.mean() == pytest.approx(record["test"]["accuracy"])
    assert len(correct) == record["test"]["n"]


def test_a_record_s_pattern_is_the_run_s(finished):
    _, run, record = finished
    share, going, real = pattern_of(record)
    table = artifacts.load_class_pattern(run)
    assert share.shape == (len(record["pattern"]["classes"]), record["pattern"]["steps"], len(record["pattern"]["orders"]))
    for row in table.iter_rows(named=True):
        c, k = record["pattern"]["classes"].index(row["class"]), record["pattern"]["orders"].index(row["order"])
        t = row["step"]
        assert going[c, t] == row["going"]
        assert real[t, k] == row["real"]
        assert share[c, t, k] == pytest.approx(row["requested"] / row["going"], abs=0.5 / 255 + 1e-9)
    # what was requested adds up to what it cost, and to the share that was for real features
    requested = share * going[:, :, None]
    assert requested.sum() == pytest.approx(record["test"]["cost_per_step"] * going.sum(), rel=0.01)
    assert (requested.sum(0) * real).sum() / requested.sum() == pytest.approx(record["test"]["real_fraction"], abs=0.01)


def test_a_record_s_samples_are_the_run_s(finished):
    _, run, record = finished
    series = {row["id"]: row for row in artifacts.load_series(run).iter_rows(named=True)}
    table, orders = artifacts.load_samples(run), record["pattern"]["orders"]
    assert {sample["id"] for sample in record["samples"]} == set(table["id"].to_list())
    for sample in record["samples"]:
        own = series[sample["id"]]
        assert (sample["class"], sample["prediction"], sample["steps"]) == (own["label"], own["prediction"], own["length"])
        asked = unsqueeze(sample["requests"]).reshape(sample["steps"], len(orders))
        assert asked.sum() == own["cost"]
        rows = table.filter(table["id"] == sample["id"]).sort("step")
        assert [[orders[k] for k in np.flatnonzero(row)] for row in asked] == rows["orders"].to_list()


# -- reading them back


def test_a_record_is_found_by_its_job_and_not_by_another_spec_of_the_same_name(finished, tmp_path):
    job, _, record = finished
    assert load_record(tmp_path, job) is None
    put(tmp_path, record)
    assert load_record(tmp_path, job) == record
    other = replace(job, spec=job.spec.change(training__epochs=4))
    assert record_path(tmp_path, other) == record_path(tmp_path, job)
    assert load_record(tmp_path, other) is None


def test_records_with_a_spec_of_the_past_are_left_out(finished, tmp_path):
    record = finished[2]
    old, new = seeds_of(record, [0.1, 0.2, 0.3], finished=1.0), seeds_of(record, [0.8, 0.9], finished=2.0)
    for one in old:
        put(tmp_path, one)
    for one in new:
        training = {**one["spec"]["training"], "epochs": 7}
        put(tmp_path, one, spec={**one["spec"], "training": training})
    found = load_records(tmp_path)
    assert [one["test"]["accuracy"] for one in found] == [0.8, 0.9]
    assert summarise(found)[0]["n_seeds"] == 2


def test_seeds_and_what_is_saved_do_not_keep_records_apart(finished, tmp_path):
    for one in seeds_of(finished[2], [0.7, 0.8]):
        training = {**one["spec"]["training"], "save_epochs": one["seed"] == 0}
        put(tmp_path, one, spec={**one["spec"], "training": training})
    assert len(load_records(tmp_path)) == 2


def test_other_settings_are_other_groups_whose_specs_may_differ(finished, tmp_path):
    record = finished[2]
    for one in seeds_of(record, [0.7], finished=1.0):
        put(tmp_path, one)
    for one in seeds_of(record, [0.8], finished=2.0, acquirer="random"):
        put(tmp_path, one, spec={**one["spec"], "acquirer": {**one["spec"]["acquirer"], "kind": "random"}})
    assert {one["acquirer"] for one in load_records(tmp_path)} == {"learned", "random"}


@pytest.mark.parametrize("made", [(), ("records",)], ids=["no folder", "an empty one"])
def test_a_folder_without_records_is_named(made, tmp_path):
    for name in made:
        (tmp_path / name).mkdir()
    with pytest.raises(RunFolderError, match=str(tmp_path)):
        load_records(tmp_path)
    assert write_summary(tmp_path) == []
    assert not (tmp_path / "summary.json").exists()


def test_a_record_whose_spec_was_edited_is_named(finished, tmp_path):
    path = tmp_path / "records" / f"{finished[2]['name']}.json"
    put(tmp_path, finished[2])
    write_json(path, {**finished[2], "spec": {**finished[2]["spec"], "seed": 77}})
    with pytest.raises(RunFolderError, match="its spec is not the one of its hash"):
        load_records(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", '"text"', "{}", '{"format": 99}', "\x00"])
def test_a_file_that_is_no_record_is_named(text, tmp_path):
    (tmp_path / "records").mkdir()
    path = tmp_path / "records" / "broken.json"
    path.write_text(text)
    for read in (lambda: read_record(path), lambda: load_records(tmp_path), lambda: write_summary(tmp_path)):
        with pytest.raises(RunFolderError) as caught:
            read()
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


NEEDED = (
    *("name", "preset", "dataset", "fakes", "shifted", "budget", "acquirer", "spec_hash", "spec", "finished", "levelled"),
    *("test", "cpu_seconds", "history", "correct", "pattern", "samples", "test.accuracy", "test.cost_per_step"),
    *("test.real_fraction", "test.n", "spec.training"),
)


@pytest.mark.parametrize("key", NEEDED)
def test_a_record_that_lacks_what_readers_need_is_named(key, finished, tmp_path):
    record = json.loads(json.dumps(finished[2]))
    *parents, leaf = key.split(".")
    place = record
    for parent in parents:
        place = place[parent]
    del place[leaf]
    (tmp_path / "records").mkdir()
    path = tmp_path / "records" / "broken.json"
    write_json(path, record)
    with pytest.raises(RunFolderError) as caught:
        write_summary(tmp_path)
    assert str(path) in str(caught.value)


# -- the summary


def test_a_row_has_the_means_over_its_seeds(finished):
    (row,) = summarise(seeds_of(finished[2], [0.8, 0.9, 0.85]))
    assert row.keys() >= SUMMARY_KEYS
    assert row["n_seeds"] == 3
    assert row["mean"] == pytest.approx(0.85)
    assert row["std"] == pytest.approx(0.05)
    assert row["cost_per_step"] == pytest.approx(finished[2]["test"]["cost_per_step"])
    assert row["real_fraction"] == pytest.approx(finished[2]["test"]["real_fraction"])
    assert (row["paper_mean"], row["paper_std"]) == (None, None)


def test_a_single_seed_has_no_standard_deviation(finished):
    (row,) = summarise(seeds_of(finished[2], [0.8]))
    assert (row["mean"], row["std"], row["n_seeds"]) == (0.8, None, 1)


def test_real_fraction_is_left_open_where_nothing_was_requested(finished):
    record = finished[2]
    (row,) = summarise([{**record, "acquirer": "none", "test": {**record["test"], "real_fraction": None}}])
    assert row["real_fraction"] is None


@pytest.mark.parametrize(("cell", "acquirer"), list(PAPER_NUMBERS), ids=lambda part: getattr(part, "name", part))
def test_the_paper_s_number_stands_beside_its_setting(cell, acquirer, finished):
    where = {"dataset": cell.dataset, "fakes": cell.fakes, "shifted": cell.shifted, "acquirer": acquirer}
    (row,) = summarise(seeds_of(finished[2], [0.5, 0.6], **where))
    assert {name: row[name] for name in where} == where
    assert (row["paper_mean"], row["paper_std"]) == PAPER_NUMBERS[cell, acquirer]


@pytest.mark.parametrize("acquirer", ["none", "round-robin", "static-by-time", "table", "oracle", "static", "learned-only"])
def test_where_the_paper_has_no_number_there_is_none(acquirer, finished):
    assert (Cell("m-forda", "noise"), acquirer) not in PAPER_NUMBERS
    (row,) = summarise([{**finished[2], "dataset": "m-forda", "fakes": "noise", "acquirer": acquirer}])
    assert row["paper_mean"] is row["paper_std"] is None


def test_the_summary_is_a_file_with_a_row_per_setting_acquirer_and_preset(finished, tmp_path):
    record = finished[2]
    for preset in ("paper", "run"):
        for acquirer in ("learned", "random"):
            for one in seeds_of(record, [0.7, 0.9], acquirer=acquirer, preset=preset):
                put(tmp_path, one, name=f"{preset}-{one['name']}")
    rows = write_summary(tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text()) == rows
    keys = [(row["preset"], row["acquirer"]) for row in rows]
    assert sorted(keys) == sorted((preset, name) for preset in ("paper", "run") for name in ("learned", "random"))
    assert len(set(keys)) == 4
    assert all(row["n_seeds"] == 2 for row in rows)
    assert write_summary(tmp_path) == rows


def test_rows_with_and_without_a_budget_stand_in_one_order(finished):
    rows = summarise(
        [{**finished[2], "acquirer": name, "budget": budget} for name, budget in (("none", None), ("learned", 2.0))]
    )
    assert [(row["acquirer"], row["budget"]) for row in rows] == [("learned", 2.0), ("none", None)]
