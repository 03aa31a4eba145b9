"""Mistakes that users make with their own table, menu or archive, through the command line, as they would make them."""

import gzip
import io
import json
import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from clinical_files import stay_text, write_2012
from support import contents, ts_rows, ts_text, write_archive
from whichwhen.cli import main
from whichwhen.data import load_dataset

Rows = list[list[str]]
SMALL = ("--epochs", "1", "--width", "4", "--layers", "1", "--acquirer-hidden", "4", "--quiet", "--out", "run")
BUDGET = ("--budget", "1")
COLUMNS = ("--id", "stay", "--time", "hour", "--label", "died")
WITH_MENU = (*COLUMNS, "--menu", "menu.yaml")
WITH_TEST = (*COLUMNS, "--test", "test.csv")


def rows(n: int = 24, first: int = 100) -> Rows:
    """A wide table: header, then four hours of each stay."""
    rng = random.Random(0)
    made = [["stay", "hour", "hr", "ph", "lac", "died"]]
    for stay in range(n):
        for hour in range(4):
            made.append([str(first + stay), str(hour), *(f"{rng.gauss(0, 1):.3f}" for _ in range(3)), str(stay % 2)])
    return made


def edit(change: Callable[[Rows], object], made: Rows | None = None) -> str:
    made = rows() if made is None else made
    change(made)
    return "\n".join(",".join(row) for row in made) + "\n"


def put(row: int, column: int, value: str) -> str:
    return edit(lambda made: made[row].__setitem__(column, value))


def stamped(odd: str) -> str:
    def change(made: Rows) -> None:
        for i, row in enumerate(made[1:]):
            row[1] = f"2024-01-01T0{row[1]}:00:00{odd if i == 6 else '+02:00'}"

    return edit(change)


def without(column: int, made: Rows | None = None) -> str:
    return edit(lambda made: [row.pop(column) for row in made], made)


def emptied(made: Rows) -> None:
    for row in made[1:]:
        row[4] = ""


WHOLE = edit(lambda made: None)
PARQUET = io.BytesIO()
pl.read_csv(io.StringIO(WHOLE)).write_parquet(PARQUET)
LABELS = "stay,died\n" + "".join(f"{100 + stay},{stay % 2}\n" for stay in range(24))
PRICES = "orders:\n  hr: 3\n  ph: 4\n  lac: 5\n"


def menu(text: str) -> dict[str, str | bytes]:
    return {"t.csv": WHOLE, "menu.yaml": text}


REFUSED: dict[str, tuple[dict[str, str | bytes], tuple[str, ...], tuple[str, ...]]] = {
    "unknown feature in a panel": (
        menu("orders:\n  hr: 1\n  gas: {cost: 3, features: [ph, lacc]}\n"),
        WITH_MENU,
        ("menu.yaml, line 3", "'gas'", "'lacc'", "did you mean 'lac'"),
    ),
    "negative cost": (menu("rest: each\norders:\n  hr: -1\n"), WITH_MENU, ("menu.yaml, line 3", "'hr'", "cost -1")),
    "cost NaN": (menu("rest: each\norders:\n  hr: .nan\n"), WITH_MENU, ("menu.yaml, line 3", "'hr'", "cost nan")),
    "budget below the cheapest order": (menu(PRICES), (*WITH_MENU, "--budget", "2"), ("budget 2", "3 to 12", "--budget")),
    "total below the cheapest order": (menu(PRICES), (*WITH_MENU, "--total", "2"), ("total of 2", "costs 3", "--total")),
    "free order with a cost": (
        menu("rest: each\norders:\n  hr: {free: true, cost: 2}\n"),
        WITH_MENU,
        ("menu.yaml, line 3", "'hr'", "free and has cost 2"),
    ),
    "conflicting rows": (
        {"t.csv": edit(lambda made: made.append([*made[5][:2], "9.9", *made[5][3:]]))},
        COLUMNS,
        ("t.csv, rows 5 and 97", "9.9", "stay 101", "'hr'"),
    ),
    "conflicting rows in the test table": (
        {"t.csv": WHOLE, "test.csv": edit(lambda made: made.append([*made[5][:2], "9.9", *made[5][3:]]), rows(8, 600))},
        WITH_TEST,
        ("test.csv, rows 5 and 33", "stay 601"),
    ),
    "label that changes": (
        {"t.csv": put(3, 5, "1")},
        COLUMNS,
        ("t.csv, rows 1 and 3", "'died'", "stay 100", "--label-each-step"),
    ),
    "id without rows": (
        {"t.csv": without(5), "l.csv": LABELS + "777,1\n"},
        (*COLUMNS, "--labels", "l.csv"),
        ("l.csv, row 25", "777", "no rows"),
    ),
    "time zones mixed": ({"t.csv": stamped("+01:00")}, COLUMNS, ("t.csv, row 7", "time zones are mixed", "'hour'", "UTC")),
    "some times without a zone": ({"t.csv": stamped("")}, COLUMNS, ("t.csv, row 7", "time zones are mixed", "none and +02:00")),
    "text among numbers": ({"t.csv": put(9, 3, "clotted")}, COLUMNS, ("t.csv, row 9", "'clotted'", "'ph'", "--ignore")),
    "feature never observed": ({"t.csv": edit(emptied)}, COLUMNS, ("t.csv", "'lac'", "never observed", "--ignore lac")),
    "feature observed in the test table alone": (
        {"t.csv": edit(emptied), "test.csv": edit(lambda made: None, rows(8, 600))},
        WITH_TEST,
        ("t.csv", "'lac'", "never observed in training"),
    ),
    "test table without a column": (
        {"t.csv": WHOLE, "test.csv": without(3, rows(8, 600))},
        WITH_TEST,
        ("test.csv", "no column 'ph'", "hr, ph, lac"),
    ),
    "mandatory order beyond the budget": (
        menu("rest: each\norders:\n  hr: {cost: 3, mandatory: true}\n"),
        (*WITH_MENU, "--budget", "2"),
        ("--budget 2", "mandatory order 'hr'", "costs 3"),
    ),
    "turnaround beyond the series": (
        menu("rest: each\norders:\n  hr: {cost: 1, turnaround: 100000000}\n"),
        WITH_MENU,
        ("'hr'", "100000000 steps", "longest series has 4"),
    ),
    "price for the paper's selector": (
        menu(PRICES),
        (*WITH_MENU, "--price", "0.1", "--selector", "sequential"),
        ("--price with the paper's selector", "--selector gate"),
    ),
    "AUROC of three classes": (
        {"t.csv": edit(lambda made: [row.__setitem__(5, "2") for row in made[1:13]])},
        (*COLUMNS, "--choose-by", "auroc"),
        ("auroc", "two classes"),
    ),
    "control on a table": ({"t.csv": WHOLE}, (*COLUMNS, "--control", "mask-only"), ("--control with t.csv", "physionet2012")),
    "test times of a clock": (
        {"t.csv": WHOLE, "test.csv": stamped("+02:00")},
        WITH_TEST,
        ("test.csv, column 'hour'", "times of a clock"),
    ),
    "CSV cut short": ({"t.csv": WHOLE[:-12]}, COLUMNS, ("t.csv, row 96", "'died'")),
    "CSV.GZ cut short": ({"t.csv.gz": gzip.compress(WHOLE.encode())[:-300]}, COLUMNS, ("t.csv.gz", "cut short")),
    "Parquet cut short": ({"t.parquet": PARQUET.getvalue()[:-300]}, COLUMNS, ("t.parquet", "cut short")),
}


def lay_out(files: dict[str, str | bytes]) -> str:
    """Write files where the test stands; the first is the table."""
    for name, content in files.items():
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return next(iter(files))


def check_refused(words: tuple[str, ...], says: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, one line that says all of it, and no file that was not there before."""
    before = contents(Path())
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert [word for word in says if word not in err] == [], err
    assert contents(Path()) == before


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHICHWHEN_CACHE", str(tmp_path.parent / f"{tmp_path.name}-cache"))
    monkeypatch.delenv("WHICHWHEN_DATA", raising=False)


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_in_a_table_or_menu(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    files, words, says = REFUSED[name]
    table = lay_out(files)
    check_refused(("train", table, *words, *SMALL, *(() if "--budget" in words else BUDGET)), says, capsys)


@pytest.mark.parametrize("left", [0.5, 0.9, 0.99])
def test_an_archive_that_is_cut_short(left: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = ts_text(ts_rows(20))
    folder = write_archive(tmp_path, whole, whole[: int(len(whole) * left)])
    check_refused(("train", "ucr:Own", "--data-dir", str(folder), *SMALL, *BUDGET), ("Own_TEST.ts", "cut short"), capsys)


@pytest.mark.parametrize("left", [0.3, 0.95])
def test_a_clinical_archive_that_is_cut_short(left: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stays = {132000 + i: stay_text(132000 + i, [("00:07", "HR", "80")]) for i in range(12)}
    folder = write_2012(tmp_path, stays)
    path = folder / "physionet2012" / "set-a.tar.gz"
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * left)])
    check_refused(("train", "physionet2012", "--data-dir", str(folder), *SMALL, *BUDGET), ("set-a.tar.gz", "cut short"), capsys)


def test_identical_repeats_and_unsorted_rows_are_counted_and_used(capsys: pytest.CaptureFixture[str]) -> None:
    def change(made: Rows) -> None:
        made += [made[5], made[5]]
        made[1], made[3] = made[3], made[1]

    lay_out({"t.csv": edit(change)})
    assert main(["data", "t.csv", *COLUMNS, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["merged"] == 2
    assert report["series"] == 24
    assert any("order" in line for line in report["warnings"])


def test_a_test_table_in_another_order_is_the_same_data() -> None:
    test, read = rows(8, 600), []
    for columns in (test, [row[::-1] for row in test]):
        lay_out({"t.csv": WHOLE, "test.csv": "\n".join(",".join(row) for row in columns) + "\n"})
        read.append(load_dataset("t.csv", id="stay", time="hour", label="died", test="test.csv"))
    one, other = read
    assert one.features == other.features
    assert (one.test.values == other.test.values).all()


@pytest.mark.parametrize("how", [[], ["--quiet"], ["--json"]], ids=["loud", "quiet", "for machines"])
def test_other_units_in_the_test_table_are_a_warning_on_stderr(how: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def change(made: Rows) -> None:
        for row in made[1:]:
            row[2] = str(float(row[2]) * 1000 + 5000)

    lay_out({"t.csv": WHOLE, "test.csv": edit(change, rows(8, 600))})
    assert main(["train", "t.csv", *WITH_TEST, *(word for word in SMALL if word != "--quiet"), *BUDGET, *how]) == 0
    out, err = capsys.readouterr()
    lines = [" ".join(line.split()) for line in err.splitlines() if line.startswith("warning")]
    assert any("'hr'" in line and "units" in line for line in lines), err
    assert not any("'ph'" in line or "'lac'" in line for line in lines)
    if how == ["--json"]:
        json.loads(out)


@pytest.mark.parametrize("acquirer", ["none", "complete"])
@pytest.mark.parametrize("budget", [(), ("--total", "1")])
def test_free_channels_alone_are_a_menu(acquirer: str, budget: tuple[str, ...]) -> None:
    lay_out(menu("free: [hr, ph, lac]\n"))
    assert main(["train", "t.csv", *WITH_MENU, *SMALL, "--acquirer", acquirer, *budget]) == 0


def test_series_go_by_the_names_of_the_table() -> None:
    lay_out({"t.csv": edit(lambda made: [row.__setitem__(0, f"P-{row[0]}") for row in made[1:]])})
    assert main(["train", "t.csv", *COLUMNS, *SMALL, *BUDGET]) == 0
    assert all(name.startswith("P-1") for name in pl.read_parquet("run/series.parquet")["id"])


@pytest.mark.parametrize("budget", [("--budget", "4"), ()], ids=["given", "default"])
def test_orders_out_of_reach_are_named(budget: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    lay_out(menu(PRICES))
    loud = [word for word in SMALL if word != "--quiet"]
    assert main(["train", "t.csv", *WITH_MENU, *loud, *budget]) == 0
    warnings = [line for line in capsys.readouterr().err.splitlines() if "never asked for" in line]
    assert len(warnings) == 1
    assert "lac (5)" in warnings[0]
    assert ("ph" in warnings[0]) == (not budget)  # which costs 4, and the default is a quarter of 12


def test_times_in_other_units_and_an_empty_column_of_the_test_table_are_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    def change(made: Rows) -> None:
        for row in made[1:]:
            row[1], row[4] = str(60 * int(row[1])), ""

    lay_out({"t.csv": WHOLE, "test.csv": edit(change, rows(8, 600))})
    assert main(["train", "t.csv", *WITH_TEST, *SMALL, *BUDGET]) == 0
    err = capsys.readouterr().err
    assert "column 'hour': the median series has 181 steps, training's 4" in err
    assert "column 'lac' holds no value" in err
