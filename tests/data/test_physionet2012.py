from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clinical_files import Row, real_source, stay_text, write_2012
from support import contents
from whichwhen.data import load_dataset
from whichwhen.data.clinical import PRICES, load_physionet2012, physionet2012, read_physionet2012
from whichwhen.data.store import SeriesSet, Source
from whichwhen.errors import DataError

NAMES = [feature.name for feature in physionet2012.FEATURES]
TWO = {100001: stay_text(100001), 100002: stay_text(100002)}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("WHICHWHEN_DATA", raising=False)
    monkeypatch.setenv("WHICHWHEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def column(part: SeriesSet, name: str, i: int = 0) -> np.ndarray:
    return part.series(i)[:, NAMES.index(name)]


def read_rows(folder: Path, rows: list[Row], **described: str) -> Source:
    stays = {100001: stay_text(100001, rows, **described), 100002: stay_text(100002)}
    return read_physionet2012(write_2012(folder, stays) / "physionet2012")


# the grid


@pytest.mark.parametrize(
    ("stamp", "step"), [("00:00", 0), ("00:59", 0), ("01:00", 1), ("23:30", 23), ("47:59", 47), ("48:00", 47)]
)
def test_a_value_goes_to_the_hour_of_its_stamp(stamp: str, step: int, tmp_path: Path) -> None:
    rate = column(read_rows(tmp_path, [(stamp, "HR", "80")]).train, "HR")
    assert np.flatnonzero(~np.isnan(rate)).tolist() == [step]
    assert rate[step] == 80


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([("05:10", "HR", "70"), ("05:50", "HR", "90")], 90),
        ([("05:50", "HR", "90"), ("05:10", "HR", "70")], 90),
        ([("05:10", "HR", "70"), ("05:10", "HR", "71")], 71),
        ([("05:10", "HR", "70"), ("05:50", "HR", "0")], 70),
    ],
    ids=["last of the hour", "by time, not by row", "further down at one stamp", "last plausible one"],
)
def test_the_last_value_of_an_hour_counts(rows: list[Row], kept: float, tmp_path: Path) -> None:
    assert column(read_rows(tmp_path, rows).train, "HR")[5] == kept


def test_urine_of_an_hour_is_summed(tmp_path: Path) -> None:
    rows = [("05:10", "Urine", "30"), ("05:10", "Urine", "20"), ("05:50", "Urine", "0"), ("06:00", "Urine", "7")]
    assert column(read_rows(tmp_path, rows).train, "Urine")[4:8].tolist() == pytest.approx([np.nan, 50, 7, np.nan], nan_ok=True)


LIMITS = {feature.name: (feature.low, feature.high) for feature in physionet2012.SERIES}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 2880), st.sampled_from(["HR", "Urine", "pH", "Weight", "Temp"]), st.integers(-5, 6000).map(float)
        ),
        max_size=40,
    )
)
def test_the_grid_is_what_the_rule_says(rows: list[tuple[int, str, float]], tmp_path: Path) -> None:
    expected: dict[tuple[str, int], float] = {}
    for minute, name, value in sorted(rows, key=lambda row: row[0]):
        low, high = LIMITS[name]
        if low <= value <= high:
            cell = (name, min(minute // 60, 47))
            expected[cell] = value + (expected.get(cell, 0) if name == "Urine" else 0)
    expected = {(name, hour): value for (name, hour), value in expected.items() if value <= LIMITS[name][1]}
    text = [(f"{minute // 60:02}:{minute % 60:02}", name, f"{value:g}") for minute, name, value in rows]
    train = read_rows(tmp_path, text).train
    found = {
        (name, hour): float(train.series(0)[hour, NAMES.index(name)])
        for name in LIMITS
        for hour in np.flatnonzero(~np.isnan(column(train, name))).tolist()
    }
    assert found == expected


# descriptors


def test_descriptors_are_the_same_at_every_step(tmp_path: Path) -> None:
    train = read_rows(tmp_path, [], Age="71", Gender="1", Height="170.2", ICUType="2", Weight="80").train
    expected = [71, 1, 170.2, 80, 0, 1, 0, 0]
    np.testing.assert_allclose(train.series(0)[:, : len(expected)], np.tile(expected, (48, 1)), rtol=1e-6)
    assert {name: column[0] for name, column in train.subgroups.items()} == {
        "unit": "cardiac surgery",
        "sex": "male",
        "age": "65-79",
    }


@pytest.mark.parametrize("name", ["Age", "Gender", "Height", "Weight"])
def test_minus_one_in_a_descriptor_is_missing(name: str, tmp_path: Path) -> None:
    source = read_rows(tmp_path, [], **{"Height": "170", "Weight": "80", name: "-1"})
    missing = np.isnan(source.train.series(0)[0, :8])
    assert np.flatnonzero(missing).tolist() == [["Age", "Gender", "Height", "Weight"].index(name)]


def test_the_weight_of_admission_and_the_weights_later_are_two_features(tmp_path: Path) -> None:
    rows = [("00:00", "Weight", "81"), ("07:05", "Weight", "82")]
    train = read_rows(tmp_path, rows, Weight="80").train
    assert set(column(train, "WeightAdmission").tolist()) == {80}
    assert column(train, "Weight")[[0, 7]].tolist() == [81, 82]
    assert np.isnan(column(train, "Weight")).sum() == 46


def test_a_stay_without_measurements_is_kept(tmp_path: Path) -> None:
    source = read_rows(tmp_path, [("03:00", "HR", "80")])
    assert len(source.train) == 2
    assert source.train.lengths.tolist() == [48, 48]
    assert np.isnan(source.train.series(1)[:, len(physionet2012.STATIC) :]).all()
    assert source.notes["stays without a measurement, kept"] == 5


# what is dropped is counted


def test_rows_without_a_parameter_name_are_dropped_and_counted(tmp_path: Path) -> None:
    source = read_rows(tmp_path, [("03:00", "", "2.7"), ("03:00", "HR", "80")])
    assert source.notes["rows without a parameter name, dropped"] == 1
    assert np.count_nonzero(~np.isnan(source.train.series(0)[:, len(physionet2012.STATIC) :])) == 1


def test_repeats_of_a_stamp_and_parameter_are_counted(tmp_path: Path) -> None:
    rows = [("03:00", "HR", "80"), ("03:00", "HR", "81"), ("03:00", "HR", "81"), ("03:01", "HR", "80"), ("03:00", "Temp", "37")]
    assert read_rows(tmp_path, rows).notes["rows that repeat a stamp and parameter, merged"] == 2


@pytest.mark.parametrize(
    ("name", "value"), [("pH", "735"), ("Temp", "0"), ("DiasABP", "-1"), ("HR", "0"), ("WBC", "12500"), ("K", "22.9")]
)
def test_implausible_values_are_not_measured(name: str, value: str, tmp_path: Path) -> None:
    source = read_rows(tmp_path, [("03:00", name, value)])
    assert np.isnan(column(source.train, name)).all()
    assert source.notes["values outside their range, dropped"] == 1


# labels and sets


def test_labels_go_with_the_record_whatever_the_order(tmp_path: Path) -> None:
    stays = {record: stay_text(record, Age=str(record % 100)) for record in (100007, 100003, 100005)}
    folder = write_2012(tmp_path, stays, {100003: 1, 100005: 0, 100007: 1})
    train = read_physionet2012(folder / "physionet2012").train
    assert dict(zip(train.ids.tolist(), train.labels.tolist(), strict=True)) == {100003: 1, 100005: 0, 100007: 1}
    assert [column(train, "Age", i)[0] for i in range(3)] == [3, 5, 7]
    assert train.groups.tolist() == train.ids.tolist()


def test_nothing_of_the_outcomes_is_among_the_features() -> None:
    words = " ".join(NAMES).lower()
    assert not any(leak in words for leak in ("record", "saps", "sofa", "stay", "survival", "death"))


def test_the_outcomes_other_columns_change_nothing(tmp_path: Path) -> None:
    folder = write_2012(tmp_path, TWO)
    before = read_physionet2012(folder / "physionet2012")
    path = folder / "physionet2012" / "Outcomes-a.txt"
    path.write_text(path.read_text().replace(",6,1,5,-1,", ",30,20,2,1,"))
    after = read_physionet2012(folder / "physionet2012")
    np.testing.assert_array_equal(before.train.values, after.train.values)
    assert before.train.labels.tolist() == after.train.labels.tolist()


# the menu


def test_each_feature_is_free_or_in_a_panel_at_its_price(tmp_path: Path) -> None:
    menu = read_physionet2012(write_2012(tmp_path, TWO) / "physionet2012").menu
    assert menu is not None
    assert menu.reveals.any(axis=0).all()
    free = {name for order in menu.orders if order.free for name in order.features}
    paid = {name for order in menu.orders if not order.free for name in order.features}
    assert not free & paid
    assert {"HR", "Temp", "GCS", "Age", "Weight"} <= free
    assert {"pH", "Lactate", "Creatinine", "TroponinT"} <= paid
    assert {order.name: order.cost for order in menu.orders if not order.free}.items() <= PRICES.items()


def test_a_feature_never_observed_in_training_is_named(tmp_path: Path) -> None:
    stays = {record: stay_text(record, Height="170", Weight="70") for record in range(100001, 100009)}
    with pytest.raises(DataError, match="'HR' is never observed in training"):
        load_dataset("physionet2012", folder=write_2012(tmp_path, stays))


# files that are not what they should be


def spoil(folder: Path, name: str, how: str) -> None:
    path = folder / "physionet2012" / name
    if how == "missing":
        path.unlink()
    elif how == "cut short":
        path.write_bytes(path.read_bytes()[:-40])
    elif how == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(b"no archive")


@pytest.mark.parametrize("name", ["set-a.tar.gz", "set-c.tar.gz"])
@pytest.mark.parametrize("how", ["missing", "cut short", "empty", "text"])
def test_a_spoilt_archive_is_named_and_nothing_is_cached(how: str, name: str, tmp_path: Path, cache: Path) -> None:
    folder = write_2012(tmp_path / "data", TWO)
    spoil(folder, name, how)
    with pytest.raises(DataError, match=name) as caught:
        load_physionet2012(folder)
    assert "\n" not in str(caught.value)
    assert not [path for path in contents(cache) if path.endswith((".source", ".part"))] if cache.exists() else True


def test_no_data_folder_says_where_to_get_it() -> None:
    with pytest.raises(DataError, match=r"physionet\.org/content/challenge-2012.*WHICHWHEN_DATA"):
        load_physionet2012()


def test_the_variable_names_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHICHWHEN_DATA", str(write_2012(tmp_path / "data", TWO)))
    assert len(load_physionet2012().train) == 2


@pytest.mark.parametrize("how", ["missing", "text"])
def test_missing_or_spoilt_outcomes_are_named(how: str, tmp_path: Path) -> None:
    folder = write_2012(tmp_path, TWO)
    spoil(folder, "Outcomes-b.txt", how)
    with pytest.raises(DataError, match=r"Outcomes-b\.txt"):
        load_physionet2012(folder)


@pytest.mark.parametrize(
    ("outcomes", "says"),
    [
        ({100001: 1}, r"Outcomes-a\.txt has no row for record 100002"),
        ({100001: 1, 100002: 0, 100009: 0}, r"set-a\.tar\.gz has no file for record 100009"),
        ({100001: 1, 100002: 2}, r"Outcomes-a\.txt, row 3.*'2'"),
    ],
    ids=["outcome missing", "stay missing", "no outcome"],
)
def test_stays_and_outcomes_must_be_the_same_records(outcomes: dict[int, int], says: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=says):
        load_physionet2012(write_2012(tmp_path, TWO, outcomes))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("03:00,HR,fast", "'fast' in column 'Value'"),
        ("03:00,HR", "nothing in column 'Value'"),
        ("03:00,HR,", "nothing in column 'Value'"),
        ("03:00,HR,80,81", "4 fields"),
        ("3 am,HR,80", "time '3 am'"),
        ("03:60,HR,80", "time '03:60'"),
        ("48:01,HR,80", "time '48:01'"),
        (",HR,80", "time None"),
        ("03:00,Heart,80", "unknown parameter 'Heart'"),
        ("", "nothing in column 'Value'"),
    ],
)
def test_a_row_that_makes_no_sense_is_named_by_file_and_row(line: str, says: str, tmp_path: Path) -> None:
    good = stay_text(100002, [("01:00", "HR", "80")])
    stays = {100001: good.replace("100002", "100001"), 100002: f"{good}{line}\n03:00,HR,80\n", 100003: stay_text(100003)}
    with pytest.raises(DataError) as caught:
        load_physionet2012(write_2012(tmp_path, stays))
    assert f"set-a/100002.txt, row 9: {says}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stay_with_another_header_or_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"100001\.txt, row 1 is 'Hour,Parameter,Value'"):
        load_physionet2012(write_2012(tmp_path / "a", {**TWO, 100001: TWO[100001].replace("Time", "Hour")}))
    with pytest.raises(DataError, match=r"100001\.txt says RecordID 100002"):
        load_physionet2012(write_2012(tmp_path / "b", {100001: TWO[100002], 100002: TWO[100002]}))


# the real archives


def test_real_stays_and_shares_of_death() -> None:
    source = real_source("physionet2012")
    parts = {"a": source.train, **source.tests}
    assert {name: len(part) for name, part in parts.items()} == {"a": 4000, "b": 4000, "c": 4000}
    assert {name: int(part.labels.sum()) for name, part in parts.items()} == {"a": 554, "b": 568, "c": 585}  # 13.85 % …
    assert all(set(part.lengths.tolist()) == {48} for part in parts.values())
    records = np.concatenate([part.groups for part in parts.values()])
    assert len(set(records.tolist())) == 12000


def test_real_values_are_within_their_ranges_and_mostly_missing() -> None:
    source = real_source("physionet2012")
    low, high = (np.array([getattr(feature, side) for feature in source.train.features]) for side in ("low", "high"))
    n_static = len(physionet2012.STATIC)
    for part in (source.train, *source.tests.values()):
        assert part.values.dtype == np.float32
        assert not ((part.values < low - 1e-6) | (part.values > high + 1e-6)).any()
        assert 0.78 < np.isnan(part.values[:, n_static:]).mean() < 0.82
        assert (~np.isnan(part.values)).any(axis=0).all()


def test_real_oddities_are_those_that_are_known() -> None:
    source = real_source("physionet2012")
    n_static = len(physionet2012.STATIC)
    empty = [
        int(np.isnan(part.padded()[:, :, n_static:]).all(axis=(1, 2)).sum()) for part in (source.train, *source.tests.values())
    ]
    assert empty == [3, 7, 2]
    assert source.notes == {
        "rows": 5285818,
        "rows without a parameter name, dropped": 2403,
        "rows that repeat a stamp and parameter, merged": 11790,
        "values outside their range, dropped": 6582,
        "stays without a measurement, kept": 12,
    }


def test_the_first_real_stay_is_what_its_file_says() -> None:
    train = real_source("physionet2012").train
    assert train.ids[0] == 132539
    assert column(train, "HR")[:4].tolist() == [77, 60, 62, 80]
    assert column(train, "Urine")[:3].tolist() == [960, 30, 170]
    assert column(train, "Age")[0] == 54
    assert np.isnan(column(train, "Height")).all()
    assert column(train, "HCT")[3] == pytest.approx(33.7)
