"""What is bought has to bring more than money brings in the mean."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import features_of, tiny_batch, tiny_dataset, tiny_policy, tiny_spec
from whichwhen.budget import PerStep, Total
from whichwhen.data import SeriesSet
from whichwhen.errors import SpecError
from whichwhen.menu import Menu, Order
from whichwhen.model import make_model
from whichwhen.rollout import roll_out
from whichwhen.selection import GumbelTopK, HardTopK
from whichwhen.training.detached import roll_out_detached
from whichwhen.training.loop import fit
from whichwhen.training.objectives import EndToEnd, Objective, Thrifty, make_objective
from whichwhen.types import Hindsight

COSTS = (1.0, 2.0, 0.5, 3.0, 1.5)


def costly_menu(costs=COSTS):
    features = features_of(len(costs))
    return Menu(tuple(features), tuple(Order(f.name, (f.name,), cost=cost) for f, cost in zip(features, costs, strict=True)))


def recorded(seed=0, observed=None, budget=None):
    policy = tiny_policy("learned", menu=costly_menu(), seed=seed).with_selector(GumbelTopK())
    policy = replace(policy, budget=budget or PerStep(4))
    batch = tiny_batch(seed=seed)
    if observed is not None:
        batch = replace(batch, observed=batch.observed & observed)
    record = roll_out_detached(policy, batch, torch.Generator().manual_seed(seed))
    return policy, record, Hindsight(batch, torch.arange(5) % 3)


def gradients(objective, record, known):
    relaxed = [step.selection.relaxed for step in record.steps]
    return torch.cat(torch.autograd.grad(objective.loss(record, known), relaxed, retain_graph=True))


@dataclass(frozen=True)
class Each(Objective):
    """An objective to which every measurement adds the same."""

    adds: float

    def loss(self, record, hindsight):
        return self.adds * torch.cat([step.selection.relaxed for step in record.steps]).sum()


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10_000))
def test_at_full_weight_all_requests_together_are_just_worth_their_bill(seed):
    policy, record, known = recorded(seed)
    asked = record.flat(lambda step: step.selection).request
    plain = gradients(EndToEnd(0.3), record, known)
    thrifty = gradients(Thrifty(EndToEnd(0.3), policy.rules, delivered=False), record, known)
    brings = -float((plain * asked).sum())
    if brings <= 0:
        assert torch.equal(plain, thrifty)
        return
    assert float((thrifty * asked).sum()) == pytest.approx(0, abs=1e-5)
    price = brings / float((asked * torch.tensor(COSTS)).sum())
    assert torch.allclose(thrifty - plain, price * torch.tensor(COSTS).expand_as(plain), atol=1e-6)


def test_what_brings_nothing_has_no_price():
    policy, record, known = recorded()
    harmful = Each(1.0)
    assert torch.equal(Thrifty(harmful, policy.rules, False).loss(record, known), harmful.loss(record, known))


def test_what_the_record_could_not_answer_is_not_billed_where_only_deliveries_count():
    seen = torch.rand(5, 7, 5, generator=torch.Generator().manual_seed(3)) < 0.5
    policy, record, known = recorded(1, seen, Total(9, delivered=True))
    useful = Each(-1.0)
    added = gradients(Thrifty(useful, policy.rules, delivered=True), record, known) - gradients(useful, record, known)
    there = known.batch.observed[record.series_by_row, record.time_by_row]
    assert torch.equal(added > 0, there)


def test_results_that_would_come_after_the_end_are_billed_and_bring_nothing():
    features = features_of(5)
    late = Menu(tuple(features), tuple(Order(f.name, (f.name,), cost=1.0, turnaround=3) for f in features))
    policy = tiny_policy("learned", menu=late).with_selector(GumbelTopK())
    batch = tiny_batch()
    record = roll_out_detached(policy, batch, torch.Generator().manual_seed(0))
    objective = Thrifty(EndToEnd(0.3), policy.rules, delivered=False)
    objective.loss(record, Hindsight(batch, torch.arange(5) % 3)).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in policy.acquirer.parameters())


def test_what_had_to_be_asked_does_not_set_the_price():
    """A mandatory order, cheap and of great use, says nothing about what the others are worth."""
    features = features_of(5)
    orders = [Order("x0", ("x0",), cost=0.5, mandatory=True), *(Order(f.name, (f.name,), cost=1.0) for f in features[1:])]
    policy = tiny_policy("learned", menu=Menu(tuple(features), tuple(orders))).with_selector(GumbelTopK())
    policy = replace(policy, budget=PerStep(2.5))
    batch = tiny_batch()
    record = roll_out_detached(policy, batch, torch.Generator().manual_seed(0))
    assert all((step.selection.request[:, 0] == 1).all() for step in record.steps)
    known = Hindsight(batch, torch.arange(5) % 3)
    left = gradients(Thrifty(Each(-1.0), policy.rules, delivered=False), record, known)
    assert torch.allclose(left[:, 1:], torch.zeros(1), atol=1e-6)


def test_hard_requests_are_not_billed():
    policy, _, known = recorded()
    record = roll_out(policy.with_selector(HardTopK()), known.batch)
    loss = EndToEnd(0.3).loss(record, known)
    assert torch.equal(Thrifty(EndToEnd(0.3), policy.rules, False).loss(record, known), loss)


def twins(seed=0):
    """Two columns that say the same, one of them three times as dear, and one of noise."""
    rng, sets = np.random.default_rng(seed), {}
    tiny = tiny_dataset(n_features=3, n_classes=2, longest=6)
    for name, count in (("train", 256), ("validation", 64)):
        labels = np.arange(count) % 2
        series = []
        for label in labels:
            values = rng.standard_normal((6, 3))
            values[:, 1] = values[:, 0] = values[:, 0] + 1.5 * (2 * label - 1)
            series.append(values)
        sets[name] = SeriesSet.from_list(series, labels, tiny.train.features, "train", seed=seed)
    return replace(tiny, train=sets["train"], validation=sets["validation"], menu=costly_menu((3.0, 1.0, 1.0)))


@pytest.mark.parametrize("kind", ["learned", "table"])
def test_of_two_that_bring_the_same_the_cheaper_one_is_learned(kind):
    """Three a step pays for the dear one or for the cheap one and noise: without thrift both seem as good."""
    data = twins()
    spec = tiny_spec(
        acquirer__kind=kind,
        budget__per_step=3.0,
        training__thrift=1.0,
        training__epochs=20,
        training__warm_up=5,
        training__batch_size=32,
        training__learning_rate=0.02,
    )
    model = make_model(spec, data)
    fit(model, data)
    known = data.validation.hindsight(np.arange(64))
    with torch.no_grad():
        asked = roll_out(model.policy, known.batch).selections.request.mean((0, 1))
    assert asked[1] > 0.9
    assert asked[0] < 0.1


def test_it_is_asked_for_by_the_spec():
    data = tiny_dataset()
    made = {thrift: make_objective(s := tiny_spec(training__thrift=thrift), make_model(s, data).policy) for thrift in (0, 0.5)}
    assert isinstance(made[0], EndToEnd)
    assert isinstance(made[0.5], Thrifty)
    assert made[0.5].weight == 0.5


@pytest.mark.parametrize(
    "changes",
    [
        {"budget__price": 0.1},
        {"training__objective": "value"},
        {"training__objective": "foresight"},
        {"training__gradient": "full"},
        {"acquirer__kind": "static"},
    ],
)
def test_where_it_means_nothing_it_is_refused(changes):
    with pytest.raises(SpecError, match="thrift"):
        tiny_spec(training__thrift=1.0, **changes)
    with pytest.raises(SpecError, match="thrift"):
        tiny_spec(training__thrift=-1.0)
