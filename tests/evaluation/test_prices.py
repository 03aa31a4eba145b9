"""Prices that are found on validation: for a mean cost, and for a total."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from builders import features_of, tiny_dataset, tiny_policy
from whichwhen.budget import Price, Total
from whichwhen.errors import BudgetWarning
from whichwhen.evaluation import evaluate
from whichwhen.evaluation.prices import find_price_of_mean_cost, find_price_of_total, mean_cost, prices_between
from whichwhen.menu import Menu, Order

PANELS = Menu(
    tuple(features_of(5)),
    (Order("a", ("x0",), 3.0), Order("b", ("x1", "x2"), 0.5), Order("c", ("x3",), 2.0), Order("d", ("x4",), 1.0)),
)
RANGE = (1e-9, 1e9)


@pytest.fixture(scope="module")
def series():
    return tiny_dataset(n_train=80).test


def policy_with(kind="learned", menu=None, **reads):
    return replace(tiny_policy(kind, menu=menu, **reads), budget=Price(0.1))


@pytest.mark.parametrize("context", [False, True], ids=["blind", "reads context"])
@pytest.mark.parametrize("menu", [None, PANELS], ids=["singles", "panels"])
def test_the_mean_cost_is_that_of_an_evaluation(menu, context, series):
    policy = policy_with(menu=menu, context=context)
    found = evaluate(policy, series)
    assert mean_cost(policy, series, batch_size=9) == pytest.approx(found.cost.sum() / found.lengths.sum())


@pytest.mark.parametrize("cap", [math.inf, 3.0])
@pytest.mark.parametrize("menu", [None, PANELS], ids=["singles", "panels"])
@pytest.mark.parametrize("within", [0.03, 0.3, 3.0])
def test_the_price_of_a_mean_cost_is_the_lowest_that_costs_no_more(within, menu, cap, series):
    policy = policy_with(menu=menu)

    def spent(at):
        return mean_cost(replace(policy, budget=Price(at, cap)), series)

    target = spent(within)  # within reach
    price = find_price_of_mean_cost(policy, series, target, *RANGE, cap)

    resolution = math.exp((math.log(RANGE[1] / RANGE[0]) + 2) / 2**14)
    assert spent(price) <= target + 1e-6
    assert spent(price / resolution**1.01) > target or price == pytest.approx(RANGE[0] / math.e)  # no lower one is tried


def test_a_mean_cost_out_of_reach_is_told_with_the_nearest_one(series):
    policy = policy_with()
    with pytest.warns(BudgetWarning, match=r"no price reaches a mean cost of 4.9 per step: more is not worth asking for"):
        price = find_price_of_mean_cost(policy, series, 4.9, 1e3, 1e4)
    assert price == pytest.approx(1e3 / math.e)
    with pytest.warns(BudgetWarning, match=r"no price reaches a mean cost of 0.01 per step: this model was not trained"):
        price = find_price_of_mean_cost(policy, series, 0.01, 1e-6, 1e-5)
    assert price == pytest.approx(1e-5 * math.e)


def two_levels(series):
    """A policy that asks for three orders at each step as long as they are cheap, and for one when they are dear."""
    policy = policy_with("table")
    with torch.no_grad():
        policy.acquirer.by_time.copy_(torch.tensor([0.0, 0.0, -5.0, -5.0, -9.0]).expand_as(policy.acquirer.by_time))
    return replace(policy, budget=Price(1e-6))


@pytest.mark.parametrize(("target", "nearest"), [(3.7, 4.0), (2.4, 2.0)])
def test_a_mean_cost_that_the_cost_jumps_over_is_told_with_the_nearest_one(target, nearest, series):
    policy = two_levels(series)
    told = pytest.warns(BudgetWarning, match=rf"the cost jumps from 2 to 4; the nearest is {nearest:g}")
    if abs(nearest - target) > 0.1 * target:
        with told:
            price = find_price_of_mean_cost(policy, series, target, 1e-5, 10.0)
    else:
        price = find_price_of_mean_cost(policy, series, target, 1e-5, 10.0)
    assert mean_cost(replace(policy, budget=Price(price)), series) == pytest.approx(nearest)


@pytest.mark.parametrize("delivered", [False, True])
def test_the_price_of_a_total_is_the_one_with_the_lowest_loss_and_the_total_is_never_exceeded(delivered, series):
    policy, total = policy_with(menu=PANELS), Total(6.0, delivered=delivered)
    prices = prices_between(1e-3, 10.0, 6)
    found = {price: evaluate(replace(policy, budget=replace(total, price=price)), series) for price in prices}
    assert len({outcome.metrics.loss for outcome in found.values()}) > 2
    assert all(outcome.cost.max() <= 6 + 1e-5 for outcome in found.values())
    best = min(prices, key=lambda price: found[price].metrics.loss)
    assert find_price_of_total(policy, series, total, prices) == best


def test_prices_are_evenly_spaced_in_their_logarithm():
    assert prices_between(1e-3, 1.0, 5) == pytest.approx([1e-3, 10**-2.25, 10**-1.5, 10**-0.75, 1])
    assert np.diff(np.log(prices_between(2.0, 7.0))) == pytest.approx(math.log(3.5) / 11)
