import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from builders import features_of
from whichwhen.budget import MeanCost, PerStep, Price, RandomPrice, Total, Unlimited, caps_up_to, default_per_step
from whichwhen.errors import SpecError
from whichwhen.keyed import series_keys
from whichwhen.menu import Menu, Order, slack
from whichwhen.selection import Gate, HardTopK
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


# -- a price, and a cap beside it


def one_each(costs, **fields):
    """One order for each feature, at these costs."""
    return Menu(tuple(features_of(len(costs))), tuple(Order(f"o{i}", (f"x{i}",), c, **fields) for i, c in enumerate(costs)))


PRICES = st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0, 4.0]), min_size=1, max_size=6)


def test_a_price_goes_with_everything_that_its_cap_pays_for():
    for cap, payable in ((math.inf, [True] * 3), (1.0, [True, True, False])):
        budget = Price(0.25, cap)
        allowance = budget.allow(budget.init(torch.arange(2)), Reveal.nothing(2, 3), MENU)
        assert allowance.price.tolist() == [0.25, 0.25]
        assert allowance.amount.tolist() == [min(cap, 5.5)] * 2
        assert allowance.feasible.tolist() == [payable] * 2


@pytest.mark.parametrize("price", [0, -1, math.inf, math.nan])
def test_prices_that_are_none_are_refused(price):
    with pytest.raises(SpecError, match="price"):
        Price(price).check(MENU)
    with pytest.raises(SpecError, match=r"budget 0\.1 per step"):
        Price(1.0, 0.1).check(MENU)


@given(costs=PRICES, share=st.floats(0.01, 2))
def test_caps_of_training_pay_for_an_order_and_go_up_to_the_largest(costs, share):
    menu = one_each(costs)
    caps = caps_up_to(share * sum(costs), menu)
    assert caps[0] >= min(costs)
    assert caps[-1] == pytest.approx(max(max(costs), min(share, 1) * sum(costs)), abs=max(costs) + 1e-6)
    assert caps[-1] <= sum(costs) + 1e-6
    assert list(caps) == sorted(caps)
    for cap in caps:
        PerStep(cap).check(menu)
    if len(set(costs)) == 1:
        assert list(caps) == [costs[0] * (i + 1) for i in range(len(caps))]


# -- another price and another cap for each series


PLAIN = one_each([1.0] * 8)


def test_prices_of_training_are_log_uniform_and_half_of_the_series_have_a_cap_each_as_likely():
    budget = RandomPrice(1e-3, 1e-1, (1.0, 2.0, 4.0), PLAIN)
    ledger = budget.init(torch.from_numpy(series_keys(0, "train", np.arange(20_000))))
    price = ledger.price.double().numpy()
    assert price.min() >= 1e-3 * (1 - 1e-5)
    assert price.max() <= 1e-1 * (1 + 1e-5)
    assert stats.kstest(np.log(price / 1e-3) / np.log(100), "uniform").pvalue > 1e-3
    caps, counts = np.unique(ledger.cap.numpy(), return_counts=True)
    assert caps.tolist() == [1, 2, 4, 8]
    assert stats.chisquare(counts, np.array([1 / 6, 1 / 6, 1 / 6, 1 / 2]) * 20_000).pvalue > 1e-3
    assert torch.equal(ledger.count.float(), ledger.cap)
    assert abs(np.corrcoef(np.log(price), ledger.cap.numpy())[0, 1]) < 0.03


@settings(deadline=None, max_examples=40)
@given(rows=st.lists(st.integers(0, 99), min_size=1, max_size=9), costs=PRICES, seed=st.integers(0, 9))
def test_a_series_has_the_same_price_and_cap_in_any_batch(rows, costs, seed):
    menu = one_each(costs)
    budget = RandomPrice(0.01, 1.0, caps_up_to(sum(costs), menu), menu, seed=seed)
    budget.check(menu)
    keys = torch.from_numpy(series_keys(0, "train", np.arange(100)))
    whole, some = budget.init(keys), budget.init(keys[rows])
    assert torch.equal(some.price, whole.price[rows])
    assert torch.equal(some.cap, whole.cap[rows])
    other = replace(budget, seed=seed + 1).init(keys)
    assert not torch.equal(other.price, whole.price)


@settings(deadline=None, max_examples=60)
@given(costs=PRICES, seed=st.integers(0, 10**6), noisy=st.booleans())
def test_no_series_spends_more_than_its_own_cap_and_all_ask_at_their_own_price(costs, seed, noisy):
    menu = one_each(costs)
    budget = RandomPrice(0.01, 1.0, caps_up_to(sum(costs) / 2, menu), menu)
    generator = torch.Generator().manual_seed(seed)
    ledger = budget.init(torch.randint(2**40, (5,), generator=generator))
    allowance = budget.allow(ledger, Reveal.nothing(5, len(costs)), menu)
    assert torch.equal(allowance.price, ledger.price)
    scores = Scores(torch.randn(5, len(costs), generator=generator), "log-worth")
    selector = Gate() if noisy else HardTopK()
    selection = selector.select(scores, allowance, torch.tensor(costs), generator)
    spent = selection.request @ torch.tensor(costs)
    assert (spent <= ledger.cap + slack(ledger.cap)).all()
    later = budget.charge(ledger, selection.request, spent, torch.zeros(5, dtype=torch.long))
    assert torch.equal(later.spent, spent)
    assert torch.equal(later.price, ledger.price)
    slow = replace(allowance, count=None, feasible=torch.tensor(costs) <= (ledger.cap + slack(ledger.cap)).unsqueeze(-1))
    again = selector.select(scores, slow, torch.tensor(costs), noise=selection.noise)
    assert torch.equal(again.request, selection.request)


def test_training_budgets_that_buy_nothing_are_refused():
    with pytest.raises(SpecError, match="budget 9 per step"):
        RandomPrice(0.1, 1.0, (1.0, 9.0), PLAIN).check(PLAIN)
    with pytest.raises(SpecError, match="price 0"):
        RandomPrice(0.0, 1.0, (1.0,), PLAIN).check(PLAIN)


# -- a mean cost that is saved up


def walk(budget, menu, scores, steps, selector=HardTopK()):  # noqa: B008 (immutable)
    """What is asked for at each step, ``[B, T, K]``, where the scores are always the same."""
    costs, size = torch.from_numpy(menu.costs), len(scores)
    ledger, asked = budget.init(torch.arange(size)), []
    for t in range(steps):
        reveal = replace(Reveal.nothing(size, len(menu.features)), time=torch.full((size,), t - 1))
        allowance = budget.allow(ledger, reveal, menu)
        request = selector.select(Scores(scores), allowance, costs).request
        ledger = budget.charge(ledger, request, request @ costs, torch.full((size,), t))
        asked.append(request)
    return torch.stack(asked, 1)


@settings(deadline=None, max_examples=80)
@given(costs=PRICES, share=st.floats(0.05, 1), cap=st.one_of(st.just(math.inf), st.floats(0.3, 1)), data=st.data())
def test_a_mean_cost_is_never_exceeded_so_far_nor_its_cap_at_any_step(costs, share, cap, data):
    menu, rate = one_each(costs), share * sum(costs)
    cap = cap if math.isinf(cap) else max(min(costs), cap * sum(costs))
    budget = MeanCost(rate, cap)
    budget.check(menu)
    scores = torch.tensor([[data.draw(st.floats(-5, 5, width=32)) for _ in costs] for _ in range(2)])
    cost = walk(budget, menu, scores, 9) @ torch.tensor(costs)
    steps = torch.arange(1, 10)
    assert (cost.cumsum(1) <= rate * steps + 1e-4).all()
    assert (cost <= cap + 1e-4).all()


def test_a_mean_cost_saves_up_for_the_order_that_is_wanted_most_and_buys_nothing_else_meanwhile():
    menu = one_each([3.0, 1.0])
    asked = walk(MeanCost(1.0), menu, torch.tensor([[2.0, 1.0]]), 6)[0]
    assert asked[:, 0].tolist() == [0, 0, 1, 0, 0, 1]
    assert asked[:, 1].sum() == 0
    turned = walk(MeanCost(1.0), menu, torch.tensor([[1.0, 2.0]]), 6)[0]
    assert turned[:, 1].tolist() == [1] * 6


@settings(deadline=None, max_examples=40)
@given(orders=st.integers(1, 12), tenths=st.integers(1, 30))
def test_at_one_cost_a_mean_cost_is_spent_as_soon_as_it_buys_an_order(orders, tenths):
    rate = min(tenths / 10, orders)
    asked = walk(MeanCost(rate), one_each([1.0] * orders), torch.arange(1.0, orders + 1).unsqueeze(0), 20)[0]
    by_now = torch.tensor([math.floor(round(rate * (t + 1), 6)) for t in range(20)])
    assert torch.equal(asked.sum(-1).cumsum(0), by_now.float())


@pytest.mark.parametrize("rate", [0, -1, 5.6, math.inf, math.nan])
def test_mean_costs_of_nothing_or_of_more_than_all_are_refused(rate):
    with pytest.raises(SpecError, match="mean cost"):
        MeanCost(rate).check(MENU)


def test_what_costs_more_than_a_cap_is_never_waited_for():
    menu = one_each([3.0, 1.0])
    asked = walk(MeanCost(1.5, 2.0), menu, torch.tensor([[2.0, 1.0]]), 6)[0]
    assert asked[:, 0].sum() == 0
    assert asked[:, 1].sum() == 6


@settings(deadline=None, max_examples=40)
@given(costs=PRICES, share=st.floats(0.3, 3), cap=st.floats(0.3, 1), over=st.sampled_from([None, 4]), data=st.data())
def test_a_total_is_never_exceeded_nor_its_cap_at_any_step(costs, share, cap, over, data):
    menu, amount = one_each(costs), max(min(costs), share * sum(costs))
    cap = max(min(costs), cap * sum(costs))
    budget = Total(amount, over=over, cap=cap, price=data.draw(st.sampled_from([None, 0.5])))
    budget.check(menu)
    scores = torch.tensor([[data.draw(st.floats(-5, 5, width=32)) for _ in costs] for _ in range(2)])
    cost = walk(budget, menu, scores, 6) @ torch.tensor(costs)
    assert (cost <= cap + 1e-4).all()
    assert (cost.sum(1) <= amount + 1e-4).all()
    if over:
        steps = torch.arange(1, 7)
        assert (cost.cumsum(1) <= amount * (steps / over).clamp(max=1) + 1e-4).all()


def test_the_default_budget_is_five_typical_orders_but_at_most_a_quarter_of_the_menu():
    assert default_per_step(one_each([2.0] * 40)) == 10
    assert default_per_step(one_each([2.0] * 8)) == 4
    assert default_per_step(one_each([1.0, 2.0, 9.0])) == 3
    assert default_per_step(one_each([7.0, 7.0])) == 7
