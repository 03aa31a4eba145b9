"""Free and mandatory orders, panels, turnaround and rest, in the one loop."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import features_of, tiny_batch, tiny_policy
from whichwhen import rollout
from whichwhen.afterwards import read_requests, walk_then_read
from whichwhen.budget import MeanCost, PerStep, Price, Total, Unlimited
from whichwhen.contracts import Acquirer
from whichwhen.errors import SessionError
from whichwhen.menu import Menu, Order
from whichwhen.ordering import Rules
from whichwhen.predictors import make_predictor
from whichwhen.rollout import Policy, inference, roll_out
from whichwhen.selection import Gate, HardTopK, SequentialGumbel
from whichwhen.session import Session
from whichwhen.specs import PredictorSpec
from whichwhen.types import Batch, Scores

FIVE = tuple(features_of(5))
WARD = Menu(
    FIVE,
    (
        Order("pulse", ("x0",), cost=0.0, free=True),
        Order("gas", ("x1", "x2"), cost=2.0, turnaround=2),
        Order("count", ("x2", "x3"), cost=1.0, retest=3),
        Order("weight", ("x4",), cost=0.5, mandatory=True, retest=2),
        Order("culture", ("x3",), cost=1.5, turnaround=3),
    ),
)


def run(policy: Policy, batch: Batch, seed: int = 0):
    with inference(policy):
        return roll_out(policy, batch, torch.Generator().manual_seed(seed))


def ward(acquirer: str = "learned", budget: float = 3.0, menu: Menu = WARD, **more) -> Policy:
    return tiny_policy(acquirer, budget=budget, menu=menu, **more)


def holes(batch: Batch, share: float, seed: int = 0) -> Batch:
    seen = torch.rand(batch.values.shape, generator=torch.Generator().manual_seed(seed)) > share
    observed = batch.observed & seen
    return replace(batch, values=batch.values * observed, observed=observed)


def one_menu(**fields) -> Menu:
    return Menu(FIVE, (Order("a", ("x0",), **fields), *(Order(f"x{i}", (f"x{i}",)) for i in range(1, 5))))


# -- free channels


@pytest.mark.parametrize("acquirer", ["learned", "random", "static", "none", "complete"])
def test_a_free_channel_arrives_at_every_step_unasked_and_unpaid(acquirer):
    record = run(ward(acquirer), tiny_batch())
    assert torch.equal(record.reveals.mask[..., 0], record.valid.float())
    assert record.selections.request[..., 0].sum() == 0


def test_a_free_channel_arrives_only_where_the_record_holds_it():
    batch = holes(tiny_batch(), 0.5)
    record = run(ward("none"), batch)
    assert torch.equal(record.reveals.mask[..., 0] > 0, batch.observed[..., 0])


# -- what must be asked


@pytest.mark.parametrize("selector", [HardTopK(), Gate(), SequentialGumbel()])
def test_a_mandatory_order_is_asked_whenever_it_may_be_and_paid_for(selector):
    record = run(ward("none").with_selector(selector), tiny_batch())
    every_other = (torch.arange(record.valid.shape[1]) % 2 == 0) & record.valid
    assert torch.equal(record.selections.request[..., 3] > 0, every_other)
    assert torch.equal(record.cost, 0.5 * every_other)


def test_a_mandatory_order_comes_out_of_the_same_budget():
    record = run(ward(budget=1.0), tiny_batch())
    asked = record.selections.request
    assert (record.cost <= 1.0 + 1e-6).all()
    assert (asked[:, 0, 3] == 1).all()
    assert asked[:, 0, [1, 2, 4]].sum() == 0  # 0.5 is left, the cheapest of them costs 1


def test_what_was_not_drawn_has_no_place_in_the_draw_order():
    record = run(ward(budget=4.0).with_selector(Gate()), tiny_batch())
    assert not (record.steps[0].selection.order == 3).any()


# -- rest


@given(st.integers(1, 4), st.sampled_from(["learned", "random", "complete"]), st.integers(0, 50))
@settings(max_examples=25, deadline=None)
def test_two_requests_of_an_order_are_at_least_its_rest_apart(rest, acquirer, seed):
    record = run(tiny_policy(acquirer, budget=3, menu=one_menu(retest=rest), seed=seed), tiny_batch((9, 8, 4)))
    for series in record.selections.request[..., 0] > 0:
        gaps = np.diff(np.flatnonzero(series.numpy()))
        assert (gaps >= rest).all()
    if acquirer == "complete":
        assert torch.equal(record.selections.request[0, :, 0] > 0, torch.arange(9) % rest == 0)


# -- turnaround


@given(st.integers(1, 4), st.integers(0, 100), st.floats(0, 0.7))
@settings(max_examples=30, deadline=None)
def test_a_result_arrives_after_its_turnaround_with_the_value_of_its_sampling_and_its_age(steps, seed, share):
    batch = holes(tiny_batch((9, 6, 4, 9), seed=seed), share, seed)
    record = run(tiny_policy("random", budget=2, menu=one_menu(turnaround=steps), seed=seed), batch)
    asked = record.selections.request[..., 0] > 0
    reveals, late = record.reveals, steps - 1
    for series, length in enumerate(batch.lengths.tolist()):
        for t in range(length):
            sampled = t - late
            due = sampled >= 0 and bool(asked[series, sampled]) and bool(batch.observed[series, sampled, 0])
            assert bool(reveals.mask[series, t, 0]) == due
            assert reveals.values[series, t, 0] == (batch.values[series, sampled, 0] if due else 0)
            assert reveals.age[series, t, 0] == (late if due else 0)


def test_a_request_is_billed_when_it_is_sampled_also_if_the_series_ends_before_its_result():
    menu = Menu(FIVE, (Order("slow", ("x0",), cost=2.0, turnaround=9), Order("x1", ("x1",))))
    record = run(tiny_policy("complete", menu=menu), tiny_batch((4, 3)))
    assert record.cost.sum(1).tolist() == [12.0, 9.0]
    assert record.reveals.mask[..., 0].sum() == 0


def test_of_two_results_for_one_feature_the_later_sample_counts():
    menu = Menu(FIVE, (Order("slow", ("x0", "x1"), turnaround=3), Order("fast", ("x0",))))
    batch = tiny_batch((6, 6))
    record = run(tiny_policy("complete", menu=menu), batch)
    assert torch.equal(record.reveals.values[..., 0], batch.values[..., 0])
    assert torch.equal(record.reveals.values[:, 2:, 1], batch.values[:, :-2, 1])
    assert record.reveals.age[:, 2:, :2].tolist() == [[[0, 2]] * 4] * 2


def test_an_acquirer_is_told_what_is_under_way():
    rules = Rules(one_menu(turnaround=3))
    policy = tiny_policy("complete", menu=one_menu(turnaround=3))
    state = rollout.begin(policy, torch.arange(2))
    assert rules.under_way(rules.init(2)).sum() == 0
    assert rules.under_way(state.pending)[:, 0].tolist() == [1, 1]
    assert rules.under_way(state.pending)[:, 1:].sum() == 0


def test_the_gradient_reaches_a_request_through_a_late_result():
    policy = ward("learned", budget=5.0).with_selector(Gate())
    record = roll_out(policy, tiny_batch((7, 7)), torch.Generator().manual_seed(0))
    record.reveals.mask[:, 3:, 3].sum().backward()
    assert policy.acquirer.scores.weight.grad.abs().sum() > 0


# -- panels


def test_a_panel_reveals_all_that_the_record_holds_of_it():
    menu = Menu(FIVE, (Order("pair", ("x0", "x1")), Order("other", ("x1", "x2"))))
    batch = holes(tiny_batch(), 0.4)
    record = run(tiny_policy("complete", menu=menu), batch)
    wanted = batch.observed & torch.tensor([True, True, True, False, False])
    assert torch.equal(record.reveals.mask > 0, wanted)


# -- totals and prices


class Favourite(Acquirer):
    """The same scores for everyone at any time."""

    learns = False

    def __init__(self, scores: list[float]) -> None:
        super().__init__()
        self.scores = torch.tensor(scores)

    def init(self, keys):
        return {}

    def step(self, view, state):
        return Scores(self.scores.expand(len(view.reveal.values), -1)), state


@given(
    st.floats(1.0, 12),
    st.sampled_from(["learned", "random", "static", "table", "oracle"]),
    st.sampled_from([HardTopK(), Gate(), SequentialGumbel()]),
    st.sampled_from([None, 7]),
    st.integers(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_no_path_exceeds_a_total(amount, acquirer, selector, over, seed):
    policy = replace(ward(acquirer, seed=seed), budget=Total(amount, over=over), selector=selector)
    record = run(policy, tiny_batch(), seed)
    assert (record.cost.sum(1) <= amount + 1e-4).all()
    if over:
        available = amount * (torch.arange(1, record.cost.shape[1] + 1) / over).clamp(max=1)
        assert (record.cost.cumsum(1) <= available + 1e-4).all()


@given(
    st.floats(0.5, 4),
    st.sampled_from(["learned", "random", "static", "table", "oracle", "round-robin"]),
    st.sampled_from([HardTopK(), Gate()]),
    st.integers(0, 100),
)
@settings(max_examples=40, deadline=None)
def test_no_path_exceeds_a_mean_cost(rate, acquirer, selector, seed):
    record = run(replace(ward(acquirer, seed=seed), budget=MeanCost(rate), selector=selector), tiny_batch(), seed)
    assert (record.cost.cumsum(1) <= rate * torch.arange(1, record.cost.shape[1] + 1) + 1e-4).all()


@given(st.lists(st.integers(1, 100_000), min_size=1, max_size=5), st.sampled_from([None, 1, 3]))
@settings(max_examples=200, deadline=None)
def test_a_budget_that_pays_exactly_pays(cents, over):
    prices = [cent / 100 for cent in cents]
    menu = Menu(FIVE, tuple(Order(f"x{i}", (f"x{i}",), price) for i, price in enumerate(prices)))
    amount = round(sum(prices), 2)
    PerStep(amount).check(menu)
    policy = replace(tiny_policy("random", menu=menu), budget=PerStep(amount))
    assert (run(policy, tiny_batch((3,))).selections.request == 1).all()
    record = run(replace(policy, budget=Total(round(3 * amount, 2), over=over)), tiny_batch((3,)))
    assert (record.selections.request == 1).all()


def test_a_mandatory_order_is_asked_for_while_the_rest_is_saved():
    must = Order("x1", ("x1",), 1.0, mandatory=True)
    menu = Menu(FIVE, (Order("x0", ("x0",), 2.0), must, Order("x2", ("x2",), 0.5)))
    budget = MeanCost(1.75)
    policy = replace(tiny_policy("none", menu=menu), acquirer=Favourite([2.0, 0.0, 1.0]), budget=budget)
    request = run(policy, tiny_batch((4,))).selections.request[0]
    assert request[:, 1].tolist() == [1, 1, 1, 1]
    assert request[:, 0].tolist() == [0, 0, 1, 0]  # 1.75 a step, 1 of it for the mandatory one
    assert request[:2, 2].tolist() == [0, 0]


def test_where_only_deliveries_count_the_delivered_cost_stays_within_the_total_and_more_is_asked():
    batch = holes(tiny_batch((7, 7, 7, 7)), 0.7)
    menu = Menu.one_per_feature(FIVE)
    policy = replace(tiny_policy("random", menu=menu), budget=Total(4))
    asked = run(policy, batch).cost.sum(1)
    record = run(replace(policy, budget=Total(4, delivered=True)), batch)
    delivered = record.reveals.mask.sum((1, 2))
    assert (delivered <= 4).all()
    assert (asked == 4).all()
    assert (record.cost.sum(1) > 4).any()


def test_at_a_price_only_what_is_worth_more_is_asked():
    policy = tiny_policy("learned")
    policy.acquirer.unit = "nats"
    costs = torch.tensor([0.5, 1, 2, 1, 1])
    menu = Menu(FIVE, tuple(Order(f"x{i}", (f"x{i}",), float(cost)) for i, cost in enumerate(costs)))
    record = run(replace(policy, menu=menu, budget=Price(0.3)), tiny_batch())
    worth = record.scores.values / costs > 0.3
    assert torch.equal(record.selections.request > 0, worth & record.valid.unsqueeze(-1))


def test_a_higher_price_never_buys_more_at_the_first_step():
    policy = tiny_policy("learned")
    policy.acquirer.unit = "nats"
    bought = [run(replace(policy, budget=Price(price)), tiny_batch()).cost[:, 0] for price in (0.01, 0.1, 1.0, 10.0)]
    assert all((more >= fewer).all() for more, fewer in pairwise(bought))
    assert bought[0].sum() > bought[-1].sum()


# -- the same in training and online


@pytest.mark.parametrize("acquirer", ["learned", "random", "static", "round-robin"])
@pytest.mark.parametrize("budget", [PerStep(3.0), Total(9.0, over=7), MeanCost(1.5), MeanCost(1.5, 2.0), Total(6.0)])
def test_a_session_asks_and_predicts_as_the_evaluation_does(acquirer, budget):
    batch = holes(tiny_batch((7,)), 0.3)
    policy = replace(ward(acquirer), budget=budget)
    record = run(policy, batch)
    session = Session(policy, ("a", "b", "c"), np.zeros(5), np.ones(5), key=int(batch.keys[0]))
    for t in range(7):
        asked = {WARD.names[k] for k in np.flatnonzero(record.selections.request[0, t])}
        assert set(session.request) == asked
        arrived = record.reveals.mask[0, t] > 0
        assert set(session.due) >= {f"x{i}" for i in np.flatnonzero(arrived)}
        outcome = session.observe({f"x{i}": float(record.reveals.values[0, t, i]) for i in np.flatnonzero(arrived)})
        expected = torch.softmax(record.logits[0, t].double(), 0)
        assert list(outcome.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
        assert outcome.cost == pytest.approx(float(record.cost[0, t]))
    assert session.total_cost == pytest.approx(float(record.cost.sum()))


def test_a_session_is_told_how_old_a_value_is_where_a_newer_sample_failed():
    menu = Menu(FIVE, (Order("slow", ("x0",), 1.0, turnaround=3), Order("fast", ("x0", "x1"), 1.0)))
    batch = holes(tiny_batch((7,)), 0.5)
    spec = PredictorSpec(kind="conv", width=8, layers=2, carry=True)
    policy = replace(tiny_policy("complete", menu=menu), budget=Unlimited(), predictor=make_predictor(spec, 5, 3, 7).eval())
    record = run(policy, batch)
    known = {name: i for i, name in enumerate(("x0", "x1"))}
    answers = {}
    for told in (True, False):
        session = Session(policy, ("a", "b", "c"), np.zeros(5), np.ones(5), key=int(batch.keys[0]))
        answers[told] = []
        for t in range(7):
            at = record.reveals.mask[0, t] > 0
            values = {name: float(record.reveals.values[0, t, i]) for name, i in known.items() if at[i]}
            ages = {name: int(record.reveals.age[0, t, known[name]]) for name in values}
            outcome = session.observe(values, ages if told else None)
            answers[told].append(list(outcome.probabilities.values()))
    expected = torch.softmax(record.logits[0].double(), -1)
    assert np.allclose(answers[True], expected, atol=1e-5)
    assert not np.allclose(answers[False], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("ages", "says"), [({"x1": 0}, "no value"), ({"x9": 0}, "no value"), ({"x0": 1}, "0 to 0"), ({"x0": -1}, "age -1")]
)
def test_ages_that_make_no_sense_are_refused(ages, says):
    session = Session(tiny_policy("none"), ("a", "b", "c"), np.zeros(5), np.ones(5))
    with pytest.raises(SessionError, match=says):
        session.observe({"x0": 1.0}, ages)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), late=st.integers(1, 3))
def test_bills_are_what_the_ledger_keeps_where_only_deliveries_count(seed, late):
    costs = (1.0, 2.0, 0.5, 1.5, 1.0)
    waits = (late, late, 1, 1, 1)
    orders = [Order(f.name, (f.name,), cost=c, turnaround=w) for f, c, w in zip(FIVE, costs, waits, strict=True)]
    policy = replace(tiny_policy("random", menu=Menu(FIVE, tuple(orders))), budget=Total(12, delivered=True))
    batch = tiny_batch(seed=seed)
    there = torch.rand(batch.observed.shape, generator=torch.Generator().manual_seed(seed)) < 0.4
    batch = replace(batch, observed=batch.observed & there, values=batch.values * there)
    record = run(policy, batch)
    rows = batch.observed[record.series_by_row, record.time_by_row]
    selection = record.flat(lambda step: step.selection)
    kept = selection.request @ policy.rules.costs - policy.rules.unanswered(selection, record.flat(lambda step: step.reveal))
    assert torch.allclose((selection.request * policy.rules.bills(rows)).sum(-1), kept)


# -- whole series at once


ORDERS = st.lists(
    st.tuples(
        st.lists(st.sampled_from([f.name for f in FIVE]), min_size=1, max_size=3, unique=True),
        st.sampled_from([0.5, 1.0, 2.0]),
        st.sampled_from([1, 1, 2, 3, 9]),
        st.integers(1, 3),
        st.sampled_from(["", "", "free", "mandatory"]),
    ),
    min_size=1,
    max_size=6,
)
"""Panels that overlap, with delays, rests, free and mandatory orders."""


def menu_of(orders):
    """Without orders: one for each feature."""
    if not orders:
        return Menu.one_per_feature(FIVE)
    kinds = [
        Order(f"o{k}", tuple(names), 0.0 if kind == "free" else cost, late, rest, kind == "free", kind == "mandatory")
        for k, (names, cost, late, rest, kind) in enumerate(orders)
    ]
    return Menu(FIVE, tuple(kinds))


LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(lambda lengths: tuple(sorted(lengths, reverse=True)))


@given(st.one_of(st.just([]), ORDERS), LENGTHS, st.floats(0, 0.7), st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_what_arrives_in_whole_series_is_what_arrives_step_by_step(orders, lengths, share, seed):
    menu = menu_of(orders)
    batch = holes(tiny_batch(lengths, seed=seed), share, seed)
    record = run(tiny_policy("complete", menu=menu, seed=seed).with_selector(Gate()), batch, seed)
    found = Rules(menu).reveals(record.selections.request, batch)
    going = record.valid.unsqueeze(-1)
    for name in ("values", "mask", "age"):
        assert torch.equal(getattr(found, name) * going, getattr(record.reveals, name)), name
    assert torch.equal(found.time * record.valid, record.reveals.time)
    assert not (found.mask * ~going).any()


@given(st.one_of(st.just([]), ORDERS), LENGTHS, st.floats(0, 0.7), st.sampled_from(["learned", "random"]), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_reading_requests_gives_the_predictions_of_the_policy_that_made_them(orders, lengths, share, acquirer, seed):
    menu = menu_of(orders)
    batch = holes(tiny_batch(lengths, seed=seed), share, seed)
    policy = tiny_policy(acquirer, menu=menu, seed=seed)
    policy = replace(policy, budget=Price(0.3, 3.0) if acquirer == "learned" else MeanCost(2.0))
    with inference(policy):
        walked = walk_then_read(policy, batch)
        found = read_requests(policy.predictor, policy.rules, batch, walked.selections.request)
    assert found.sizes == walked.sizes
    torch.testing.assert_close(found.padded(found.logits_by_row), walked.logits, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found.final_logits, walked.final_logits, rtol=1e-5, atol=1e-5)


@given(ORDERS, st.integers(0, 1000))
@settings(max_examples=40, deadline=None)
def test_the_gradient_of_whole_series_goes_to_the_requests_whose_results_arrived(orders, seed):
    menu = menu_of(orders)
    batch = holes(tiny_batch((7, 5), seed=seed), 0.3, seed)
    rules = Rules(menu)
    requests = (torch.rand(2, 7, len(menu.orders), generator=torch.Generator().manual_seed(seed)) < 0.5).float()
    requests.requires_grad_()
    mask = rules.reveals(requests, batch).mask
    if all(order.turnaround > 7 for order in menu.orders):  # nothing arrives in time
        assert not mask.requires_grad
        return
    mask.sum().backward()
    for i, length in enumerate((7, 5)):
        for t in range(7):
            for k, order in enumerate(menu.orders):
                if t + order.turnaround - 1 >= length or not batch.observed[i, t, menu.reveals[k]].any():
                    assert requests.grad[i, t, k] == 0


def test_a_request_of_the_record_holds_what_must_be_asked_and_not_what_is_free():
    requests = torch.rand(2, 3, 5).round()
    found = Rules(WARD).with_mandatory(requests)
    assert (found[..., 0] == 0).all()
    assert (found[..., 3] == 1).all()
    assert torch.equal(found[..., [1, 2, 4]], requests[..., [1, 2, 4]])
