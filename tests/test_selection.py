import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from whichwhen.errors import SpecError
from whichwhen.menu import slack
from whichwhen.noise import gumbel
from whichwhen.selection import Gate, HardTopK, SequentialGumbel, draw_log_prob, gate_log_odds, make_selector
from whichwhen.specs import SelectorSpec
from whichwhen.types import Allowance, Scores

EXACT = [HardTopK(), Gate(), SequentialGumbel(), SequentialGumbel(0.1)]
PENALTY = SequentialGumbel(repeat="penalty")
RELAXED = [Gate(), SequentialGumbel(), PENALTY]
ALL = [*EXACT, PENALTY]
ONE = st.just(1.0)
SCORE = st.one_of(
    st.sampled_from([0.0, 1.0, 1e30, -1e30, -math.inf]),
    st.floats(-5, 5, width=32),
    st.floats(-(2.0**100), 2.0**100, width=32),
)
COST = st.sampled_from([0.25, 0.5, 1.0, 2.0, 3.0])  # sums of these are exact


@st.composite
def choices(draw, costs=ONE, score=SCORE):
    """Scores, allowance and costs of a few series."""
    size, n_orders = draw(st.integers(1, 4)), draw(st.integers(1, 7))

    def table(element):
        return [[draw(element) for _ in range(n_orders)] for _ in range(size)]

    allowance = Allowance(
        torch.tensor([float(draw(st.integers(0, n_orders))) for _ in range(size)]),
        torch.tensor(table(st.sampled_from([True, True, True, False]))),
    )
    prices = torch.tensor([draw(costs) for _ in range(n_orders)])
    return Scores(torch.tensor(table(score))), allowance, prices, torch.Generator().manual_seed(draw(st.integers(0, 2**32)))


def drawn(selection):
    """The drawn orders of each series, without padding."""
    return [[k for k in row if k >= 0] for row in selection.order.tolist()]


def requested(selection):
    return [np.flatnonzero(row).tolist() for row in selection.request.numpy()]


def expected_fill(ranking, wanted, amount, costs, waits=False):
    """Greedy fill in plain Python: by falling score, the first on the menu among equals, skipping what does not fit.

    Where it waits, what does not fit is the end of it.
    """
    taken, left = [], amount
    for k in sorted(range(len(ranking)), key=lambda k: (-ranking[k], k)):
        if wanted[k] and costs[k] <= left:
            taken.append(k)
            left -= costs[k]
        elif wanted[k] and waits:
            break
    return taken


def expected_draws(logits, noise, wanted, amount, costs, penalty):
    """The paper's draws in plain Python, on float32 as torch has them."""
    taken, left = [], amount
    for row in noise:
        current = np.where(wanted, logits, 0).astype(np.float32)
        if penalty:
            for k in set(taken):
                current[k] -= np.float32(100) * abs(current[k])
        perturbed = current + row
        open_ = [k for k in range(len(logits)) if wanted[k] and costs[k] <= left and (penalty or k not in taken)]
        if not open_:
            break
        pick = max(open_, key=lambda k: (perturbed[k], -k))
        taken.append(pick)
        left -= costs[pick]
    return list(dict.fromkeys(taken))


def wanted_of(scores, allowance):
    return (allowance.feasible & (scores.values > -math.inf)).numpy()


@pytest.mark.parametrize("selector", EXACT, ids=repr)
@settings(deadline=None, max_examples=60)
@given(choice=choices())
def test_exactly_the_budget_is_spent_where_enough_is_wanted(selector, choice):
    scores, allowance, costs, generator = choice
    selection = selector.select(scores, allowance, costs, generator)
    wanted = wanted_of(scores, allowance)
    assert set(selection.request.unique().tolist()) <= {0.0, 1.0}
    assert not (selection.request.numpy() * ~wanted).any()
    expected = np.minimum(allowance.amount.numpy(), wanted.sum(-1))
    assert selection.request.sum(-1).tolist() == expected.tolist()


@pytest.mark.parametrize("selector", ALL, ids=repr)
@settings(deadline=None, max_examples=60)
@given(choice=choices(costs=COST))
def test_no_order_is_drawn_twice_and_the_draws_are_the_request(selector, choice):
    selection = selector.select(*choice)
    for order, request in zip(drawn(selection), requested(selection), strict=True):
        assert len(set(order)) == len(order)
        assert sorted(order) == request


@pytest.mark.parametrize("selector", EXACT, ids=repr)
@settings(deadline=None, max_examples=30)
@given(choice=choices(costs=COST))
def test_the_sequence_of_draws_stands_at_the_front(selector, choice):
    for row in selector.select(*choice).order.tolist():
        assert row == sorted(row, key=lambda k: k < 0)


@pytest.mark.parametrize("selector", ALL, ids=repr)
@settings(deadline=None, max_examples=60)
@given(choice=choices(costs=COST))
def test_never_more_than_the_amount_is_spent_at_unequal_costs(selector, choice):
    scores, allowance, costs, generator = choice
    selection = selector.select(scores, allowance, costs, generator)
    assert set(selection.request.unique().tolist()) <= {0.0, 1.0}
    assert not (selection.request.numpy() * ~wanted_of(scores, allowance)).any()
    assert (selection.request @ costs <= allowance.amount).all()


@pytest.mark.parametrize("selector", EXACT, ids=repr)
@settings(deadline=None, max_examples=60)
@given(choice=choices(costs=COST))
def test_what_is_left_pays_for_nothing_else_that_is_wanted(selector, choice):
    scores, allowance, costs, generator = choice
    selection = selector.select(scores, allowance, costs, generator)
    left = allowance.amount - selection.request @ costs
    could = torch.from_numpy(wanted_of(scores, allowance)) & (selection.request == 0) & (costs <= left.unsqueeze(-1))
    assert not could.any()


@pytest.mark.parametrize("selector", ALL, ids=repr)
@settings(deadline=None, max_examples=60)
@given(choice=choices(costs=COST))
def test_relaxed_is_the_request_to_the_last_bit(selector, choice):
    scores, allowance, costs, generator = choice
    values = scores.values.requires_grad_()
    selection = selector.select(Scores(values), allowance, costs, generator)
    assert selection.relaxed.detach().numpy().tobytes() == selection.request.numpy().tobytes()
    assert not selection.request.requires_grad


@settings(deadline=None, max_examples=100)
@given(choice=choices(costs=COST), waits=st.booleans())
def test_hard_selection_is_the_greedy_fill(choice, waits):
    scores, allowance, costs, _ = choice
    found = drawn(HardTopK().select(scores, replace(allowance, waits=waits), costs))
    wanted = wanted_of(scores, allowance)
    for i, row in enumerate(scores.values.tolist()):
        assert found[i] == expected_fill(row, wanted[i], allowance.amount[i].item(), costs.tolist(), waits)


@settings(deadline=None, max_examples=100)
@given(choice=choices(costs=COST), waits=st.booleans())
def test_without_a_price_the_gate_is_the_greedy_fill_of_the_perturbed_scores(choice, waits):
    scores, allowance, costs, generator = choice
    selection = Gate().select(scores, replace(allowance, waits=waits), costs, generator)
    perturbed = (scores.values + selection.noise).tolist()
    wanted = wanted_of(scores, allowance)
    for i, found in enumerate(drawn(selection)):
        assert found == expected_fill(perturbed[i], wanted[i], allowance.amount[i].item(), costs.tolist(), waits)


def test_the_paper_s_selector_refuses_to_wait():
    allowance = Allowance(torch.ones(1), torch.ones(1, 2, dtype=torch.bool), waits=True)
    with pytest.raises(SpecError, match="saved up"):
        SequentialGumbel().select(Scores(torch.zeros(1, 2)), allowance, torch.ones(2))


@pytest.mark.parametrize("repeat", ["mask", "penalty"])
@settings(deadline=None, max_examples=100)
@given(choice=choices(costs=COST))
def test_sequential_draws_follow_the_paper(repeat, choice):
    scores, allowance, costs, generator = choice
    selection = SequentialGumbel(repeat=repeat).select(scores, allowance, costs, generator)
    wanted = wanted_of(scores, allowance)
    for i, found in enumerate(drawn(selection)):
        amount = allowance.amount[i].item()
        logits, noise = scores.values[i].numpy(), selection.noise[i].numpy()
        assert found == expected_draws(logits, noise, wanted[i], amount, costs.tolist(), repeat == "penalty")


@pytest.mark.parametrize("selector", EXACT, ids=repr)
@pytest.mark.parametrize("count", range(1, 10))
def test_costs_that_do_not_add_up_exactly_still_fill_the_budget(selector, count):
    scores = Scores(torch.arange(10.0).unsqueeze(0))
    allowance = Allowance(torch.tensor([count / 10]), torch.ones(1, 10, dtype=torch.bool))
    assert selector.select(scores, allowance, torch.full((10,), 0.1)).request.sum() == count
    unequal = torch.tensor([0.1] * 9 + [0.2])
    assert float(selector.select(scores, allowance, unequal).request[0] @ unequal) == pytest.approx(count / 10)


def test_equal_scores_go_to_the_front_of_the_menu():
    allowance = Allowance(torch.tensor([2.0]), torch.tensor([[False, True, True, True]]))
    assert drawn(HardTopK().select(Scores(torch.zeros(1, 4)), allowance, torch.ones(4))) == [[1, 2]]


@st.composite
def shared_choices(draw):
    """Scores and an allowance of the same number of orders for everyone, any of them, at one cost."""
    size, n_orders = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    spread = st.floats(-5, 5, width=32)
    score = draw(st.sampled_from([SCORE, spread]))  # among the wide ones there is nearly always a tie or a -inf
    scores = torch.tensor([[draw(score) for _ in range(n_orders)] for _ in range(size)])
    count, cost = draw(st.integers(0, n_orders)), draw(COST)
    allowance = Allowance(torch.full((size,), count * cost), torch.ones(size, n_orders, dtype=torch.bool))
    return scores, allowance, count, torch.full((n_orders,), cost), draw(st.integers(0, 2**32))


@pytest.mark.parametrize("selector", ALL, ids=repr)
@settings(deadline=None, max_examples=60)
@given(choice=shared_choices())
def test_a_known_count_is_a_short_cut_to_the_same_selection_and_gradient(selector, choice):
    values, allowance, count, costs, seed = choice
    found = []
    for known in (None, count):
        scores = values.clone().requires_grad_()
        selection = selector.select(Scores(scores), replace(allowance, count=known), costs, torch.Generator().manual_seed(seed))
        weights = torch.arange(1.0, values.shape[1] + 1)
        total = (selection.relaxed * weights).sum()
        gradient = torch.autograd.grad(total, scores)[0] if total.requires_grad else torch.zeros_like(scores)
        found.append((selection.request, selection.relaxed, selection.order, gradient))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("selector", RELAXED, ids=repr)
@settings(deadline=None, max_examples=30)
@given(choice=choices(costs=COST))
def test_replay_with_the_recorded_noise_gives_the_same_selection(selector, choice):
    scores, allowance, costs, generator = choice
    first = selector.select(scores, allowance, costs, generator)
    again = selector.select(scores, allowance, costs, noise=first.noise)
    for name in ("request", "relaxed", "order", "noise"):
        assert torch.equal(getattr(first, name), getattr(again, name))


def test_temperature_changes_the_gradient_and_not_the_choice():
    scores = torch.randn(50, 6, generator=torch.Generator().manual_seed(0)).requires_grad_()
    allowance = Allowance(torch.full((50,), 2.0), torch.ones(50, 6, dtype=torch.bool))
    weights = torch.arange(6.0)
    requests, gradients = [], []
    for temperature in (0.5, 5.0):
        selector = make_selector(SelectorSpec(kind="sequential", temperature=temperature))
        selection = selector.select(Scores(scores), allowance, torch.ones(6), torch.Generator().manual_seed(1))
        requests.append(selection.request)
        gradients.append(torch.autograd.grad((selection.relaxed @ weights).sum(), scores)[0])
    assert torch.equal(*requests)
    assert not torch.allclose(*gradients)


@pytest.mark.parametrize("selector", RELAXED, ids=repr)
def test_noise_comes_from_the_generator_alone(selector):
    scores = Scores(torch.zeros(20, 6))
    allowance = Allowance(torch.full((20,), 2.0), torch.ones(20, 6, dtype=torch.bool))

    def orders(seed):
        torch.manual_seed(torch.randint(1000, ()).item())
        return selector.select(scores, allowance, torch.ones(6), torch.Generator().manual_seed(seed)).order

    assert torch.equal(orders(0), orders(0))
    assert not torch.equal(orders(0), orders(1))


def test_the_penalty_vanishes_with_the_logits_so_that_draws_are_lost():
    scores = Scores(torch.zeros(4000, 4))
    allowance = Allowance(torch.full((4000,), 2.0), torch.ones(4000, 4, dtype=torch.bool))
    counts = PENALTY.select(scores, allowance, torch.ones(4), torch.Generator().manual_seed(0)).request.sum(-1)
    assert set(counts.tolist()) == {1.0, 2.0}
    lost = (counts == 1).double().mean().item()  # a second draw out of 4 equal ones hits the first with probability 1/4
    assert lost == pytest.approx(1 / 4, abs=4 * math.sqrt(3 / 16 / 4000))


def test_the_penalty_keeps_large_logits_from_being_drawn_twice():
    values = torch.randn(2000, 6, generator=torch.Generator().manual_seed(0)).sign() * 3
    allowance = Allowance(torch.full((2000,), 3.0), torch.ones(2000, 6, dtype=torch.bool))
    request = PENALTY.select(Scores(values), allowance, torch.ones(6), torch.Generator().manual_seed(0)).request
    assert (request.sum(-1) == 3).all()


# -- distribution


def plackett_luce(logits, picks):
    """All sequences of draws without replacement, with their probabilities."""
    weights = np.exp(np.asarray(logits, dtype=np.float64))
    out = {}
    for sequence in itertools.permutations(range(len(weights)), picks):
        left, probability = weights.sum(), 1.0
        for k in sequence:
            probability *= weights[k] / left
            left -= weights[k]
        out[sequence] = probability
    return out


@pytest.mark.parametrize(("logits", "picks"), [([0.5, -1.0, 0.0, 1.0], 2), ([0.0, 2.0, 1.0], 3), ([1.0, -0.5, 0.0], 1)])
def test_sampling_frequencies_match_the_closed_form(logits, picks):
    count = 20_000
    scores = Scores(torch.tensor(logits).expand(count, -1))
    allowance = Allowance(torch.full((count,), float(picks)), torch.ones(count, len(logits), dtype=torch.bool))
    selection = SequentialGumbel(0.3).select(scores, allowance, torch.ones(len(logits)), torch.Generator().manual_seed(3))
    expected = plackett_luce(logits, picks)
    seen = dict.fromkeys(expected, 0)
    for row in selection.order.tolist():
        seen[tuple(row)] += 1
    result = stats.chisquare(list(seen.values()), [count * p for p in expected.values()])
    assert result.pvalue > 1e-3


def test_gumbel_noise_has_the_gumbel_distribution():
    noise = gumbel((50_000,), torch.zeros(1), torch.Generator().manual_seed(0)).double().numpy()
    assert stats.kstest(noise, "gumbel_r").pvalue > 1e-3


@settings(deadline=None, max_examples=40)
@given(logits=st.lists(st.floats(-4, 4, width=32), min_size=2, max_size=5), data=st.data())
def test_log_probabilities_are_the_closed_form_and_sum_to_one(logits, data):
    picks = data.draw(st.integers(1, len(logits)))
    expected = plackett_luce(logits, picks)
    orders = torch.tensor(list(expected))
    scores = torch.tensor(logits, dtype=torch.float64).expand(len(orders), -1)
    found = draw_log_prob(scores, orders, torch.ones(len(orders), len(logits), dtype=torch.bool))
    assert torch.allclose(found.exp(), torch.tensor(list(expected.values()), dtype=torch.float64), atol=1e-9)
    assert found.exp().sum().item() == pytest.approx(1)


def test_log_probabilities_leave_out_what_is_not_feasible_and_what_was_not_drawn():
    scores = torch.tensor([[0.3, 9.0, -0.2]]).expand(2, -1)
    feasible = torch.tensor([[True, False, True]]).expand(2, -1)
    found = draw_log_prob(scores, torch.tensor([[2, 0, -1], [0, -1, -1]]), feasible)
    total = math.exp(0.3) + math.exp(-0.2)
    assert found.tolist() == pytest.approx([math.log(math.exp(-0.2) / total), math.log(math.exp(0.3) / total)], abs=1e-5)


def test_the_score_function_has_mean_zero_and_no_nan():
    logits = torch.tensor([0.3, 9.0, -0.2, 0.8], dtype=torch.float64, requires_grad=True)
    orders = torch.tensor([[*pair, -1] for pair in itertools.permutations([0, 2, 3], 2)])
    feasible = torch.tensor([[True, False, True, True]]).expand(len(orders), -1)
    log_prob = draw_log_prob(logits.expand(len(orders), -1), orders, feasible)
    mean = torch.autograd.grad((log_prob.detach().exp() * log_prob).sum(), logits)[0]
    assert torch.allclose(mean, torch.zeros(4, dtype=torch.float64), atol=1e-12)
    every = draw_log_prob(logits.expand(1, -1), torch.tensor([[0, 2, 3, -1]]), feasible[:1])
    assert torch.isfinite(torch.autograd.grad(every.sum(), logits)[0]).all()


# -- gradient


def relaxed_gradient(selector, values, allowance, weights, noise=None):
    values = values.clone().requires_grad_()
    selection = selector.select(
        Scores(values), allowance, torch.ones(values.shape[-1]), torch.Generator().manual_seed(5), noise
    )
    return torch.autograd.grad((selection.relaxed * weights).sum(), values)[0], selection


def test_without_a_price_the_gate_has_the_gradient_of_a_sigmoid_around_the_middle_of_last_taken_and_first_left():
    generator = torch.Generator().manual_seed(0)
    values, weights = torch.randn(8, 5, generator=generator), torch.randn(8, 5, generator=generator)
    allowance = Allowance(torch.full((8,), 2.0), torch.ones(8, 5, dtype=torch.bool))
    found, selection = relaxed_gradient(Gate(), values, allowance, weights)
    perturbed = values + selection.noise
    ranked = perturbed.sort(-1, descending=True).values
    share = torch.sigmoid(perturbed - ranked[:, 1:3].mean(-1, keepdim=True))
    assert torch.allclose(found, weights * share * (1 - share), atol=1e-6)


@pytest.mark.parametrize("selector", [SequentialGumbel(0.7), SequentialGumbel(0.7, "penalty")], ids=repr)
def test_one_sequential_draw_has_the_gradient_of_the_softmax(selector):
    generator = torch.Generator().manual_seed(0)
    values, weights = torch.randn(8, 5, generator=generator), torch.randn(8, 5, generator=generator)
    allowance = Allowance(torch.ones(8), torch.ones(8, 5, dtype=torch.bool))
    found, selection = relaxed_gradient(selector, values, allowance, weights)
    plain = values.clone().requires_grad_()
    soft = torch.softmax((plain + selection.noise[:, 0]) / 0.7, -1)
    assert torch.allclose(found, torch.autograd.grad((soft * weights).sum(), plain)[0], atol=1e-6)


@pytest.mark.parametrize("repeat", ["mask", "penalty"])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
@pytest.mark.parametrize("equal_costs", [True, False])
@pytest.mark.parametrize("scale", [1.0, 0.001])  # at tiny logits the penalty lets an order be drawn twice
def test_the_gradient_of_several_draws_is_what_autograd_makes_of_the_plain_loop(repeat, temperature, equal_costs, scale):
    generator = torch.Generator().manual_seed(3)
    logits = (scale * torch.randn(64, 6, generator=generator)).requires_grad_()
    weights = torch.randn(64, 6, generator=generator)
    costs = torch.ones(6) if equal_costs else torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 1.5])
    feasible = torch.rand(64, 6, generator=generator) < 0.8
    allowance = Allowance(torch.full((64,), 3.0), feasible)
    selection = SequentialGumbel(temperature, repeat).select(Scores(logits), allowance, costs, generator)
    (gradient,) = torch.autograd.grad((selection.relaxed * weights).sum(), logits)

    left, request, relaxed = allowance.amount, torch.zeros(64, 6), torch.zeros(64, 6)
    for noise in selection.noise.unbind(-2):
        open_ = feasible & (costs <= left[:, None] + 1e-6)
        current = logits - 100 * request * logits.abs() if repeat == "penalty" else logits
        if repeat == "mask":
            open_ = open_ & (request == 0)
        rows = open_.any(-1)
        soft = torch.zeros(64, 6)
        soft[rows] = torch.softmax((current + noise)[rows].masked_fill(~open_[rows], -torch.inf) / temperature, -1)
        hard = torch.nn.functional.one_hot(soft.argmax(-1), 6) * rows[:, None]
        relaxed = relaxed + (hard + soft - soft.detach()) * (1 - relaxed)
        request = torch.maximum(request, hard.float())
        left = left - (hard * costs).sum(-1)
    assert torch.equal(selection.request, request)
    (expected,) = torch.autograd.grad((relaxed * weights).sum(), logits)
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("selector", RELAXED, ids=repr)
@settings(deadline=None, max_examples=60)
@given(choice=choices(costs=COST))
def test_gradients_are_finite_and_none_reaches_what_can_not_be_had(selector, choice):
    scores, allowance, costs, generator = choice
    values = scores.values.requires_grad_()
    selection = selector.select(Scores(values), allowance, costs, generator)
    assume(selection.order.shape[-1])  # without a draw there is no gradient
    weights = torch.linspace(-1, 1, selection.relaxed.numel()).view_as(selection.relaxed)
    gradient = torch.autograd.grad((selection.relaxed * weights).sum(), values)[0]
    assert torch.isfinite(gradient).all()
    assert not (gradient.numpy() * ~wanted_of(scores, allowance)).any()


@pytest.mark.parametrize("selector", RELAXED, ids=repr)
def test_the_gradient_asks_for_more_of_what_is_worth_more(selector):
    values = torch.zeros(200, 4)
    allowance = Allowance(torch.ones(200), torch.ones(200, 4, dtype=torch.bool))
    worth = torch.tensor([1.0, 0.0, 0.0, 0.0])
    gradient, _ = relaxed_gradient(selector, values, allowance, worth)
    assert gradient[:, 0].mean() > 0.05
    assert (gradient[:, 0] >= 0).all()


def test_hard_selection_has_no_gradient():
    values = torch.randn(2, 3).requires_grad_()
    allowance = Allowance(torch.ones(2), torch.ones(2, 3, dtype=torch.bool))
    assert not HardTopK().select(Scores(values), allowance, torch.ones(3)).relaxed.requires_grad


def test_specs_name_the_selectors():
    assert make_selector(SelectorSpec()) == Gate()
    assert make_selector(SelectorSpec(kind="sequential", temperature=2, repeat="penalty")) == SequentialGumbel(2.0, "penalty")


def test_the_paper_s_draws_take_the_first_of_equal_scores():
    noise = torch.zeros(1, 2, 4)
    selection = SequentialGumbel(repeat="mask").select(
        Scores(torch.tensor([[1.0, 3.0, 3.0, 3.0]])),
        Allowance(torch.tensor([2.0]), torch.ones(1, 4).bool()),
        torch.ones(4),
        noise=noise,
    )
    assert selection.request.tolist() == [[0, 1, 1, 0]]
    assert selection.order.tolist() == [[1, 2]]


# -- the gate


@st.composite
def gates(draw, cost=COST, least=0):
    """Log worths at prices, caps and costs of a few series."""
    size, n_orders = draw(st.integers(1, 4)), draw(st.integers(1, 7))

    def table(element):
        return [[draw(element) for _ in range(n_orders)] for _ in range(size)]

    worth = st.one_of(st.sampled_from([0.0, 1.0, -1.0]), st.floats(-4, 4, width=32))
    scores = Scores(torch.tensor(table(worth)), "log-worth")
    allowance = Allowance(
        torch.tensor([float(draw(st.integers(least, 2 * n_orders))) for _ in range(size)]),
        torch.tensor(table(st.sampled_from([True, True, True, False]))),
        price=torch.tensor([draw(st.sampled_from([0.1, 0.5, 1.0, 2.0])) for _ in range(size)]),
    )
    return scores, allowance, torch.tensor([draw(cost) for _ in range(n_orders)])


def margins(scores, allowance, costs):
    """The log worth of each order minus the log of its price times its cost, in double precision."""
    bill = allowance.price.double().unsqueeze(-1) * costs.double()
    return scores.values.double() - bill.log()


def counted(allowance, costs):
    """The same allowance as one that says how many orders each series may take, all being feasible at one cost."""
    count = (allowance.amount / costs[0] + 1e-6).floor().long().clamp(max=len(costs))
    return replace(allowance, feasible=torch.ones_like(allowance.feasible), count=count)


@settings(deadline=None, max_examples=150)
@given(choice=gates())
def test_without_noise_the_gate_asks_for_what_is_worth_its_price_the_largest_margins_first_and_skips_what_does_not_fit(choice):
    scores, allowance, costs = choice
    selection = Gate().select(scores, allowance, costs, noise=torch.zeros_like(scores.values))
    exact = margins(*choice)
    assume(((exact == 0) | (exact.abs() > 1e-5)).all())
    worth = scores.values - costs.log() - allowance.price.log().unsqueeze(-1)  # ties as they are in single precision
    for i, row in enumerate(worth.tolist()):
        feasible, amount = allowance.feasible[i].tolist(), allowance.amount[i].item()
        filled = expected_fill(row, feasible, amount, costs.tolist())
        assert requested(selection)[i] == sorted(k for k in filled if row[k] > 0)


@settings(deadline=None, max_examples=60)
@given(choice=gates())
def test_where_no_cap_binds_everything_is_asked_for_that_is_worth_more_than_its_price(choice):
    scores, allowance, costs = choice
    exact = margins(*choice)
    assume((exact.abs() > 1e-5).all())
    allowance = replace(allowance, amount=torch.full_like(allowance.amount, 100.0))
    selection = Gate().select(scores, allowance, costs, noise=torch.zeros_like(scores.values))
    assert torch.equal(selection.request > 0, (exact > 0) & allowance.feasible)
    assert torch.equal(selection.price, allowance.price)


@settings(deadline=None, max_examples=150)
@given(choice=gates(cost=ONE))
def test_at_one_cost_a_cap_bills_the_middle_of_the_last_margin_that_fits_and_the_first_that_does_not(choice):
    scores, allowance, costs = choice
    selection = Gate().select(scores, allowance, costs, noise=torch.zeros_like(scores.values))
    for i, row in enumerate(margins(*choice).tolist()):
        feasible = sorted((row[k] for k in range(len(row)) if allowance.feasible[i, k]), reverse=True)
        fits, price = int(allowance.amount[i]), allowance.price[i].item()
        binds = 0 < fits < len(feasible)
        rise = max(0.0, (feasible[fits - 1] + feasible[fits]) / 2) if binds else 0.0
        assert selection.price[i].item() == pytest.approx(price * math.exp(rise), rel=1e-4)


@settings(deadline=None, max_examples=60)
@given(choice=gates(), seed=st.integers(0, 2**32), extra=st.floats(-9, 9, width=32))
def test_what_may_not_be_asked_for_changes_neither_bill_nor_request(choice, seed, extra):
    scores, allowance, costs = choice
    noise = torch.randn(scores.values.shape, generator=torch.Generator().manual_seed(seed))
    moved = Scores(torch.where(allowance.feasible, scores.values, scores.values + extra), scores.unit)
    one, other = (Gate().select(each, allowance, costs, noise=noise) for each in (scores, moved))
    assert torch.equal(one.request, other.request)
    assert torch.equal(one.price, other.price)
    assert not (one.request * ~allowance.feasible).any()


@settings(deadline=None, max_examples=100)
@given(choice=gates(), seed=st.integers(0, 2**32))
def test_the_gate_has_the_gradient_of_a_sigmoid_at_the_noisy_margin_with_its_threshold_held_fixed(choice, seed):
    scores, allowance, costs = choice
    noise = torch.randn(scores.values.shape, generator=torch.Generator().manual_seed(seed))
    values = scores.values.clone().requires_grad_()
    selection = Gate().select(Scores(values, "log-worth"), allowance, costs, noise=noise)
    assume(selection.relaxed.requires_grad)
    weights = torch.linspace(-1, 1, values.numel()).view_as(values)
    (gradient,) = torch.autograd.grad((selection.relaxed * weights).sum(), values)
    noisy = margins(*choice) + noise
    for i, row in enumerate(noisy.tolist()):
        feasible = allowance.feasible[i].tolist()
        filled = expected_fill(row, feasible, allowance.amount[i].item(), costs.tolist())
        left = [row[k] for k in range(len(row)) if feasible[k] and k not in filled]
        limit = max(0.0, (min(row[k] for k in filled) + max(left)) / 2) if filled and left else 0.0
        for k, margin in enumerate(row):
            share = 1 / (1 + math.exp(limit - margin)) if feasible[k] else 0.0
            assert gradient[i, k].item() == pytest.approx(weights[i, k].item() * share * (1 - share), abs=1e-5)


@settings(deadline=None, max_examples=100)
@given(choice=gates())
def test_hard_selection_is_the_gate_without_noise(choice):
    scores, allowance, costs = choice
    soft = Gate().select(scores, allowance, costs, noise=torch.zeros_like(scores.values))
    assert torch.equal(HardTopK().select(scores, allowance, costs).request, soft.request)
    free = replace(allowance, price=None)
    soft = Gate().select(scores, free, costs, noise=torch.zeros_like(scores.values))
    assert torch.equal(HardTopK().select(scores, free, costs).request, soft.request)


@settings(deadline=None, max_examples=150)
@given(choice=gates(cost=ONE, least=1), quiet=st.booleans(), seed=st.integers(0, 2**32), cost=COST)
def test_a_count_for_each_series_is_a_short_cut_to_the_same_request_bill_and_gradient(choice, quiet, seed, cost):
    scores, allowance, costs = choice
    allowance, costs = replace(allowance, amount=allowance.amount * cost), costs * cost
    known = counted(allowance, costs)
    noise = torch.zeros_like(scores.values)  # without noise there are ties
    if not quiet:
        noise = torch.randn(scores.values.shape, generator=torch.Generator().manual_seed(seed))
    found = []
    for each in (known, replace(known, count=None)):
        values = scores.values.clone().requires_grad_()
        selection = Gate().select(Scores(values, "log-worth"), each, costs, noise=noise)
        weights = torch.arange(1.0, values.shape[1] + 1)
        (gradient,) = torch.autograd.grad((selection.relaxed * weights).sum(), values)
        found.append((selection.request, selection.price, gradient))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    spent = found[0][0] @ costs
    assert (spent <= known.amount + slack(known.amount)).all()


def test_a_worth_in_nats_passes_where_it_is_above_price_times_cost_and_below_nothing_never():
    scores = Scores(torch.tensor([[0.5, 0.39, 0.41, -3.0, 0.0]]), "nats")
    allowance = Allowance(torch.tensor([9.0]), torch.ones(1, 5, dtype=torch.bool), price=torch.tensor([0.2]))
    costs = torch.tensor([3.0, 2.0, 2.0, 1.0, 1.0])
    assert requested(HardTopK().select(scores, allowance, costs)) == [[2]]


def test_the_gate_s_noise_is_that_of_a_choice_between_asking_and_not_asking():
    margin = torch.tensor([-2.0, -0.5, 0.0, 1.0])
    scores = Scores(margin.expand(40_000, -1), "log-worth")
    allowance = Allowance(torch.full((40_000,), 4.0), torch.ones(40_000, 4, dtype=torch.bool), price=torch.ones(40_000))
    asked = Gate().select(scores, allowance, torch.ones(4), torch.Generator().manual_seed(0)).request.double().mean(0)
    expected = torch.sigmoid(margin.double())
    assert ((asked - expected).abs() < 4 * (expected * (1 - expected) / 40_000).sqrt()).all()


def test_a_gate_that_is_replayed_elsewhere_can_leave_the_bill_out():
    scores = Scores(torch.randn(9, 5, generator=torch.Generator().manual_seed(0)), "log-worth")
    allowance = Allowance(torch.full((9,), 2.0), torch.ones(9, 5, dtype=torch.bool), price=torch.full((9,), 0.1))
    noise = torch.randn(9, 5, generator=torch.Generator().manual_seed(1))
    one, other = (Gate(bills=bills).select(scores, allowance, torch.ones(5), noise=noise) for bills in (True, False))
    assert torch.equal(one.request, other.request)
    assert torch.equal(other.price, allowance.price)
    assert (one.price > other.price).any()


def test_the_gate_asks_as_often_as_its_log_odds_say():
    worth = torch.tensor([-2.0, 0.0, 0.5, 3.0]).repeat(20_000, 1)
    allowance = Allowance(torch.full((20_000,), 9.0), torch.ones(20_000, 4, dtype=torch.bool), price=torch.full((20_000,), 1.5))
    selection = Gate().select(
        Scores(worth, "log-worth"), allowance, torch.tensor([1.0, 1.0, 2.0, 2.0]), torch.Generator().manual_seed(0)
    )
    odds = gate_log_odds(worth, selection)
    assert torch.allclose(torch.sigmoid(odds[0]), selection.request.mean(0), atol=0.015)
    assert torch.allclose(odds[0], worth[0] - torch.tensor([1.5, 1.5, 3.0, 3.0]).log(), atol=1e-5)


@settings(deadline=None, max_examples=100)
@given(choice=gates(cost=ONE, least=1), seed=st.integers(0, 2**32))
def test_given_the_threshold_the_log_odds_say_what_the_gate_asks_for_once_the_noise_is_added(choice, seed):
    scores, allowance, costs = choice
    values = scores.values.clone().requires_grad_()
    selection = Gate().select(replace(scores, values=values), allowance, costs, torch.Generator().manual_seed(seed))
    odds = gate_log_odds(values, selection)
    noisy = (odds + selection.noise).detach()
    assume((noisy.abs() > 1e-4).all())
    assert torch.equal(selection.request > 0, noisy > 0)
    drawn = torch.isfinite(odds)
    (gradient,) = torch.autograd.grad(odds[drawn].sum(), values, allow_unused=True)
    assert torch.equal(gradient, drawn.float())
