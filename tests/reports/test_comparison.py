import re
from typing import get_args

import numpy as np
import pytest
from rich.console import Console

from whichwhen.evaluation.statistics import paired_difference
from whichwhen.experiments.records import pack
from whichwhen.reports.comparison import TextTable, accuracy_tables, all_tables, cost_table, difference_table
from whichwhen.specs import AcquirerKind


def record(acquirer="learned", accuracy=0.8, seed=0, preset="paper", dataset="m-forda", fakes="noise", shifted=False, n=200):
    """A record as far as tables read it; the first ``accuracy * n`` series are right."""
    correct = np.arange(n) < round(accuracy * n)
    return {
        "preset": preset,
        "dataset": dataset,
        "fakes": fakes,
        "shifted": shifted,
        "budget": 5.0,
        "acquirer": acquirer,
        "seed": seed,
        "levelled": seed == 0,
        "cpu_seconds": 10.0 + seed,
        "correct": pack(correct),
        "test": {"accuracy": accuracy, "cost_per_step": 5.0, "real_fraction": 0.5, "n": n},
    }


def rows(table):
    return {row[0]: row[1:] for row in table.rows}


def test_a_table_has_the_paper_s_layout_with_its_number_beside_ours():
    records = [
        record(who, accuracy, seed) for who in ("complete", "random", "learned") for seed, accuracy in ((0, 0.8), (1, 0.9))
    ]
    (table,) = accuracy_tables(records)
    assert table.header == ("acquirer", "Noise", "Noise, paper")
    assert [row[0] for row in table.rows] == ["random", "learned", "complete"]
    assert rows(table)["learned"] == ("0.850 ± 0.071", "0.860 ± 0.030")
    assert rows(table)["complete"] == ("0.850 ± 0.071", "0.840 ± 0.020")
    assert "2 seeds" in table.note
    assert "m-FordA" in table.title


def test_kinds_of_fakes_are_columns_and_data_sets_are_tables():
    records = [record(fakes=kind) for kind in ("gp", "zeros")]
    records += [record("static", shifted=True, fakes="zeros"), record(dataset="spoken-arabic-digits"), record(preset="run")]
    tables = accuracy_tables(records)
    assert [table.header for table in tables if "m-FordA: " in table.title and "paper's" in table.title] == [
        ("acquirer", "Zeros", "Zeros, paper", "GP", "GP, paper")
    ]
    assert len(tables) == 4
    (shifted,) = (table for table in tables if "shifted" in table.title)
    assert rows(shifted)["static"] == ("0.800", "0.842")


def test_a_missing_run_is_a_dash_and_never_a_number():
    tables = accuracy_tables([record(fakes="zeros"), record("table", fakes="noise")])
    assert rows(tables[0])["learned"] == ("0.800", "0.860 ± 0.030", "–", "–")
    assert rows(tables[0])["table"] == ("–", "–", "0.800", "–")


def test_differences_are_the_paired_bootstrap_of_the_seeds_that_both_have():
    records = [record("learned", 0.9, 0), record("learned", 0.8, 1), record("random", 0.6, 0), record("random", 0.7, 2)]
    table = difference_table(records, "paper")
    gap = paired_difference([np.arange(200) < 180], [np.arange(200) < 120])
    assert gap.mean == pytest.approx(0.3)
    interval = f"{gap.low:+.3f} to {gap.high:+.3f} *"
    assert table.rows == (("m-FordA, noise", "learned − random", "+0.300", interval, "1"),)  # only what both were run for


def test_a_star_marks_only_what_is_clear():
    table = difference_table([record("learned", 0.8), record("random", 0.8)], "paper")
    assert table.rows[0][2:] == ("+0.000", "+0.000 to +0.000", "1")


def test_costs_and_levelling_are_told():
    table = cost_table([record(seed=0), record(seed=1)], "paper")
    assert table.rows == (("m-FordA, noise", "learned", "0.800", "5.0", "50 %", "1/2", "10"),)


def test_three_notations_hold_the_same_cells():
    for table in all_tables([record(), record("random", 0.7)]):
        markdown, latex = table.markdown(), table.latex()
        console = Console(width=300, color_system=None)
        with console.capture() as captured:
            console.print(table.rich())
        for row in table.rows:
            assert "| " + " | ".join(row) + " |" in markdown
            for cell in row:
                assert cell.strip() in captured.get()
                for number in re.findall(r"\d+\.\d+", cell):
                    assert number in latex


def test_latex_has_no_bare_special_character():
    text = TextTable("50 % of _x_", ("a", "b"), (("x_1", "0.5 ± 0.1 – * −"),), "a note & more").latex()
    body = text.split(r"\midrule")[1]
    assert "±" not in text
    assert "−" not in text
    assert r"x\_1 & 0.5 $\pm$ 0.1 -- $^*$ $-$ \\" in body
    assert r"50 \% of \_x\_. a note \& more" in text


def test_every_acquirer_has_its_place_in_a_table():
    (table,) = accuracy_tables([record(kind, preset="run") for kind in get_args(AcquirerKind)])
    assert {row[0] for row in table.rows} == set(get_args(AcquirerKind))
