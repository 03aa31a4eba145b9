import dataclasses
import typing

import pytest
import torch

from builders import tiny_batch, tiny_policy
from whichwhen.provenance import Provenance
from whichwhen.rollout import begin, roll_out
from whichwhen.types import (
    Allowance,
    Batch,
    Hindsight,
    Reading,
    Reveal,
    Rollout,
    Scores,
    Selection,
    View,
    flatten,
    join,
    narrow,
    tree_map,
    unflatten,
)


def types_within(kind):
    """All dataclasses that can be reached from a record's fields."""
    found, waiting = set(), [kind]
    while waiting:
        one = waiting.pop()
        waiting.extend(typing.get_args(one))
        if dataclasses.is_dataclass(one) and one not in found:
            found.add(one)
            waiting.extend(typing.get_type_hints(one).values())
    return found


@pytest.mark.parametrize("kind", [Allowance, Batch, Hindsight, Reading, Reveal, Rollout, Scores, Selection, View])
def test_annotations_of_records_are_sound(kind):
    assert typing.get_type_hints(kind).keys() >= kind.__annotations__.keys()
    assert kind.__annotations__.keys() == {field.name for field in dataclasses.fields(kind)}


def test_types_within_finds_nested_records():
    assert {Hindsight, Batch} <= types_within(Hindsight)
    assert Reveal in types_within(View)


@pytest.mark.parametrize("hidden", [Batch, Hindsight, Provenance, Rollout])
def test_a_view_holds_nothing_that_an_acquirer_must_not_see(hidden):
    assert hidden not in types_within(View)


def test_objectives_get_no_provenance_from_their_records():
    assert Provenance not in types_within(Rollout) | types_within(Hindsight)


def test_nothing_is_known_before_the_first_step():
    reveal = Reveal.nothing(3, 4)
    assert reveal.values.shape == reveal.mask.shape == reveal.age.shape == (3, 4)
    assert not reveal.values.any()
    assert not reveal.mask.any()
    assert reveal.time.tolist() == [-1, -1, -1]


def test_tree_map_reaches_every_tensor_and_keeps_the_rest():
    record = {"a": Scores(torch.ones(2, 3), "nats"), "b": {"c": torch.ones(2)}}
    doubled = tree_map(lambda tensor: tensor * 2, record)
    assert torch.equal(doubled["a"].values, torch.full((2, 3), 2.0))
    assert doubled["a"].unit == "nats"
    assert torch.equal(doubled["b"]["c"], torch.full((2,), 2.0))


def test_narrow_keeps_the_first_series():
    state = begin(tiny_policy(predictor="lstm"), torch.arange(5))
    for name, tensor in flatten(narrow(state, 2)).items():
        assert torch.equal(tensor, flatten(state)[name][:2])


def test_join_puts_records_one_after_the_other():
    joined = join([Scores(torch.full((n, 2), float(n)), "nats") for n in (3, 2, 1)])
    assert joined.values[:, 0].tolist() == [3, 3, 3, 2, 2, 1]
    assert joined.unit == "nats"


def test_join_keeps_a_number_that_is_shown_many_times_as_one_number():
    zero = torch.zeros(())
    joined = join([zero.expand(n, 4) for n in (3, 2)])
    assert joined.shape == (5, 4)
    assert joined.stride() == (0, 0)
    assert not joined.any()
    assert join([zero.expand(3, 4), torch.ones(()).expand(2, 4)]).sum() == 8  # two numbers are not one


def test_rows_of_a_record_know_their_series_and_step():
    batch = tiny_batch((2, 7, 4))
    record = roll_out(tiny_policy(), batch)
    assert record.sizes == (3, 3, 2, 2, 1, 1, 1)
    assert record.by_length.tolist() == [1, 2, 0]
    rows = list(zip(record.series_by_row.tolist(), record.time_by_row.tolist(), strict=True))
    assert sorted(rows) == [(i, t) for i, length in enumerate((2, 7, 4)) for t in range(length)]
    flat = record.flat(lambda step: step.reveal.values)
    for (i, t), row in zip(rows, flat, strict=True):
        assert torch.equal(row, record.reveals.values[i, t])


def test_unflatten_undoes_flatten():
    state = begin(tiny_policy("random", "lstm"), torch.arange(3))
    tensors = flatten(state)
    assert {"predictor.hidden", "acquirer.keys", "ledger.spent", "scores.values", "selection.request"} <= tensors.keys()
    other = begin(tiny_policy("random", "lstm", seed=1), torch.arange(3, 6))
    restored = unflatten(other, tensors)
    for name, tensor in flatten(restored).items():
        assert torch.equal(tensor, tensors[name])


def test_unflatten_names_what_is_missing():
    state = begin(tiny_policy(), torch.arange(3))
    tensors = flatten(state)
    del tensors["ledger.spent"]
    with pytest.raises(KeyError, match=r"ledger\.spent"):
        unflatten(state, tensors)


def test_final_logits_are_those_of_each_series_own_last_step():
    batch = tiny_batch((3, 7, 2, 7))
    record = roll_out(tiny_policy(), batch)
    assert record.lengths.tolist() == [3, 7, 2, 7]
    for i, length in enumerate(batch.lengths.tolist()):
        assert torch.equal(record.final_logits[i], record.logits[i, length - 1])


def test_shapes_are_checked_when_tests_run():
    with pytest.raises(Exception, match="values"):
        Batch(torch.zeros(2, 3, 4), torch.ones(2, 3, 5, dtype=torch.bool), torch.tensor([3, 3]), torch.tensor([0, 1]))
