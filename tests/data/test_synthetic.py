import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.data import load_dataset, reference
from whichwhen.data.synthetic import TASKS, SignalTask, find_task
from whichwhen.errors import DataError, SpecError
from whichwhen.specs import DataSpec

TASK = SignalTask(about="", stride=3, first=2, n_features=5, steps=6, signal=0.5)


def test_the_carrier_moves_by_its_stride() -> None:
    assert TASK.carrier(np.arange(6)).tolist() == [2, 0, 3, 1, 4, 2]
    assert [np.flatnonzero(row).tolist() for row in TASK.real] == [[2], [0], [3], [1], [4], [2]]


@pytest.mark.parametrize("name", ["fixed", "moving"])
def test_there_is_one_carrier_at_each_step(name: str) -> None:
    real = TASKS[name].real
    assert real.shape == (12, 10)
    assert (real.sum(1) == 1).all()
    assert len(set(real.argmax(1))) == (1 if name == "fixed" else 10)


def test_only_the_carrier_carries_the_label() -> None:
    made = TASK.make("train", 4000, 0)
    signs = 2 * made.labels - 1
    values = made.values.reshape(4000, 6, 5)
    np.testing.assert_allclose((values * signs[:, None, None]).mean(0), 0.5 * TASK.real, atol=0.07)
    np.testing.assert_allclose((values - 0.5 * signs[:, None, None] * TASK.real).std(0), 1, atol=0.06)
    assert abs(signs.mean()) < 0.07


def test_series_depend_on_seed_source_and_place_alone() -> None:
    few, many = TASK.make("train", 5, 0), TASK.make("train", 9, 0)
    np.testing.assert_array_equal(many.values[: len(few.values)], few.values)
    for other in (TASK.make("test", 5, 0), TASK.make("train", 5, 1)):
        assert not (other.values == few.values).any()


def test_the_optimum_is_what_the_sum_of_the_carrier_reaches() -> None:
    made = TASK.make("test", 8000, 3)
    seen = (made.values.reshape(8000, 6, 5) * TASK.real).sum((1, 2))
    assert abs(((seen > 0) == made.labels).mean() - TASK.reference(1).optimum) < 0.015


@pytest.mark.parametrize("budget", [1, 2, 4])
def test_random_reference_is_what_random_requests_reach(budget: int) -> None:
    made = TASK.make("test", 8000, 3)
    rng = np.random.default_rng(0)
    asked = rng.random((8000, 6, 5)).argsort(-1) < budget
    seen = (made.values.reshape(8000, 6, 5) * TASK.real * asked).sum((1, 2))
    guesses = np.where(seen == 0, rng.random(8000) < 0.5, seen > 0)
    assert abs((guesses == made.labels).mean() - TASK.reference(budget).random) < 0.015


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 10), st.floats(0.1, 2))
def test_chance_random_and_optimum_are_in_order(budget: int, n_features: int, steps: int, signal: float) -> None:
    task = SignalTask(about="", stride=1, first=0, n_features=n_features, steps=steps, signal=signal)
    known = task.reference(budget)
    assert known.chance == 0.5
    assert 0.5 - 1e-12 <= known.random <= known.optimum + 1e-12
    if budget >= n_features:
        assert math.isclose(known.random, known.optimum)


def test_the_documented_closed_form() -> None:
    expected = 0.5 * (1 + math.erf(0.6 * math.sqrt(12) / math.sqrt(2)))
    assert math.isclose(TASKS["fixed"].reference(1).optimum, expected)


def test_a_budget_that_buys_nothing_leaves_chance() -> None:
    known = TASK.reference(0)
    assert known.random == pytest.approx(0.5)
    assert known.optimum == pytest.approx(0.5)


def test_fakes_dilute_random_requests_only() -> None:
    diluted = reference(DataSpec(name="synthetic:fixed", fakes="noise", n_fakes=10), 4)
    plain = reference(DataSpec(name="synthetic:fixed"), 2)
    assert diluted is not None
    assert plain is not None
    assert math.isclose(diluted.random, plain.random)
    assert diluted.optimum == plain.optimum


def test_archives_have_no_reference() -> None:
    assert reference(DataSpec(name="japanese-vowels"), 1) is None


def test_a_task_loads_with_fakes_that_are_not_real() -> None:
    data = load_dataset("synthetic:moving", fakes="zeros", n_fakes=3)
    assert data.provenance.real.shape == (12, 13)
    np.testing.assert_array_equal(data.provenance.real[:, :10], TASKS["moving"].real)
    assert not data.provenance.real[:, 10:].any()
    assert (len(data.train), len(data.validation), len(data.test)) == (1600, 400, 1000)
    assert data.classes == ("0", "1")


def test_a_task_cannot_be_shifted() -> None:
    with pytest.raises(SpecError, match="shift on synthetic:fixed"):
        load_dataset("synthetic:fixed", fakes="zeros", n_fakes=3, shift=True)


def test_an_unknown_task_is_told_the_known_ones() -> None:
    with pytest.raises(DataError, match=r"'mooving'.*synthetic:fixed or synthetic:moving"):
        find_task("mooving")
