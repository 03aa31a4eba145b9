from dataclasses import replace

import pytest
import torch

from builders import PREDICTORS, features_of, tiny_batch, tiny_policy
from whichwhen.acquirers import LearnedAcquirer, WithOwnPredictor
from whichwhen.acquirers._inputs import ViewInput, Waiting
from whichwhen.afterwards import walk_then_read
from whichwhen.budget import PerStep, Price, RandomPrice, Total, Unlimited, caps_up_to
from whichwhen.menu import Menu, Order
from whichwhen.noise import NoisePool
from whichwhen.rollout import begin, measure, roll_out
from whichwhen.selection import Gate, SequentialGumbel
from whichwhen.training import EndToEnd
from whichwhen.training.detached import DetachedView, replay, roll_out_detached, roll_out_replayed, together, walk
from whichwhen.training.objectives import Priced
from whichwhen.types import Hindsight, Scores, tree_map

PAPER = [SequentialGumbel(), SequentialGumbel(repeat="penalty")]
RELAXED = [Gate(), *PAPER]
LENGTHS = [(6, 6, 6), (6, 2, 5)]


def learned(selector, predictor="conv", **reads):
    """A policy that learns; the gate goes with log worths, the paper's selector with logits."""
    return tiny_policy("learned", predictor, gated=isinstance(selector, Gate), **reads).with_selector(selector)


def gradient_of(policy, record, batch, priced=False):
    """Of the acquirer's parameters, and of the predictor's."""
    objective = Priced(EndToEnd(0.3), policy.rules) if priced else EndToEnd(0.3)
    loss = objective.loss(record, Hindsight(batch, torch.arange(batch.size) % 3))
    acquirer, predictor = list(policy.acquirer.parameters()), list(policy.predictor.parameters())
    found = torch.autograd.grad(loss, [*acquirer, *predictor])
    return found[: len(acquirer)], found[len(acquirer) :]


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
        assert (one - other).abs().max() <= 1e-3 * other.abs().max()  # however small the gradient is


def seeded():
    return torch.Generator().manual_seed(4)


def unrolled_with_detached_inputs(policy, batch):
    """The loop written out, the acquirer's inputs cut off by hand."""
    generator = seeded()
    state, logits = begin(policy, batch.keys, generator), []
    last = torch.full((batch.size, 5), -1.0)  # when each order was asked for last
    for t in range(batch.steps):
        reveal = measure(policy, batch, state, t)
        step_logits, context, predictor_state = policy.predictor.step(reveal, state.predictor)
        logits.append(step_logits)
        acquirer = policy.acquirer
        parts = [reveal.values.detach(), reveal.mask.detach(), acquirer.inputs.time(reveal.time + 1)]
        parts += [context.detach()] if acquirer.reads_context else []
        scores = acquirer.scores(torch.relu(acquirer.hidden(torch.cat(parts, -1))))
        if acquirer.unit == "log-worth":
            last = torch.where(state.selection.request > 0, float(t), last)
            scores = scores + acquirer.waiting.weight * torch.log1p(t - last)
            scores = scores + acquirer.level(context.detach()) if acquirer.reads_context else scores
        allowance = policy.budget.allow(state.ledger, reveal, policy.menu)
        selection = policy.selector.select(Scores(scores, acquirer.unit), allowance, torch.ones(5), generator)
        state = replace(state, predictor=predictor_state, selection=selection)
    return torch.stack(logits, 1)


def with_logits(record, logits):
    return replace(record, flat_logits=logits[record.series_by_row, record.time_by_row])


@pytest.mark.parametrize("context", [False, True], ids=["blind", "reads context"])
@pytest.mark.parametrize("selector", RELAXED, ids=repr)
@pytest.mark.parametrize("predictor", PREDICTORS)
def test_the_gradient_is_that_of_the_loop_with_the_acquirer_s_inputs_cut_off(predictor, selector, context):
    policy = learned(selector, predictor, context=context)
    batch = tiny_batch((6, 6, 6))
    record = roll_out_detached(policy, batch, seeded())
    logits = unrolled_with_detached_inputs(policy, batch)
    assert torch.allclose(record.logits, logits, atol=1e-5)
    found, expected = gradient_of(policy, record, batch), gradient_of(policy, with_logits(record, logits), batch)
    assert any(part.abs().max() > 1e-5 for part in found[0])
    assert_close([*found[0], *found[1]], [*expected[0], *expected[1]])


@pytest.mark.parametrize("context", [False, True], ids=["blind", "reads context"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("selector", RELAXED, ids=repr)
@pytest.mark.parametrize("predictor", PREDICTORS)
def test_fast_is_the_plain_loop_with_detached_views(predictor, selector, lengths, context):
    policy = learned(selector, predictor, context=context)
    batch = tiny_batch(lengths)
    plain = roll_out(replace(policy, acquirer=DetachedView(policy.acquirer)), batch, seeded())
    fast = roll_out_detached(policy, batch, seeded())
    assert torch.equal(fast.selections.request, plain.selections.request)
    assert torch.equal(fast.cost, plain.cost)
    assert torch.allclose(fast.logits, plain.logits, atol=1e-5)
    for one, other in zip(gradient_of(policy, fast, batch), gradient_of(policy, plain, batch), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_the_full_gradient_is_another_one_for_the_acquirer_and_the_same_for_the_predictor(predictor):
    policy, batch = learned(Gate(), predictor), tiny_batch((6, 4, 6))
    fast, whole = roll_out_detached(policy, batch, seeded()), roll_out(policy, batch, seeded())
    assert torch.equal(fast.selections.request, whole.selections.request)
    found, full = gradient_of(policy, fast, batch), gradient_of(policy, whole, batch)
    assert any(not torch.allclose(one, other, atol=1e-4) for one, other in zip(found[0], full[0], strict=True))
    assert_close(found[1], full[1])


def test_partly_observed_series_reveal_only_what_the_record_holds():
    policy, batch = learned(Gate()), tiny_batch((6, 4, 6))
    holes = batch.observed & (torch.rand(batch.observed.shape, generator=seeded()) < 0.5)
    batch = replace(batch, observed=holes, values=batch.values * holes)
    plain = roll_out(replace(policy, acquirer=DetachedView(policy.acquirer)), batch, seeded())
    fast = roll_out_detached(policy, batch, seeded())
    assert not (fast.reveals.mask * ~holes).any()
    assert torch.equal(fast.reveals.mask, plain.reveals.mask)
    for one, other in zip(gradient_of(policy, fast, batch), gradient_of(policy, plain, batch), strict=True):
        assert_close(one, other)


# -- all decisions taken up again in one call

PANELS = Menu(
    tuple(features_of(5)),
    (Order("a", ("x0",)), Order("b", ("x1", "x2"), 0.5), Order("c", ("x3",), 2.0), Order("d", ("x4",), 0.0, free=True)),
)
SINGLES = Menu.one_per_feature(features_of(5))
BUDGETS = [PerStep(2), Unlimited(), Price(0.3), Price(0.02, 2), Total(6, 0.1), Total(4, 0.02, cap=2)]


def random_prices(menu):
    return RandomPrice(0.01, 3.0, caps_up_to(3, menu), menu)


def assert_replayed_is_detached(policy, batch):
    """Requests, bills and gradients of the quick walk are those of the other one."""
    plain, quick = roll_out_detached(policy, batch, seeded()), roll_out_replayed(policy, batch, seeded())
    assert torch.equal(quick.selections.request, plain.selections.request)
    assert torch.equal(quick.cost, plain.cost)
    assert torch.equal(quick.reveals.mask, plain.reveals.mask)
    assert torch.allclose(quick.logits, plain.logits, atol=1e-5)
    priced = plain.steps[0].selection.price is not None
    if priced:
        assert torch.allclose(quick.selections.price, plain.selections.price, rtol=1e-4)
    found, expected = (gradient_of(policy, record, batch, priced) for record in (quick, plain))
    assert any(part.abs().max() > 1e-5 for part in expected[0])
    assert_close_in_units_of_the_largest([*found[0], *found[1]], [*expected[0], *expected[1]])


def assert_close_in_units_of_the_largest(found, expected):
    """For bills at a cap's own price, which random weights drive to thousands."""
    scale = max(1.0, *(float(part.abs().max()) for part in expected))
    assert_close([part / scale for part in found], [part / scale for part in expected])


@pytest.mark.parametrize("lengths", [(6, 6, 6), (6, 5, 2, 1)], ids=str)
@pytest.mark.parametrize("budget", [*BUDGETS, None], ids=str)
@pytest.mark.parametrize("menu", [SINGLES, PANELS], ids=["singles", "panels"])
@pytest.mark.parametrize("kind", ["learned", "table"])
def test_a_walk_whose_decisions_are_taken_up_again_is_that_of_the_detached_loop(kind, menu, budget, lengths):
    policy = replace(tiny_policy(kind, menu=menu), budget=budget or random_prices(menu), selector=Gate())
    assert_replayed_is_detached(policy, tiny_batch(lengths))


@pytest.mark.parametrize("reads", ["state", "prediction"])
@pytest.mark.parametrize("predictor", PREDICTORS)
def test_so_it_is_for_every_predictor_and_for_an_acquirer_with_its_own_copy_of_it(predictor, reads):
    policy, other = (tiny_policy("learned", predictor, context=True, seed=seed) for seed in (0, 1))
    own = WithOwnPredictor(policy.acquirer, other.predictor)
    if reads == "prediction":
        torch.manual_seed(0)
        inner = LearnedAcquirer(ViewInput(5, 5, 7, 2, context_size=4), 8, Waiting(torch.eye(5)))
        own = WithOwnPredictor(inner, other.predictor, n_classes=3)
    policy = replace(policy, acquirer=own, budget=random_prices(SINGLES))
    policy = policy.with_selector(Gate())
    batch = tiny_batch((6, 5, 2))
    plain, quick = roll_out_detached(policy, batch, seeded()), roll_out_replayed(policy, batch, seeded())
    assert torch.equal(quick.selections.request, plain.selections.request)
    assert torch.allclose(quick.logits, plain.logits, atol=1e-5)
    mine = list(policy.acquirer.inner.parameters())
    losses = [Priced(EndToEnd(0.3), policy.rules).loss(one, Hindsight(batch, torch.arange(3))) for one in (quick, plain)]
    assert_close_in_units_of_the_largest(*(torch.autograd.grad(loss, mine) for loss in losses))


@pytest.mark.parametrize("menu", [SINGLES, PANELS], ids=["singles", "panels"])
@pytest.mark.parametrize("lengths", [[(6, 5, 2), (6, 4, 1)], [(2, 1), (6, 3)], [(3, 3), (3, 3)]], ids=str)
def test_batches_that_are_walked_together_are_parts_of_one_batch(lengths, menu):
    policy = replace(tiny_policy("learned", menu=menu), budget=random_prices(menu), selector=Gate())
    batches = [tiny_batch(own) for own in lengths]
    at_once = together(batches)
    order = torch.sort(at_once.lengths, descending=True, stable=True).indices
    whole_batch = tree_map(lambda tensor: tensor[order], at_once)
    whole = roll_out_replayed(policy, whole_batch, seeded())
    walked = walk(policy, batches, seeded())
    parts = [replay(policy, walked, i, batch) for i, batch in enumerate(batches)]
    place = torch.argsort(order).split([batch.size for batch in batches])
    for part, batch, own in zip(parts, batches, place, strict=True):
        assert torch.equal(part.selections.request, whole.selections.request[own, : batch.steps])
        assert torch.equal(part.reveals.mask, whole.reveals.mask[own, : batch.steps])
        assert torch.equal(part.cost, whole.cost[own, : batch.steps])
        assert torch.allclose(part.logits, whole.logits[own, : batch.steps], atol=1e-5)
    share = [batch.size / at_once.size for batch in batches]
    labels = torch.arange(at_once.size) % 3
    objective, learning = Priced(EndToEnd(0.3), policy.rules), list(policy.acquirer.parameters())
    losses = [
        weight * objective.loss(part, Hindsight(batch, labels[own]))
        for weight, part, batch, own in zip(share, parts, batches, place, strict=True)
    ]
    found = torch.autograd.grad(sum(losses), learning)
    expected = torch.autograd.grad(objective.loss(whole, Hindsight(whole_batch, labels)), learning)
    assert_close_in_units_of_the_largest(found, expected)


class Remembering(LearnedAcquirer):
    """Adds what it saw before to what it sees: an acquirer with a state that carries a gradient."""

    def init(self, keys):
        return {"seen": torch.zeros(len(keys), 5)}

    def step(self, view, state):
        gain = self.hidden.weight[0, 0]
        seen = state["seen"] * gain + view.reveal.values
        again = replace(view.reveal, values=seen)
        scores, _ = super().step(replace(view, reveal=again), {})
        return scores, {"seen": seen}


def test_an_acquirer_with_a_state_learns_through_it():
    policy = replace(tiny_policy("learned"), acquirer=Remembering(ViewInput(5, 5, 7, 2), 8), selector=Gate())
    batch = tiny_batch((6, 2, 5))
    plain = roll_out(replace(policy, acquirer=DetachedView(policy.acquirer)), batch, seeded())
    fast = roll_out_detached(policy, batch, seeded())
    assert torch.equal(fast.selections.request, plain.selections.request)
    assert_close(gradient_of(policy, fast, batch)[0], gradient_of(policy, plain, batch)[0])


def test_windows_of_a_noise_pool_are_reproducible_and_look_like_gumbel_noise():
    one, other = NoisePool(3, 1 << 18), NoisePool(3, 1 << 18)
    windows = [one.take((100, 7)) for _ in range(50)]
    assert all(torch.equal(window, other.take((100, 7))) for window in windows)
    assert not torch.equal(windows[0], NoisePool(4, 1 << 18).take((100, 7)))
    values = torch.cat(windows).double()
    assert abs(values.mean() - 0.5772) < 0.03  # Euler's constant; the standard error is .007
    assert abs(values.var() - torch.pi**2 / 6) < 0.1


def test_a_request_larger_than_the_pool_is_drawn_afresh():
    pool = NoisePool(0, 1)
    large = pool.take((1 << 15, 4))
    assert large.shape == (1 << 15, 4)
    assert not torch.equal(large, pool.take((1 << 15, 4)))


@pytest.mark.parametrize("context", [False, True], ids=["blind", "reads context"])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("selector", RELAXED)
def test_the_full_gradient_is_that_of_the_plain_loop(selector, predictor, lengths, context):
    policy = learned(selector, predictor, context=context)
    batch = tiny_batch(lengths)
    fast, plain = walk_then_read(policy, batch, seeded()), roll_out(policy, batch, seeded())
    assert torch.equal(fast.selections.request, plain.selections.request)
    assert torch.allclose(fast.logits, plain.logits, atol=1e-5)
    for one, other in zip(gradient_of(policy, fast, batch), gradient_of(policy, plain, batch), strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("context", [False, True], ids=["blind", "reads context"])
def test_only_who_reads_the_context_waits_for_the_predictor(context, monkeypatch):
    policy, steps = tiny_policy("learned", context=context), []
    own = policy.predictor.step
    monkeypatch.setattr(policy.predictor, "step", lambda *given: (steps.append(1), own(*given))[1])
    walk_then_read(policy, tiny_batch((7, 5)))
    assert len(steps) == (7 if context else 0)
