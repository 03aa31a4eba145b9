import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from builders import ACQUIRERS, PREDICTORS, features_of, tiny_dataset, tiny_policy
from whichwhen.acquirers import StaticAcquirer
from whichwhen.budget import PerStep
from whichwhen.contracts import Predictor
from whichwhen.data import SeriesSet
from whichwhen.evaluation import evaluate
from whichwhen.menu import Menu, Order
from whichwhen.predictors import ConvPredictor
from whichwhen.provenance import Provenance
from whichwhen.rollout import Policy
from whichwhen.selection import Gate


class Adder(Predictor):
    """Logits (0, sum of all that was revealed so far)."""

    context_size = 1

    def init(self, size):
        return torch.zeros(size, 1), {"sum": torch.zeros(size)}

    def step(self, reveal, state):
        total = state["sum"] + reveal.values.sum(-1)
        return torch.stack([torch.zeros_like(total), total], -1), total.unsqueeze(-1), {"sum": total}

    def packed(self, reveals, sizes):
        total, out = torch.zeros(sizes[0]), []
        for row in torch.split(reveals.values.sum(-1), sizes):
            total = total[: len(row)] + row
            out.append(total)
        flat = torch.cat(out)
        return torch.stack([torch.zeros_like(flat), flat], -1), flat.unsqueeze(-1)


def by_hand(budget=1, menu=None):
    """Asks for column 0 at steps 0 and 1, for column 1 from step 2 on; then for column 2."""
    menu = menu or Menu.one_per_feature(features_of(3))
    acquirer = StaticAcquirer(3, segments=2, horizon=4)
    acquirer.scores.copy_(torch.tensor([[3.0, 1.0, 2.0], [1.0, 3.0, 2.0]]))
    return Policy(menu, PerStep(budget), acquirer, Adder())


SERIES = SeriesSet.from_list(
    [
        np.array([[1.0, 50, 90], [0.0, 50, 90], [50, 1.0, 90], [50, -1.5, 90]]),  # revealed 1 + 0 + 1 - 1.5 = 0.5
        np.array([[-1.0, 50, 90], [0.5, 50, 90]]),  # -1 + 0.5 = -0.5
        np.array([[1.0, 50, 90], [2.0, 50, 90], [50, 3.0, 90]]),  # 1 + 2 + 3 = 6
    ],
    np.array([0, 0, 1]),
    features_of(3),
)
SHIFT = Provenance(np.array([[1, 0, 1], [1, 0, 1], [1, 0, 1], [0, 1, 1]], dtype=bool))


def test_metrics_against_a_hand_example():
    found = evaluate(by_hand(), SERIES, SHIFT)
    assert found.predictions.tolist() == [1, 0, 1]
    assert found.labels.tolist() == [0, 0, 1]
    assert found.metrics.accuracy == pytest.approx(2 / 3)
    losses = [math.log(1 + math.exp(0.5)), math.log(1 + math.exp(-0.5)), math.log(1 + math.exp(-6))]
    assert found.metrics.loss == pytest.approx(sum(losses) / 3)
    assert found.metrics.cost_per_step == 1
    assert found.metrics.n == 3
    assert found.cost.tolist() == [4, 2, 3]
    assert found.lengths.tolist() == [4, 2, 3]
    assert found.going.tolist() == [3, 3, 2, 1]
    assert found.requested.tolist() == [[3, 0, 0], [3, 0, 0], [0, 2, 0], [0, 1, 0]]


def test_real_fraction_against_a_hand_example_with_a_shift():
    """Column 0 is real until step 2, column 1 from step 3 on: of 9 requests 3 + 3 + 0 + 1 are for real ones."""
    assert evaluate(by_hand(), SERIES, SHIFT).metrics.real_fraction == pytest.approx(7 / 9)
    assert evaluate(by_hand(2), SERIES, SHIFT).metrics.real_fraction == pytest.approx((7 + 9) / 18)
    assert evaluate(by_hand(), SERIES).metrics.real_fraction is None


def test_panels_of_unequal_cost_are_billed_at_their_cost_and_real_where_one_feature_is():
    orders = (Order("a", ("x0",), 3.0), Order("b", ("x1", "x2"), 0.5), Order("c", ("x1",), 2.0))
    found = evaluate(by_hand(3, Menu(tuple(features_of(3)), orders)), SERIES, SHIFT)
    # steps 0, 1: a (3.0), nothing else fits; steps 2, 3: b (0.5), then c (2.0)
    assert found.requested.tolist() == [[3, 0, 0], [3, 0, 0], [0, 2, 2], [0, 1, 1]]
    assert found.cost.tolist() == [11, 6, 8.5]
    assert found.metrics.cost_per_step == pytest.approx(25.5 / 9)
    # b is real throughout thanks to column 2, c only at step 3
    assert found.metrics.real_fraction == pytest.approx((6 + 2 + 0 + 1 + 1) / 12)


@pytest.mark.parametrize("predictor", PREDICTORS)
@pytest.mark.parametrize("acquirer", ACQUIRERS)
def test_the_outcome_does_not_depend_on_the_batch_size(acquirer, predictor):
    policy, data = tiny_policy(acquirer, predictor), tiny_dataset()
    whole = evaluate(policy, data.test, data.provenance)
    for size in (1, 7):
        parts = evaluate(policy, data.test, data.provenance, batch_size=size)
        for name in ("ids", "labels", "predictions", "cost", "lengths", "requested", "going"):
            assert np.array_equal(getattr(whole, name), getattr(parts, name)), name
        assert parts.metrics.loss == pytest.approx(whole.metrics.loss, abs=1e-6)
        assert replace(parts.metrics, loss=0.0) == replace(whole.metrics, loss=0.0)


def test_the_outcome_of_a_series_does_not_depend_on_the_others():
    policy, data = tiny_policy("random"), tiny_dataset()
    whole = evaluate(policy, data.test)
    rows = np.array([31, 4, 17])
    some = evaluate(policy, data.test.take(rows))
    assert np.array_equal(some.ids, whole.ids[rows])
    assert np.array_equal(some.predictions, whole.predictions[rows])
    assert np.array_equal(some.cost, whole.cost[rows])


def test_evaluation_selects_hard_and_without_dropout_whatever_the_policy_has():
    policy, data = tiny_policy(), tiny_dataset()
    dropping = replace(policy, predictor=ConvPredictor(5, 3, 7, dropout=0.5), selector=Gate())
    dropping.predictor.train()
    one, two = (evaluate(dropping, data.test) for _ in range(2))
    assert one.metrics == two.metrics
    assert np.array_equal(one.requested, two.requested)
    assert np.array_equal(one.requested, evaluate(policy, data.test).requested)
    assert dropping.predictor.training


def test_random_requests_differ_between_splits_of_the_same_values():
    policy, data = tiny_policy("random"), tiny_dataset()
    elsewhere = replace(data.train, source="test")
    assert not np.array_equal(evaluate(policy, data.train).requested, evaluate(policy, elsewhere).requested)
    other_seed = replace(data.train, seed=5)
    assert not np.array_equal(evaluate(policy, data.train).requested, evaluate(policy, other_seed).requested)


# -- by class, and series by series


def test_requests_by_class_against_a_hand_example():
    """Series 0 and 1 (4 and 2 steps) are of class 0, series 2 (3 steps) of class 1."""
    found = evaluate(by_hand(), SERIES, samples=5)
    assert found.going_by_class.tolist() == [[2, 2, 1, 1], [1, 1, 1, 0]]
    first, last = [[2, 0, 0], [2, 0, 0], [0, 1, 0], [0, 1, 0]], [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert found.requested_by_class.tolist() == [first, last]
    rows = {0: [0, 0, 1, 1], 1: [0, 0], 2: [0, 0, 1]}
    assert {i: asked.argmax(1).tolist() for i, asked in found.samples.items()} == rows
    assert all((asked.sum(1) == 1).all() for asked in found.samples.values())


@pytest.mark.parametrize("acquirer", ACQUIRERS)
def test_requests_of_the_classes_are_those_of_the_series_and_add_up_to_the_whole(acquirer):
    policy, data = tiny_policy(acquirer), tiny_dataset()
    found = evaluate(policy, data.test, samples=len(data.test))
    assert list(found.samples) == list(range(len(data.test)))
    requested, going = np.zeros_like(found.requested_by_class), np.zeros_like(found.going_by_class)
    for i, asked in found.samples.items():
        assert asked.shape == (found.lengths[i], 5)
        assert asked.dtype == bool
        assert asked.sum() == found.cost[i]
        requested[found.labels[i], : len(asked)] += asked
        going[found.labels[i], : len(asked)] += 1
    assert np.array_equal(found.requested_by_class, requested)
    assert np.array_equal(found.going_by_class, going)
    assert np.array_equal(found.requested, requested.sum(0))
    assert np.array_equal(found.going, (found.lengths[:, None] > np.arange(7)).sum(0))


@pytest.mark.parametrize("acquirer", ["learned", "random"])
def test_a_class_s_requests_are_those_of_an_evaluation_of_its_series_alone(acquirer):
    policy, data = tiny_policy(acquirer), tiny_dataset()
    whole = evaluate(policy, data.test)
    for label in range(3):
        alone = evaluate(policy, data.test.take(np.flatnonzero(data.test.labels == label)))
        steps = len(alone.going)
        assert np.array_equal(alone.requested, whole.requested_by_class[label, :steps])
        assert np.array_equal(alone.going, whole.going_by_class[label, :steps])
        assert not whole.going_by_class[label, steps:].any()


@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_samples_are_the_first_series_of_each_class_whatever_the_batch_size(count):
    policy, data = tiny_policy("random"), tiny_dataset()
    found = evaluate(policy, data.test, samples=count)
    first = sorted(i for label in range(3) for i in np.flatnonzero(data.test.labels == label)[:count])
    assert list(found.samples) == first
    for size in (1, 7):
        parts = evaluate(policy, data.test, samples=count, batch_size=size)
        assert list(parts.samples) == first
        assert all(np.array_equal(asked, parts.samples[i]) for i, asked in found.samples.items())
        assert np.array_equal(parts.requested_by_class, found.requested_by_class)


def test_samples_are_not_kept_unless_asked_for():
    assert evaluate(tiny_policy(), tiny_dataset().test).samples == {}


def test_a_class_without_series_has_no_requests():
    policy, data = tiny_policy(), tiny_dataset()
    rows = np.flatnonzero(data.test.labels != 1)
    found = evaluate(policy, data.test.take(rows), samples=2)
    assert not found.requested_by_class[1].any()
    assert not found.going_by_class[1].any()
    assert {int(found.labels[i]) for i in found.samples} == {0, 2}
