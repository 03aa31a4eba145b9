"""Greedy, value and foresight: what they ask of the record, and whom their gradients reach."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from builders import PREDICTORS, tiny_batch, tiny_dataset, tiny_policy, tiny_spec
from whichwhen.budget import Price
from whichwhen.model import make_model
from whichwhen.rollout import roll_out
from whichwhen.selection import Gate, SequentialGumbel
from whichwhen.training import EndToEnd, fit
from whichwhen.training.detached import roll_out_branching, roll_out_detached
from whichwhen.training.objectives import Foresight, GreedyCMI, OrderValue, make_objective
from whichwhen.training.objectives.base import branch, frozen, row_loss
from whichwhen.types import Hindsight, Reveal, tree_map

LENGTHS = (6, 2, 5, 6)
KINDS = ("end-to-end", "greedy-cmi", "value", "foresight")


def seeded(seed=4):
    return torch.Generator().manual_seed(seed)


def learned(selector=None, predictor="conv", **reads):
    """A policy that learns; the gate goes with log worths, the paper's selector with logits."""
    selector = selector or Gate()
    return tiny_policy("learned", predictor, gated=isinstance(selector, Gate), **reads).with_selector(selector)


def play(predictor="conv", context=False, lengths=LENGTHS):
    policy = learned(predictor=predictor, context=context)
    batch = tiny_batch(lengths)
    return policy, Hindsight(batch, torch.arange(batch.size) % 3), roll_out_branching(policy, batch, seeded())


def gradients(loss, module):
    return torch.autograd.grad(loss, list(module.parameters()), allow_unused=True, retain_graph=True)


@pytest.mark.parametrize("context", [False, True], ids=["blind", "reads context"])
@pytest.mark.parametrize("predictor", PREDICTORS)
def test_a_branching_walk_makes_the_same_requests_and_cuts_the_predictions_off(predictor, context):
    policy, known, record = play(predictor, context)
    plain = roll_out_detached(policy, known.batch, seeded())
    assert torch.equal(record.selections.request, plain.selections.request)
    assert torch.allclose(record.logits, plain.logits, atol=1e-5)
    loss = EndToEnd(0.3).loss(record, known)
    assert all(part is None for part in gradients(loss, policy.acquirer))
    assert any(part is not None and part.abs().max() > 0 for part in gradients(loss, policy.predictor))


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_branching_to_what_really_happened_changes_nothing(predictor):
    policy, _, record = play(predictor)
    again = branch(policy.predictor, record, record.flat(lambda step: step.reveal))
    assert torch.allclose(again, record.logits_by_row, atol=1e-5)


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_a_branch_is_the_whole_series_with_one_step_exchanged(predictor):
    policy, known, record = play(predictor, lengths=(5, 5, 5))
    values, none = known.batch.values, torch.zeros_like(record.reveals.mask)
    mask = none.clone()
    mask[:, :, 1] = 1.0  # order 1 alone, at each step
    series, time = record.series_by_row, record.time_by_row
    rows = Reveal((values * mask)[series, time], mask[series, time], none[series, time], time)
    found = record.padded(branch(policy.predictor, record, rows))
    for t in range(5):
        exchanged = tree_map(torch.clone, record.reveals)
        exchanged.values[:, t], exchanged.mask[:, t] = (values * mask)[:, t], mask[:, t]
        expected, _ = policy.predictor.sequence(exchanged, known.batch.lengths)
        assert torch.allclose(found[:, t], expected[:, t], atol=1e-5)


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_greedy_teaches_the_acquirer_by_the_next_prediction_alone_and_leaves_the_predictor_to_its_own_loss(predictor):
    policy, known, record = play(predictor)
    loss = GreedyCMI(policy.predictor, 0.3).loss(record, known)
    assert any(part is not None and part.abs().max() > 1e-7 for part in gradients(loss, policy.acquirer))
    own = EndToEnd(0.3).loss(record, known) + row_loss(record.logits_by_row, record, known).mean()
    for found, expected in zip(gradients(loss, policy.predictor), gradients(own, policy.predictor), strict=True):
        assert (found is None) == (expected is None)
        if found is not None:
            assert torch.allclose(found, expected, atol=1e-6)
    # a request is not judged by later steps: the gradient of its mask is that of its own step's loss
    reveals = record.flat(lambda step: step.reveal)
    with frozen(policy.predictor):
        each = row_loss(branch(policy.predictor, record, reveals), record, known)
    (gradient,) = torch.autograd.grad(each[record.time_by_row == 3].sum(), reveals.mask)
    assert gradient[record.time_by_row != 3].abs().max() == 0
    assert gradient[record.time_by_row == 3].abs().max() > 0


@pytest.mark.parametrize("kind", ["greedy-cmi", "value"])
def test_with_labels_for_every_step_the_predictor_learns_from_each_once(kind):
    policy, known, record = play()
    known = replace(known, step_labels=torch.randint(3, (len(LENGTHS), max(LENGTHS)), generator=seeded()))
    objective = GreedyCMI(policy.predictor, 0.3) if kind == "greedy-cmi" else OrderValue(policy)
    own = row_loss(record.logits_by_row, record, known).mean()
    pairs = zip(*(gradients(loss, policy.predictor) for loss in (objective.loss(record, known), own)), strict=True)
    assert all(found is expected or torch.allclose(found, expected, atol=1e-6) for found, expected in pairs)


def test_frozen_weights_move_again_afterwards():
    module = torch.nn.Linear(2, 2)
    module.bias.requires_grad_(False)
    with frozen(module):
        assert not any(parameter.requires_grad for parameter in module.parameters())
    assert [parameter.requires_grad for parameter in module.parameters()] == [True, False]


def test_the_value_s_target_is_the_drop_from_nothing_to_one_order_alone():
    policy, known, record = play()
    objective = OrderValue(policy)
    series, time = record.series_by_row, record.time_by_row
    order = torch.arange(len(series)) % 5
    mask = F.one_hot(order, 5).float()
    reveal = Reveal(known.batch.values[series, time] * mask, mask, torch.zeros_like(mask), time)
    expected = F.cross_entropy(branch(policy.predictor, record, reveal), known.labels[series], reduction="none")
    assert torch.allclose(objective._alone(record, known, order), expected)
    empty = Reveal(torch.zeros_like(mask), torch.zeros_like(mask), torch.zeros_like(mask), time)
    nothing = F.cross_entropy(branch(policy.predictor, record, empty), known.labels[series], reduction="none")
    assert torch.allclose(objective._alone(record, known, None), nothing)


def test_the_value_s_loss_is_least_where_the_scores_are_the_drops():
    policy, known, record = play()
    torch.manual_seed(0)
    loss = OrderValue(policy, candidates=4).loss(record, known)
    found = gradients(loss, policy.acquirer)
    assert any(part is not None and part.abs().max() > 1e-6 for part in found)
    own = EndToEnd(0.3).loss(record, known) + row_loss(record.logits_by_row, record, known).mean()
    assert loss > own  # by a mean of squares


def test_where_deliveries_alone_are_billed_the_value_learns_from_orders_that_are_answered():
    policy, known, record = play()
    seen = torch.zeros_like(known.batch.observed)
    seen[..., 1] = True
    seen[0, 2] = False  # a step at which nothing can be answered
    known = replace(known, batch=replace(known.batch, observed=seen))
    scores = record.flat(lambda step: step.scores.values)
    torch.manual_seed(0)
    loss = OrderValue(policy, candidates=3, delivered=True).loss(record, known)
    rows = (record.series_by_row != 0) | (record.time_by_row != 2)
    own = EndToEnd(0.3).loss(record, known) + row_loss(record.logits_by_row, record, known).mean()
    objective = OrderValue(policy)
    order = torch.ones(len(scores), dtype=torch.long)
    drops = objective._alone(record, known, None) - objective._alone(record, known, order)
    errors = (scores[:, 1] - drops).square()[rows]
    assert (loss - own).item() == pytest.approx(errors.mean().item(), rel=1e-4)


@pytest.mark.parametrize("selector", ["gate", "sequential"])
@pytest.mark.parametrize("kind", KINDS)
def test_values_are_in_nats_and_the_rest_in_what_goes_with_the_selector(kind, selector):
    data = tiny_dataset()
    model = make_model(tiny_spec(training__objective=kind, selector__kind=selector), data)
    unit = roll_out(model.policy, data.train.hindsight(torch.arange(3).numpy()).batch).steps[0].scores.unit
    assert unit == ("nats" if kind == "value" else "log-worth" if selector == "gate" else "logits")


@pytest.mark.parametrize("selector", [Gate(), SequentialGumbel()], ids=repr)
def test_foresight_credits_what_went_better_than_usual(selector):
    policy, batch = learned(selector), tiny_batch((5,) * 12)
    known = Hindsight(batch, torch.arange(12) % 3)
    record = roll_out_detached(policy, batch, seeded())
    credit = record.padded(Foresight().credit(record, known))
    assert torch.allclose(credit.mean(0), torch.zeros(5), atol=1e-5)
    losses = record.padded(row_loss(record.logits_by_row, record, known)).detach()
    best = (losses[:, 2] - losses[:, -1]).argmax()  # the greatest drop from before step 3 to the end
    assert credit[:, 3].argmax() == best


def test_under_a_price_foresight_credits_what_is_saved_from_then_on():
    policy, batch = learned(Gate()), tiny_batch((5,) * 12)
    known = Hindsight(batch, torch.zeros(12, dtype=torch.long))
    record = roll_out_detached(replace(policy, budget=Price(0.5)), batch, seeded())
    free = tuple(replace(step, selection=replace(step.selection, price=None)) for step in record.steps)
    gap = Foresight().gain(replace(record, steps=free), known) - Foresight().gain(record, known)
    costs = record.padded(record.flat(lambda step: step.cost))
    expected = torch.stack([0.5 * costs[:, t:].sum(1) for t in range(5)], 1)
    assert costs.sum() > 0
    assert torch.allclose(record.padded(gap), expected, atol=1e-5)


@pytest.mark.parametrize("selector", [Gate(), SequentialGumbel()], ids=repr)
def test_foresight_without_its_terms_is_the_prediction_loss(selector):
    policy, batch = learned(selector), tiny_batch(LENGTHS)
    known = Hindsight(batch, torch.arange(batch.size) % 3)
    record = roll_out_detached(policy, batch, seeded())
    assert torch.allclose(Foresight(0.3, 0.0, 0.0).loss(record, known), EndToEnd(0.3).loss(record, known))


@pytest.mark.parametrize("selector", [Gate(), SequentialGumbel()], ids=repr)
def test_foresight_raises_the_probability_of_what_was_credited(selector):
    policy, batch = learned(selector), tiny_batch((6,) * 8)
    known = Hindsight(batch, torch.arange(8) % 3)
    record = roll_out_detached(policy, batch, seeded())
    pull = Foresight(0.0, 1.0, 0.0).loss(record, known) - EndToEnd(0.0).loss(record, known)
    gradient = torch.cat(torch.autograd.grad(pull, [step.scores.values for step in record.steps]))
    requested = record.flat(lambda step: step.selection.request)
    credit = Foresight().credit(record, known)
    towards = -(gradient * requested).sum(1)  # of a small step down the gradient
    clear = credit.abs() > 0.1
    assert torch.equal(torch.sign(towards[clear]), torch.sign(credit[clear]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("acquirer", ["learned", "table", "random"])
def test_every_objective_trains_every_acquirer_and_is_end_to_end_where_nothing_is_learned(kind, acquirer):
    data = tiny_dataset()
    model = make_model(
        tiny_spec(training__objective=kind, training__epochs=2, training__warm_up=1, acquirer__kind=acquirer), data
    )
    objective = make_objective(model.card.spec, model.policy, priced=False)
    assert isinstance(objective, EndToEnd) == (kind == "end-to-end" or acquirer == "random")
    before = {name: tensor.clone() for name, tensor in model.tensors().items()}
    state = fit(model, data)
    assert len(state.history) == 2
    assert any(not torch.equal(before[name], state.weights[name]) for name in before if name.startswith("predictor"))
    moved = [name for name in before if name.startswith("acquirer") and not torch.equal(before[name], state.weights[name])]
    assert bool(moved) == (acquirer != "random")
