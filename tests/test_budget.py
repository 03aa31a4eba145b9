import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from builders import features_of
from whichwhen.budget import PerStep, RandomPerStep, Unlimited
from whichwhen.errors import SpecError
from whichwhen.keyed import series_keys
from whichwhen.menu import Feature, Menu, Order
from whichwhen.selection import GumbelTopK, HardTopK, SequentialGumbel
from whichwhen.specs import BudgetSpec
from whichwhen.types import Reveal, Scores

MENU = Menu(tuple(features_of(3)), tuple(Order(f"o{i}", (f"x{i}",), cost) for i, cost in enumerate((0.5, 1.0, 4.0))))
COSTS = torch.from_numpy(MENU.costs)


@pytest.mark.parametrize("amount", [0, -1, 0.49, 5.6, 6, math.inf, math.nan])
def test_budgets_that_buy_nothing_or_more_than_all_are_refused(amount):
    with pytest.raises(SpecError, match="budget"):
        PerStep(amount).check(MENU)


@pytest.mark.parametrize("amount", [0.5, 1, 3, 5.5])
def test_budgets_between_the_cheapest_order_and_the_whole_menu_are_accepted(amount):
    PerStep(amount).check(MENU)


def test_per_step_offers_the_same_amount_again_whatever_was_spent():
    budget = PerStep(2)
    ledger = budget.init(torch.arange(2))
    for t in range(3):
        allowance = budget.allow(ledger, Reveal.nothing(2, 3), MENU)
        assert allowance.amount.tolist() == [2, 2]
        assert allowance.feasible.tolist() == [[True, True, False]] * 2
        request = torch.tensor([[1.0, 1, 0], [0, 0, 0]])
        ledger = budget.charge(ledger, request, request @ COSTS, torch.tensor([t, t]))
    assert ledger.spent.tolist() == [4.5, 0]


def test_unlimited_pays_for_the_whole_menu_at_any_time():
    budget = Unlimited()
    budget.check(MENU)
    ledger = budget.charge(budget.init(torch.arange(1)), torch.ones(1, 3), COSTS.sum().view(1), torch.tensor([0]))
    allowance = budget.allow(ledger, Reveal.nothing(1, 3), MENU)
    assert allowance.amount.tolist() == [5.5]
    assert allowance.feasible.all()


@settings(deadline=None, max_examples=40)
@given(requests=st.lists(st.lists(st.booleans(), min_size=3, max_size=3), max_size=6))
def test_the_ledger_holds_what_was_spent(requests):
    budget = PerStep(5.5)
    ledger = budget.init(torch.arange(1))
    for t, request in enumerate(requests):
        asked = torch.tensor([request]).float()
        ledger = budget.charge(ledger, asked, asked @ COSTS, torch.tensor([t]))
    spent = sum(cost for request in requests for cost, asked in zip(MENU.costs.tolist(), request, strict=True) if asked)
    assert ledger.spent.item() == spent


def test_a_budget_sees_what_was_revealed_and_not_the_batch():
    from inspect import signature

    assert list(signature(PerStep.allow).parameters) == ["self", "ledger", "reveal", "menu"]


@pytest.mark.parametrize(("amount", "count"), [(1, 1), (2.5, 2), (3, 3)])
def test_where_all_orders_cost_the_same_the_count_is_known(amount, count):
    menu = Menu.one_per_feature(features_of(3))
    assert PerStep(amount).allow(PerStep(amount).init(torch.arange(2)), Reveal.nothing(2, 3), menu).count == count
    assert PerStep(amount).allow(PerStep(amount).init(torch.arange(2)), Reveal.nothing(2, 3), MENU).count is None


@settings(deadline=None, max_examples=60)
@given(amount=st.floats(0.1, 9), cost=st.sampled_from([0.1, 0.25, 1.0, 3.0]), orders=st.integers(1, 6))
def test_the_count_of_an_allowance_is_how_many_orders_of_one_cost_it_pays_for(amount, cost, orders):
    features = tuple(features_of(orders))
    menu = Menu(features, tuple(Order(feature.name, (feature.name,), cost) for feature in features))
    allowance = PerStep(amount).allow(PerStep(amount).init(torch.arange(2)), Reveal.nothing(2, orders), menu)
    assert allowance.count == max(n for n in range(orders + 1) if n * cost <= amount + 1e-6 * cost)
    assert allowance.feasible.all() == (cost <= amount + 1e-6)
    everything = Unlimited().allow(Unlimited().init(torch.arange(2)), Reveal.nothing(2, orders), menu)
    assert everything.count == orders


def test_there_is_no_count_at_unequal_costs():
    assert PerStep(2).allow(PerStep(2).init(torch.arange(1)), Reveal.nothing(1, 3), MENU).count is None


# -- another budget for each series


def test_amounts_are_whole_log_uniform_and_the_same_in_any_batch():
    budget, keys = RandomPerStep(2, 6), torch.from_numpy(series_keys(0, "train", np.arange(20_000)))
    rate = budget.init(keys).rate
    counts = np.bincount(rate.long().numpy(), minlength=7)
    assert counts[:2].sum() == 0
    assert len(counts) == 7
    shares = np.diff(np.log(np.arange(2, 8))) / np.log(7 / 2)  # each amount k stands for all from k up to k + 1
    assert stats.chisquare(counts[2:], shares * len(keys)).pvalue > 1e-3
    some = torch.tensor([5, 17, 4000])
    assert torch.equal(budget.init(keys[some]).rate, rate[some])


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(0, 3))
def test_each_series_spends_exactly_its_own_amount(seed, low, more):
    menu = Menu.one_per_feature(Feature(f"x{i}") for i in range(8))
    budget = RandomPerStep(low, low + more)
    generator = torch.Generator().manual_seed(seed)
    ledger = budget.init(torch.randint(2**40, (5,), generator=generator))
    allowance = budget.allow(ledger, Reveal.nothing(5, 8), menu)
    scores = Scores(torch.randn(5, 8, generator=generator))
    for selector in (HardTopK(), GumbelTopK(), SequentialGumbel()):
        selection = selector.select(scores, allowance, torch.ones(8), generator)
        assert torch.equal(selection.request.sum(1), ledger.rate)
        assert torch.equal(
            budget.charge(ledger, selection.request, selection.request.sum(1), torch.zeros(5, dtype=torch.long)).rate,
            ledger.rate,
        )
        slow = replace(allowance, count=None)
        again = selector.select(scores, slow, torch.ones(8), noise=selection.noise)
        assert torch.equal(again.request, selection.request)


def test_a_range_that_the_menu_can_not_pay_for_is_refused():
    with pytest.raises(SpecError, match="budget 9 per step"):
        RandomPerStep(1, 9).check(Menu.one_per_feature(Feature(f"x{i}") for i in range(8)))
    with pytest.raises(SpecError, match="train-budgets is 3 2"):
        BudgetSpec(train_range=(3, 2))
