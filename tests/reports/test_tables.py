from typing import Any

import pytest
from rich.console import Console

from whichwhen.reports.tables import candidates_line, results_table, share


def result(accuracy: float, real: float | None = 0.5) -> dict[str, Any]:
    return {
        "test": {"accuracy": accuracy, "cost_per_step": 4.956, "real_fraction": real},
        "validation": {"accuracy": 0.125},
        "cpu_seconds": 12.6,
    }


def text(results: dict[str, dict[str, Any]], title: str = "title", width: int = 200) -> str:
    console = Console(width=width, record=True, quiet=False, file=None, color_system=None)
    with console.capture() as captured:
        console.print(results_table(results, title))
    return captured.get()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("│┃ \n").replace("┃", "│").split("│")]


def test_one_line_per_run_in_the_given_order() -> None:
    lines = text({"learned": result(0.9), "random": result(0.4567)}).splitlines()
    rows = [cells(line) for line in lines if line.startswith("│")]
    assert rows == [
        ["learned", "0.900", "0.125", "4.96", "50 %", "13"],
        ["random", "0.457", "0.125", "4.96", "50 %", "13"],
    ]


def test_the_columns_of_the_main_job_are_named() -> None:
    out = text({"learned": result(0.9)}, "japanese-vowels, budget 5")
    assert out.splitlines()[0].strip() == "japanese-vowels, budget 5"
    for name in ("acquirer", "test accuracy", "cost per step", "requests on real features"):
        assert name in out


@pytest.mark.parametrize(("value", "shown"), [(None, "–"), (0.0, "0 %"), (0.996, "100 %"), (1 / 3, "33 %")])
def test_a_share_is_a_percentage_or_a_dash(value: float | None, shown: str) -> None:
    assert share(value) == shown


def test_a_policy_that_asks_for_nothing_has_a_dash() -> None:
    out = text({"none": result(0.5, None), "static": result(0.5)})
    row = next(cells(line) for line in out.splitlines() if line.startswith("│"))
    assert row[4] == "–"


def test_where_it_is_not_known_what_is_real_there_is_no_such_column() -> None:
    out = text({"learned": result(0.9, None), "static": result(0.8, None)})
    assert "requests on real features" not in out
    rows = [cells(line) for line in out.splitlines() if line.startswith("│")]
    assert rows[0] == ["learned", "0.900", "0.125", "4.96", "13"]


def candidate(title: str, kind: str, kept: bool, accuracy: float, margin: float = 0.0) -> dict[str, Any]:
    return {
        "title": title,
        "acquirer": kind,
        "kept": kept,
        "test": {"accuracy": accuracy},
        "kept_minus_this": margin,
        "standard_error": 0.0062,
    }


def test_what_was_kept_comes_first_and_the_other_with_its_difference() -> None:
    rows = [
        candidate("round robin of 6", "round-robin", False, 0.976, 0.007),
        candidate("learned", "learned-only", True, 0.983),
    ]
    assert candidates_line({"candidates": rows}) == (
        "kept learned: 0.983; round robin of 6 would have given 0.976 (difference +0.007 ± 0.006)"
    )


def test_a_fixed_rule_that_was_kept_is_said_to_be_enough() -> None:
    rows = [candidate("learned", "learned-only", False, 0.95, -0.001), candidate("static", "static", True, 0.949)]
    assert candidates_line({"candidates": rows}) == (
        "kept static: 0.949; learned would have given 0.950 (difference -0.001 ± 0.006); a fixed rule is enough here"
    )


def test_the_rule_that_was_kept_stands_behind_the_name() -> None:
    rows = [candidate("learned", "learned-only", False, 0.95), candidate("round robin of 5", "round-robin", True, 0.949)]
    out = text({"static": result(0.8), "learned": result(0.949) | {"candidates": rows}})
    names = [cells(line)[0] for line in out.splitlines() if line.startswith("│")]
    assert names == ["static", "learned (kept round robin of 5)"]


def test_a_network_that_was_kept_is_called_learned() -> None:
    rows = [candidate("learned", "learned-only", True, 0.95), candidate("static", "static", False, 0.949)]
    out = text({"learned": result(0.95) | {"candidates": rows}})
    assert [cells(line)[0] for line in out.splitlines() if line.startswith("│")] == ["learned"]


@pytest.mark.parametrize("width", [70, 80])
def test_names_of_acquirers_stay_whole_in_a_narrow_terminal(width: int) -> None:
    names = ("learned-only", "round-robin", "static-by-time")
    out = text(dict.fromkeys(names, result(0.9)), width=width)
    assert max(map(len, out.splitlines())) <= width
    assert [cells(line)[0] for line in out.splitlines() if line.startswith("│")] == list(names)
