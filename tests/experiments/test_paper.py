from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.errors import SpecError
from whichwhen.experiments.paper import CELLS, PAPER_NUMBERS, Cell, choose, paper_grid

DIGITS, FORDA = "spoken-arabic-digits", "m-forda"
GRID = paper_grid()
SEEDS = {DIGITS: 4, FORDA: 5}
PLAIN = [(dataset, fakes, False) for dataset in (DIGITS, FORDA) for fakes in ("zeros", "noise", "gp")]
SETTINGS = [*PLAIN, (FORDA, "zeros", True)]


def counts(jobs):
    """How many seeds each (dataset, fakes, shifted, acquirer) has."""
    return Counter((job.cell.dataset, job.cell.fakes, job.cell.shifted, job.acquirer) for job in jobs)


# -- what the grid is made of


def test_the_paper_s_grid_has_its_settings_acquirers_and_seeds():
    acquirers = ("random", "learned", "complete", "static")
    assert counts(GRID) == {(*cell, name): SEEDS[cell[0]] for cell in SETTINGS for name in acquirers}


def test_a_job_s_spec_is_what_its_name_says():
    for job in GRID:
        spec, cell = job.spec, job.cell
        assert job.preset == "paper"
        assert (spec.data.name, spec.data.fakes, spec.data.shift) == (cell.dataset, cell.fakes, cell.shifted)
        assert (spec.data.n_fakes, spec.data.m, spec.budget.per_step) == (30, 10, 5)
        assert (spec.selector.kind, spec.selector.repeat, spec.selector.temperature) == ("sequential", "penalty", 1.0)
        words = job.name.removeprefix(f"paper-{cell.dataset}-{cell.fakes}-")
        assert words == f"{'shifted-' * cell.shifted}{spec.acquirer.kind}-{spec.seed}"


def test_names_and_hashes_are_unique():
    assert len({job.name for job in GRID}) == len({job.spec.hash for job in GRID}) == len(GRID)


def test_declaring_a_grid_twice_gives_the_same_hashes():
    assert paper_grid() == GRID
    assert [job.spec.hash for job in paper_grid()] == [job.spec.hash for job in GRID]


def test_first_seeds_come_first_and_cover_every_setting():
    seeds = [job.spec.seed for job in GRID]
    assert seeds == sorted(seeds)
    first = [job for job in GRID if job.spec.seed == 0]
    assert counts(first).keys() == counts(GRID).keys()
    assert GRID[: len(first)] == tuple(first)


def test_seeds_of_a_setting_differ_in_the_seed_alone_up_to_what_is_saved():
    for key in counts(GRID):
        own = [job for job in GRID if (job.cell.dataset, job.cell.fakes, job.cell.shifted, job.acquirer) == key]
        assert [job.spec.seed for job in own] == list(range(len(own)))
        assert len({job.spec.change(seed=0, training__save_epochs=False) for job in own}) == 1


def test_acquirers_of_a_setting_differ_in_the_acquirer_alone_in_the_paper_s_settings():
    for cell in CELLS:
        own = [job.spec for job in GRID if job.cell == cell and job.spec.seed == 0]
        assert len({spec.change(acquirer__kind="random", training__save_epochs=False) for spec in own}) == 1


def test_weights_of_all_epochs_are_kept_for_the_curves_alone():
    saved = {job.name for job in GRID if job.spec.training.save_epochs}
    assert saved == {f"paper-m-forda-{fakes}-{kind}-0" for fakes in ("zeros", "noise") for kind in ("learned", "complete")}


def test_the_paper_s_runs_train_until_validation_has_levelled_off():
    for job in GRID:
        assert job.spec.training.level_gain == 0.002
        assert job.spec.training.min_epochs >= 5


@pytest.mark.parametrize("seeds", [1, 3, 7])
def test_the_number_of_seeds_can_be_set_for_all(seeds):
    found = counts(paper_grid(seeds=seeds))
    assert found.keys() == counts(GRID).keys()
    assert set(found.values()) == {seeds}


@pytest.mark.parametrize("epochs", [1, 2, 1000])
def test_epochs_can_be_set(epochs):
    assert {job.spec.training.epochs for job in paper_grid(seeds=1, epochs=epochs)} == {epochs}


def test_no_seeds_or_no_epochs_are_refused():
    with pytest.raises(SpecError, match="seeds is 0; expected at least 1"):
        paper_grid(seeds=0)
    with pytest.raises(SpecError, match="epochs is 0; expected at least 1"):
        paper_grid(epochs=0)


# -- choosing from it


def test_words_of_one_kind_are_alternatives():
    chosen = paper_grid(only=["noise", "gp"])
    assert chosen == tuple(job for job in GRID if job.cell.fakes in ("noise", "gp"))


def test_words_of_several_kinds_must_all_fit():
    chosen = paper_grid(only=["m-forda", "noise", "gp", "learned"])
    assert counts(chosen) == {(FORDA, fakes, False, "learned"): 5 for fakes in ("noise", "gp")}


def test_plain_and_shifted_are_told_apart():
    plain, shifted = (paper_grid(only=[word]) for word in ("plain", "shifted"))
    assert all(job.cell.shifted for job in shifted)
    assert not any(job.cell.shifted for job in plain)
    assert {job.cell for job in shifted} == {Cell(FORDA, "zeros", True)}
    assert sorted(job.name for job in (*plain, *shifted)) == sorted(job.name for job in GRID)


def test_a_job_s_whole_name_chooses_it_alone():
    for job in GRID[::7]:
        assert choose(GRID, [job.name]) == (job,)


def test_no_words_choose_everything_and_a_static_word_is_not_a_part_of_another():
    assert choose(GRID, []) == GRID
    assert {job.acquirer for job in choose(GRID, ["static"])} == {"static"}


WORDS = ("m-forda", DIGITS, "zeros", "noise", "gp", "plain", "shifted", "random", "learned", "complete", "static")


def fitting(jobs, words):
    """What is chosen; nothing where no job fits all words, which is refused."""
    try:
        return choose(jobs, words)
    except SpecError:
        return ()


@given(st.lists(st.sampled_from(WORDS), max_size=5), st.sampled_from(WORDS), st.randoms())
@settings(deadline=None, max_examples=30)
def test_choosing_keeps_the_order_and_does_not_depend_on_that_of_the_words(words, more, rng):
    jobs = GRID
    chosen = fitting(jobs, words)
    assert list(chosen) == [job for job in jobs if job in set(chosen)]
    shuffled = [*words, *words]
    rng.shuffle(shuffled)
    assert fitting(jobs, shuffled) == chosen
    kinds = ({"m-forda", DIGITS}, {"zeros", "noise", "gp"}, {"plain", "shifted"}, {"random", "learned", "complete", "static"})
    (kind,) = (kind for kind in kinds if more in kind)
    with_more = set(fitting(jobs, [*words, more]))
    if kind & set(words):  # one more alternative
        assert with_more >= set(chosen)
    else:  # one more condition
        assert with_more <= set(chosen)


def test_an_unknown_word_is_refused_with_the_words_there_are():
    with pytest.raises(SpecError) as caught:
        paper_grid(only=["m-forda", "lerned"])
    message = str(caught.value)
    assert "--only lerned" in message
    for word in ("m-forda", DIGITS, "zeros", "noise", "gp", "plain", "shifted", "learned", "random", "complete", "static"):
        assert word in message
    assert "\n" not in message


def test_an_acquirer_that_the_paper_does_not_have_is_an_unknown_word():
    with pytest.raises(SpecError, match="--only oracle"):
        paper_grid(only=["oracle"])


# -- the paper's numbers


TABLE = """
spoken-arabic-digits random   .84 .06  .82 .05  .87 .02
spoken-arabic-digits learned  .87 .05  .90 .03  .91 .04
spoken-arabic-digits complete .90 .06  .91 .03  .90 .03
m-forda              random   .76 .04  .74 .04  .73 .02
m-forda              learned  .86 .03  .86 .03  .84 .02
m-forda              complete .93 .00  .84 .02  .80 .03
"""
SHIFTED = {"random": 0.708, "static": 0.842, "learned": 0.740, "complete": 0.897}


def test_the_paper_s_numbers_are_those_of_its_tables():
    expected = {(Cell(FORDA, "zeros", True), name): (mean, None) for name, mean in SHIFTED.items()}
    for line in TABLE.strip().splitlines():
        dataset, acquirer, *numbers = line.split()
        for place, fakes in enumerate(("zeros", "noise", "gp")):
            mean, std = map(float, numbers[2 * place : 2 * place + 2])
            expected[Cell(dataset, fakes), acquirer] = (mean, std)
    assert expected == PAPER_NUMBERS


def test_every_number_of_the_paper_has_runs_to_compare_with():
    assert PAPER_NUMBERS.keys() <= {(job.cell, job.acquirer) for job in GRID}
