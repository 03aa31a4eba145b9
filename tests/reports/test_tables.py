from typing import Any

import pytest
from rich.console import Console

from whichwhen.reports.tables import results_table, share


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
    row = next(cells(line) for line in text({"none": result(0.5, None)}).splitlines() if line.startswith("│"))
    assert row[4] == "–"
