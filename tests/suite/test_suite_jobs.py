import pytest
from experiments.suite.jobs import ARCHIVES, TASKS, Setting, choose, full_grid, make_job, mean_costs, quick_grid

from whichwhen.errors import SpecError


def test_names_and_hashes_are_unique_and_quick_is_part_of_full():
    full, quick = full_grid(), quick_grid()
    assert len({job.name for job in full}) == len(full)
    assert len({job.hash for job in full}) == len(full)
    assert set(quick) <= set(full)


def test_every_setting_has_the_main_acquirers_and_the_rest_where_it_makes_sense():
    jobs = full_grid()
    for setting in (*ARCHIVES, *TASKS):
        kinds = {job.acquirer for job in jobs if job.setting == setting}
        assert {"learned", "round-robin", "static", "complete", "none"} <= kinds
        assert ("oracle" in kinds) == setting.has_oracle
    assert not Setting("synthetic:pointer", "none").has_oracle


def test_words_about_one_thing_are_alternatives():
    jobs = choose(full_grid(), ["NATOPS", "PenDigits", "learned", "at-2", "normal"])
    assert {(job.setting.short, job.acquirer, job.asked) for job in jobs} == {
        ("NATOPS", "learned", 2),
        ("PenDigits", "learned", 2),
    }
    with pytest.raises(SpecError, match="--only nothing"):
        choose(full_grid(), ["nothing"])


def test_only_runs_asked_for_two_have_a_curve():
    assert [make_job(Setting("m-forda"), "learned", asked, 0).prices for asked in (1.0, 2.0, 5.0)] == [False, True, False]
    costs = mean_costs(12)
    assert (len(costs), costs[0], costs[-1]) == (20, 0.05, 12)
