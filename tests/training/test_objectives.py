import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import PREDICTORS, tiny_batch, tiny_policy
from whichwhen.rollout import roll_out
from whichwhen.selection import Gate, HardTopK, SequentialGumbel
from whichwhen.training import EndToEnd
from whichwhen.types import Hindsight


def cross_entropy(logits, label):
    return math.log(sum(math.exp(one) for one in logits)) - logits[label]


def expected_loss(logits, lengths, labels, step_loss):
    """In plain Python: the last step's, and the mean over the later half of each series' own steps."""
    total = 0.0
    for rows, length, label in zip(logits, lengths, labels, strict=True):
        each = [cross_entropy(row, label) for row in rows[:length]]
        later = each[length // 2 :]
        total += each[-1] + step_loss * sum(later) / len(later)
    return total / len(logits)


@settings(deadline=None, max_examples=30)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), step_loss=st.sampled_from([0.0, 0.3, 2.0]), data=st.data())
def test_the_loss_is_that_of_the_last_step_and_of_the_later_half(lengths, step_loss, data):
    labels = data.draw(st.lists(st.integers(0, 2), min_size=len(lengths), max_size=len(lengths)))
    batch = tiny_batch(tuple(lengths))
    record = roll_out(tiny_policy(), batch)
    rows = torch.randn(record.logits_by_row.shape, generator=torch.Generator().manual_seed(1))
    record = replace(record, flat_logits=rows)
    found = EndToEnd(step_loss).loss(record, Hindsight(batch, torch.tensor(labels)))
    assert found.item() == pytest.approx(expected_loss(record.logits.tolist(), lengths, labels, step_loss), rel=1e-4)


@settings(deadline=None, max_examples=30)
@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_with_labels_for_every_step_all_steps_count_the_same_however_long_their_series(lengths, seed):
    batch = tiny_batch(tuple(lengths))
    record = roll_out(tiny_policy(), batch)
    rows = torch.randn(record.logits_by_row.shape, generator=torch.Generator().manual_seed(seed))
    record = replace(record, flat_logits=rows)
    labels = torch.randint(3, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    found = EndToEnd(0.3).loss(record, Hindsight(batch, labels[:, 0], step_labels=labels))
    each = [
        cross_entropy(row, label)
        for logits, own, length in zip(record.logits.tolist(), labels.tolist(), lengths, strict=True)
        for row, label in zip(logits[:length], own, strict=False)
    ]
    assert found.item() == pytest.approx(sum(each) / len(each), rel=1e-4)


@pytest.mark.parametrize("acquirer", ["learned", "table"])
@pytest.mark.parametrize("selector", [Gate(), SequentialGumbel(), SequentialGumbel(repeat="penalty")], ids=repr)
@pytest.mark.parametrize("predictor", PREDICTORS)
def test_the_gradient_of_the_loss_reaches_the_acquirer_through_each_relaxed_selector(acquirer, selector, predictor):
    policy = tiny_policy(acquirer, predictor, gated=isinstance(selector, Gate)).with_selector(selector)
    batch = tiny_batch()
    record = roll_out(policy, batch, torch.Generator().manual_seed(0))
    EndToEnd().loss(record, Hindsight(batch, torch.arange(5) % 3)).backward()
    for name, parameter in [*policy.acquirer.named_parameters(), *policy.predictor.named_parameters()]:
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
    reached = [parameter for parameter in policy.acquirer.parameters() if parameter.grad.abs().sum() > 0]
    assert len(reached) == len(list(policy.acquirer.parameters()))


def test_each_row_of_the_table_that_was_measured_gets_a_gradient_and_no_other():
    policy, batch = tiny_policy("table").with_selector(Gate()), tiny_batch((4, 3))
    record = roll_out(policy, batch, torch.Generator().manual_seed(0))
    EndToEnd().loss(record, Hindsight(batch, torch.tensor([0, 1]))).backward()
    assert (policy.acquirer.by_time.grad.abs().sum(1) > 0).tolist() == [True] * 4 + [False] * 3


def test_hard_selection_gives_the_acquirer_no_gradient():
    policy, batch = tiny_policy().with_selector(HardTopK()), tiny_batch()
    EndToEnd().loss(roll_out(policy, batch), Hindsight(batch, torch.arange(5) % 3)).backward()
    assert all(parameter.grad is None for parameter in policy.acquirer.parameters())
