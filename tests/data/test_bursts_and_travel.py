"""Bursts, and results that travel."""

import numpy as np
import pytest

from whichwhen.data import load_dataset
from whichwhen.data.synthetic import TASKS
from whichwhen.data.tasks import BurstTask


def burst_of(values: np.ndarray) -> np.ndarray:
    """[N, T]: the steps after an alarm."""
    alarm = values[..., 0] > 0.5
    return np.concatenate([np.zeros((len(alarm), 1), dtype=bool), alarm[:, :-1]], 1)


def test_the_alarm_comes_a_step_before_the_burst_and_as_long():
    task = BurstTask(n_test=50)
    values = np.stack([task.make("test", 50, 0).series(i) for i in range(50)])
    assert (burst_of(values).sum(1) == task.length).all()
    means = np.where(burst_of(values)[..., None], values[..., 1:], np.nan)
    assert abs(np.nanmean(np.abs(np.nanmean(means, (1, 2))))) > 0.3


@pytest.mark.parametrize("seen", [3, 16, 24])
def test_the_sum_of_what_was_seen_of_the_burst_is_as_good_as_the_closed_form_says(seen):
    task = BurstTask()
    part = task.make("test", 4000, 1)
    values = part.padded()
    inside = burst_of(values)
    flat = values[..., 1:][inside].reshape(len(values), -1)[:, :seen]
    right = ((flat.sum(1) > 0) == part.labels).mean()
    assert right == pytest.approx(task.of_total(seen), abs=4 * 0.5 / np.sqrt(4000))


@pytest.mark.parametrize("budget", [1, 3, 8, 20])
def test_a_budget_per_step_sees_that_many_probes_of_each_step_of_the_burst(budget):
    task = BurstTask()
    assert task.reference(budget).optimum == task.of_total(min(budget, task.probes) * task.length)
    assert task.reference(budget).random == pytest.approx(task.reference(budget).optimum)


def test_random_requests_among_fakes_agree_with_a_simulation():
    task, rng = BurstTask(), np.random.default_rng(0)
    drawn = rng.hypergeometric(task.probes, 30, 2, size=(200_000, task.length)).sum(1)
    simulated = np.mean([task.accuracy(int(n)) for n in drawn])
    assert task.reference(2, fakes=30).random == pytest.approx(simulated, abs=2e-3)


def test_what_is_sampled_too_late_to_arrive_does_not_count():
    travel, nearby = TASKS["travel"], TASKS["nearby"]
    assert travel.reference(1).optimum == nearby.reference(1).optimum  # over in time for both
    assert travel.own_menu is not None
    assert {order.turnaround for order in travel.own_menu.orders} == {3}
    assert nearby.own_menu is None


def test_a_task_s_own_menu_comes_with_its_data():
    data = load_dataset("synthetic:bursts")
    assert data.menu is not None
    assert data.menu.orders[0].free
    assert load_dataset("synthetic:moving").menu is None


def test_fakes_become_orders_of_their_own_beside_a_task_s_menu():
    with_fakes, bare = (load_dataset("synthetic:bursts", fakes=kind).menu for kind in ("noise", "none"))
    assert with_fakes.orders[: len(bare.orders)] == bare.orders
    assert {order.cost for order in with_fakes.orders[len(bare.orders) :]} == {1.0}
    assert len(with_fakes.orders) == len(bare.orders) + 30
