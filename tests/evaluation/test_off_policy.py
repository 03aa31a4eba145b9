import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation.answers import answered_until
from whichwhen.evaluation.off_policy import (
    Limits,
    effective_sample_size,
    inverse_propensity_estimate,
    naive_estimate,
    restricted_estimate,
    step_estimate,
    step_weights,
)
from whichwhen.evaluation.ranking import auroc

quick = settings(deadline=None, max_examples=40)
EXACT = Limits(smallest_size=0, smallest_share=0, largest_ratio=1e9, draws=0)


@st.composite
def records(draw):
    """Requests, answers and scores of some series, with the chance of each answer."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, steps, orders = draw(st.integers(3, 40)), draw(st.integers(1, 5)), draw(st.integers(1, 3))
    requested = rng.random((n, steps, orders)) < 0.5
    chance = rng.uniform(0.5, 1, (n, steps))
    answered = requested & (rng.random(requested.shape) < 0.8)
    answered[0] = requested[0]
    return requested, answered, rng.random((n, steps)), chance


# -- identities


def test_the_weighted_mean_of_a_hand_example():
    """Of a kind that is answered with 1/4 one series stands for four; weights 1, 1, 4."""
    score, answered = np.array([1.0, 0.0, 1.0, 0.5]), np.array([True, True, True, False])
    found = inverse_propensity_estimate(score, answered, np.array([1, 1, 0.25, 0.25]), EXACT)
    assert found.value == pytest.approx(5 / 6)
    assert found.effective_sample_size == pytest.approx(36 / 18)
    assert found.weight_ratio == pytest.approx(6 / 4)
    assert (found.n, found.n_answered, found.reason) == (4, 3, "")
    assert restricted_estimate(score, answered, EXACT).value == pytest.approx(2 / 3)
    assert naive_estimate(score, 4, EXACT).value == pytest.approx(2.5 / 4)


@quick
@given(records())
def test_where_everything_is_answered_all_estimators_agree(record):
    requested, _, scores, _ = record
    score, n = scores[:, 0], len(scores)
    answered = answered_until(requested, requested)[:, -1]
    naive = naive_estimate(score, n, EXACT).value
    assert restricted_estimate(score, answered, EXACT).value == pytest.approx(naive)
    assert inverse_propensity_estimate(score, answered, np.ones(n), EXACT).value == pytest.approx(naive)


@quick
@given(records(), st.floats(0.05, 1))
def test_equal_chances_give_the_restricted_estimate(record, chance):
    requested, answered, scores, _ = record
    witness = answered_until(requested, answered)[:, -1]
    weighted = inverse_propensity_estimate(scores[:, 0], witness, np.full(len(scores), chance), EXACT)
    plain = restricted_estimate(scores[:, 0], witness, EXACT)
    assert weighted.value == pytest.approx(plain.value)
    assert weighted.effective_sample_size == pytest.approx(plain.effective_sample_size) == plain.n_answered


@quick
@given(records())
def test_scores_of_unanswered_series_do_not_matter(record):
    requested, answered, scores, chance = record
    witness = answered_until(requested, answered)[:, -1]
    score = scores[:, 0]
    one = inverse_propensity_estimate(score, witness, chance.prod(1), EXACT)
    other = inverse_propensity_estimate(np.where(witness, score, np.nan), witness, chance.prod(1), EXACT)
    assert one == other


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30))
def test_the_effective_sample_size_lies_between_1_and_n_and_ignores_scale(weights):
    found = effective_sample_size(np.array(weights))
    assert 1 - 1e-9 <= found <= len(weights) + 1e-9
    assert found == pytest.approx(effective_sample_size(7 * np.array(weights)))


def test_the_effective_sample_size_of_nothing_is_nothing():
    assert effective_sample_size(np.zeros(3)) == 0


def test_clipping_bounds_the_weights_and_enlarges_the_sample():
    rng = np.random.default_rng(0)
    answered, chance, score = np.ones(200, dtype=bool), rng.uniform(0.01, 1, 200), rng.random(200)
    plain = inverse_propensity_estimate(score, answered, chance, EXACT)
    clipped = inverse_propensity_estimate(score, answered, chance, Limits(clip=2.0, largest_ratio=1e9, draws=0))
    assert clipped.effective_sample_size > plain.effective_sample_size
    flat = inverse_propensity_estimate(score, answered, chance, Limits(clip=1.0, largest_ratio=1e9, draws=0))
    least, most = sorted((plain.value, score.mean()))
    assert least - 0.1 < flat.value < most + 0.1
    with pytest.raises(SpecError, match="at least 1"):
        Limits(clip=0.5)


# -- by step


def test_steps_of_a_hand_example():
    """Step 0 is witnessed by both series, step 1 by the first alone, which then speaks for both."""
    until = np.array([[True, True], [True, False]])
    scores = np.array([[1.0, 0.0], [0.5, 1.0]])
    assert step_weights(until, np.array([2, 2])).tolist() == [[1, 2], [1, 0]]
    found = step_estimate(scores, until, np.array([2, 2]), None, EXACT)
    assert found.value == pytest.approx((0.75 + 0.0) / 2)
    assert found.effective_sample_size == pytest.approx(16 / 10)
    shorter = step_estimate(scores, until, np.array([2, 1]), None, EXACT)
    assert shorter.value == pytest.approx((1.5 + 0.0) / 3)
    assert shorter.n_answered == 2


@quick
@given(records())
def test_weights_of_a_step_add_up_to_the_series_that_have_it(record):
    requested, answered, scores, chance = record
    lengths = np.random.default_rng(0).integers(1, scores.shape[1] + 1, len(scores))
    until = answered_until(requested, answered)
    found = step_weights(until, lengths, chance)
    valid = np.arange(scores.shape[1]) < lengths[:, None]
    witnessed = (until & valid).any(0)
    assert found.sum(0)[witnessed] == pytest.approx(valid.sum(0)[witnessed])
    assert (found[~(until & valid)] == 0).all()


@quick
@given(records())
def test_one_step_is_the_same_by_step_and_by_series(record):
    requested, answered, scores, chance = (part[:, :1] for part in record)
    until = answered_until(requested, answered)
    by_step = step_estimate(scores, until, np.ones(len(scores)), chance, EXACT)
    by_series = inverse_propensity_estimate(scores[:, 0], until[:, 0], chance[:, 0], EXACT)
    assert by_step.value == pytest.approx(by_series.value)
    assert by_step.effective_sample_size == pytest.approx(by_series.effective_sample_size)
    assert by_step.weight_ratio == pytest.approx(by_series.weight_ratio)


def test_a_step_that_nobody_witnesses_is_refused():
    until = np.array([[True, False]] * 50)
    found = step_estimate(np.ones((50, 2)), until, np.full(50, 2), None, Limits(draws=0))
    assert found.value is None
    assert "up to step 1" in found.reason


# -- refusal and intervals


def test_a_tiny_effective_sample_size_is_refused_with_its_reason():
    score, answered = np.ones(1000), np.arange(1000) < 15
    found = restricted_estimate(score, answered)
    assert (found.value, found.low, found.high, found.n_answered) == (None, None, None, 15)
    assert found.reason == "effective sample size 15.0 of 1000 series is below 20.0"
    many = restricted_estimate(np.ones(5000), np.arange(5000) < 90)
    assert many.reason.endswith("below 100.0")  # 2 % of 5000
    skewed = inverse_propensity_estimate(np.ones(100), np.ones(100, dtype=bool), np.append(np.ones(99), 1e-4))
    assert skewed.value is None
    assert skewed.effective_sample_size < 2
    assert restricted_estimate(score, np.zeros(1000, dtype=bool)).effective_sample_size == 0


def test_weights_that_do_not_add_up_are_refused():
    """Half of the series are answered, but the model says a tenth: the weights add up to five times the series."""
    answered = np.arange(400) % 2 == 0
    found = inverse_propensity_estimate(np.ones(400), answered, np.full(400, 0.1))
    assert found.value is None
    assert "5.00 times" in found.reason
    assert inverse_propensity_estimate(np.ones(400), answered, np.full(400, 0.5)).value == 1


def test_a_metric_can_be_a_function_of_the_weights():
    rng = np.random.default_rng(1)
    labels, answered = rng.integers(0, 2, 300), rng.random(300) < 0.6
    scores, chance = labels + rng.standard_normal(300), np.full(300, 0.6)
    found = inverse_propensity_estimate(lambda w: auroc(scores, labels, w), answered, chance, Limits(draws=30))
    assert found.value == pytest.approx(auroc(scores[answered], labels[answered]))
    assert found.low < found.value < found.high
    undefined = restricted_estimate(lambda w: auroc(scores, np.zeros(300), w), answered)
    assert undefined.reason == "the metric is not defined on them"


def test_intervals_narrow_with_the_number_of_series():
    rng = np.random.default_rng(2)
    widths = []
    for n in (200, 3200):
        found = restricted_estimate(rng.random(n), rng.random(n) < 0.5, Limits(draws=200))
        widths.append(found.high - found.low)
    assert widths[1] == pytest.approx(widths[0] / 4, rel=0.3)


def test_bad_propensities_and_shapes_are_named():
    with pytest.raises(DataError, match=r"propensity 0\.0 in series 1, which was answered"):
        inverse_propensity_estimate(np.ones(2), np.ones(2, dtype=bool), np.array([1.0, 0.0]))
    with pytest.raises(DataError, match=r"shape \(3,\)"):
        inverse_propensity_estimate(np.ones(2), np.ones(2, dtype=bool), np.ones(3))
    with pytest.raises(DataError, match=r"scores of shape \(3,\) for 2 series"):
        restricted_estimate(np.ones(3), np.ones(2, dtype=bool))
