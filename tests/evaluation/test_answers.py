import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.errors import DataError
from whichwhen.evaluation.answers import answered_until, unanswered_share


def test_answers_of_a_hand_example():
    requested = np.array([[[1, 1], [1, 0]], [[0, 1], [1, 1]], [[0, 0], [0, 0]]], dtype=bool)
    answered = np.array([[[1, 0], [1, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 0]]], dtype=bool)
    assert answered_until(requested, answered).tolist() == [[False, False], [True, False], [True, True]]
    assert unanswered_share(requested, answered) == pytest.approx(2 / 6)
    assert unanswered_share(np.zeros((1, 1, 1), dtype=bool), np.zeros((1, 1, 1), dtype=bool)) is None


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 20), st.integers(1, 5), st.integers(1, 3))
def test_once_unanswered_a_series_stays_so(seed, n, steps, orders):
    rng = np.random.default_rng(seed)
    requested = rng.random((n, steps, orders)) < 0.5
    answered = requested & (rng.random(requested.shape) < 0.8)
    until = answered_until(requested, answered)
    assert (until[:, 1:] <= until[:, :-1]).all()
    assert np.array_equal(until[:, -1], ~(requested & ~answered).any((1, 2)))


def test_answers_without_a_request_and_numbers_are_refused():
    with pytest.raises(DataError, match="series 0, step 0: order 1 was answered but not requested"):
        answered_until(np.array([[[True, False]]]), np.array([[[True, True]]]))
    with pytest.raises(DataError, match="bool"):
        unanswered_share(np.ones((1, 1, 1)), np.ones((1, 1, 1)))
