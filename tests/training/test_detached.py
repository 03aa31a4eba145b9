from dataclasses import replace

import pytest
import torch

from builders import PREDICTORS, tiny_batch, tiny_policy
from whichwhen.acquirers import LearnedAcquirer
from whichwhen.acquirers._inputs import ViewInput
from whichwhen.afterwards import walk_then_read
from whichwhen.noise import NoisePool
from whichwhen.rollout import begin, measure, roll_out
from whichwhen.selection import GumbelTopK, SequentialGumbel
from whichwhen.training import EndToEnd
from whichwhen.training.detached import DetachedView, roll_out_detached
from whichwhen.types import Hindsight, Scores

RELAXED = [GumbelTopK(), GumbelTopK(0.5), SequentialGumbel(), SequentialGumbel(repeat="penalty")]
LENGTHS = [(6, 6, 6), (6, 2, 5)]


def gradient_of(policy, record, batch):
    """Of the acquirer's parameters, and of the predictor's."""
    loss = EndToEnd(0.3).loss(record, Hindsight(batch, torch.arange(batch.size) % 3))
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
    for t in range(batch.steps):
        reveal = measure(policy, batch, state, t)
        step_logits, context, predictor_state = policy.predictor.step(reveal, state.predictor)
        logits.append(step_logits)
        acquirer = policy.acquirer
        parts = [reveal.values.detach(), reveal.mask.detach(), acquirer.inputs.time(reveal.time + 1)]
        parts += [context.detach()] if acquirer.reads_context else []
        scores = acquirer.scores(torch.relu(acquirer.hidden(torch.cat(parts, -1))))
        allowance = policy.budget.allow(state.ledger, reveal, policy.menu)
        selection = policy.selector.select(Scores(scores), allowance, torch.ones(5), generator)
        state = replace(state, predictor=predictor_state, selection=selection)
    return torch.stack(logits, 1)


def with_logits(record, logits):
    return replace(record, flat_logits=logits[record.series_by_row, record.time_by_row])


@pytest.mark.parametrize("context", [False, True], ids=["blind", "reads context"])
@pytest.mark.parametrize("selector", RELAXED, ids=repr)
@pytest.mark.parametrize("predictor", PREDICTORS)
def test_the_gradient_is_that_of_the_loop_with_the_acquirer_s_inputs_cut_off(predictor, selector, context):
    policy = tiny_policy("learned", predictor, context=context).with_selector(selector)
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
    policy = tiny_policy("learned", predictor, context=context).with_selector(selector)
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
    policy, batch = tiny_policy("learned", predictor).with_selector(GumbelTopK()), tiny_batch((6, 4, 6))
    fast, whole = roll_out_detached(policy, batch, seeded()), roll_out(policy, batch, seeded())
    assert torch.equal(fast.selections.request, whole.selections.request)
    found, full = gradient_of(policy, fast, batch), gradient_of(policy, whole, batch)
    assert any(not torch.allclose(one, other, atol=1e-4) for one, other in zip(found[0], full[0], strict=True))
    assert_close(found[1], full[1])


def test_partly_observed_series_reveal_only_what_the_record_holds():
    policy, batch = tiny_policy("learned").with_selector(GumbelTopK()), tiny_batch((6, 4, 6))
    holes = batch.observed & (torch.rand(batch.observed.shape, generator=seeded()) < 0.5)
    batch = replace(batch, observed=holes, values=batch.values * holes)
    plain = roll_out(replace(policy, acquirer=DetachedView(policy.acquirer)), batch, seeded())
    fast = roll_out_detached(policy, batch, seeded())
    assert not (fast.reveals.mask * ~holes).any()
    assert torch.equal(fast.reveals.mask, plain.reveals.mask)
    for one, other in zip(gradient_of(policy, fast, batch), gradient_of(policy, plain, batch), strict=True):
        assert_close(one, other)


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
    policy = replace(tiny_policy("learned"), acquirer=Remembering(ViewInput(5, 5, 7, 2), 8), selector=GumbelTopK())
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
    policy = tiny_policy("learned", predictor, context=context).with_selector(selector)
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
