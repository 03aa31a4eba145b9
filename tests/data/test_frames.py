"""Tables of one's own: both layouts, files, grids, groups, reports; what goes wrong is in test_frames_bad.py."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.data import Dataset, load_dataset, open_store
from whichwhen.data.frames import TableReport, check_new_table, describe_table, is_table, load_table, open_table, pack_table
from whichwhen.data.store import SeriesSet, Source
from whichwhen.errors import DataWarning
from whichwhen.specs import DataSpec, RunSpec, TableSpec

SPEC = TableSpec(id="stay", time="hour", label="died")
KEYS = ["stay", "hour", "died"]


def wide_table(count: int = 12, hours: tuple[int, ...] = (0, 1, 3), seed: int = 0) -> pl.DataFrame:
    """Stays of four hours, nothing at the third of them; potassium is missing now and then."""
    rng = np.random.default_rng(seed)
    rows = count * len(hours)
    potassium = rng.normal(4, 1, rows)
    potassium[::5] = np.nan
    return pl.DataFrame(
        {
            "stay": np.repeat(np.arange(count) + 100, len(hours)),
            "hour": np.tile(hours, count),
            "died": np.repeat(np.arange(count) % 2, len(hours)),
            "age": np.repeat(rng.integers(20, 90, count), len(hours)),
            "k": potassium,
            "na": rng.normal(140, 5, rows),
        }
    ).with_columns(pl.col("k").fill_nan(None))


def long_of(wide: pl.DataFrame, features: tuple[str, ...] = ("k", "na")) -> pl.DataFrame:
    index = [name for name in wide.columns if name not in features]
    return wide.unpivot(features, index=index, variable_name="feature", value_name="value")


def same_series(one: SeriesSet, other: SeriesSet) -> None:
    order = [[feature.name for feature in other.features].index(feature.name) for feature in one.features]
    np.testing.assert_array_equal(one.values, other.values[:, order])
    for name in ("offsets", "labels", "ids", "groups", "step_labels", "weights"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert one.source == other.source
    assert one.subgroups.keys() == other.subgroups.keys()


def same_source(one: Source, other: Source) -> None:
    assert one.classes == other.classes
    same_series(one.train, other.train)
    same_series(one.tests["test"], other.tests["test"])


def together(source: Source) -> dict[int, np.ndarray]:
    """Values of every series by id, whichever side it is on."""
    return {int(part.ids[i]): part.series(i) for part in (source.train, source.tests["test"]) for i in range(len(part))}


# layouts and files


def test_a_wide_table_becomes_series_on_a_grid() -> None:
    source = load_table(wide_table().drop("age"), SPEC)
    assert [feature.name for feature in source.train.features] == ["k", "na"]
    assert source.classes == ("0", "1")
    assert source.menu is None
    values = together(source)
    assert sorted(values) == list(range(100, 112))
    rows = wide_table().filter(pl.col("stay") == 103)
    np.testing.assert_allclose(values[103][[0, 1, 3], 1], rows["na"], rtol=1e-6)
    assert np.isnan(values[103][2]).all()
    for part in (source.train, source.tests["test"]):
        np.testing.assert_array_equal(part.labels, part.ids % 2)


def test_long_and_wide_are_the_same_data() -> None:
    spec = TableSpec(**SPEC.model_dump(exclude={"static"}), static=("age",))
    same_source(load_table(wide_table(), spec), load_table(long_of(wide_table()), spec))


@settings(max_examples=10, deadline=None)
@given(
    cells=st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 5), *[st.none() | st.floats(-1e6, 1e6, width=32)] * 2),
        min_size=1,
        max_size=60,
        unique_by=lambda row: row[:2],
    ),
    seed=st.integers(0, 99),
)
def test_layout_file_and_order_of_rows_do_not_matter(tmp_path_factory, cells: list[tuple], seed: int) -> None:
    base = [(stay, hour, 1.5, -2.5) for stay in range(10) for hour in (0, 5)]
    rows = {(stay, hour): (one, other) for stay, hour, one, other in [*base, *cells]}
    wide = pl.DataFrame(
        [(stay, hour, stay % 2, *values) for (stay, hour), values in sorted(rows.items())],
        schema={"stay": pl.Int64, "hour": pl.Int64, "died": pl.Int64, "a": pl.Float64, "b": pl.Float64},
        orient="row",
    )
    spec = SPEC.model_copy(update={"step": "1", "group": "stay"})
    try:
        expected = load_table(wide, spec)
    except Exception as error:  # a column may be empty in training
        assert "never observed" in str(error)  # noqa: PT017
        return
    mixed = wide.sample(fraction=1, shuffle=True, seed=seed)
    long = long_of(wide, ("a", "b")).sample(fraction=1, shuffle=True, seed=seed)
    folder = tmp_path_factory.mktemp("tables")
    long.write_parquet(folder / "long.parquet")
    wide.write_csv(folder / "wide.csv")
    for table in (mixed, long, mixed.lazy(), folder / "long.parquet", str(folder / "wide.csv")):
        same_source(load_table(table, spec), expected)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.pq", "t.csv.gz", "t.txt"])
def test_files_of_each_kind_agree(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if path.suffix in (".parquet", ".pq"):
        wide_table().write_parquet(path)
    else:
        text = wide_table().write_csv(separator="\t" if "tsv" in name else ";" if "txt" in name else ",")
        import gzip

        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    assert is_table(str(path))
    same_source(load_table(path, SPEC), load_table(wide_table(), SPEC))


def test_which_names_are_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m-forda").write_text("not a table")
    assert not is_table("m-forda")
    assert not is_table("ucr:FordA")
    assert not is_table("")
    assert is_table("not/there.parquet")


def test_other_names_of_the_long_columns() -> None:
    table = long_of(wide_table().drop("age")).rename({"feature": "item", "value": "result"})
    spec = SPEC.model_copy(update={"feature": "item", "value": "result"})
    same_source(load_table(table, spec), load_table(wide_table().drop("age"), SPEC))


def test_whole_numbers_stored_otherwise_are_the_same_ids_and_classes() -> None:
    plain = wide_table()
    other = plain.with_columns(pl.col("stay").cast(pl.Float64), pl.col("died").cast(pl.Float64))
    same_source(load_table(other, SPEC), load_table(plain, SPEC))


def test_ids_that_are_names_and_classes_that_are_words() -> None:
    table = wide_table().with_columns(
        (pl.lit("s") + pl.col("stay").cast(pl.String)).alias("stay"), pl.col("died").cast(pl.Boolean)
    )
    source = load_table(table, SPEC)
    assert source.classes == ("false", "true")
    assert sorted(together(source)) == list(range(12))


def test_classes_that_are_numbers_are_in_the_order_of_numbers() -> None:
    table = wide_table().with_columns(pl.when(pl.col("died") == 1).then(10).otherwise(9).alias("died"))
    assert load_table(table, SPEC).classes == ("9", "10")


def test_features_that_are_left_out() -> None:
    spec = SPEC.model_copy(update={"ignore": ("k",)})
    assert [one.name for one in load_table(wide_table().drop("age"), spec).train.features] == ["na"]
    assert [one.name for one in load_table(long_of(wide_table()), spec).train.features] == ["na"]


# what belongs to a whole series


def full_spec(**changes: Any) -> TableSpec:
    content = {"static": ("age",), "group": "patient", "weight": "w", "subgroups": ("ward", "age")}
    return TableSpec(**{**SPEC.model_dump(), **content, **changes})


def full_table() -> pl.DataFrame:
    return wide_table(24).with_columns(
        patient="p" + (pl.col("stay") // 4).cast(pl.String),
        w=1 + (pl.col("stay") % 3) / 2,
        ward=pl.when(pl.col("stay") % 2 == 0).then(pl.lit("north")),
    )


def test_static_columns_are_free_features_the_same_at_each_step() -> None:
    source = load_table(full_table(), full_spec())
    assert [(order.name, order.free, order.cost) for order in source.menu.orders] == [
        ("k", False, 1.0),
        ("na", False, 1.0),
        ("age", True, 0.0),
    ]
    ages = dict(full_table().select("stay", "age").iter_rows())
    for stay, values in together(source).items():
        assert set(values[:, 2]) == {ages[stay]}


def test_weights_and_subgroups_go_with_their_series() -> None:
    source = load_table(full_table(), full_spec())
    for part in (source.train, source.tests["test"]):
        np.testing.assert_allclose(part.weights, 1 + part.ids % 3 / 2)
        assert part.subgroups["ward"].tolist() == ["unknown" if one % 2 else "north" for one in part.ids]
        assert part.subgroups["age"].tolist() == [str(int(part.series(i)[0, 2])) for i in range(len(part))]


def test_a_second_table_of_labels_is_the_same() -> None:
    names = ["died", "age", "patient", "w", "ward"]
    labels = full_table().select("stay", *names).unique().sample(fraction=1, shuffle=True, seed=1)
    rest = full_table().drop(names)
    same_source(load_table(rest, full_spec(), labels=labels), load_table(full_table(), full_spec()))


def test_a_second_table_from_a_file(tmp_path: Path) -> None:
    wide_table().select("stay", "died").unique().write_csv(tmp_path / "labels.csv")
    spec = SPEC.model_copy(update={"labels": str(tmp_path / "labels.csv")})
    same_source(load_table(wide_table().drop("died"), spec), load_table(wide_table(), SPEC))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=20, max_size=40), st.floats(0.05, 0.6))
def test_groups_are_never_split(patients: list[int], share: float) -> None:
    table = pl.DataFrame({"stay": np.arange(len(patients)), "patient": patients, "died": np.arange(len(patients)) % 2})
    table = table.join(pl.DataFrame({"hour": [0, 1], "x": [1.0, 2.0]}), how="cross")
    spec = SPEC.model_copy(update={"group": "patient", "test_share": share})
    try:
        source = load_table(table, spec)
    except Exception as error:
        assert "too few" in str(error)  # noqa: PT017
        return
    sides = [{patients[i] for i in part.ids} for part in (source.train, source.tests["test"])]
    assert not sides[0] & sides[1]
    assert len(source.train) + len(source.tests["test"]) == len(patients)


def test_the_test_part_is_the_same_whatever_the_order_of_rows_and_has_every_class() -> None:
    one = load_table(wide_table(200), SPEC)
    other = load_table(wide_table(200).reverse(), SPEC)
    assert one.tests["test"].ids.tolist() == other.tests["test"].ids.tolist()
    assert np.bincount(one.tests["test"].labels).tolist() == [20, 20]


def test_copies_of_a_series_stay_together() -> None:
    table = wide_table(2).drop("stay").join(pl.DataFrame({"stay": np.arange(10)}), how="cross")
    table = pl.concat(
        [wide_table(20), table.filter(pl.col("died") == 0).with_columns(pl.col("stay") + 500).select(wide_table().columns)]
    )
    source = load_table(table, SPEC)
    assert len({id >= 500 for id in source.tests["test"].ids if id >= 500}) == 0 or not (source.train.ids >= 500).any()


def test_a_table_to_test_on() -> None:
    test = wide_table(6, seed=1).select("na", "k", "age", "died", "hour", "stay").with_columns(pl.col("stay") + 1000)
    opened = open_table(wide_table(), SPEC, test=test)
    assert (len(opened.source.train), len(opened.source.tests["test"])) == (12, 6)
    assert opened.report.parts == {"train": 12, "test": 6}
    same_series(
        opened.source.tests["test"], load_table(wide_table(), SPEC, test=test.select(wide_table().columns)).tests["test"]
    )
    assert opened.source.tests["test"].features == opened.source.train.features


# labels of steps


def test_each_step_may_have_its_own_label() -> None:
    table = wide_table().with_columns(died=((pl.col("hour") >= 1) & (pl.col("stay") % 2 == 0)).cast(pl.Int8))
    source = load_table(table, SPEC.model_copy(update={"label_each_step": True}))
    for part in (source.train, source.tests["test"]):
        for i, stay in enumerate(part.ids):
            found = part.step_labels[part.offsets[i] : part.offsets[i + 1]].tolist()
            assert found == ([0, 0, 0, 0] if stay % 2 else [0, 1, 1, 1])  # the third step has no row: it keeps the label
            assert part.labels[i] == 1 - stay % 2
    long = load_table(long_of(table), SPEC.model_copy(update={"label_each_step": True}))
    same_source(long, source)


# time


def at_times(times: list[Any], values: list[float], step: str | None, dtype: Any = None) -> np.ndarray:
    """The grid of one feature ``[T]`` of a series with these times; others fill the table up."""
    rows = [(stay, time, stay % 2, value) for stay in range(8) for time, value in zip(times, values, strict=True)]
    table = pl.DataFrame(rows, schema=["stay", "hour", "died", "x"], orient="row")
    if dtype is not None:
        table = table.with_columns(pl.col("hour").cast(dtype))
    source = load_table(table, SPEC.model_copy(update={"step": step, "group": "stay"}))  # copies are no group here
    return source.train.series(0)[:, 0]


@pytest.mark.parametrize(
    ("times", "step", "expected"),
    [
        ([0, 1, 2], None, [1, 2, 3]),
        ([0, 60, 180], None, [1, 2, None, 3]),
        ([7, 8, 10], None, [1, 2, None, 3]),
        ([-3, -2, 0], None, [1, 2, None, 3]),
        ([0, 1, 2], "2", [2, 3]),
        ([0.0, 0.1, 0.30000000000000004], "0.1", [1, 2, None, 3]),
        ([0.2, 0.9, 1.3], "1", [2, 3]),
        ([0, 1.99, 2], "1", [1, 2, 3]),
        ([5, 3, 4], None, [2, 3, 1]),
        ([0, 0.105, 0.21], None, [1, 2, 3]),
        ([0.5, 0.605, 0.815], None, [1, 2, None, 3]),
        ([0, 0.033, 0.1], None, [1, 2, None, 3]),
        ([0, 0.033, 0.1], "~0.0333", [1, 2, None, 3]),
        ([0, 1, 5], "1.5", [2, None, None, 3]),
    ],
)
def test_steps_from_numbers(times: list[float], step: str | None, expected: list[float | None]) -> None:
    wanted = np.array([np.nan if one is None else one for one in expected])
    np.testing.assert_array_equal(at_times(times, [1, 2, 3], step), wanted)


NOON = datetime(2024, 3, 1, 12, 7)


@pytest.mark.parametrize(
    "kind",
    [pl.Datetime("ns"), pl.Datetime("us"), pl.Datetime("ms"), pl.Datetime("us", "UTC"), pl.Datetime("us", "Europe/Berlin")],
)
def test_steps_from_dates_of_any_kind(kind: pl.DataType) -> None:
    times = [NOON + timedelta(minutes=minutes) for minutes in (0, 59, 60, 200)]
    found = at_times(times, [1, 2, 3, 4], "1h", kind)
    np.testing.assert_array_equal(found, [2, 3, np.nan, 4])


@pytest.mark.parametrize(
    "times",
    [
        ["2024-03-01 12:07", "2024-03-01 13:07", "2024-03-01 15:07"],
        ["2024-03-01T12:07:00Z", "2024-03-01T13:07:00Z", "2024-03-01T15:07:00.000Z"],
        ["2024-03-01 12:07:30.5+0200", "2024-03-01 13:07:30.5+02:00", "2024-03-01 15:07:30.5+02:00"],
        ["12:07", "13:07", "15:07"],
        ["47:07:00", "48:07:00", "50:07:00"],
        ["0", "1", "3"],
        ["2024-03-01", "2024-03-02", "2024-03-04"],
    ],
)
def test_steps_from_text(times: list[str]) -> None:
    np.testing.assert_array_equal(at_times(times, [1, 2, 3], None), [1, 2, np.nan, 3])


def test_a_clock_that_is_put_forward_does_not_lengthen_the_series() -> None:
    """02:00 does not exist on this day in Berlin: one hour passes between 01:30 and 03:30."""
    times = [datetime(2024, 3, 31, 0, 30), datetime(2024, 3, 31, 1, 30), datetime(2024, 3, 31, 2, 30)]
    table = pl.DataFrame(
        [(s, t, s % 2, 1.0) for s in range(8) for t in times], schema=["stay", "hour", "died", "x"], orient="row"
    )
    table = table.with_columns(pl.col("hour").dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin"))
    assert set(load_table(table, SPEC.model_copy(update={"group": "stay"})).train.lengths) == {3}


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.floats(-10, 10, width=32)), min_size=1, max_size=20, unique_by=lambda one: one[0]
    ),
    st.integers(1, 60),
)
def test_a_step_holds_the_last_value_in_it(measured: list[tuple[int, float]], width: int) -> None:
    times, values = zip(*[(-width, 0.5), (0, 1.0), *((time + 1, value) for time, value in measured)], strict=True)
    expected: dict[int, float] = {}
    for time, value in sorted(zip(times, values, strict=True)):
        expected[(time + width) // width] = value
    found = at_times(list(times), list(values), str(width))
    assert len(found) == max(expected) + 1
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(found)), sorted(expected))
    np.testing.assert_allclose([found[step] for step in expected], list(expected.values()), rtol=1e-6)


# the report


def test_the_report_counts_what_is_there() -> None:
    table = pl.concat([wide_table(), wide_table().head(2)]).with_columns(one=pl.lit(3), k2=pl.col("k"))
    report = describe_table(table, SPEC.model_copy(update={"ignore": ("age",)}))
    assert isinstance(report, TableReport)
    assert (report.layout, report.rows, report.series, report.groups, report.steps) == ("wide", 38, 12, 12, 48)
    assert report.lengths == (4, 4.0, 4)
    assert report.step == "1"
    assert report.classes == {"0": 6, "1": 6}
    assert report.missing["na"] == 0.25
    assert report.missing["k"] == pytest.approx(1 - (36 - 8) / 48)
    assert report.constant == ("one",)
    assert report.duplicates == (("k", "k2"),)
    assert report.merged == 2
    assert report.ignored == ("age",)
    assert sum(report.parts.values()) == 12
    warned = " ".join(report.warnings)
    assert all(word in warned for word in ("'one'", "'k' and 'k2'"))


def test_identical_repeats_are_counted_in_both_layouts() -> None:
    for table in (wide_table(), long_of(wide_table())):
        assert describe_table(table, SPEC).merged == 0
        assert describe_table(pl.concat([table, table]), SPEC).merged == table.height
        same_source(load_table(pl.concat([table, table]), SPEC), load_table(table, SPEC))


def test_two_rows_of_one_time_may_complete_each_other() -> None:
    halves = [wide_table().with_columns(pl.lit(None).cast(pl.Float64).alias(name)) for name in ("k", "na")]
    same_source(load_table(pl.concat(halves), SPEC), load_table(wide_table(), SPEC))
    assert describe_table(pl.concat(halves), SPEC).merged < 10


def test_rows_out_of_order_are_named_and_sorted() -> None:
    table = wide_table()
    swapped = pl.concat([table[:4], table[5:6], table[4:5], table[6:]])
    report = describe_table(swapped, SPEC)
    assert report.unsorted == 1
    assert any("row 6" in line and "'hour'" in line for line in report.warnings)
    same_source(load_table(swapped, SPEC), load_table(table, SPEC))


def test_a_report_is_plain_data() -> None:
    import json

    content = describe_table(wide_table(), SPEC).to_dict()
    assert json.loads(json.dumps(content, allow_nan=False))["series"] == 12


# a new table


def test_a_new_table_like_the_old_one_is_fine() -> None:
    train = load_table(wide_table(200), SPEC).train
    assert check_new_table(train, wide_table(50, seed=3).select(reversed(wide_table().columns)), SPEC) == []


@pytest.mark.parametrize(("change", "word"), [(pl.col("na") * 0.0555, "median"), (140 + (pl.col("na") - 140) * 50, "spans")])
def test_other_units_are_named(change: pl.Expr, word: str) -> None:
    train = load_table(wide_table(200), SPEC).train
    warnings = check_new_table(train, wide_table(50, seed=3).with_columns(change.alias("na")), SPEC)
    assert len(warnings) == 1
    assert "'na'" in warnings[0]
    assert word in warnings[0]


def test_further_columns_and_features_that_were_not_measured_are_named() -> None:
    train = load_table(wide_table(), SPEC).train
    assert "'new'" in " ".join(check_new_table(train, wide_table(seed=3).with_columns(new=pl.col("k")), SPEC))
    long = long_of(wide_table(), ("k", "na", "age"))
    assert "'k' is never measured" in " ".join(check_new_table(train, long.filter(pl.col("feature") != "k"), SPEC))


# through the front door


def test_a_data_set_from_a_table(tmp_path: Path) -> None:
    full_table().write_parquet(tmp_path / "my.parquet")
    (tmp_path / "menu.yaml").write_text("orders:\n  labs: {features: [k, na], cost: 5}\nfeatures: {k: {unit: mmol/l}}\n")
    data = load_dataset(
        str(tmp_path / "my.parquet"),
        **full_spec().model_dump(exclude={"menu"}),
        menu=str(tmp_path / "menu.yaml"),
    )
    assert isinstance(data, Dataset)
    assert [(order.name, order.cost, order.free) for order in data.menu.orders] == [("labs", 5.0, False), ("age", 0.0, True)]
    assert data.features[0].unit == "mmol/l"
    assert np.isnan(data.train.values).any()
    assert len(data.train) + len(data.validation) + len(data.test) == 24
    np.testing.assert_allclose(np.nanmean(data.train.values, axis=0), 0, atol=1e-5)
    groups = [set((part.ids // 4).tolist()) for part in (data.train, data.validation, data.test)]
    assert not groups[0] & groups[1] | groups[0] & groups[2] | groups[1] & groups[2]


def test_fakes_are_orders_beside_static_columns(tmp_path: Path) -> None:
    wide_table(30).write_parquet(tmp_path / "my.parquet")
    words = {"id": "stay", "time": "hour", "label": "died", "static": ["age"], "fakes": "noise", "n_fakes": 2}
    data = load_dataset(str(tmp_path / "my.parquet"), **words)
    assert len(data.menu.orders) == len(data.features) == 5
    assert [order.free for order in data.menu.orders] == [False, False, True, False, False]


def test_what_may_be_a_mistake_is_a_warning(tmp_path: Path) -> None:
    wide_table(30).with_columns(one=pl.lit(3)).write_parquet(tmp_path / "my.parquet")
    with pytest.warns(DataWarning, match="'one'"):
        load_dataset(str(tmp_path / "my.parquet"), id="stay", time="hour", label="died")


@pytest.mark.parametrize("kind", ["padded", "long", "exponents", "mixed", "plain", "fractions"])
def test_ids_mean_the_same_in_csv_as_in_parquet(tmp_path: Path, kind: str) -> None:
    write = {
        "padded": lambda i: f"{i:08d}",
        "long": lambda i: f"{i}" * 12,
        "exponents": lambda i: f"{i}E19",
        "mixed": lambda i: "100" if i == 101 else "0100" if i == 102 else f"{i}",
        "plain": str,
        "fractions": lambda i: f"{i}.0",
    }[kind]
    wide = wide_table(30)
    wide = wide.with_columns(pl.Series("stay", [write(i) for i in wide["stay"]]))
    wide = wide.filter(pl.col("stay") != "100") if kind == "mixed" else wide
    wide.write_csv(tmp_path / "t.csv")
    wide.write_parquet(tmp_path / "t.parquet")
    csv, parquet = (open_table(tmp_path / f"t.{ending}", SPEC) for ending in ("csv", "parquet"))
    assert csv.report.series == wide["stay"].n_unique()
    same_source(csv.source, parquet.source)
    data = {"id": "stay", "time": "hour", "label": "died"}
    packed = []
    for ending in ("csv", "parquet"):
        spec = DataSpec(name=str(tmp_path / f"t.{ending}"), **data)
        pack_table(spec.name, spec, tmp_path / f"{ending}.series", cells=40)
        packed.append(open_store(tmp_path / f"{ending}.series"))
    assert sorted(packed[0].train.ids) == sorted(packed[1].train.ids)
    assert sum(map(len, (packed[0].train, packed[0].validation, packed[0].test))) == csv.report.series


def test_numbers_too_large_for_an_id_are_names(tmp_path: Path) -> None:
    wide = wide_table().with_columns(pl.col("stay") * 1e18)
    assert describe_table(wide, SPEC).series == 12


def test_specs_without_a_table_keep_their_hashes_and_a_digest_stands_for_the_path() -> None:
    assert RunSpec().hash == "3fcb18caafb63d41"
    here, there = (RunSpec().change(data__name=name, data__id="stay", data__digest="d") for name in ("/a/my.csv", "my.csv"))
    assert here.hash == there.hash
    assert here.hash != here.change(data__digest="e").hash
    assert here.change(data__digest=None).hash != there.change(data__digest=None).hash


def test_a_test_table_is_put_on_the_grid_of_training() -> None:
    test = wide_table(6, hours=(0, 2, 4), seed=1).with_columns(pl.col("stay") + 500)
    assert set(load_table(wide_table(), SPEC, test=test).tests["test"].lengths) == {5}
    far = wide_table().with_columns(pl.col("hour") * 1234567)
    test = test.with_columns(pl.col("hour") * 1234567)
    assert set(load_table(far, SPEC, test=test).tests["test"].lengths) == {5}
