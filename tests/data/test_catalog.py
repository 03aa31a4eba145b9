import functools
from pathlib import Path

import numpy as np
import pytest

from support import data_folder, raw_archive, ts_rows, ts_text, write_archive
from whichwhen.data import CATALOG, Dataset, archives, load_dataset
from whichwhen.errors import DataError, WhichwhenError
from whichwhen.specs import DataSpec

SPLITS = ("train", "validation", "test")


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHICHWHEN_DATA", raising=False)


# names


def test_the_documented_names_are_listed() -> None:
    names = {entry.name for entry in CATALOG}
    known = ("fixed", "moving", "nearby", "travel", "bursts", "pointer", "triage", "planning", "exact")
    tasks = {f"synthetic:{task}" for task in known}
    clinical = {"physionet2012", "physionet2019"}
    own = {"FILE", "FOLDER.series"}
    assert {"m-forda", "spoken-arabic-digits", "japanese-vowels", "ucr:NAME", *own, *tasks, *clinical} == names
    assert all(entry.about for entry in CATALOG)


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("m-ford", "m-forda"),
        ("forda", "m-forda"),
        ("M-FordA", "m-forda"),
        ("spoken-arabic-digit", "spoken-arabic-digits"),
        ("japanese_vowels", "japanese-vowels"),
        ("JapaneseVowels", "japanese-vowels"),
        ("BasicMotions", "ucr:BasicMotions"),
        ("ucr:japanesevowels", "ucr:JapaneseVowels"),
        ("ucr:forda", "ucr:FordA"),
        ("synthetic:move", "synthetic:moving"),
    ],
)
def test_an_unknown_name_is_answered_with_a_near_one(name: str, suggestion: str) -> None:
    with pytest.raises(DataError) as caught:
        load_dataset(name)
    message = str(caught.value)
    assert repr(name.partition(":")[2] or name) in message
    assert suggestion in message.partition("expected")[2]
    assert "\n" not in message


@pytest.mark.parametrize("name", ["ucr:Nonsense", "ucr:", "synthetic:", "qqqq", ":", "synthetic:qqqq"])
def test_a_name_like_none_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="unknown"):
        load_dataset(name)


def test_a_name_with_fields_is_the_same_as_a_spec() -> None:
    one = load_dataset("japanese-vowels", 3, fakes="noise", n_fakes=2)
    other = load_dataset(DataSpec(name="japanese-vowels", fakes="noise", n_fakes=2), 3)
    for split in SPLITS:
        np.testing.assert_array_equal(one.split(split).values, other.split(split).values)


# what comes out


def test_basic_motions_through_its_archive_name() -> None:
    data = load_dataset("ucr:BasicMotions")
    assert (len(data.train) + len(data.validation), len(data.test)) == (40, 40)
    assert len(data.features) == 6
    assert data.horizon == data.longest == 100
    assert len(data.classes) == 4


def test_japanese_vowels_are_all_there() -> None:
    data = load_dataset("japanese-vowels")
    assert (len(data.train) + len(data.validation), len(data.test)) == (270, 370)
    assert [feature.name for feature in data.features] == [f"lpc{i}" for i in range(12)]
    assert data.classes == tuple("123456789")
    assert (data.horizon, data.longest) == (26, 29)
    assert data.provenance.real.shape == (29, 12)
    assert data.provenance.real.all()


def test_numeric_classes_are_in_numeric_order(tmp_path: Path) -> None:
    rows = ts_rows(24, labels=("10", "9", "-1"))
    folder = write_archive(tmp_path, ts_text(rows, ("-1", "9", "10")), ts_text(rows, ("-1", "9", "10")))
    data = load_dataset("ucr:Own", folder=folder)
    assert data.classes == ("-1", "9", "10")
    assert data.test.labels.tolist() == [2, 1, 0] * 8


def test_labels_follow_their_series(tmp_path: Path) -> None:
    rows = [f"{i},{i}:{'a' if i % 3 else 'b'}" for i in range(30)]
    data = load_dataset("ucr:Own", folder=write_archive(tmp_path, ts_text(rows), ts_text(rows)))
    for part in (data.train, data.validation, data.test):
        raw = part.values[part.offsets[:-1], 0] * data.scaler.std[0] + data.scaler.mean[0]
        np.testing.assert_allclose(raw, part.ids, atol=1e-4)
        assert [data.classes[label] for label in part.labels] == ["a" if i % 3 else "b" for i in part.ids]


def test_keys_of_the_splits_start_from_the_seed() -> None:
    data = load_dataset("japanese-vowels", 5)
    assert {data.split(split).seed for split in SPLITS} == {5}
    assert (data.train.source, data.validation.source, data.test.source) == ("train", "train", "test")


def test_digits_are_all_there() -> None:
    data = load_dataset("spoken-arabic-digits", folder=data_folder("SpokenArabicDigits"))
    assert (len(data.train) + len(data.validation), len(data.test)) == (6600, 2200)
    assert [feature.name for feature in data.features] == [f"mfcc{i}" for i in range(13)]
    assert len(data.classes) == 10
    assert np.bincount(data.test.labels).tolist() == [220] * 10
    assert (data.horizon, data.longest) == (93, 93)


@pytest.mark.parametrize("rows", [ts_rows(40), sorted(ts_rows(30), key=lambda row: row[-1])], ids=["unsorted", "15 a digit"])
def test_digits_in_another_order_are_refused(rows: list[str], tmp_path: Path) -> None:
    folder = write_archive(tmp_path, ts_text(rows), ts_text(rows), "SpokenArabicDigits")
    with pytest.raises(DataError, match="not in UCI's order"):
        load_dataset("spoken-arabic-digits", folder=folder)


# m-FordA


@functools.cache
def m_forda(m: int) -> Dataset:
    raw = raw_archive("FordA")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archives, "load_archive", lambda name, folder: raw)
        return load_dataset("m-forda", m=m)


def values_in_file(part: str) -> np.ndarray:
    """Straight from the text, without the project's or aeon's reader."""
    path = data_folder("FordA") / "FordA" / f"FordA_{part}.ts"
    lines = path.read_text().partition("@data")[2].split()
    return np.array([[float(word) for word in line.rpartition(":")[0].split(",")] for line in lines[:40]])


@pytest.mark.parametrize(("m", "steps"), [(10, 50), (7, 71), (250, 2)])
def test_m_forda_is_the_file_in_steps_of_m(m: int, steps: int) -> None:
    data = m_forda(m)
    assert (len(data.train) + len(data.validation), len(data.test)) == (3601, 1320)
    assert [feature.name for feature in data.features] == [f"sample{i}" for i in range(m)]
    for part in (data.train, data.validation, data.test):
        assert set(part.lengths) == {steps}
        raw = values_in_file("TEST" if part is data.test else "TRAIN")
        for place in np.flatnonzero(part.ids < len(raw)).tolist():
            expected = raw[part.ids[place]][: steps * m].reshape(steps, m)
            np.testing.assert_allclose(part.series(place) * data.scaler.std + data.scaler.mean, expected, atol=1e-5)


def test_m_forda_has_the_archives_classes() -> None:
    data = m_forda(10)
    assert data.classes == ("-1", "1")
    assert np.bincount(data.test.labels).tolist() == [681, 639]
    assert (np.bincount(data.train.labels) + np.bincount(data.validation.labels)).tolist() == [1846, 1755]


@pytest.mark.parametrize("m", [0, -3, 251, 500, 501])
def test_m_out_of_range_is_refused(m: int) -> None:
    with pytest.raises(WhichwhenError, match=f"m is {m}") as caught:
        m_forda(m)
    assert "expected" in str(caught.value)


def test_m_forda_through_the_data_folder() -> None:
    data = load_dataset("m-forda", folder=data_folder("FordA"), m=100)
    np.testing.assert_array_equal(data.test.values, m_forda(100).test.values)


# scaling


@pytest.mark.parametrize("data", [lambda: m_forda(10), lambda: load_dataset("japanese-vowels")], ids=["m-forda", "vowels"])
def test_scaling_is_fitted_on_the_training_split_alone(data) -> None:
    data = data()
    train = data.train.values.astype(np.float64)
    np.testing.assert_allclose(train.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(train.std(0), 1, atol=1e-4)
    for part in (data.validation, data.test):
        assert np.abs(part.values.mean(0)).max() > 1e-3
        assert np.abs(part.values.std(0) - 1).max() > 1e-3


def changed(rows: list[str], which: set[int]) -> list[str]:
    """The same rows with 1000 added to every value of some of them."""
    out = []
    for i, row in enumerate(rows):
        *channels, label = row.split(":")
        if i in which:
            channels = [",".join(str(float(word) + 1000) for word in channel.split(",")) for channel in channels]
        out.append(":".join([*channels, label]))
    return out


@pytest.mark.parametrize("where", ["validation", "test"])
def test_other_values_in_validation_or_test_do_not_change_the_scaling(where: str, tmp_path: Path) -> None:
    rows = ts_rows(40)
    plain = load_dataset("ucr:Own", folder=write_archive(tmp_path / "a", ts_text(rows), ts_text(rows)))
    held = set(plain.validation.ids.tolist())
    train = changed(rows, held) if where == "validation" else rows
    test = changed(rows, set(range(40))) if where == "test" else rows
    other = load_dataset("ucr:Own", folder=write_archive(tmp_path / "b", ts_text(train), ts_text(test)))
    np.testing.assert_array_equal(other.train.values, plain.train.values)
    np.testing.assert_array_equal(other.scaler.mean, plain.scaler.mean)
    np.testing.assert_array_equal(other.scaler.std, plain.scaler.std)
    assert np.abs(other.split(where).values - plain.split(where).values).min() > 100


def test_fakes_are_not_scaled() -> None:
    data = load_dataset("japanese-vowels", fakes="noise", n_fakes=5)
    assert abs(data.train.values[:, 12:].std() - 0.5) < 0.01
    assert data.scaler.mean[12:].tolist() == [0] * 5
    assert data.scaler.std[12:].tolist() == [1] * 5


def test_shifted_real_values_are_the_unshifted_ones_moved() -> None:
    plain = load_dataset("japanese-vowels", fakes="noise", n_fakes=30)
    moved = load_dataset("japanese-vowels", fakes="noise", n_fakes=30, shift=True)
    truth = moved.provenance.real
    assert truth.shape == (29, 42)
    assert [np.flatnonzero(truth[t])[0] for t in (0, 6, 7, 13, 14, 20, 21, 28)] == [0, 0, 12, 12, 24, 24, 30, 30]
    for split in SPLITS:
        one, other = plain.split(split), moved.split(split)
        at = truth[other.steps]
        np.testing.assert_array_equal(other.values[at].reshape(-1, 12), one.values[:, :12])
        np.testing.assert_array_equal(other.values[~at].reshape(-1, 30), one.values[:, 12:])


# files that can be read but not used


def refused(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        load_dataset("ucr:Own", folder=folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("1,2,3,4:5,6,7,-inf:a", ("-inf", "series 3", "step 3", "'x1'")),
        ("1:2:a", ("series 3", "1 step", "at least 2")),
    ],
    ids=["inf", "one step"],
)
def test_bad_values_are_named_by_their_place(part: str, row: str, words: tuple[str, ...], tmp_path: Path) -> None:
    rows = {"train": ts_rows(), "test": ts_rows()}
    rows[part][3] = row
    message = refused(write_archive(tmp_path, ts_text(rows["train"]), ts_text(rows["test"])))
    for word in (*words, f"{part} part"):
        assert word in message


@pytest.mark.parametrize("row", ["1,2,nan,4:5,6,7,8:a", "1,2,?,4:5,6,7,8:a"], ids=["nan", "missing"])
def test_what_was_not_measured_stays_so_and_the_rest_is_scaled(row: str, tmp_path: Path) -> None:
    rows = ts_rows()
    rows[3] = row
    test = load_dataset("ucr:Own", folder=write_archive(tmp_path, ts_text(ts_rows()), ts_text(rows))).test
    assert np.argwhere(np.isnan(test.series(3))).tolist() == [[2, 0]]
    assert np.isnan(test.values).sum() == 1


def test_a_feature_never_observed_in_training_is_named(tmp_path: Path) -> None:
    rows = [f"1,2,3,{i}:nan,nan,nan,nan:{'ab'[i % 2]}" for i in range(12)]
    message = refused(write_archive(tmp_path, ts_text(rows), ts_text(ts_rows())))
    assert "'x1' is never observed in training" in message


def test_one_class_is_refused(tmp_path: Path) -> None:
    text = ts_text(ts_rows(labels=("a",)), ("a",))
    assert "one class (a)" in refused(write_archive(tmp_path, text, text))


def test_a_test_part_with_other_columns_is_refused(tmp_path: Path) -> None:
    message = refused(write_archive(tmp_path, ts_text(ts_rows()), ts_text(ts_rows(n_features=3))))
    assert "2" in message
    assert "3" in message


def test_a_training_part_of_one_class_is_refused_whatever_is_in_test(tmp_path: Path) -> None:
    refused(write_archive(tmp_path, ts_text(ts_rows(labels=("a",))), ts_text(ts_rows())))


def test_a_test_file_cut_off_in_its_last_label_is_refused(tmp_path: Path) -> None:
    whole = ts_text(ts_rows())
    refused(write_archive(tmp_path, whole, whole.rstrip("\n")[:-1]))


def test_copies_of_one_series_under_all_labels_are_refused(tmp_path: Path) -> None:
    refused(write_archive(tmp_path, ts_text(["1,2:3,4:a", "1,2:3,4:b"] * 6), ts_text(ts_rows())))


def test_numbers_too_large_for_float32_are_refused_in_one_line(tmp_path: Path) -> None:
    rows = ts_rows()
    rows[3] = "1,2,3,4:5,6,1e39,8:a"
    assert "series 3" in refused(write_archive(tmp_path, ts_text(rows), ts_text(ts_rows())))
