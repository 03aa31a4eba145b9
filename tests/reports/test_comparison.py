import re
from typing import get_args

import numpy as np
import pytest
from rich.console import Console

from whichwhen.evaluation.statistics import paired_difference
from whichwhen.experiments.records import pack
from whichwhen.reports.comparison import TextTable, accuracy_tables, all_tables, cost_table, difference_table, kept_table
from whichwhen.specs import AcquirerKind, BudgetSpec, RunSpec, TrainingSpec


def record(
    acquirer="learned", accuracy=0.8, seed=0, preset="paper", dataset="m-forda", fakes="noise", shifted=False, n=200, **more
):
    """A record as far as tables read it; the first ``accuracy * n`` series are right.

    Args:
        more: ``epochs`` and amounts of the budget, as in a spec; other entries of the record.
    """
    correct = np.arange(n) < round(accuracy * n)
    budget = {name: more.pop(name) for name in ("per_step", "mean_cost", "price", "total") if name in more}
    spec = RunSpec(budget=BudgetSpec(**budget), training=TrainingSpec(epochs=more.pop("epochs", None)))
    return {
        "spec": spec.model_dump(mode="json"),
        "preset": preset,
        "dataset": dataset,
        "fakes": fakes,
        "shifted": shifted,
        "budget": 5.0 if spec.budget.amount is None else spec.budget.amount,
        "acquirer": acquirer,
        "seed": seed,
        "levelled": seed == 0,
        "cpu_seconds": 10.0 + seed,
        "correct": pack(correct),
        "test": {"accuracy": accuracy, "cost_per_step": 5.0, "real_fraction": 0.5, "n": n},
        **more,
    }


def candidates(kept, network=0.95, rule=0.976, title="round robin of 6"):
    """What a choice between the network and a rule leaves in a record."""
    gap = network - rule if kept == "learned-only" else rule - network
    return {
        "candidates": [
            {
                "title": name,
                "acquirer": kind,
                "kept": kind == kept,
                "test": {"accuracy": accuracy},
                "kept_minus_this": 0.0 if kind == kept else gap,
                "standard_error": 0.0 if kind == kept else 0.0062,
            }
            for name, kind, accuracy in (("learned", "learned-only", network), (title, "round-robin", rule))
        ]
    }


def in_the_terminal(table, width=80):
    console = Console(width=width, color_system=None)
    with console.capture() as captured:
        console.print(table.rich())
    return captured.get()


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
    table = cost_table([record(seed=0, epochs=9), record(seed=1, epochs=9)], "paper")
    assert table.rows == (("m-FordA, noise", "learned", "0.800", "5.0", "50 %", "1/2", "10"),)
    assert "levelled off" in table.header
    assert "Levelled off" in table.note


def test_levelling_means_nothing_without_epochs():
    recipe = cost_table([record()], "paper")
    assert recipe.rows == (("m-FordA, noise", "learned", "0.800", "5.0", "50 %", "10"),)
    assert "levelled off" not in recipe.header
    assert recipe.note == ""
    mixed = cost_table([record(), record("static", epochs=9)], "paper")
    assert {row[1]: row[5] for row in mixed.rows} == {"static": "1/1", "learned": "–"}


# what was kept


def test_what_validation_kept_stands_beside_what_the_other_gives():
    network, rule = (
        record(preset="run", **candidates("learned-only", 0.983)),
        record(seed=1, preset="run", **candidates("round-robin")),
    )
    table = kept_table([rule, network, record("static", preset="run")], "run")
    assert table.rows == (
        ("m-FordA, noise", "0", "the network", "0.983", "round robin of 6", "0.976", "+0.007 ± 0.006"),
        ("m-FordA, noise", "1", "round robin of 6", "0.976", "the network", "0.950", "+0.026 ± 0.006"),
    )
    assert table in all_tables([rule, network])


def test_a_row_says_which_rule_was_kept():
    def name_of(*records):
        (table,) = accuracy_tables(records)
        (cost,) = cost_table(records, "paper").rows
        assert cost[1] == table.rows[0][0]
        return cost[1]

    rule, network = candidates("round-robin"), candidates("learned-only")
    other = candidates("round-robin", title="round robin of 8")
    assert name_of(record(**network)) == "learned"
    assert name_of(record(**rule)) == "learned (kept round robin of 6)"
    assert name_of(record(**rule), record(seed=1, **rule)) == "learned (kept round robin of 6)"
    assert name_of(record(**rule), record(seed=1, **network)) == "learned (kept a fixed rule in 1 of 2 runs)"
    assert name_of(record(**rule), record(seed=1, **other)) == "learned (kept a fixed rule in 2 of 2 runs)"


# budgets


def test_runs_at_several_budgets_are_rows_of_their_own():
    records = [
        record("learned", 0.7, preset="run", per_step=1.0),
        record("learned", 0.8, preset="run", mean_cost=1.0),
        record("learned", 0.9, preset="run", mean_cost=1.5, per_step=2.0),
        record("complete", 0.95, preset="run", per_step=1.0),
    ]
    (table,) = accuracy_tables(records)
    assert table.header == ("acquirer", "budget", "Noise")
    assert table.rows == (
        ("learned", "budget 1 per step", "0.700"),
        ("learned", "mean cost 1 per step", "0.800"),
        ("learned", "mean cost 1.5 per step, at most 2 per step", "0.900"),
        ("complete", "–", "0.950"),
    )
    assert [row[:3] for row in cost_table(records, "run").rows] == [
        ("m-FordA, noise, budget 1 per step", "learned", "0.700"),
        ("m-FordA, noise, mean cost 1 per step", "learned", "0.800"),
        ("m-FordA, noise, mean cost 1.5 per step, at most 2 per step", "learned", "0.900"),
        ("m-FordA, noise", "complete", "0.950"),
    ]


def test_differences_are_taken_at_the_same_budget_and_complete_has_none():
    records = [
        *(record("learned", 0.7, preset="run", per_step=1.0), record("learned", 0.9, preset="run", per_step=2.0)),
        *(record("static", 0.6, preset="run", per_step=2.0), record("complete", 0.95, preset="run", per_step=1.0)),
    ]
    assert [row[:3] for row in difference_table(records, "run").rows] == [
        ("m-FordA, noise, budget 1 per step", "learned − complete", "-0.250"),
        ("m-FordA, noise, budget 2 per step", "learned − static", "+0.300"),
        ("m-FordA, noise, budget 2 per step", "learned − complete", "-0.050"),
    ]


def test_a_single_budget_of_own_runs_is_in_the_title_and_the_default_has_its_amount():
    (own,) = accuracy_tables([record(preset="run"), record("complete", preset="run")])
    assert own.title == "m-FordA, budget 5 per step: test accuracy, own runs"
    assert "budget" not in own.header
    (paper,) = accuracy_tables([record()])
    assert "budget" not in paper.title


def test_variants_of_an_acquirer_are_all_there():
    records = [record("learned", accuracy, preset="run", variant=name) for name, accuracy in (("a", 0.7), ("b", 0.8))]
    records.append(record("static", 0.6, preset="run"))
    (table,) = accuracy_tables(records)
    assert table.rows == (("static", "0.600"), ("learned, a", "0.700"), ("learned, b", "0.800"))
    assert [row[1:3] for row in difference_table(records, "run").rows] == [
        ("learned, a − static", "+0.100"),
        ("learned, b − static", "+0.200"),
    ]


# what is compared and shown


def test_the_first_difference_is_to_the_round_robin():
    records = [record(who, preset="run") for who in ("static", "round-robin", "learned", "complete")]
    differences = [row[1] for row in difference_table(records, "run").rows]
    assert differences == ["learned − round-robin", "learned − static", "learned − complete"]


def test_tables_without_rows_are_left_out():
    titles = [table.title for table in all_tables([record(preset="run")])]
    assert [title.split(":")[-1].split(",")[0].strip() for title in titles] == ["test accuracy", "Cost and requests"]


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_leaves_the_names_of_acquirers_whole(width):
    records = [record(kind, preset="run", dataset="japanese-vowels", per_step=2.0) for kind in get_args(AcquirerKind)]
    table = cost_table(records, "run")
    shown = in_the_terminal(table, width)
    assert max(map(len, shown.splitlines())) <= width
    for kind in get_args(AcquirerKind):
        assert kind in shown.split()


def test_three_notations_hold_the_same_cells():
    for table in all_tables([record(), record("random", 0.7)]):
        markdown, latex = table.markdown(), table.latex()
        shown = in_the_terminal(table, 300)
        for row in table.rows:
            assert "| " + " | ".join(row) + " |" in markdown
            for cell in row:
                assert cell.strip() in shown
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
