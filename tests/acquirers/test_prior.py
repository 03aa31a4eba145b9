from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import tiny_dataset, tiny_spec
from whichwhen.acquirers.static import log_worth
from whichwhen.data import SeriesSet
from whichwhen.errors import SpecError
from whichwhen.menu import Menu, Order
from whichwhen.model import make_model
from whichwhen.rollout import inference, roll_out

POSITIVE = st.floats(0.01, 100)


@pytest.fixture(scope="module")
def data():
    return tiny_dataset()


def first_requests(model, data):
    batch = data.validation.hindsight(np.arange(len(data.validation))).batch
    with inference(model.policy):
        return roll_out(model.policy, batch).selections.request


@pytest.mark.parametrize("changes", [{}, {"acquirer__memory": 4}, {"acquirer__context": True}, {"acquirer__kind": "table"}])
def test_before_training_it_asks_for_what_static_asks_for(data, changes):
    learned = make_model(tiny_spec(acquirer__prior=True, **changes), data)
    static = make_model(tiny_spec(acquirer__kind="static"), data)
    assert torch.equal(first_requests(learned, data), first_requests(static, data))


def test_it_is_a_start_and_not_a_bound(data):
    model = make_model(tiny_spec(acquirer__prior=True), data)
    assert model.policy.acquirer.learns
    assert all(parameter.requires_grad for parameter in model.policy.acquirer.parameters())


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=2, max_size=8))
def test_draws_go_by_worth_per_bill(pairs):
    worth, bills = np.array(pairs).T
    logs = log_worth(worth[None], np.eye(len(worth)), bills)
    per_unit = np.maximum(worth / bills, (worth / bills).max() / 1000)
    assert np.exp(logs) / np.exp(logs).sum() == pytest.approx(per_unit / per_unit.sum())
    assert logs.mean() == pytest.approx(0, abs=1e-9)


def test_a_panel_is_worth_its_features_and_what_is_free_stays_at_zero():
    importance = np.array([[0.1, 0.2, 0.3], [0.1, 0.0, 0.3]])
    reveals = np.array([[1, 1, 0], [0, 0, 1], [1, 1, 1]])
    logs = log_worth(importance, reveals, np.array([1.0, 1.0, 0.0]))
    assert logs[1] - logs[0] == pytest.approx(np.log(0.6 / 0.4))
    assert logs[2] == 0


def test_useless_orders_are_not_ruled_out():
    logs = log_worth(np.array([[1.0, 0.0]]), np.eye(2), np.ones(2))
    assert logs[0] - logs[1] == pytest.approx(np.log(1000))
    assert np.isfinite(log_worth(np.zeros((1, 2)), np.eye(2), np.ones(2))).all()


def test_where_only_deliveries_count_what_is_rarely_in_the_record_is_cheap():
    """x1 is there in one of ten steps: a request for it is billed a tenth in the mean."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    series = []
    for label in labels:
        values = rng.standard_normal((10, 3))
        values[:, 0] += label
        values[1:, 1] = np.nan
        series.append(values)
    tiny = tiny_dataset(n_features=3, n_classes=2, longest=10)
    train = SeriesSet.from_list(series, labels, tiny.train.features, "train")
    orders = tuple(Order(f"x{i}", (f"x{i}",), cost=cost) for i, cost in enumerate((1.0, 1.0, 2.0)))
    known = replace(tiny, train=train, menu=Menu(tuple(tiny.train.features), orders))

    def scores(bill):
        spec = tiny_spec(acquirer__prior=True, budget__total=6.0, budget__bill=bill, acquirer__trees=50)
        return make_model(spec, known).policy.acquirer.scores.bias.tolist()

    requested, delivered = scores("requested"), scores("delivered")
    assert requested[0] > requested[1]
    assert (delivered[1] - delivered[0]) - (requested[1] - requested[0]) == pytest.approx(np.log(10), abs=1e-5)
    assert delivered[2] - delivered[0] == pytest.approx(requested[2] - requested[0], abs=1e-5)


def test_what_arrives_by_itself_is_no_reason_to_order_a_panel():
    data = tiny_dataset(n_features=3, n_real=1, n_classes=2)
    orders = (
        Order("x0", ("x0",), cost=0.0, free=True),
        Order("both", ("x0", "x1"), cost=1.0),
        Order("x2", ("x2",), cost=1.0),
    )
    data = replace(data, menu=Menu(tuple(data.train.features), orders))
    spec = tiny_spec(acquirer__prior=True, acquirer__trees=100, budget__per_step=1)
    free, panel, other = make_model(spec, data).policy.acquirer.scores.bias.tolist()
    assert free == 0
    assert abs(panel - other) < 1
    _, panel, other = make_model(tiny_spec(acquirer__kind="static", budget__per_step=1), data).policy.acquirer.scores[0]
    assert panel < 3 * other


@pytest.mark.parametrize("changes", [{"training__objective": "value"}, {"budget__price": 0.1}, {"acquirer__kind": "random"}])
def test_ranks_are_neither_nats_nor_worth_a_price(changes):
    with pytest.raises(SpecError, match="prior"):
        tiny_spec(acquirer__prior=True, **changes)
