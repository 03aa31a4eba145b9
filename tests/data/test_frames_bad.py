"""Tables that can't be used: one line that names file, row and column."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from data.test_frames import SPEC, long_of, wide_table
from whichwhen.cli import main
from whichwhen.data import load_dataset
from whichwhen.data.frames import check_new_table, digest_files, load_table
from whichwhen.errors import DataError, FeatureError, SpecError, WhichwhenError
from whichwhen.specs import DataSpec, TableSpec

WIDE, LONG = wide_table(), long_of(wide_table())


def refused(table: Any, spec: TableSpec = SPEC, **options: Any) -> str:
    with pytest.raises(WhichwhenError) as caught:
        load_table(table, spec, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def spec(**changes: Any) -> TableSpec:
    return TableSpec(**{**SPEC.model_dump(), **changes})


def put(table: pl.DataFrame, column: str, row: int, value: Any) -> pl.DataFrame:
    """The table with another cell; rows are counted from 1."""
    cells = table[column].to_list()
    if isinstance(value, str):
        cells = [None if cell is None else str(cell) for cell in cells]
    if isinstance(value, float):
        cells = [None if cell is None else float(cell) for cell in cells]
    cells[row - 1] = value
    return table.with_columns(pl.Series(column, cells))


def add(table: pl.DataFrame, row: int, **cells: Any) -> pl.DataFrame:
    """The table with a further row, like row ``row`` but for some cells."""
    return pl.concat(
        [table, table[row - 1 : row].with_columns(**{name: pl.lit(value) for name, value in cells.items()})],
        how="vertical_relaxed",
    )


CASES: list[tuple[str, Callable[[], Any], TableSpec, tuple[str, ...]]] = [
    ("conflict", lambda: add(WIDE, 2, na=1.5), SPEC, ("rows 2 and 37", "1.5", "stay 100", "'na'")),
    ("conflict, long", lambda: add(LONG, 38, value=1.5), SPEC, ("rows 38 and 73", "1.5", "stay 100", "'na'")),
    ("lists for ids", lambda: WIDE.with_columns(pl.concat_list("stay", "hour").alias("stay")), SPEC, ("'stay'", "List(Int64)")),
    ("label changes", lambda: put(WIDE, "died", 3, 1), SPEC, ("rows 1 and 3", "'died'", "stay 100", "--label-each-step")),
    ("label changes, long", lambda: put(LONG, "died", 40, 0), SPEC, ("'died'", "changes within stay 101")),
    ("static changes", lambda: put(WIDE, "age", 3, 1), spec(static=("age",)), ("rows 1 and 3", "'age'", "stay 100")),
    ("group changes", lambda: put(WIDE, "age", 3, 1), spec(group="age"), ("rows 1 and 3", "'age'", "one group")),
    ("text", lambda: put(WIDE, "na", 8, "clotted"), SPEC, ("row 8", "'clotted'", "'na'", "--ignore")),
    ("text, long", lambda: put(LONG, "value", 8, "clotted"), SPEC, ("row 8", "'clotted'", "'value'")),
    ("text, static", lambda: put(WIDE, "age", 8, "old"), spec(static=("age",)), ("row 8", "'old'", "'age'")),
    ("text for a time", lambda: put(WIDE, "hour", 8, "noon"), SPEC, ("row 8", "'noon'", "'hour'")),
    ("dates for a feature", lambda: WIDE.with_columns(d=pl.date(2024, 1, 1)), SPEC, ("'d'", "Date", "--ignore")),
    ("infinite", lambda: put(WIDE, "na", 8, float("inf")), SPEC, ("row 8", "inf", "'na'")),
    ("too large", lambda: put(WIDE, "na", 8, -1e39), SPEC, ("row 8", "-1e+39", "'na'")),
    ("infinite, long", lambda: put(LONG, "value", 8, float("-inf")), SPEC, ("row 8", "-inf", "'value'")),
    ("no id", lambda: put(WIDE, "stay", 8, None), SPEC, ("row 8", "'stay'")),
    ("no time", lambda: put(WIDE, "hour", 8, None), SPEC, ("row 8", "'hour'")),
    ("no label", lambda: put(WIDE, "died", 8, None), SPEC, ("row 8", "'died'")),
    ("no feature name", lambda: put(LONG, "feature", 8, None), SPEC, ("row 8", "'feature'")),
    ("no group", lambda: put(WIDE, "age", 8, None), spec(group="age"), ("row 8", "'age'")),
    ("infinite time", lambda: put(WIDE, "hour", 8, float("inf")), SPEC, ("row 8", "inf", "'hour'")),
    ("weight 0", lambda: WIDE.with_columns(w=pl.lit(0)), spec(weight="w"), ("weight 0", "stay 100", "'w'")),
    ("no such column", lambda: WIDE, spec(label="dead"), ("'dead'", "did you mean 'died'", "--label")),
    ("no such id", lambda: WIDE, spec(id="sty"), ("'sty'", "did you mean 'stay'", "--id")),
    ("no such static", lambda: WIDE, spec(static=("aeg",)), ("'aeg'", "did you mean 'age'", "--static")),
    ("no such feature column", lambda: LONG, spec(feature="featur"), ("'featur'", "did you mean 'feature'")),
    ("no such column to ignore", lambda: WIDE, spec(ignore=("aeg",)), ("'aeg'", "did you mean 'age'")),
    ("wide, said to be long", lambda: WIDE, spec(layout="long"), ("'feature'", "--feature")),
    ("without id", lambda: WIDE, TableSpec(time="hour", label="died"), ("--id",)),
    ("without label", lambda: WIDE, TableSpec(time="hour", id="stay"), ("--label",)),
    ("one class", lambda: WIDE.with_columns(died=pl.lit(0)), SPEC, ("one class (0)",)),
    ("never observed", lambda: WIDE.with_columns(x=pl.lit(None)), SPEC, ("'x'", "never observed", "--ignore x")),
    ("one step", lambda: WIDE.filter((pl.col("stay") != 103) | (pl.col("hour") == 0)), SPEC, ("stay 103", "1 step")),
    ("no rows", lambda: WIDE.head(0), SPEC, ("no rows",)),
    ("no features", lambda: WIDE.select("stay", "hour", "died"), SPEC, ("no feature columns",)),
    ("only static", lambda: WIDE.drop("k", "na"), spec(static=("age",)), ("only static",)),
    ("irregular", lambda: WIDE.with_columns((pl.col("hour") + 1.3).sqrt()), SPEC, ("'hour'", "regular grid", "--step 0.")),
    ("one time in all", lambda: WIDE.with_columns(hour=pl.lit(0.5)), SPEC, ("regular grid", "--step 1")),
    ("decimal commas", lambda: put(WIDE, "na", 8, "1,5"), SPEC, ("row 8", "'1,5'", "'na'", "with a point, as in 1.5")),
    ("day first", lambda: WIDE.with_columns(hour=pl.lit("13/01/2024 10:00")), SPEC, ("row 1", "'hour'", "the year first")),
    ("nothing measured", lambda: WIDE.with_columns(na=None, k=None, age=None), SPEC, ("nothing was measured", "3 feature")),
    (
        "irregular dates",
        lambda: WIDE.with_columns(
            hour=pl.datetime(2024, 1, 1) + pl.duration(seconds=pl.col("hour") * 3601 + pl.col("hour") ** 2)
        ),
        SPEC,
        ("regular grid", "--step "),
    ),
    ("stray time", lambda: put(WIDE, "hour", 3, 10**7), spec(step="1"), ("stay 100", "10000001 steps", "'hour'")),
    ("step for dates", lambda: WIDE, spec(step="1h"), ("step is '1h'", "a number")),
    ("step 0", lambda: WIDE, spec(step="0"), ("step is '0'",)),
    ("step nan", lambda: WIDE, spec(step="nan"), ("step is 'nan'",)),
    ("too few", lambda: wide_table(4), SPEC, ("4 series", "--test")),
    ("feature twice", lambda: LONG.with_columns(k=pl.lit(1)), spec(static=("k",)), ("'k'", "static")),
]


@pytest.mark.parametrize(("table", "how", "says"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_mistake_is_named(table: Callable[[], Any], how: TableSpec, says: tuple[str, ...]) -> None:
    message = refused(table(), how)
    for word in says:
        assert word in message


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2024-03-01T12:00:00Z", "2024-03-01T13:00:00+02:00"),
        ("2024-03-01T12:00:00+01:00", "2024-03-01T13:00:00"),
        ("2024-03-01 12:00", "2024-03-01 13:00Z"),
    ],
)
def test_mixed_time_zones_are_named_by_row(one: str, other: str) -> None:
    times = [one] * 36
    times[7] = other
    message = refused(WIDE.with_columns(hour=pl.Series(times)))
    assert all(word in message for word in ("row 8", "time zones are mixed", "'hour'", other, "UTC"))


def test_ids_without_rows_and_rows_without_labels() -> None:
    labels = WIDE.select("stay", "died").unique(maintain_order=True)
    table = WIDE.drop("died")
    extra = pl.concat([labels, pl.DataFrame({"stay": [999], "died": [1]})])
    message = refused(table, labels=extra)
    assert all(word in message for word in ("row 13", "stay 999", "no rows"))
    message = refused(table, labels=labels.filter(pl.col("stay") != 104))
    assert all(word in message for word in ("no row for stay 104",))
    message = refused(table, labels=pl.concat([labels, labels[:1].with_columns(died=1 - pl.col("died"))]))
    assert all(word in message for word in ("rows 1 and 13", "'died'", "stay 100"))


def test_labels_of_one_time_that_differ() -> None:
    message = refused(add(LONG, 2, feature="other", died=1), spec(label_each_step=True))
    assert all(word in message for word in ("rows 38 and 73", "'0'", "'1'", "stay 100"))


def test_a_test_table_must_have_the_columns_and_classes() -> None:
    other = wide_table(seed=1).with_columns(pl.col("stay") + 500)
    with pytest.raises(FeatureError, match=r"no column 'na'.*did you mean 'Na'"):
        load_table(WIDE, SPEC, test=other.rename({"na": "Na"}))
    with pytest.raises(FeatureError, match="no column 'k'"):
        check_new_table(load_table(WIDE, SPEC).train, other.drop("k"), SPEC)
    with pytest.raises(FeatureError, match="none of the features"):
        load_table(LONG, SPEC, test=long_of(other).with_columns(feature="z" + pl.col("feature")))
    assert "label '7'" in refused(WIDE, test=other.with_columns(died=pl.lit(7)))
    groups = WIDE.with_columns(patient=pl.col("stay"))
    assert "patient 100 is in" in refused(groups, spec(group="patient"), test=groups)


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "a", "time": "a"},
        {"id": "a", "label": "a"},
        {"time": "a", "label": "a"},
        {"label": "a", "static": ("a",)},
        {"id": "a", "static": ("a",)},
        {"label": "a", "group": "a"},
        {"label": "a", "subgroups": ("a",)},
        {"label": "a", "ignore": ("a",)},
    ],
)
def test_one_column_for_two_things(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="column 'a' is --"):
        TableSpec(**fields)


@pytest.mark.parametrize("fields", [{"test_share": 0}, {"test_share": 1}, {"labels": "x.csv", "label_each_step": True}])
def test_settings_out_of_range(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="expected"):
        TableSpec(**fields)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("none.csv", None, "no file"),
        ("empty.csv", b"", "empty"),
        ("head.csv", b"stay,hour,died\n", "no rows"),
        ("cut.parquet", b"PAR1 and no more", "can't be read"),
        ("wide.csv", b"stay,hour,died\n1,2,3,4,5\n", "5 fields, and the header has 3"),
        ("cut.csv.gz", b"\x1f\x8b\x08", "can't be read"),
    ],
)
def test_files_that_cannot_be_read(name: str, content: bytes | None, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    message = refused(tmp_path / name)
    assert says in message
    assert name in message


def test_a_table_that_has_changed_since_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "my.csv"
    wide_table(30).write_csv(path)
    spec = DataSpec(name=str(path), **SPEC.model_dump())
    fixed = spec.model_copy(update={"digest": digest_files(spec)})
    assert len(load_dataset(fixed).features) == 3
    wide_table(31).write_csv(path)
    with pytest.raises(DataError, match="has changed"):
        load_dataset(fixed)


def test_flags_of_a_table_with_another_data_set() -> None:
    with pytest.raises(SpecError, match="--id for japanese-vowels"):
        load_dataset("japanese-vowels", id="stay")


# the command line

WORDS = ("--id", "stay", "--time", "hour", "--label", "died")


def test_the_report_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide_table(30).with_columns(one=pl.lit(3)).write_parquet(tmp_path / "my.parquet")
    assert main(["data", str(tmp_path / "my.parquet"), *WORDS, "--static", "age"]) == 0
    out = capsys.readouterr().out
    assert all(
        word in out for word in ("30 in 30 groups: 24 train, 6 test", "0 (15), 1 (15)", "static", "warning: column 'one'")
    )
    assert main(["data", str(tmp_path / "my.parquet"), *WORDS, "--json"]) == 0
    import json

    assert json.loads(capsys.readouterr().out)["series"] == 30


def test_mistakes_on_the_command_line_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(wide_table(30), "na", 8, "clotted").write_csv(tmp_path / "my.csv")
    for verb in ("data", "train"):
        assert main([verb, str(tmp_path / "my.csv"), *WORDS]) == 2
        err = capsys.readouterr().err
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert "my.csv, row 8: text 'clotted' in column 'na'" in err
    assert [path.name for path in tmp_path.iterdir()] == ["my.csv"]


def test_a_feature_that_only_validation_has_is_refused(tmp_path: Path) -> None:
    wide_table(30).write_csv(tmp_path / "my.csv")
    fields = {"id": "stay", "time": "hour", "label": "died", "group": "stay"}
    held = load_dataset(str(tmp_path / "my.csv"), **fields).validation.ids[0]
    wide_table(30).with_columns(rare=pl.when(pl.col("stay") == held).then(pl.col("na"))).write_csv(tmp_path / "my.csv")
    with pytest.raises(DataError, match="'rare' is never observed in training"):
        load_dataset(str(tmp_path / "my.csv"), **fields)


def test_a_test_table_that_is_the_training_table_is_refused() -> None:
    assert "the same series" in refused(WIDE, test=WIDE)


CSV = "stay,hour,na,died\n" + "".join(f"p{i},{t},{i + t / 7:.3f},{i % 2}\n" for i in range(8) for t in range(3))
NOT_CSV: list[tuple[str, bytes, tuple[str, ...]]] = [
    ("UTF-16", CSV.encode("utf-16"), ("UTF-16", "save it as UTF-8")),
    ("UTF-16, big", b"\xfe\xff" + CSV.encode("utf-16-be"), ("UTF-16", "save it as UTF-8")),
    ("Latin-1", CSV.replace("p3,1", "größe,1").encode("latin-1"), ("row 11", "'größe,1", "not UTF-8")),
    ("Latin-1 header", CSV.replace("na", "größe").encode("latin-1"), ("header", "größe", "not UTF-8")),
    ("Excel", b"PK\x03\x04" + bytes(99), ("Excel", "save the sheet as CSV")),
    ("old Excel", b"\xd0\xcf\x11\xe0" + bytes(99), ("Excel", "save the sheet as CSV")),
    ("ragged", CSV.replace("p3,1,", "p3,1,1.5,").encode(), ("row 11", "5 fields", "the header has 4")),
    ("one name twice", CSV.replace("hour,na", "hour,hour").encode(), ("2 columns are called 'hour'", "rename")),
]


def test_a_first_column_called_pk_is_no_excel_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(CSV.replace("stay", "PK"))
    assert len(load_table(path, spec(id="PK")).train)


@pytest.mark.parametrize("packs", [False, True], ids=["load", "pack"])
@pytest.mark.parametrize(("content", "words"), [case[1:] for case in NOT_CSV], ids=[case[0] for case in NOT_CSV])
def test_a_file_that_is_no_table_is_refused_with_what_it_is(
    content: bytes, words: tuple[str, ...], packs: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    columns = ["--id", "stay", "--time", "hour", "--label", "died"]
    verb = ["pack", str(path), "--out", str(tmp_path / "b.series")] if packs else ["data", str(path)]
    assert main([*verb, *columns]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    for word in words:
        assert word in error
