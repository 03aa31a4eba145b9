import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import ACQUIRERS, PREDICTORS, features_of, padded_parts, tiny_batch, tiny_policy, tiny_spec
from whichwhen import rollout
from whichwhen.budget import PerStep, Unlimited
from whichwhen.evaluation import evaluate
from whichwhen.menu import Menu, Order
from whichwhen.model import make_model
from whichwhen.rollout import begin, inference, measure, roll_out
from whichwhen.selection import Gate, HardTopK, SequentialGumbel
from whichwhen.training import EndToEnd, fit
from whichwhen.types import Batch, Reveal, flatten, tree_map

SELECTORS = [HardTopK(), Gate(), SequentialGumbel(), SequentialGumbel(repeat="penalty")]
KINDS = (*ACQUIRERS, "context")
LENGTHS = st.lists(st.integers(1, 8), min_size=1, max_size=4)


def run(policy, batch):
    """A rollout with the noise of one seed, where the selector draws any."""
    with inference(policy):
        return roll_out(policy, batch, torch.Generator().manual_seed(9))


def policy_of(acquirer, predictor="conv", budget=2):
    """``context`` stands for the learned acquirer that reads the predictor's context."""
    if acquirer == "context":
        return tiny_policy("learned", predictor, budget, context=True)
    return tiny_policy(acquirer, predictor, budget)


def every_policy(test):
    """With each mechanism and architecture, by hard selection; what learns also with each selector of training."""
    cases = [(acquirer, predictor, HardTopK()) for acquirer in KINDS for predictor in PREDICTORS]
    cases += [("learned", "conv", selector) for selector in SELECTORS[1:]]
    names = [f"{acquirer}-{predictor}-{selector!r}" for acquirer, predictor, selector in cases]
    return pytest.mark.parametrize(("acquirer", "predictor", "selector"), cases, ids=names)(test)


def changed(batch, where):
    """The batch with other values where asked, far away from the old ones."""
    noise = torch.randn(batch.values.shape, generator=torch.Generator().manual_seed(77)) * 1e3
    return replace(batch, values=torch.where(where, batch.values + noise, batch.values))


# -- no leakage


@every_policy
def test_values_that_were_not_revealed_change_nothing(acquirer, predictor, selector):
    policy, batch = policy_of(acquirer, predictor).with_selector(selector), tiny_batch()
    before = run(policy, batch)
    hidden = (before.reveals.mask == 0) & batch.observed
    assert hidden.any() == (acquirer != "complete")
    after = run(policy, changed(batch, hidden))
    assert torch.equal(before.selections.request, after.selections.request)
    assert torch.equal(before.logits, after.logits)
    assert torch.equal(before.scores.values, after.scores.values)


@every_policy
@pytest.mark.parametrize("t", [0, 1, 3, 6])
def test_values_from_step_t_on_change_no_request_up_to_it_and_no_prediction_before_it(acquirer, predictor, selector, t):
    policy, batch = policy_of(acquirer, predictor).with_selector(selector), tiny_batch((7, 5, 7))
    before = run(policy, batch)
    later = (torch.arange(batch.steps) >= t).view(1, -1, 1) & batch.observed
    after = run(policy, changed(batch, later))
    assert torch.equal(before.selections.request[:, : t + 1], after.selections.request[:, : t + 1])
    assert torch.equal(before.logits[:, :t], after.logits[:, :t])


@every_policy
def test_whether_a_series_goes_on_changes_nothing_so_far(acquirer, predictor, selector):
    policy, batch = policy_of(acquirer, predictor).with_selector(selector), tiny_batch((7, 7, 7))
    whole = run(policy, batch)
    cut = replace(tree_map(lambda tensor: tensor[:, :4] if tensor.ndim > 1 else tensor, batch), lengths=torch.full((3,), 4))
    short = run(policy, cut)
    assert torch.equal(short.selections.request, whole.selections.request[:, :4])
    assert torch.allclose(short.logits, whole.logits[:, :4], atol=1e-6)


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("acquirer", ["learned", "context"])
def test_values_that_were_revealed_do_change_later_requests_and_predictions(acquirer, predictor):
    policy, batch = policy_of(acquirer, predictor), tiny_batch((7, 7, 7))
    before = run(policy, batch)
    first = (torch.arange(batch.steps) == 0).view(1, -1, 1)
    after = run(policy, changed(batch, (before.reveals.mask > 0) & first))
    assert not torch.equal(before.selections.request[:, 1:], after.selections.request[:, 1:])
    assert (before.logits != after.logits).any(-1).all()


@pytest.mark.parametrize("acquirer", ACQUIRERS)
def test_labels_change_no_request_and_no_prediction(acquirer, tiny_data):
    policy = policy_of(acquirer)
    before = evaluate(policy, tiny_data.test)
    after = evaluate(policy, replace(tiny_data.test, labels=(tiny_data.test.labels + 1) % 3))
    assert np.array_equal(before.predictions, after.predictions)
    assert np.array_equal(before.requested, after.requested)
    assert before.metrics.loss != after.metrics.loss


@pytest.mark.parametrize("acquirer", [kind for kind in ACQUIRERS if kind != "random"])
def test_the_initial_request_is_made_on_nothing(acquirer):
    record = run(policy_of(acquirer), tiny_batch())
    assert (record.selections.request[:, 0] == record.selections.request[0, 0]).all()


# -- a series does not depend on its company


def assert_same_record(one, other):
    """Requests to the bit, numbers to rounding."""
    for name, tensor in flatten(one).items():
        theirs = flatten(other)[name]
        if name in ("selections.request", "selections.order", "valid", "cost", "reveals.mask", "reveals.time"):
            assert torch.equal(tensor, theirs), name
        else:
            assert torch.allclose(tensor, theirs, atol=1e-5), name


def member(batch, i, steps):
    """One series of a batch, padded to ``steps``."""
    alone = tree_map(lambda tensor: tensor[i : i + 1], batch)
    extra = steps - batch.steps
    if extra <= 0:
        return replace(alone, values=alone.values[:, :steps], observed=alone.observed[:, :steps])
    pad = torch.zeros(1, extra, batch.values.shape[-1])
    return replace(alone, values=torch.cat([alone.values, pad], 1), observed=torch.cat([alone.observed, pad.bool()], 1))


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("acquirer", KINDS)
@settings(deadline=None, max_examples=5)
@given(lengths=LENGTHS, padding=st.integers(0, 3), data=st.data())
def test_the_rollout_of_a_batch_equals_the_rollouts_of_its_members(acquirer, predictor, lengths, padding, data):
    policy, batch = policy_of(acquirer, predictor), tiny_batch(tuple(lengths))
    together = run(policy, batch)
    for i, length in enumerate(lengths):
        alone = run(policy, member(batch, i, length + padding))
        own = tree_map(lambda tensor, i=i, length=length: tensor[i : i + 1, :length], padded_parts(together))
        assert_same_record(padded_parts(alone), own)
    order = torch.tensor(data.draw(st.permutations(range(len(lengths)))))
    permuted = run(policy, tree_map(lambda tensor: tensor[order], batch))
    assert_same_record(padded_parts(permuted), tree_map(lambda tensor: tensor[order], padded_parts(together)))


def test_random_requests_differ_between_series_and_steps():
    record = run(tiny_policy("random"), tiny_batch((7, 7, 7)))
    request = record.selections.request
    assert not torch.equal(request[0], request[1])
    assert not (request == request[:, :1]).all()


def test_what_stands_after_the_end_of_a_series_is_never_read():
    policy, batch = tiny_policy(), tiny_batch((7, 3, 5))
    padded = replace(batch, values=torch.where(batch.observed, batch.values, 123.0))
    assert_same_record(run(policy, batch), run(policy, padded))


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_no_step_is_computed_on_padding(predictor):
    policy, batch = tiny_policy("learned", predictor), tiny_batch((7, 3, 5, 1))
    rows = []
    step = policy.predictor.step
    policy.predictor.step = lambda reveal, state: (rows.append(len(reveal.values)), step(reveal, state))[1]
    run(policy, batch)
    assert rows == [4, 3, 3, 2, 2, 1, 1]


# -- the two paths


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("acquirer", ["learned", "context", "complete"])
@settings(deadline=None, max_examples=10)
@given(lengths=LENGTHS)
def test_the_predictor_s_whole_sequence_path_agrees_with_the_loop(acquirer, predictor, lengths):
    policy, batch = policy_of(acquirer, predictor), tiny_batch(tuple(lengths))
    record = run(policy, batch)
    with inference(policy):
        logits, _ = policy.predictor.sequence(record.reveals, batch.lengths)
    assert torch.allclose(logits, record.logits, atol=1e-5)


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_complete_is_the_plain_predictor_on_all_data(predictor):
    policy, batch = tiny_policy("complete", predictor), tiny_batch()
    record = run(policy, batch)
    every = batch.observed.float()
    times = torch.arange(batch.steps).expand(batch.size, -1)
    with inference(policy):
        plain, _ = policy.predictor.sequence(Reveal(batch.values, every, torch.zeros_like(every), times), batch.lengths)
    assert torch.allclose(record.logits, plain, atol=1e-5)
    assert torch.equal(record.reveals.values, batch.values)
    assert torch.equal(record.cost, 5.0 * record.valid)


def test_none_measures_nothing_and_costs_nothing():
    record = run(tiny_policy("none"), tiny_batch())
    assert not record.selections.request.any()
    assert not record.reveals.mask.any()
    assert not record.cost.any()


# -- requests, reveals and costs


@every_policy
def test_what_was_requested_is_what_is_revealed_and_billed(acquirer, predictor, selector):
    policy, batch = policy_of(acquirer, predictor).with_selector(selector), tiny_batch()
    record = run(policy, batch)
    request = record.selections.request
    assert torch.equal(record.reveals.mask, request)
    assert torch.equal(record.reveals.values, batch.values * request)
    assert torch.equal(record.cost, request.sum(-1))
    assert record.cost.sum() == record.reveals.mask.sum()


@every_policy
def test_budgets_are_exact_at_every_step(acquirer, predictor, selector):
    policy, batch = policy_of(acquirer, predictor, budget=3).with_selector(selector), tiny_batch()
    record = run(policy, batch)
    counts = record.selections.request.sum(-1)[record.valid]
    if acquirer == "complete":
        assert (counts == 5).all()
    elif acquirer == "none":
        assert (counts == 0).all()
    elif acquirer == "oracle":
        wanted = torch.isfinite(policy.acquirer.scores).sum(-1)[record.reveals.time][record.valid]
        assert torch.equal(counts, wanted.clamp(max=3).float())
    elif selector == SequentialGumbel(repeat="penalty"):
        assert (counts <= 3).all()
    else:
        assert (counts == 3).all()


@pytest.mark.parametrize("acquirer", ACQUIRERS)
def test_there_is_nothing_after_the_end_of_a_series(acquirer):
    record = run(policy_of(acquirer), tiny_batch((2, 7, 4)))
    assert record.valid.sum(1).tolist() == [2, 7, 4]
    for name, tensor in flatten(padded_parts(record)).items():
        assert not tensor[~record.valid].any(), name


def test_the_request_after_the_last_step_is_not_billed():
    policy, batch = tiny_policy(budget=2), tiny_batch((3, 3))
    record = run(policy, batch)
    assert record.cost.tolist() == [[2.0, 2.0, 2.0]] * 2
    state = begin(policy, batch.keys)
    for t in range(3):
        _, state = rollout.acquisition_step(policy, state, measure(policy, batch, state, t))
    assert state.ledger.spent.tolist() == [8.0, 8.0]  # the ledger knows of the request under way; the bill does not


def test_a_value_that_the_record_does_not_hold_is_billed_and_not_revealed():
    batch = tiny_batch((4, 4))
    observed = batch.observed.clone()
    observed[0, 1] = False
    holes = Batch(torch.where(observed, batch.values, 0.0), observed, batch.lengths, batch.keys)
    record = run(tiny_policy("table"), holes)
    assert not record.reveals.mask[0, 1].any()
    assert record.reveals.mask[1, 1].sum() == 2
    assert (record.cost == 2).all()


@pytest.mark.parametrize("acquirer", ["learned", "complete"])
def test_a_batch_that_is_known_to_be_complete_gives_the_same_record(acquirer):
    policy, batch = policy_of(acquirer), tiny_batch((7, 3, 5))
    assert_same_record(run(policy, batch), run(policy, replace(batch, complete=True)))


@pytest.mark.parametrize("selector", SELECTORS, ids=repr)
def test_overlapping_panels_reveal_each_feature_once_and_cost_what_they_cost(selector):
    panels = (Order("ab", ("x0", "x1"), 2.0), Order("bc", ("x1", "x2"), 3.0), Order("d", ("x3",), 1.0))
    menu = Menu(tuple(features_of(4)), panels)
    policy = replace(tiny_policy("table", n_features=4, menu=menu), budget=PerStep(5), selector=selector)
    batch = tiny_batch(n_features=4)
    record = run(policy, batch)
    request = record.selections.request
    expected = (request @ torch.from_numpy(menu.reveals).float() > 0).float()
    assert torch.equal(record.reveals.mask, expected)
    assert torch.equal(record.reveals.values, batch.values * expected)
    assert torch.equal(record.cost, request @ torch.tensor([2.0, 3.0, 1.0]))
    assert record.cost.max() <= 5
    both = (request[..., 0] > 0) & (request[..., 1] > 0)
    assert both.any()
    everything = run(replace(policy, budget=Unlimited()), batch)
    if selector.__class__ is not SequentialGumbel or selector.repeat == "mask":
        assert (everything.cost[everything.valid] == 6).all()


def test_as_many_orders_as_features_need_not_be_the_features():
    menu = Menu(tuple(features_of(3)), (Order("c", ("x2",)), Order("a", ("x0",)), Order("b or c", ("x1", "x2"))))
    batch = tiny_batch((4, 3), n_features=3)
    record = run(tiny_policy("table", n_features=3, menu=menu), batch)
    request = record.selections.request
    expected = torch.stack([request[..., 1], request[..., 2], torch.maximum(request[..., 0], request[..., 2])], -1)
    assert torch.equal(record.reveals.mask, expected)


def test_reveals_carry_their_time_and_age():
    record = run(tiny_policy(), tiny_batch((3, 2)))
    assert record.reveals.time.tolist() == [[0, 1, 2], [0, 1, 0]]
    assert not record.reveals.age.any()


def test_an_acquirer_is_asked_for_step_0_first_with_nothing_revealed():
    policy, views = tiny_policy("table"), []
    step = policy.acquirer.step
    policy.acquirer.step = lambda view, state: (views.append(view), step(view, state))[1]
    run(policy, tiny_batch((3, 2)))
    assert [view.time.tolist() for view in views] == [[0, 0], [1, 1], [2, 2], [3]]
    assert [view.reveal.time.tolist() for view in views] == [[-1, -1], [0, 0], [1, 1], [2]]
    assert not views[0].reveal.mask.any()
    assert all((view.allowance.amount == 2).all() for view in views)


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_the_context_that_an_acquirer_sees_is_the_predictor_s_of_the_same_step(predictor):
    policy, contexts = tiny_policy("table", predictor), []
    step = policy.acquirer.step
    policy.acquirer.step = lambda view, state: (contexts.append(view.context), step(view, state))[1]
    batch = tiny_batch((4, 4))
    record = run(policy, batch)
    with inference(policy):
        _, expected = policy.predictor.sequence(record.reveals, batch.lengths)
    assert not contexts[0].any()
    assert torch.allclose(torch.stack(contexts[1:], 1), expected, atol=1e-5)


def test_inference_turns_dropout_and_gradients_off_and_modes_back():
    policy = tiny_policy()
    policy.acquirer.train()
    policy.predictor.eval()
    with inference(policy):
        assert not policy.acquirer.training
        assert not torch.is_grad_enabled()
    assert policy.acquirer.training
    assert not policy.predictor.training
    assert torch.is_grad_enabled()


# -- one step function


class Watching(EndToEnd):
    """Keeps the records that training made."""

    def loss(self, record, hindsight):
        self.__dict__.setdefault("records", []).append(record)
        return super().loss(record, hindsight)


@pytest.mark.parametrize("gradient", ["detached", "full"])
def test_training_evaluation_and_sessions_all_take_the_one_step(monkeypatch, tiny_data, gradient):
    """A step function that asks for nothing shows in all three; one that knows nothing, too, but where the predictor reads
    afterwards, as it does in training."""
    data, model = tiny_data, make_model(tiny_spec(training__step_loss=0.0, training__gradient=gradient), tiny_data)
    untouched = evaluate(model.policy, data.test)
    calls = []

    def indifferent_step(policy, state, reveal, generator=None):
        calls.append(len(reveal.values))
        logits, state = original(policy, state, reveal, generator)
        nothing = torch.zeros_like(state.selection.request)
        selection = replace(state.selection, request=nothing, relaxed=nothing)
        return logits * 0.0, replace(state, selection=selection, cost=torch.zeros_like(state.cost))

    original = rollout.acquisition_step
    monkeypatch.setattr(rollout, "acquisition_step", indifferent_step)

    found = evaluate(model.policy, data.test)
    assert sum(calls) == data.test.lengths.sum()
    assert found.metrics.loss == pytest.approx(math.log(3))
    assert not found.predictions.any()
    assert (found.cost == 2).all()  # the initial request alone
    assert untouched.predictions.any()

    calls.clear()
    session = model.session()
    outcome = session.observe({})
    assert calls == [1]
    assert list(outcome.probabilities.values()) == pytest.approx([1 / 3] * 3)
    assert outcome.request == ()

    calls.clear()
    objective = Watching()
    fit(model, data, objective=objective)
    assert sum(calls) == 3 * (data.train.lengths.sum() + data.validation.lengths.sum())
    for record in objective.records:
        assert (record.cost[:, 0] == 2).all()
        assert not record.cost[:, 1:].any()
        assert not record.reveals.mask[:, 1:].any()
