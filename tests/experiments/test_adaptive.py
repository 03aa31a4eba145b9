import json

import pytest
import torch

from whichwhen.cli import main
from whichwhen.data import reference
from whichwhen.errors import SpecError
from whichwhen.experiments.adaptive import METHODS, TASKS, AtRandom, adaptive_grid, summarise_adaptive
from whichwhen.types import Allowance, Scores


def record(task="planning", acquirer="learned-only", objective="foresight", accuracy=0.9, seed=0):
    (job,) = (
        job
        for job in adaptive_grid(seed + 1)
        if (job.cell.dataset, job.acquirer, job.variant, job.spec.seed) == (f"synthetic:{task}", acquirer, objective, seed)
    )
    return {
        "dataset": job.cell.dataset,
        "acquirer": acquirer,
        "variant": objective,
        "spec": job.spec.model_dump(mode="json"),
        "test": {"accuracy": accuracy},
    }


def test_every_task_meets_every_method_at_its_own_budget_first_seeds_first():
    jobs = adaptive_grid(2)
    assert len(jobs) == 2 * len(TASKS) * len(METHODS)
    assert len({job.name for job in jobs}) == len({job.spec.hash for job in jobs}) == len(jobs)
    assert [job.spec.seed for job in jobs] == sorted(job.spec.seed for job in jobs)
    for job in jobs:
        assert job.spec.training.objective == job.variant
        budgets = {"synthetic:pointer": 2, "synthetic:planning": 1, "synthetic:triage": 2, "synthetic:exact": 1}
        assert job.spec.budget.per_step == budgets[job.cell.dataset]
        assert job.spec.training.epochs is None
        waves = job.cell.dataset == "synthetic:pointer" and job.acquirer == "learned-only"
        assert job.spec.acquirer.value_features == (4 if waves else 0)


def test_less_effort_is_for_trials_and_another_run():
    (usual,), (trial,) = (adaptive_grid(1, ["synthetic:exact", "table"], effort) for effort in ("normal", 0.01))
    assert trial.spec == usual.spec.change(training__effort=0.01)
    assert trial.spec.hash != usual.spec.hash
    assert trial.name == usual.name


def test_words_choose_by_task_acquirer_and_objective():
    names = {job.name for job in adaptive_grid(1, ["synthetic:pointer", "synthetic:exact", "learned-only", "value"])}
    assert names == {f"adaptive-synthetic-{task}-none-learned-only-value-0" for task in ("pointer", "exact")}
    with pytest.raises(SpecError, match="words that at least one run fits"):
        adaptive_grid(1, ["table", "value"])


def test_a_row_tells_how_far_from_chance_to_the_optimum_a_method_comes():
    rows = summarise_adaptive(
        [record(accuracy=0.9), record(accuracy=0.92, seed=1), record(acquirer="table", objective="end-to-end")]
    )
    assert [(row["acquirer"], row["objective"]) for row in rows] == [("table", "end-to-end"), ("learned-only", "foresight")]
    row = rows[1]
    known = reference(adaptive_grid(1, ["synthetic:planning"])[0].spec.data, 1)
    assert row["mean"] == pytest.approx(0.91)
    assert row["n_seeds"] == 2
    assert (row["task"], row["optimum"], row["chance"]) == ("planning", known.optimum, known.chance)
    assert row["share"] == pytest.approx((0.91 - known.chance) / (known.optimum - known.chance))


def test_the_command_leaves_a_summary_and_the_comparison_with_exact_information(tmp_path, capsys):
    words = ["--seeds", "1", "--effort", "0.01", "--only", "synthetic:exact", "value"]
    places = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    assert main(["adaptive", *words, *places, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert document["summary"] == [row]
    assert {"task", "acquirer", "objective", "n_seeds", "mean", "std", "optimum", "chance"} <= set(row)
    (exact,) = json.loads((tmp_path / "out" / "exact.json").read_text())
    for where in ("own", "random"):
        assert -1 <= exact[f"correlation_{where}"] <= 1
        assert 0 <= exact[f"mean_error_{where}"] < 1


def test_at_random_spends_the_whole_amount_whatever_scores_and_prices_say():
    n, k = 2000, 5
    scores = Scores(torch.arange(5.0).expand(n, k), "nats")
    allowance = Allowance(torch.full((n,), 2.0), torch.ones(n, k, dtype=torch.bool), 2, torch.full((n,), 100.0))
    request = AtRandom().select(scores, allowance, torch.ones(k), torch.Generator().manual_seed(0)).request
    assert request.sum(1).eq(2).all()
    assert request.mean(0).tolist() == pytest.approx([2 / k] * k, abs=0.05)


def test_a_word_that_only_some_runs_have_is_listed_without_an_empty_one():
    with pytest.raises(SpecError, match="words of this grid") as caught:
        adaptive_grid(1, ["no-such-task"])
    assert ": ," not in str(caught.value)
    assert "; ," not in str(caught.value)
