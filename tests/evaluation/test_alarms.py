import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation.alarms import alarm_threshold, detect, pad_steps

quick = settings(deadline=None, max_examples=60)

# four series of up to 5 steps; the event of A begins at step 2, that of B at step 3, that of C at step 0; D and E have none
PROBABILITIES = np.array(
    [
        [0.1, 0.2, 0.3, 0.9, 0.8],  # A: above .5 at steps 3 and 4: one step late
        [0.1, 0.7, 0.2, 0.1, 0.6],  # B: at step 1, two steps early; then at step 4, one late
        [0.3, 0.2, 0.1, 0.0, 0.0],  # C: never
        [0.1, 0.4, 0.5, 0.2, 0.9],  # D: ends after 4 steps, its .9 does not exist
        [0.2, 0.6, 0.7, 0.1, 0.1],  # E: a false alarm, 2 of its 5 steps
    ]
)
LABELS = np.array([[0, 0, 1, 1, 1], [0, 0, 0, 1, 1], [1, 1, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
LENGTHS = np.array([5, 5, 3, 4, 5])


@st.composite
def warnings(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    n, steps = draw(st.integers(2, 30)), draw(st.integers(1, 9))
    lengths = rng.integers(1, steps + 1, n)
    labels = (np.arange(steps) >= rng.integers(0, 2 * steps, n)[:, None]).astype(int)
    labels[0] = 0
    return np.round(rng.random((n, steps)), draw(st.integers(1, 3))), labels, lengths


def test_the_worked_example():
    found = detect(PROBABILITIES, LABELS, LENGTHS, 0.5)
    assert (found.n_events, found.n_free, found.n_positive_at_start) == (3, 2, 1)
    assert found.false_alarm_rate == 1 / 2
    assert found.false_alarm_rate_per_step == pytest.approx(2 / 9)
    assert found.detection_rate == pytest.approx(2 / 3)
    assert found.early_rate == pytest.approx(1 / 3)
    assert found.mean_delay == pytest.approx((1 - 2) / 2)
    assert found.median_delay == pytest.approx(-0.5)
    assert found.detection_rate_from_onset == pytest.approx(2 / 3)
    assert found.mean_delay_from_onset == found.median_delay_from_onset == 1
    assert found.to_dict()["threshold"] == 0.5


def test_the_threshold_of_the_worked_example():
    """The highest of D is .5, that of E .7: at most half of them may lie above the threshold."""
    assert alarm_threshold(PROBABILITIES, LABELS, LENGTHS, 0.5) == 0.5
    assert alarm_threshold(PROBABILITIES, LABELS, LENGTHS, 0.49) == 0.7
    assert alarm_threshold(PROBABILITIES, LABELS, LENGTHS, 0.0) == 0.7
    # nine steps: .7 .6 .5 .4 .2 .2 .1 .1 .1
    assert alarm_threshold(PROBABILITIES, LABELS, LENGTHS, 2 / 9, per="step") == 0.5
    assert alarm_threshold(PROBABILITIES, LABELS, LENGTHS, 4 / 9, per="step") == 0.2


@quick
@given(warnings(), st.floats(0, 0.99), st.sampled_from(["series", "step"]))
def test_the_rate_is_kept_where_it_was_chosen_and_no_lower_threshold_would(example, rate, per):
    threshold = alarm_threshold(*example, rate, per)
    name = "false_alarm_rate" if per == "series" else "false_alarm_rate_per_step"
    assert getattr(detect(*example, threshold), name) <= rate + 1e-9
    assert getattr(detect(*example, np.nextafter(threshold, -1)), name) > rate - 1e-9


def test_without_ties_the_share_is_the_rate():
    rng = np.random.default_rng(0)
    predicted, labels, lengths = rng.random((1000, 12)), np.zeros((1000, 12)), rng.integers(1, 13, 1000)
    for rate in (0.01, 0.1, 0.29, 0.5):
        found = detect(predicted, labels, lengths, alarm_threshold(predicted, labels, lengths, rate))
        assert found.false_alarm_rate == pytest.approx(rate)


@quick
@given(warnings(), st.floats(0, 1), st.floats(0, 1))
def test_a_lower_threshold_detects_more_and_sooner_with_more_false_alarms(example, one, other):
    low, high = (detect(*example, threshold) for threshold in sorted((one, other)))
    assert low.false_alarm_rate >= high.false_alarm_rate
    assert low.false_alarm_rate_per_step >= high.false_alarm_rate_per_step
    if low.n_events:
        assert low.detection_rate >= high.detection_rate
        assert low.early_rate >= high.early_rate
        assert low.detection_rate_from_onset >= high.detection_rate_from_onset


@quick
@given(warnings(), st.floats(0, 1))
def test_nothing_after_the_end_of_a_series_counts(example, threshold):
    predicted, labels, lengths = example
    past = np.arange(predicted.shape[1]) >= lengths[:, None]
    spoilt = detect(np.where(past, np.nan, predicted), np.where(past, 7, labels), lengths, threshold)
    assert spoilt == detect(predicted, labels, lengths, threshold)


def test_an_alarm_at_every_step_is_as_early_as_can_be():
    found = detect(np.ones((3, 5)), LABELS[:3], LENGTHS[:3], 0.5)
    assert (found.detection_rate, found.early_rate, found.mean_delay) == (1, pytest.approx(2 / 3), pytest.approx(-5 / 3))
    assert (found.detection_rate_from_onset, found.mean_delay_from_onset) == (1, 0)
    assert found.false_alarm_rate is None


def test_without_events_or_detections_there_is_no_delay():
    quiet = detect(PROBABILITIES, LABELS, LENGTHS, 1.0)
    assert (quiet.detection_rate, quiet.mean_delay, quiet.median_delay_from_onset) == (0, None, None)
    free = detect(PROBABILITIES[3:], LABELS[3:], LENGTHS[3:], 0.5)
    assert (free.n_events, free.detection_rate, free.early_rate) == (0, None, None)


def test_steps_that_are_stored_end_to_end_are_padded():
    assert pad_steps(np.array([1, 2, 3, 4]), np.array([1, 3])).tolist() == [[1, 0, 0], [2, 3, 4]]
    with pytest.raises(DataError, match="4 steps for lengths that add up to 5"):
        pad_steps(np.arange(4), np.array([2, 3]))


@pytest.mark.parametrize("rate", [-0.1, 1.0, np.nan])
def test_a_rate_is_a_share_below_1(rate):
    with pytest.raises(SpecError, match="false-alarm rate"):
        alarm_threshold(PROBABILITIES, LABELS, LENGTHS, rate)


def test_bad_input_is_named():
    with pytest.raises(DataError, match="no event-free series"):
        alarm_threshold(PROBABILITIES[:2], LABELS[:2], LENGTHS[:2], 0.1)
    with pytest.raises(DataError, match=r"lengths of shape \(2,\)"):
        detect(PROBABILITIES, LABELS, LENGTHS[:2], 0.5)
    with pytest.raises(DataError, match="lengths from 3 to 9"):
        detect(PROBABILITIES, LABELS, np.array([5, 5, 3, 4, 9]), 0.5)
    with pytest.raises(DataError, match="label 2 in series 0, step 1"):
        detect(PROBABILITIES[:1], np.array([[0, 2, 0, 0, 0]]), LENGTHS[:1], 0.5)
    with pytest.raises(DataError, match="nan in series 0, step 1"):
        detect(np.array([[0.1, np.nan]]), np.zeros((1, 2)), np.array([2]), 0.5)
    with pytest.raises(DataError, match="not logits"):
        detect(np.array([[0.1, 3.0]]), np.zeros((1, 2)), np.array([2]), 0.5)
