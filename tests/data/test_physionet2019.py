from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinical_files import hours_text, real_source, write_2019
from support import contents
from whichwhen.data.clinical import PRICES, load_physionet2019, physionet2019, read_physionet2019
from whichwhen.data.store import SeriesSet, Source
from whichwhen.errors import DataError, SpecError

NAMES = [feature.name for feature in physionet2019.FEATURES]
PATIENTS = [f"p{100001 + i}" for i in range(20)]
HELD = ["p100004", "p100005", "p100009", "p100010", "p100013", "p100018", "p100019"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WHICHWHEN_DATA", raising=False)
    monkeypatch.setenv("WHICHWHEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def some(**stays: str) -> dict[str, str]:
    """Twenty stays, so that both sides of the split have some, with given ones among them."""
    return {name: hours_text([0] * 8) for name in PATIENTS} | stays


def read(folder: Path, stays: dict[str, str]) -> Source:
    return read_physionet2019(write_2019(folder, stays) / "physionet2019")


def of(source: Source, patient: str) -> tuple[SeriesSet, int]:
    """The set that holds a patient, and the place there."""
    part = source.tests["test"] if physionet2019.in_test(patient) else source.train
    return part, part.ids.tolist().index(int(patient[1:]))


def steps(source: Source, patient: str) -> np.ndarray:
    part, i = of(source, patient)
    assert part.step_labels is not None
    return part.step_labels[part.offsets[i] : part.offsets[i + 1]]


# rows and labels


@pytest.mark.parametrize("patient", PATIENTS[:6])
def test_a_step_is_a_row_with_its_own_label_which_is_not_moved(patient: str, tmp_path: Path) -> None:
    labels = [0, 0, 0, 1, 1]
    heart = ["80", "NaN", "82", "83.5", "NaN"]
    source = read(tmp_path, some(**{patient: hours_text(labels, HR=heart)}))
    part, i = of(source, patient)
    assert steps(source, patient).tolist() == labels
    assert part.labels[i] == 1
    found = part.series(i)[:, NAMES.index("HR")].tolist()
    assert found == pytest.approx([80, np.nan, 82, 83.5, np.nan], nan_ok=True)
    assert part.values.dtype == np.float32


@pytest.mark.parametrize(
    ("labels", "onset"), [([0, 0], "never"), ([0, 1], "later"), ([1, 1], "from the first row")], ids=lambda value: str(value)
)
def test_subgroups_say_when_the_label_turns_positive(labels: list[int], onset: str, tmp_path: Path) -> None:
    source = read(tmp_path, some(p100001=hours_text(labels)))
    part, i = of(source, "p100001")
    assert part.subgroups["onset"][i] == onset
    assert part.labels[i] == max(labels)


def test_subgroups_by_unit_sex_and_age(tmp_path: Path) -> None:
    stay = hours_text([0, 0], Unit1="0", Unit2="1", Gender="0", Age="83.4")
    part, i = of(read(tmp_path, some(p100001=stay)), "p100001")
    assert [part.subgroups[name][i] for name in ("unit", "sex", "age")] == ["surgical", "female", "80 and over"]
    other = part.subgroups["unit"][part.ids != 100001]
    assert set(other.tolist()) <= {"unknown"}


def test_implausible_values_are_dropped_and_counted(tmp_path: Path) -> None:
    source = read(tmp_path, some(p100001=hours_text([0] * 3, FiO2=["0.5", "-50", "4000"], Temp=["37", "50", "NaN"])))
    part, i = of(source, "p100001")
    assert np.isnan(part.series(i)[:, NAMES.index("FiO2")]).tolist() == [False, True, True]
    assert source.notes == {"rows": 19 * 8 + 3, "values outside their range, dropped": 3}


# what must not leak


def test_neither_the_label_nor_the_hour_is_a_feature() -> None:
    assert len(NAMES) == 39
    assert not {"SepsisLabel", "ICULOS"} & set(NAMES)


def test_the_hour_at_which_a_record_begins_changes_nothing(tmp_path: Path) -> None:
    one = read(tmp_path / "a", some())
    other = read(tmp_path / "b", some(**{name: hours_text([0] * 8, first=9) for name in PATIENTS}))
    np.testing.assert_array_equal(one.train.values, other.train.values)


def test_a_first_hour_is_the_same_however_long_the_record(tmp_path: Path) -> None:
    short = read(tmp_path / "a", some(p100001=hours_text([0] * 8, HR="80")))
    long = read(tmp_path / "b", some(p100001=hours_text([0] * 80, HR="80")))
    first = [part.series(i)[0] for part, i in (of(short, "p100001"), of(long, "p100001"))]
    np.testing.assert_array_equal(*first)


# the split


@given(st.integers(0, 10**6))
def test_a_patient_is_on_the_same_side_every_time(number: int) -> None:
    assert physionet2019.in_test(f"p{number}") == physionet2019.in_test(f"p{number}")


def test_the_sides_of_some_patients_are_fixed_for_ever() -> None:
    held = [name for name in PATIENTS if physionet2019.in_test(name)]
    assert held == HELD


def test_about_a_fifth_of_patients_is_held_out() -> None:
    share = np.mean([physionet2019.in_test(f"p{i}") for i in range(20000)])
    assert 0.19 < share < 0.21


def test_the_split_does_not_depend_on_who_else_is_there(tmp_path: Path) -> None:
    stays = some()
    both = read(tmp_path / "a", stays)
    half = read(tmp_path / "b", dict(list(stays.items())[:10]))
    assert set(half.train.ids.tolist()) <= set(both.train.ids.tolist())
    assert set(half.tests["test"].ids.tolist()) <= set(both.tests["test"].ids.tolist())


# cutting


def test_longest_keeps_the_first_hours_and_their_labels(tmp_path: Path) -> None:
    stays = some(p100001=hours_text([0] * 6 + [1] * 2), p100002=hours_text([0, 1, 1]))
    source = load_physionet2019(write_2019(tmp_path, stays), longest=4)
    assert all(part.lengths.max() == 4 for part in (source.train, source.tests["test"]))
    assert steps(source, "p100001").tolist() == [0] * 4
    assert steps(source, "p100002").tolist() == [0, 1, 1]
    for patient, label, onset in (("p100001", 0, "never"), ("p100002", 1, "later")):
        part, i = of(source, patient)
        assert (part.labels[i], part.subgroups["onset"][i]) == (label, onset)


def test_longest_must_leave_two_hours(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="longest is 1"):
        load_physionet2019(write_2019(tmp_path, some()), longest=1)


# the menu


def test_each_feature_is_free_or_in_a_panel_at_its_price(tmp_path: Path) -> None:
    menu = read(tmp_path, some()).menu
    assert menu is not None
    assert menu.reveals.any(axis=0).all()
    free = {name for order in menu.orders if order.free for name in order.features}
    paid = {name for order in menu.orders if not order.free for name in order.features}
    assert not free & paid
    assert len(free) == 8 + 5
    assert {order.name: order.cost for order in menu.orders if not order.free}.items() <= PRICES.items()


# files that are not what they should be


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda text: text.replace("|4|0", "|4|2", 1), "row 5: SepsisLabel 2"),
        (lambda text: text.replace("|4|0", "|4|NaN", 1), "row 5: SepsisLabel nan"),
        (lambda text: text.replace("|4|0", "|4|", 1), "row 5: nothing in column 'SepsisLabel'"),
        (lambda text: text.replace("|4|0", "|four|0", 1), "row 5: 'four' in column 'ICULOS'"),
        (lambda text: text.replace("|4|0", "|4|0|0", 1), "row 5: 42 fields"),
        (lambda text: text.replace("HR|", "Pulse|", 1), "row 1 is 'Pulse|"),
        (lambda text: text.splitlines()[0] + "\n", "has no rows"),
    ],
    ids=["label", "label missing", "field empty", "text", "too many", "header", "no rows"],
)
def test_a_row_that_makes_no_sense_is_named_by_file_and_row(edit, says: str, tmp_path: Path, cache: Path) -> None:  # type: ignore[no-untyped-def]
    folder = write_2019(tmp_path / "data", some(p100003=edit(hours_text([0] * 8))))
    with pytest.raises(DataError) as caught:
        load_physionet2019(folder)
    assert "p100003.psv" in str(caught.value)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not [path for path in contents(cache) if path.endswith((".source", ".part"))]


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"patient\.psv"):
        read(tmp_path, some(patient=hours_text([0, 0])))


def test_an_archive_cut_short_is_named_and_nothing_is_cached(tmp_path: Path, cache: Path) -> None:
    folder = write_2019(tmp_path / "data", some())
    path = folder / "physionet2019" / "training_setB.tar.gz"
    content = path.read_bytes()
    for length in (len(content) - 1, len(content) // 2, 5, 0):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"training_setB\.tar\.gz.*cut short"):
            load_physionet2019(folder)
    assert not [name for name in contents(cache) if name.endswith((".source", ".part"))]


def test_a_missing_archive_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file physionet2019/training_setB\.tar\.gz.*challenge-2019"):
        load_physionet2019(tmp_path)


# the real archive


def test_real_rows_stays_and_septic_patients() -> None:
    source = real_source("physionet2019")
    parts = (source.train, source.tests["test"])
    assert sum(len(part.values) for part in parts) == 761995
    assert sum(len(part) for part in parts) == 20000
    assert sum(int(part.labels.sum()) for part in parts) == 1142
    assert sum(int((part.subgroups["onset"] == "from the first row").sum()) for part in parts) == 223
    lengths = np.concatenate([part.lengths for part in parts])
    assert (lengths.min(), lengths.max()) == (8, 336)
    assert 0.19 < len(parts[1]) / 20000 < 0.21
    assert abs(parts[0].labels.mean() - parts[1].labels.mean()) < 0.01


def test_no_real_patient_is_on_both_sides() -> None:
    source = real_source("physionet2019")
    assert not set(source.train.groups.tolist()) & set(source.tests["test"].groups.tolist())
    assert len(set(source.train.groups.tolist())) == len(source.train)


def test_real_labels_never_turn_back() -> None:
    for part in (real_source("physionet2019").train, real_source("physionet2019").tests["test"]):
        assert part.step_labels is not None
        falls = np.flatnonzero(np.diff(part.step_labels) < 0) + 1
        assert set(falls.tolist()) <= set(part.offsets.tolist())
