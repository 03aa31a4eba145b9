import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.evaluation.statistics import Difference, mean_and_std, paired_difference


@st.composite
def pairs(draw, least=1, most=5):
    """Two policies on the same seeds and series: who was right where; the seeds may have test sets of other sizes."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=least, max_size=most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    one, other = draw(st.floats(0, 1)), draw(st.floats(0, 1))
    return [rng.random(n) < one for n in sizes], [rng.random(n) < other for n in sizes]


def accuracy(policy):
    """Mean over the seeds of the accuracy of each."""
    return float(np.mean([flags.mean() for flags in policy]))


def simulate(rng, n_seeds, n_series, gap, spread):
    """Two policies whose accuracy differs by ``gap`` on average, and by other amounts (``spread``) from seed to seed."""
    one, other = [], []
    for own in gap + spread * rng.standard_normal(n_seeds):
        easy = rng.random(n_series)  # hard for one is hard for the other
        other.append(easy < 0.6)
        one.append(np.where(rng.random(n_series) < 0.2, rng.random(n_series) < 0.6 + 5 * own, easy < 0.6))
    return one, other


# -- means


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20))
def test_mean_and_standard_deviation_are_those_of_a_sample(values):
    mean, std = mean_and_std(values)
    assert mean == pytest.approx(sum(values) / len(values), abs=1e-9)
    assert std == pytest.approx((sum((x - mean) ** 2 for x in values) / (len(values) - 1)) ** 0.5, abs=1e-6)


def test_a_single_value_has_no_standard_deviation():
    assert mean_and_std([0.7]) == (0.7, None)


def test_equal_values_have_a_standard_deviation_of_zero():
    assert mean_and_std([0.5, 0.5, 0.5]) == (0.5, 0.0)


# -- differences


@given(pairs())
@settings(deadline=None, max_examples=50)
def test_the_mean_is_the_difference_of_the_accuracies(both):
    one, other = both
    found = paired_difference(one, other, draws=20)
    assert found.mean == pytest.approx(accuracy(one) - accuracy(other), abs=1e-12)
    assert found.n_seeds == len(one)


@given(pairs())
@settings(deadline=None, max_examples=50)
def test_swapping_the_policies_turns_the_sign_of_the_mean(both):
    one, other = both
    assert paired_difference(one, other, draws=20).mean == -paired_difference(other, one, draws=20).mean


@given(pairs())
@settings(deadline=None, max_examples=50)
def test_the_interval_is_in_order_and_within_what_is_possible(both):
    found = paired_difference(*both, draws=200)
    assert -1 <= found.low <= found.high <= 1
    assert found.clear == (not found.low <= 0 <= found.high)


@given(pairs(least=2))
@settings(deadline=None, max_examples=50)
def test_the_interval_covers_the_mean(both):
    found = paired_difference(*both)
    assert found.low - 1e-9 <= found.mean <= found.high + 1e-9


@given(pairs())
@settings(deadline=None, max_examples=20)
def test_a_policy_does_not_differ_from_itself(both):
    one, _ = both
    assert paired_difference(one, one) == Difference(0.0, 0.0, 0.0, len(one))
    assert not paired_difference(one, one).clear


def test_always_right_against_always_wrong_is_certain():
    right, wrong = [np.ones(9, dtype=bool)] * 3, [np.zeros(9, dtype=bool)] * 3
    assert paired_difference(right, wrong) == Difference(1.0, 1.0, 1.0, 3)
    assert paired_difference(wrong, right) == Difference(-1.0, -1.0, -1.0, 3)
    assert paired_difference(right, wrong).clear
    assert paired_difference(wrong, right).clear


def test_the_same_numbers_give_the_same_interval():
    both = simulate(np.random.default_rng(0), 5, 200, 0.03, 0.01)
    np.random.seed(1)  # nothing hangs on numpy's own randomness
    assert paired_difference(*both) == paired_difference(*both)
    assert paired_difference(*both, seed=1) != paired_difference(*both)
    assert paired_difference(*both, seed=1).low == pytest.approx(paired_difference(*both).low, abs=0.01)


@given(pairs(), st.randoms())
@settings(deadline=None, max_examples=30)
def test_the_order_of_the_series_does_not_matter_as_long_as_both_have_the_same(both, rng):
    mixed = [rng.sample(range(len(flags)), len(flags)) for flags in both[0]]
    shuffled = [[flags[order] for flags, order in zip(policy, mixed, strict=True)] for policy in both]
    assert paired_difference(*shuffled, draws=50) == paired_difference(*both, draws=50)


def test_more_series_narrow_the_interval_as_the_root_of_their_number():
    widths = []
    for n in (100, 400, 1600):
        one, other = simulate(np.random.default_rng(1), 5, n, 0.0, 0.0)
        found = paired_difference(one, other)
        widths.append(found.high - found.low)
    assert widths[0] > widths[1] > widths[2]
    assert widths[0] / widths[2] == pytest.approx(4, rel=0.5)


def test_seeds_that_disagree_widen_the_interval():
    rng = np.random.default_rng(2)
    steady = paired_difference(*simulate(rng, 5, 2000, 0.02, 0.0))
    moody = paired_difference(*simulate(rng, 5, 2000, 0.02, 0.05))
    assert moody.high - moody.low > 2 * (steady.high - steady.low)


def test_series_that_are_hard_for_both_policies_cancel_out():
    """The same two accuracies: once right on the same series, once on whatever series."""
    rng = np.random.default_rng(3)
    alike, apart = [], []
    for _ in range(5):
        easy = rng.random(500)
        alike.append((easy < 0.65, easy < 0.6))
        apart.append((easy < 0.65, rng.permutation(easy) < 0.6))
    together, separate = (paired_difference(*zip(*both, strict=True)) for both in (alike, apart))
    assert together.mean == pytest.approx(separate.mean)
    assert together.high - together.low < 0.5 * (separate.high - separate.low)


def test_policies_must_have_the_same_number_of_seeds():
    flags = np.ones(4, dtype=bool)
    with pytest.raises(ValueError, match="zip"):
        paired_difference([flags, flags], [flags])


@pytest.mark.parametrize(
    ("n_seeds", "n_series", "spread"),
    [(5, 200, 0.0), (5, 200, 0.02), (20, 100, 0.03), (1, 300, 0.0)],
    ids=["series vary", "both vary", "many seeds that vary", "one seed"],
)
def test_intervals_cover_the_true_difference_about_as_often_as_they_say(n_seeds, n_series, spread):
    """Where series make most of the noise, drawing both layers errs to the safe side, and not by much."""
    rng, gap = np.random.default_rng(4), 0.03
    found = [paired_difference(*simulate(rng, n_seeds, n_series, gap, spread), draws=400) for _ in range(400)]
    assert np.mean([one.low <= gap <= one.high for one in found]) >= 0.92
    needed = 2 * 1.96 * np.std([one.mean for one in found])
    assert 0.85 < np.mean([one.high - one.low for one in found]) / needed < 1.5
