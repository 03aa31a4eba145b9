"""Requests that are computed once: they are those of the loop, and losses on them are those of an evaluation."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import ACQUIRERS, features_of, tiny_dataset, tiny_policy
from whichwhen.budget import MeanCost, PerStep, Price, Total
from whichwhen.evaluation import evaluate
from whichwhen.menu import Menu, Order
from whichwhen.noise import NoisePool
from whichwhen.training.requests import Requests, collect, losses_on, mixture, random_requests

PANELS = Menu(
    tuple(features_of(5)),
    (Order("a", ("x0",), 3.0), Order("b", ("x1", "x2"), 0.5), Order("c", ("x3",), 2.0), Order("d", ("x4",), 0.0, free=True)),
)


@pytest.fixture(scope="module")
def series():
    return tiny_dataset().test


def asked_by(requests, rows):
    """As evaluation keeps them: by position, a row per step."""
    lengths = np.diff(requests.offsets)[rows]
    taken = requests.take(np.asarray(rows)).bool().numpy()
    return {int(i): one[:length] for i, one, length in zip(rows, taken, lengths, strict=True)}


@pytest.mark.parametrize("menu", [None, PANELS], ids=["singles", "panels"])
@pytest.mark.parametrize("kind", ACQUIRERS)
def test_what_is_collected_is_what_an_evaluation_asks_for(kind, menu, series):
    policy = tiny_policy(kind, menu=menu, budget=3)
    found = collect(policy, series, batch_size=7)
    expected = evaluate(policy, series, samples=len(series)).samples
    rows = np.random.default_rng(0).permutation(len(series))
    assert all(np.array_equal(asked, expected[i]) for i, asked in asked_by(found, rows).items())
    assert found.n_orders == len(policy.menu.orders)


@pytest.mark.parametrize("context", [False, True], ids=["blind", "reads context"])
@pytest.mark.parametrize(
    "budget", [Price(0.2), Price(0.02, 2), Total(5.0, 0.1), Total(5.0, delivered=True, over=7), MeanCost(1.3)]
)
def test_so_it_is_under_every_budget(budget, context, series):
    seen = series.values.copy()
    seen[np.random.default_rng(0).random(seen.shape) < 0.3] = np.nan
    holes = replace(series, values=seen)
    policy = replace(tiny_policy("learned", context=context), budget=budget)
    expected = evaluate(policy, holes, samples=len(holes)).samples
    found = asked_by(collect(policy, holes), range(len(holes)))
    assert all(np.array_equal(asked, expected[i]) for i, asked in found.items())


@pytest.mark.parametrize("menu", [None, PANELS], ids=["singles", "panels"])
@pytest.mark.parametrize("kind", ["learned", "random", "static", "none"])
def test_losses_and_costs_on_them_are_those_of_the_evaluation(kind, menu, series):
    policy = tiny_policy(kind, menu=menu, budget=3)
    losses, costs = losses_on(policy, series, collect(policy, series), batch_size=9)
    found = evaluate(policy, series)
    assert losses.mean() == pytest.approx(found.metrics.loss, rel=1e-5)
    assert costs == pytest.approx(found.cost)
    for i in range(3):
        assert losses[i] == pytest.approx(evaluate(policy, series.take(np.array([i]))).metrics.loss, rel=1e-4)


def test_with_labels_for_every_step_each_series_loss_is_the_mean_over_its_steps():
    data = tiny_dataset(n_classes=2)
    rng = np.random.default_rng(0)
    series = replace(data.test, step_labels=rng.integers(0, 2, len(data.test.values)))
    policy = tiny_policy("static", n_classes=2)
    losses, _ = losses_on(policy, series, collect(policy, series))
    assert losses[3] == pytest.approx(evaluate(policy, series.take(np.array([3]))).metrics.loss, rel=1e-5)


def constant(value, lengths):
    """Two orders, of which all series ask for one throughout."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    rows = np.tile(np.array([[1 - value, value]], dtype=np.uint8), (offsets[-1], 1))
    return Requests(np.packbits(rows, axis=-1), offsets, 2)


def test_a_mixture_shows_the_first_set_that_often_and_the_others_alike():
    lengths = np.full(4000, 2)
    sets = [constant(1, lengths), constant(0, lengths), constant(0, lengths)]
    rows = np.random.default_rng(1).permutation(4000)
    for first, share in ((1.0, 1.0), (0.5, 2 / 3), (0.0, 1 / 3)):  # of the rest, the first set is as likely as any
        found = mixture(sets, first, np.random.default_rng(0), rows)
        assert found.shape == (4000, 2, 2)
        assert torch.equal(found.sum(-1), torch.ones(4000, 2))
        assert torch.equal(found[:, 0], found[:, 1])
        assert float(found[:, 0, 1].mean()) == pytest.approx(share, abs=0.03)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(0, 99))
def test_a_mixture_asks_for_nothing_after_the_end_of_a_series(lengths, seed):
    rows = np.random.default_rng(seed).permutation(len(lengths))
    found = mixture([constant(value, lengths) for value in (0, 1)], 0.5, np.random.default_rng(seed), rows)
    assert found.any(-1).sum(1).tolist() == [lengths[i] for i in rows]


@pytest.mark.parametrize("largest", [1.0, 0.5])
def test_random_requests_are_of_all_sizes_up_to_the_largest_with_one_share_for_each_series(largest):
    found = random_requests(3000, 4, 30, NoisePool(0, 1 << 20), largest)
    share = found.mean((1, 2))
    assert set(found.unique().tolist()) == {0.0, 1.0}
    assert float(share.mean()) == pytest.approx(largest / 2, abs=0.02)
    assert float(share.std()) == pytest.approx(largest / 12**0.5, rel=0.1)  # uniform, but for 120 draws each
    assert float(share.max()) <= largest + 0.15


def test_a_budget_per_step_is_spent_on_the_same_orders_in_all_series_where_nothing_reacts(series):
    policy = replace(tiny_policy("round-robin"), budget=PerStep(2))
    asked = asked_by(collect(policy, series), range(len(series)))
    longest = max(asked.values(), key=len)
    assert all(np.array_equal(one, longest[: len(one)]) for one in asked.values())
