from typing import Any

import numpy as np
import pytest
from experiments.suite.jobs import Setting, make_job, mean_costs
from experiments.suite.records import FORMAT, Record, pack
from experiments.suite.summary import collect, compare, summarise
from experiments.suite.targets import cost_to_match, find_targets, largest_rise, render

JV, DIGITS = Setting("japanese-vowels"), Setting("spoken-arabic-digits")
SIZES = {JV: 370, DIGITS: 2200}


def evaluation(rows: list[str], kind: str | None, budget: float | None, n: int, right: float, **more: Any) -> dict[str, Any]:
    flags = np.arange(n) < round(right * n)
    found = {"rows": rows, "budget_kind": kind, "budget": budget, "accuracy": float(flags.mean()), "n": n, "real_fraction": 1.0}
    return found | {"cost_per_step": budget or 42.0, "correct": pack(flags), "validation_loss": 1 - right} | more


def record(setting: Setting, kind: str, asked: float | None, right: float, seed: int = 0, more: tuple[Any, ...] = ()) -> Record:
    job = make_job(setting, kind, asked, seed)
    rows = ["learned", "learned-only"] if kind == "learned" else [kind]
    own = evaluation(rows, None if asked is None else "per-step", asked, SIZES[setting], right)
    facts = {"name": job.name, "dataset": setting.dataset, "fakes": setting.fakes, "shifted": setting.shifted, "seed": seed}
    facts |= {"format": FORMAT, "acquirer": kind, "asked": asked, "effort": "normal", "kept": rows[-1], "cpu_seconds": 1.0}
    return facts | {"columns": [42, 12], "everything": 42.0, "evaluations": [own, *more]}


def table(records: list[Record]) -> dict[str, Any]:
    cells = collect(records)
    return {target.what: target for target in find_targets(records, cells, compare(cells))}


def test_equal_predictions_differ_by_nothing():
    records = [record(JV, kind, 2.0, 0.9, seed) for kind in ("learned", "static", "round-robin") for seed in range(3)]
    for one in compare(collect(records)):
        assert (one.value, *one.interval) == (0, 0, 0)


def test_a_small_test_has_a_wider_mark():
    records = [record(JV, "learned", 2.0, 0.885), record(JV, "static", 2.0, 0.9)]
    assert table(records)["learned - static, every archive set and budget"].met
    records += [record(DIGITS, "learned", 2.0, 0.885), record(DIGITS, "static", 2.0, 0.9)]
    target = table(records)["learned - static, every archive set and budget"]
    assert target.met is False
    assert target.value == pytest.approx(-0.015)
    assert "spoken-arabic-digits noise at 2; 1 of 2 missed" in target.detail


def test_the_best_rule_is_found_on_validation_and_not_on_test():
    static, turns = record(JV, "static", 2.0, 0.8), record(JV, "round-robin", 2.0, 0.9)
    static["evaluations"][0]["validation_loss"] = 0.0
    (found,) = (
        one
        for one in compare(collect([record(JV, "learned", 2.0, 0.9), static, turns]))
        if one.setting and "best rule" in one.what and one.what.startswith("learned -")
    )
    assert found.value == pytest.approx(0.1, abs=0.003)
    assert found.rule == "static ×1"


def test_variants_count_once_within_a_data_set():
    zeros, plain = Setting("m-forda", "zeros"), Setting("m-forda")
    SIZES.update({zeros: 1000, plain: 1000, JV: 1000})
    try:
        records = []
        for setting, right in ((zeros, 0.9), (plain, 0.8), (JV, 0.5)):
            records += [record(setting, "learned", 2.0, right), record(setting, "static", 2.0, 0.5)]
        target = table(records)["mean over sets, below the real columns: learned - static"]
    finally:
        SIZES[JV] = 370
    assert target.value == pytest.approx((0.35 + 0) / 2)
    assert target.met


def test_cost_to_match_is_where_all_larger_costs_are_near_complete():
    costs = mean_costs(12)

    def run(kind: str, good_from: int) -> Record:
        rows = ["learned", "learned-only"] if kind == "learned" else [kind]
        right = [0.5 if i < good_from and i != 2 else 0.94 for i in range(20)]
        more = tuple(evaluation(rows, "mean-cost", cost, 370, share) for cost, share in zip(costs, right, strict=True))
        return record(JV, kind, 2.0, 0.9, more=more)

    records = [run("learned", 10), run("round-robin", 15), record(JV, "complete", None, 0.95)]
    share, ratio = cost_to_match(collect(records))
    assert share.value == pytest.approx(costs[10] / 42)
    assert ratio.value == pytest.approx(costs[10] / costs[15])
    assert (share.met, ratio.met) == (True, True)


def test_costs_may_fall_with_the_price_but_not_rise():
    assert largest_rise([3.0, 2.0, 1.0, 1.0]) == 0
    assert largest_rise([3.0, 1.0, 1.5, 1.2]) == pytest.approx(0.5)


def test_rows_without_records_say_so():
    records = [record(JV, "learned", 2.0, 0.96)]
    assert summarise(collect(records))[0]["mean"] == pytest.approx(0.96, abs=0.002)
    found = table(records)
    assert found["japanese-vowels noise at 2"].met
    assert found["japanese-vowels noise at 1"].met is None
    assert "no records" in render(list(found.values()))
