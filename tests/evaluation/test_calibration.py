import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation.calibration import (
    COLDEST,
    HOTTEST,
    apply_temperature,
    expected_calibration_error,
    fit_temperature,
    reliability_curve,
)

quick = settings(deadline=None, max_examples=40)


@st.composite
def predictions(draw):
    """Probabilities of some classes with labels that they tell something about."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, classes = draw(st.integers(1, 80)), draw(st.integers(2, 4))
    logits = rng.standard_normal((n, classes)) * draw(st.floats(0.1, 5))
    return logits, rng.integers(0, classes, n)


def drawn(rng, logits):
    """Labels that come true as often as the logits say."""
    return (rng.random(len(logits))[:, None] > apply_temperature(logits).cumsum(1)).sum(1)


# -- bins


def test_a_hand_example_in_two_bins():
    found = reliability_curve(np.array([0.1, 0.3, 0.6, 0.8, 1.0]), np.array([0, 1, 0, 1, 1]), bins=2)
    assert found.edges.tolist() == [0, 0.5, 1]
    assert found.counts.tolist() == [2, 3]
    assert found.confidence == pytest.approx([0.2, 0.8])
    assert found.observed == pytest.approx([0.5, 2 / 3])
    assert found.expected_error == pytest.approx((2 * 0.3 + 3 * (0.8 - 2 / 3)) / 5)


def test_an_empty_bin_is_nan_in_the_curve_and_left_out_of_its_rows():
    found = reliability_curve(np.array([0.05, 0.95]), np.array([0, 1]), bins=4)
    assert np.isnan(found.observed[1:3]).all()
    assert [(row["from"], row["to"], row["count"]) for row in found.rows()] == [(0, 0.25, 1), (0.75, 1, 1)]


def test_more_than_two_classes_are_judged_by_the_predicted_one():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    found = reliability_curve(probabilities, np.array([0, 1, 2]), bins=1)
    assert found.confidence == pytest.approx([2.2 / 3])
    assert found.observed == pytest.approx([2 / 3])


@quick
@given(predictions(), st.integers(1, 12), st.sampled_from(["equal-width", "equal-mass"]))
def test_bins_hold_every_row_once_and_the_error_lies_between_the_overall_gap_and_1(example, bins, binning):
    logits, labels = example
    probabilities = apply_temperature(logits)
    found = reliability_curve(probabilities, labels, bins, binning)
    assert found.counts.sum() == len(labels)
    full = found.counts > 0
    if logits.shape[1] == 2:
        predicted, true = probabilities[:, 1], labels == 1
    else:
        predicted, true = probabilities.max(1), probabilities.argmax(1) == labels
    assert found.counts[full] @ found.confidence[full] == pytest.approx(predicted.sum())
    assert found.counts[full] @ found.observed[full] == pytest.approx(true.sum())
    assert abs(predicted.mean() - true.mean()) - 1e-12 <= found.expected_error <= 1
    assert (found.confidence[full] <= found.edges[1:][full] + 1e-12).all()
    assert (found.confidence[full] >= found.edges[:-1][full] - 1e-12).all()


@quick
@given(predictions(), st.sampled_from(["equal-width", "equal-mass"]))
def test_a_single_bin_tells_the_overall_gap(example, binning):
    logits, labels = example
    probabilities, labels = apply_temperature(logits)[:, 1], labels > 0
    gap = abs(probabilities.mean() - labels.mean())
    assert expected_calibration_error(probabilities, labels, 1, binning) == pytest.approx(gap)


def test_bins_of_equal_mass_hold_equally_many():
    rng = np.random.default_rng(0)
    found = reliability_curve(rng.random(1000) ** 4, rng.integers(0, 2, 1000), 8, "equal-mass")
    assert len(found.counts) == 8
    assert np.ptp(found.counts) <= 1


@pytest.mark.parametrize("binning", ["equal-width", "equal-mass"])
def test_equal_predictions_share_a_bin(binning):
    found = reliability_curve(np.array([0.2] * 9 + [0.9]), np.array([0] * 9 + [1]), 5, binning)
    assert sorted(found.counts[found.counts > 0]) == [1, 9]
    constant = reliability_curve(np.full(6, 0.25), np.array([0, 1, 0, 0, 0, 1]), 5, binning)
    assert constant.expected_error == pytest.approx(1 / 3 - 1 / 4)


def test_a_whole_weight_is_a_repetition_in_fixed_bins():
    rng = np.random.default_rng(1)
    probabilities, labels, times = rng.random(50), rng.integers(0, 2, 50), rng.integers(0, 3, 50)
    found = expected_calibration_error(probabilities, labels, weights=times.astype(float))
    assert found == pytest.approx(expected_calibration_error(probabilities.repeat(times), labels.repeat(times)))


@pytest.mark.parametrize("binning", ["equal-width", "equal-mass"])
def test_honest_probabilities_are_calibrated_and_sharpened_ones_are_not(binning):
    rng = np.random.default_rng(2)
    logits = np.stack([np.zeros(20_000), rng.standard_normal(20_000) * 1.5], 1)
    labels = drawn(rng, logits)
    assert expected_calibration_error(apply_temperature(logits), labels, 10, binning) < 0.02
    assert expected_calibration_error(apply_temperature(logits, 0.25), labels, 10, binning) > 0.1


# -- temperature


@quick
@given(predictions(), st.floats(0.05, 20))
def test_a_temperature_changes_neither_the_order_nor_the_sum(example, temperature):
    logits, _ = example
    found = apply_temperature(logits, temperature)
    assert found.sum(-1) == pytest.approx(np.ones(len(logits)))
    assert np.array_equal(found.argmax(1), logits.argmax(1))


@quick
@given(predictions())
def test_the_fit_is_never_worse_than_1_nor_than_its_neighbours(example):
    logits, labels = example
    fit = fit_temperature(logits, labels)
    assert fit.loss_after <= fit.loss_before
    assert COLDEST * 0.999 <= fit.temperature <= HOTTEST * 1.001
    rows = np.arange(len(labels))

    def loss(temperature):
        return -np.log(np.maximum(apply_temperature(logits, temperature)[rows, labels], 1e-300)).mean()

    assert fit.loss_after == pytest.approx(loss(fit.temperature), abs=1e-9)
    assert fit.loss_before == pytest.approx(loss(1.0), abs=1e-9)
    for factor in (0.9, 1.1, 0.5, 2.0):
        if COLDEST < fit.temperature * factor < HOTTEST:
            assert fit.loss_after <= loss(fit.temperature * factor) + 1e-9


@pytest.mark.parametrize("temperature", [0.4, 1.0, 3.0])
def test_the_temperature_that_spoilt_the_logits_is_found(temperature):
    rng = np.random.default_rng(3)
    honest = rng.standard_normal((20_000, 3)) * 1.5
    labels = drawn(rng, honest)
    fit = fit_temperature(honest * temperature, labels)
    assert fit.temperature == pytest.approx(temperature, rel=0.05)
    mended = apply_temperature(honest * temperature, fit.temperature)
    assert expected_calibration_error(mended, labels) < 0.02


def test_separable_classes_stop_at_the_lower_limit_and_misleading_logits_at_the_upper():
    logits, labels = np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([1, 0])
    assert fit_temperature(logits, labels).temperature == pytest.approx(COLDEST)
    assert fit_temperature(logits, 1 - labels).temperature == pytest.approx(HOTTEST)


def test_logits_that_say_nothing_keep_temperature_1():
    assert fit_temperature(np.ones((5, 3)), np.array([0, 1, 2, 0, 1])).temperature == 1


def test_huge_logits_do_not_overflow():
    logits = np.array([[1e5, 0.0], [0.0, 1e5], [1e5, 0.0]])
    fit = fit_temperature(logits, np.array([0, 1, 1]))
    assert np.isfinite([fit.loss_before, fit.loss_after]).all()
    assert fit.temperature == pytest.approx(HOTTEST)


def test_weights_of_the_fit_are_repetitions():
    rng = np.random.default_rng(4)
    logits, labels, times = rng.standard_normal((60, 2)), rng.integers(0, 2, 60), rng.integers(0, 3, 60)
    one = fit_temperature(logits, labels, times.astype(float))
    other = fit_temperature(logits.repeat(times, 0), labels.repeat(times))
    assert one.temperature == pytest.approx(other.temperature, rel=1e-6)
    assert one.loss_after == pytest.approx(other.loss_after)


# -- bad input


def test_logits_are_not_taken_for_probabilities():
    with pytest.raises(DataError, match="pass probabilities, not logits"):
        reliability_curve(np.array([0.2, 1.7]), np.array([0, 1]))


@pytest.mark.parametrize("temperature", [0.0, -1.0, np.inf, np.nan])
def test_a_temperature_is_a_positive_number(temperature):
    with pytest.raises(SpecError, match="temperature"):
        apply_temperature(np.zeros((1, 2)), temperature)


def test_no_bins_no_weight_and_flat_logits_are_refused():
    with pytest.raises(SpecError, match="0 bins"):
        reliability_curve(np.array([0.5]), np.array([1]), bins=0)
    with pytest.raises(DataError, match="all 0"):
        reliability_curve(np.array([0.5]), np.array([1]), weights=np.zeros(1))
    with pytest.raises(DataError, match="all 0"):
        fit_temperature(np.zeros((1, 2)), np.array([1]), np.zeros(1))
    with pytest.raises(DataError, match=r"\[N, C\]"):
        fit_temperature(np.zeros(3), np.array([1, 0, 1]))
