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
    lines = text({"none": result(0.5, None), "random": result(0.5)}).splitlines()
    rows = [cells(line) for line in lines if line.startswith("│")]
    assert [row[4] for row in rows] == ["–", "50 %"]


def test_where_no_run_knows_which_features_are_real_there_is_no_column_for_it() -> None:
    out = text({"none": result(0.5, None), "learned": result(0.5, None)})
    assert "real" not in out
    assert [cells(line) for line in out.splitlines() if line.startswith("│")][1] == ["learned", "0.500", "0.125", "4.96", "13"]


def test_a_line_says_what_was_kept_and_what_the_other_would_have_given() -> None:
    def row(title: str, acquirer: str, accuracy: float, kept: bool) -> dict[str, Any]:
        differences = {"kept_minus_this": 0.0 if kept else 0.015, "standard_error": 0.0 if kept else 0.004}
        return {"title": title, "acquirer": acquirer, "kept": kept, "test": {"accuracy": accuracy}, **differences}

    network, rule = row("learned", "learned-only", 0.9, True), row("round robin of 6", "round-robin", 0.885, False)
    said = candidates_line({"candidates": [network, rule]})
    assert said == "kept learned: 0.900; round robin of 6 would have given 0.885 (difference +0.015 ± 0.004)"
    flipped = [{**network, "kept": False}, {**rule, "kept": True}]
    assert candidates_line({"candidates": flipped}).endswith("; a fixed rule is enough here")
