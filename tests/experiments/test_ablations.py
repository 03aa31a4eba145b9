"""What is declared and what is made of the records; the runs themselves are the grid's."""

import pytest

from whichwhen.errors import SpecError
from whichwhen.experiments.ablations import ABLATIONS, BASE, ablation_grid, summarise_ablations
from whichwhen.experiments.adaptive import adaptive_grid
from whichwhen.experiments.paper import paper_grid
from whichwhen.experiments.records import summary_of
from whichwhen.reports.comparison import ablation_tables, all_tables


def made(variant, accuracy, seed=0, real=None):
    test = {"accuracy": accuracy, "cost_per_step": 2.0, "real_fraction": real}
    return {"preset": "ablations", "variant": variant, "seed": seed, "test": test}


def test_every_change_is_one_of_its_own_and_leaves_the_rest_as_it_is():
    jobs = {job.variant: job for job in ablation_grid(1)}
    assert len({job.spec.hash for job in jobs.values()}) == len(jobs) == sum(map(len, ABLATIONS.values()))
    for task, ablations in ABLATIONS.items():
        base = jobs[f"{task}-{BASE}"].spec
        for ablation in ablations:
            spec = jobs[f"{task}-{ablation.name}"].spec
            back = {}
            for path in ablation.changes:
                part, name = path.split("__")
                back[path] = getattr(getattr(base, part), name)
                assert getattr(getattr(spec, part), name) == ablation.changes[path] != back[path]
            assert spec.change(**back) == base


def test_the_recipes_are_those_of_the_other_grids_so_that_their_runs_are_the_same():
    jobs = {job.variant: job.spec.hash for job in ablation_grid(1)}
    shifted = paper_grid("best", seeds=1, only=["m-forda", "zeros", "shifted", "learned"])
    pointer = adaptive_grid(1, ["synthetic:pointer", "learned", "foresight"])
    assert jobs["shifted-as-it-is"] == shifted[0].spec.hash
    assert jobs["pointer-as-it-is"] == pointer[0].spec.hash


def test_the_parts_that_the_issue_names_are_there_on_both_tasks():
    for ablations in ABLATIONS.values():
        parts = {ablation.part for ablation in ablations}
        assert parts >= {"time features", "context", "recurrence", "replay", "selector", "warm-up", "temperature"}


def test_a_difference_counts_the_seeds_that_both_have():
    records = [made("shifted-as-it-is", 0.9, 0), made("shifted-as-it-is", 0.8, 1)]
    records += [made("shifted-hot", 0.7, 1, real=0.5), made("shifted-hot", 0.1, 2, real=0.7)]
    base, hot = summarise_ablations(records)
    assert (base["change"], base["difference"], base["n_seeds"], base["real_fraction"]) == (BASE, 0, 2, None)
    assert hot["mean"] == pytest.approx(0.4)
    assert hot["difference"] == pytest.approx(-0.1)
    assert hot["real_fraction"] == pytest.approx(0.6)
    assert summarise_ablations(records[2:])[0]["difference"] is None
    assert summary_of(records) == [base, hot]
    (table,) = all_tables(records)
    assert "-0.100" in table.markdown()
    assert table.markdown() == ablation_tables([base, hot])[0].markdown()


def test_a_wrong_word_names_the_ones_that_are_there():
    with pytest.raises(SpecError, match="shifted-no-time") as caught:
        ablation_grid(1, ["no-such-change"])
    assert "; ," not in str(caught.value)


def test_a_word_that_only_some_runs_have_is_listed_without_an_empty_one():
    with pytest.raises(SpecError, match="words of this grid") as caught:
        adaptive_grid(1, ["no-such-task"])
    assert ": ," not in str(caught.value)
