"""What is declared and what is made of the records; the runs themselves are the grids'."""

import json
from dataclasses import replace

import numpy as np
import pytest

from builders import tiny_dataset, tiny_spec
from whichwhen import artifacts
from whichwhen.cli import main
from whichwhen.experiments import assumptions, clinical
from whichwhen.experiments.assumptions import assumptions_grid, summarise_assumptions
from whichwhen.experiments.clinical import CONTROLS, FRACTIONS, clinical_grid, points_of, summarise_clinical
from whichwhen.experiments.paper import Cell, Job
from whichwhen.experiments.records import make_record, summary_of
from whichwhen.experiments.runner import GridState
from whichwhen.reports.clinical import clinical_tables, draw_frontier, write_calibration, write_frontier
from whichwhen.reports.comparison import assumptions_table
from whichwhen.training.others import score_name
from whichwhen.training.run import train


@pytest.fixture
def fixed_cost(monkeypatch):
    monkeypatch.setattr(clinical, "full_budget", lambda name, folder=None: 40.0)


def metrics(auroc, delivered=1.0, requested=2.0):
    return {"auroc": auroc, "auprc": auroc / 2, "delivered_cost": delivered, "requested_cost": requested, "unanswered": 0.5}


def record(acquirer, auroc, seed=0, variant=""):
    others = [{"budget": 40 * f, "test_set": "b", **metrics(auroc + f / 100)} for f in FRACTIONS if f != 0.25]
    return {
        "preset": "clinical",
        "dataset": "physionet2012",
        "acquirer": acquirer,
        "variant": variant,
        "seed": seed,
        "spec": {"budget": {"total": 10.0}},
        "tests": {"b": metrics(auroc)},
        "other_budgets": [] if acquirer in ("none", "complete") else others,
    }


def test_the_clinical_grid_trains_each_acquirer_once_for_all_budgets(fixed_cost):
    jobs = clinical_grid(2)
    assert len({job.spec.hash for job in jobs}) == len(jobs) == 2 * (2 * 6) + 2 * len(CONTROLS)
    learned = next(job for job in jobs if job.acquirer == "learned")
    assert learned.spec.budget.total == 10
    assert learned.spec.budget.train_range == pytest.approx((2, 20))
    assert learned.spec.budget.bill == "delivered"
    assert [job.spec.seed for job in jobs] == sorted(job.spec.seed for job in jobs)


def test_points_are_shares_of_the_cohort_s_cost():
    assert {fraction for fraction, _, _ in points_of(record("learned", 0.8))} == set(FRACTIONS)
    assert [fraction for fraction, _, _ in points_of(record("complete", 0.8))] == [1.0]
    assert [fraction for fraction, _, _ in points_of(record("none", 0.8))] == [0.0]


def test_a_row_holds_means_over_seeds_and_the_share_of_the_gap_that_is_closed():
    records = [record("none", 0.80), record("complete", 0.90), record("learned", 0.84), record("learned", 0.86, seed=1)]
    rows = {(row["acquirer"], row["budget_fraction"]): row for row in summarise_clinical(records)}
    own = rows["learned", 0.25]
    assert own["auroc_mean"] == pytest.approx(0.85)
    assert own["auroc_std"] == pytest.approx(np.std([0.84, 0.86], ddof=1))
    assert own["n_seeds"] == 2
    assert own["gap_closed"] == pytest.approx(0.5)
    assert rows["none", 0.0]["gap_closed"] == pytest.approx(0)
    assert rows["complete", 1.0]["gap_closed"] == pytest.approx(1)


def test_controls_stand_beside_the_rest_and_close_no_gap():
    rows = summarise_clinical([record("none", 0.8), record("complete", 0.9), record("complete", 0.7, variant="mask-only")])
    control = next(row for row in rows if row["acquirer"] == "complete, mask-only")
    assert control["gap_closed"] is None


def test_a_set_with_one_test_part_goes_by_its_own_name():
    rows = [{**row, "dataset": "physionet2019", "test_set": "test"} for row in summarise_clinical([record("none", 0.8)])]
    assert [table.title for table in clinical_tables(rows)] == ["PhysioNet 2019"]


def test_table_and_figure_of_a_frontier(tmp_path):
    rows = summarise_clinical([record("none", 0.8), record("complete", 0.9), record("learned", 0.85)])
    (table,) = clinical_tables(rows)
    assert table.title == "PhysioNet 2012, test set b"
    assert len(table.rows) == len(rows)
    assert [path.name for path in write_frontier(rows, tmp_path)] == ["frontier.png", "frontier.pdf"]
    assert all(path.stat().st_size > 1000 for path in tmp_path.iterdir())
    assert write_frontier([], tmp_path) == []


def test_the_legend_of_a_frontier_covers_no_panel_and_names_each_line_once():
    records = [record("none", 0.8), record("complete", 0.9), *(record("learned", 0.85 + s / 100, seed=s) for s in range(2))]
    figure = draw_frontier(summarise_clinical(records))
    figure.canvas.draw()
    (legend,) = figure.legends
    assert sorted(text.get_text() for text in legend.get_texts()) == ["everything", "free channels only", "learned"]
    for axis in figure.axes:
        assert axis.get_legend() is None
        assert not legend.get_window_extent().overlaps(axis.get_window_extent())


def test_calibration_is_drawn_from_the_scores_of_runs(tmp_path, monkeypatch):
    data = tiny_dataset(60, n_classes=2)
    data = replace(data, tests={"b": data.test, "c": data.validation})
    monkeypatch.setattr(clinical, "load_dataset", lambda *given: data)
    result = record("learned", 0.8)
    result["tests"]["c"] = metrics(0.8)
    monkeypatch.setattr(artifacts, "load_result", lambda folder: result)
    spec = tiny_spec(budget__total=10.0)
    jobs = [Job("clinical", Cell("physionet2012", "none"), spec.change(seed=seed)) for seed in range(3)]
    rng = np.random.default_rng(0)
    for job in jobs[:2]:  # the third has no scores yet
        (tmp_path / job.spec.hash).mkdir()
        names = [score_name("b", found["budget"]) for found in result["other_budgets"]] + [score_name("b", None)]
        scores = {name: rng.random(len(data.test)) for name in names} | {
            score_name("c", None): np.full(len(data.validation), 0.5)
        }
        np.savez(tmp_path / job.spec.hash / artifacts.SCORES, **scores)
    curves = clinical.calibration_curves(tmp_path, jobs)
    assert curves.keys() == {("physionet2012", "b"), ("physionet2012", "c")}
    assert curves["physionet2012", "b"].keys() == {"learned"}
    assert curves["physionet2012", "b"]["learned"].counts.sum() == 2 * len(data.test)
    assert curves["physionet2012", "c"]["learned"].expected_error == pytest.approx(abs(data.validation.labels.mean() - 0.5))
    made = [path.name for path in write_calibration(curves, tmp_path)]
    assert made == ["calibration-physionet2012.png", "calibration-physionet2012.pdf"]
    assert clinical.calibration_curves(tmp_path / "nowhere", jobs) == {}
    assert write_calibration({}, tmp_path) == []


def test_differences_stay_as_long_as_the_runs_behind_them_are_those_of_the_grid(tmp_path, monkeypatch):
    def job(dataset, acquirer, seed, **changes):
        return Job("clinical", Cell(dataset, "none"), tiny_spec(acquirer__kind=acquirer, seed=seed, **changes))

    old, new = (job("physionet2012", "learned", 0), job("physionet2012", "learned", 1)), job("physionet2019", "learned", 0)
    others = [job(name, "random", seed) for name in ("physionet2012", "physionet2019") for seed in (0, 1)]
    jobs = [*old, new, job("physionet2019", "learned", 1), *others]
    here = list(jobs)
    monkeypatch.setattr(clinical, "load_dataset", lambda *given: tiny_dataset(n_classes=2))
    monkeypatch.setattr(
        clinical, "_with_scores", lambda name, runs, jobs: [one for one in here if one.cell.dataset == name and one in jobs]
    )
    monkeypatch.setattr(clinical, "_scored", lambda own, *given: own)

    def against(dataset, test_set, own, draws):
        if not {"learned", "random"} <= {one.acquirer for one in own}:
            return []
        place = {
            "dataset": dataset,
            "test_set": test_set,
            "budget_fraction": 0.25,
            "learned_minus": "random",
            "at_equal": "budget",
        }
        return [{**place, "difference": draws, "n_seeds": len(own) // 2}]

    monkeypatch.setattr(clinical, "_against_others", against)

    def found(draws, jobs):
        clinical.write_differences(tmp_path, tmp_path, jobs, draws=draws)
        rows = json.loads((tmp_path / "differences.json").read_text())
        return {row["dataset"]: (row["difference"], row["n_seeds"]) for row in rows}

    assert found(1, jobs) == {"physionet2012": (1, 2), "physionet2019": (1, 2)}
    here = [one for one in jobs if one.cell.dataset == "physionet2019"]  # of 2012 nothing is here: it stays
    assert found(2, jobs) == {"physionet2012": (1, 2), "physionet2019": (2, 2)}
    here = [one for one in jobs if one.spec.seed == 0]  # fewer seeds than are known
    assert found(3, jobs) == {"physionet2012": (1, 2), "physionet2019": (2, 2)}
    here = others  # no learned run
    assert found(4, jobs) == {"physionet2012": (1, 2), "physionet2019": (2, 2)}
    changed = [job("physionet2012", "learned", seed, training__epochs=2) for seed in (0, 1)]
    assert found(5, [*jobs[2:], *changed]) == {"physionet2019": (2, 2)}  # what 2012's rows say is of other runs


def test_a_run_on_several_test_sets_keeps_its_scores_on_each_at_each_budget(tmp_path):
    data = tiny_dataset(n_classes=2)
    data = replace(data, tests={"b": data.test, "c": data.validation})
    spec = tiny_spec(budget__total=10.0, budget__train_range=(2.0, 20.0), budget__bill="delivered", acquirer__budget=True)
    result = train(spec, tmp_path / "run", data=data)
    assert set(result["tests"]) == {"b", "c"}
    assert {(row["budget"], row["test_set"]) for row in result["other_budgets"]} == {
        (amount, name) for amount in (2.0, 4.0, 20.0) for name in "bc"
    }
    with np.load(tmp_path / "run" / artifacts.SCORES) as scores:
        assert scores[score_name("c", None)].shape == (len(data.validation),)
        assert len(scores.files) == 8
    made = make_record(Job("clinical", Cell("physionet2012", "none"), spec), tmp_path / "run")
    assert len(summary_of([made])) == 8


def test_the_assumptions_are_compared_two_by_two():
    variants = {job.variant.partition("-")[0] for job in assumptions_grid(1)}
    assert variants == {"costs", "bursts", "total", "delay"}
    assert len(assumptions_grid(3)) == 3 * 8
    for one in assumptions_grid(1, epochs=2):
        assert one.spec.training.epochs == 2


def test_what_ignores_costs_is_counted_at_the_costs_that_there_are():
    def made(variant, accuracy, **more):
        found = {"accuracy": accuracy, "requested_cost": 250.0}
        return {"variant": variant, "dataset": "m-forda", "test": found, "seed": 0, **more}

    rising = {"accuracy": 0.7, "requested_cost": 240.0}
    rows = summarise_assumptions([made("costs-known", 0.92), made("costs-ignored", 0.94, at_rising_costs=rising)])
    assert [(row["side"], row["mean"], row["cost_per_series"]) for row in rows] == [("known", 0.92, 250), ("ignored", 0.7, 240)]
    assert "costs" in assumptions_table(rows).markdown()


def test_the_optimum_stands_beside_what_is_known_exactly():
    optima = {job.variant: assumptions._optimum(job.variant) for job in assumptions_grid(1)}
    assert optima["bursts-total"] > optima["bursts-per-step"] + 0.15
    assert optima["delay-1"] == optima["delay-3"]
    assert optima["costs-known"] is None


def test_records_get_what_the_policy_reaches_at_rising_costs(tmp_path, monkeypatch):
    (job,) = (job for job in assumptions_grid(1) if job.variant == "costs-ignored")
    path = tmp_path / "records" / f"{job.name}.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"name": job.name}))
    monkeypatch.setattr(assumptions, "at_rising_costs", lambda run, folder: {"accuracy": 0.5})
    monkeypatch.setattr(assumptions.artifacts, "is_finished", lambda run: True)
    assumptions.add_rising_costs(tmp_path, tmp_path, [job])
    assert json.loads(path.read_text())["at_rising_costs"] == {"accuracy": 0.5}


def test_what_only_left_out_stays_in_the_files_beside_the_records(fixed_cost, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("whichwhen.cli.grids._run_grid", lambda args, jobs: GridState(tuple(jobs), tmp_path, 1))
    monkeypatch.setattr(
        "whichwhen.experiments.records.load_record",
        lambda out, job: None if job.variant else {**record(job.acquirer, 0.8), "dataset": job.cell.dataset},
    )
    monkeypatch.setattr(clinical, "write_differences", lambda out, runs, jobs, folder: seen.append(jobs) or [])
    monkeypatch.setattr(clinical, "calibration_curves", lambda runs, jobs, folder: {})
    assert main(["clinical", "--only", "physionet2019", "--seeds", "1", "--json", "--out", str(tmp_path)]) == 0
    assert {job.cell.dataset for job in seen[0]} == {"physionet2012", "physionet2019"}
    assert (tmp_path / "frontier.png").is_file()
