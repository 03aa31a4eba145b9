from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.errors import SpecError
from whichwhen.experiments.paper import CELLS, MORE_CELLS, PAPER_NUMBERS, Cell, choose, paper_grid

DIGITS, FORDA = "spoken-arabic-digits", "m-forda"
PRESETS = ("paper", "best")
GRIDS = {preset: paper_grid(preset) for preset in PRESETS}
SEEDS = {DIGITS: 4, FORDA: 5}
PLAIN = [(dataset, fakes, False) for dataset in (DIGITS, FORDA) for fakes in ("zeros", "noise", "gp")]
SETTINGS = [*PLAIN, (FORDA, "zeros", True)]
MORE = [(FORDA, "noise", True), (FORDA, "gp", True)]


def counts(jobs):
    """How many seeds each (dataset, fakes, shifted, acquirer) has."""
    return Counter((job.cell.dataset, job.cell.fakes, job.cell.shifted, job.acquirer) for job in jobs)


# -- what the grid is made of


def test_the_paper_s_grid_has_its_settings_acquirers_and_seeds():
    acquirers = ("random", "learned", "complete", "static")
    assert counts(GRIDS["paper"]) == {(*cell, name): SEEDS[cell[0]] for cell in SETTINGS for name in acquirers}


def test_the_best_grid_has_five_seeds_of_learned_everywhere_and_reference_acquirers_with_two():
    seeds = dict.fromkeys(("static", "none", "static-by-time", "table", "oracle"), 2)
    found = counts(GRIDS["best"])
    for cell in [*SETTINGS, *MORE]:
        main = {**dict.fromkeys(("random", "complete"), SEEDS[cell[0]]), "learned": 5}
        assert {name: count for (*where, name), count in found.items() if tuple(where) == cell} == main | seeds
    assert len(found) == len([*SETTINGS, *MORE]) * 8


@pytest.mark.parametrize("preset", PRESETS)
def test_a_job_s_spec_is_what_its_name_says(preset):
    for job in GRIDS[preset]:
        spec, cell = job.spec, job.cell
        assert job.preset == preset
        assert (spec.data.name, spec.data.fakes, spec.data.shift) == (cell.dataset, cell.fakes, cell.shifted)
        assert (spec.data.n_fakes, spec.data.m, spec.budget.per_step) == (30, 10, 5)
        words = job.name.removeprefix(f"{preset}-{cell.dataset}-{cell.fakes}-")
        assert words == f"{'shifted-' * cell.shifted}{spec.acquirer.kind}-{spec.seed}"


def test_names_and_hashes_are_unique_over_both_grids():
    jobs = [*GRIDS["paper"], *GRIDS["best"]]
    assert len({job.name for job in jobs}) == len({job.spec.hash for job in jobs}) == len(jobs)


@pytest.mark.parametrize("preset", PRESETS)
def test_declaring_a_grid_twice_gives_the_same_hashes(preset):
    assert paper_grid(preset) == GRIDS[preset]
    assert [job.spec.hash for job in paper_grid(preset)] == [job.spec.hash for job in GRIDS[preset]]


@pytest.mark.parametrize("preset", PRESETS)
def test_first_seeds_come_first_and_cover_every_setting(preset):
    seeds = [job.spec.seed for job in GRIDS[preset]]
    assert seeds == sorted(seeds)
    first = [job for job in GRIDS[preset] if job.spec.seed == 0]
    assert counts(first).keys() == counts(GRIDS[preset]).keys()
    assert GRIDS[preset][: len(first)] == tuple(first)


@pytest.mark.parametrize("preset", PRESETS)
def test_seeds_of_a_setting_differ_in_the_seed_alone_up_to_what_is_saved(preset):
    for key in counts(GRIDS[preset]):
        own = [job for job in GRIDS[preset] if (job.cell.dataset, job.cell.fakes, job.cell.shifted, job.acquirer) == key]
        assert [job.spec.seed for job in own] == list(range(len(own)))
        assert len({job.spec.change(seed=0, training__save_epochs=False) for job in own}) == 1


def test_acquirers_of_a_setting_differ_in_the_acquirer_alone_in_the_paper_s_settings():
    for cell in CELLS:
        own = [job.spec for job in GRIDS["paper"] if job.cell == cell and job.spec.seed == 0]
        assert len({spec.change(acquirer__kind="random", training__save_epochs=False) for spec in own}) == 1


def test_our_best_settings_share_data_predictor_and_optimiser_between_the_acquirers_of_a_setting():
    for cell in (*CELLS, *MORE_CELLS):
        own = [job.spec for job in GRIDS["best"] if job.cell == cell and job.spec.seed == 0]
        assert len({spec.data for spec in own}) == len({spec.predictor for spec in own}) == 1
        assert len({(spec.training.epochs, spec.training.learning_rate, spec.training.warm_up) for spec in own}) == 1
        fixed = [spec for spec in own if spec.acquirer.kind != "learned"]
        own_of_table = {"training__sharpen": 1.0, "training__acquirer_rate": 1.0}  # how its scores learn, not the predictor
        alike = {"acquirer__kind": "random", "training__save_epochs": False, **own_of_table}
        assert len({spec.change(**alike) for spec in fixed}) == 1
        still = cell.dataset == "m-forda" and not cell.shifted
        assert {spec.acquirer.kind for spec in fixed if spec.training.acquirer_rate != 1} == ({"table"} if still else set())
        assert {spec.acquirer.kind for spec in fixed if spec.training.sharpen > 1} == {"table"}  # the one of them that draws


def test_weights_of_all_epochs_are_kept_for_the_curves_alone():
    for preset in PRESETS:
        saved = {job.name.removeprefix(f"{preset}-") for job in GRIDS[preset] if job.spec.training.save_epochs}
        assert saved == {f"m-forda-{fakes}-{kind}-0" for fakes in ("zeros", "noise") for kind in ("learned", "complete")}


def test_the_paper_s_runs_train_until_validation_has_levelled_off():
    for job in GRIDS["paper"]:
        assert job.spec.training.level_gain == 0.002
        assert job.spec.training.min_epochs >= 5


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("seeds", [1, 3, 7])
def test_the_number_of_seeds_can_be_set_for_all(preset, seeds):
    found = counts(paper_grid(preset, seeds=seeds))
    assert found.keys() == counts(GRIDS[preset]).keys()
    assert set(found.values()) == {seeds}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("epochs", [1, 2, 1000])
def test_epochs_can_be_set_and_leave_the_warm_up_shorter(preset, epochs):
    for job in paper_grid(preset, seeds=1, epochs=epochs):
        assert job.spec.training.epochs == epochs
        assert 0 <= job.spec.training.warm_up < epochs


@pytest.mark.parametrize("preset", PRESETS)
def test_no_seeds_or_no_epochs_are_refused(preset):
    with pytest.raises(SpecError, match="seeds is 0; expected at least 1"):
        paper_grid(preset, seeds=0)
    with pytest.raises(SpecError, match="epochs is 0; expected at least 1"):
        paper_grid(preset, epochs=0)


# -- choosing from it


def test_words_of_one_kind_are_alternatives():
    chosen = paper_grid("paper", only=["noise", "gp"])
    assert chosen == tuple(job for job in GRIDS["paper"] if job.cell.fakes in ("noise", "gp"))


def test_words_of_several_kinds_must_all_fit():
    chosen = paper_grid("paper", only=["m-forda", "noise", "gp", "learned"])
    assert counts(chosen) == {(FORDA, fakes, False, "learned"): 5 for fakes in ("noise", "gp")}


def test_plain_and_shifted_are_told_apart():
    plain, shifted = (paper_grid("best", only=[word]) for word in ("plain", "shifted"))
    assert all(job.cell.shifted for job in shifted)
    assert not any(job.cell.shifted for job in plain)
    assert {job.cell for job in shifted} == {Cell(FORDA, "zeros", True), *MORE_CELLS}
    assert sorted(job.name for job in (*plain, *shifted)) == sorted(job.name for job in GRIDS["best"])


@pytest.mark.parametrize("preset", PRESETS)
def test_a_job_s_whole_name_chooses_it_alone(preset):
    for job in GRIDS[preset][::7]:
        assert choose(GRIDS[preset], [job.name]) == (job,)


def test_no_words_choose_everything_and_a_static_word_is_not_a_part_of_another():
    assert choose(GRIDS["best"], []) == GRIDS["best"]
    assert {job.acquirer for job in choose(GRIDS["best"], ["static"])} == {"static"}


WORDS = ("m-forda", DIGITS, "zeros", "noise", "gp", "plain", "shifted", "random", "learned", "oracle", "none")


def fitting(jobs, words):
    """What is chosen; nothing where no job fits all words, which is refused."""
    try:
        return choose(jobs, words)
    except SpecError:
        return ()


@given(st.lists(st.sampled_from(WORDS), max_size=5), st.sampled_from(WORDS), st.randoms())
@settings(deadline=None, max_examples=30)
def test_choosing_keeps_the_order_and_does_not_depend_on_that_of_the_words(words, more, rng):
    jobs = GRIDS["best"]
    chosen = fitting(jobs, words)
    assert list(chosen) == [job for job in jobs if job in set(chosen)]
    shuffled = [*words, *words]
    rng.shuffle(shuffled)
    assert fitting(jobs, shuffled) == chosen
    kinds = ({"m-forda", DIGITS}, {"zeros", "noise", "gp"}, {"plain", "shifted"}, {"random", "learned", "oracle", "none"})
    (kind,) = (kind for kind in kinds if more in kind)
    with_more = set(fitting(jobs, [*words, more]))
    if kind & set(words):  # one more alternative
        assert with_more >= set(chosen)
    else:  # one more condition
        assert with_more <= set(chosen)


@pytest.mark.parametrize("preset", PRESETS)
def test_an_unknown_word_is_refused_with_the_words_there_are(preset):
    with pytest.raises(SpecError) as caught:
        paper_grid(preset, only=["m-forda", "lerned"])
    message = str(caught.value)
    assert "--only lerned" in message
    for word in ("m-forda", DIGITS, "zeros", "noise", "gp", "plain", "shifted", "learned", "random", "complete", "static"):
        assert word in message
    assert "\n" not in message


def test_an_acquirer_of_the_other_preset_is_an_unknown_word():
    with pytest.raises(SpecError, match="--only oracle"):
        paper_grid("paper", only=["oracle"])


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
    for grid in GRIDS.values():
        assert PAPER_NUMBERS.keys() <= {(job.cell, job.acquirer) for job in grid}
