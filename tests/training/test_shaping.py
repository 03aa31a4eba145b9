"""What training adds to the loss, to the values and to the budget: bills, weights, noise, prices; values that stay."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import tiny_batch, tiny_dataset, tiny_policy, tiny_spec
from whichwhen.artifacts import load_model
from whichwhen.budget import Price, Total
from whichwhen.data.regrid import widen
from whichwhen.data.store import SeriesSet
from whichwhen.evaluation.prices import at_budget
from whichwhen.menu import Feature
from whichwhen.model import make_model
from whichwhen.noise import NoisePool
from whichwhen.predictors import make_predictor
from whichwhen.rollout import roll_out
from whichwhen.selection import Gate
from whichwhen.specs import BudgetSpec, PredictorSpec
from whichwhen.training.augment import NOISE, OFFSET, augmented, spread_of
from whichwhen.training.class_weights import class_weights
from whichwhen.training.objectives import EndToEnd, OrderValue, Priced, make_objective
from whichwhen.training.run import train
from whichwhen.types import Hindsight, Reveal

# -- prices


def test_the_bill_is_price_times_cost_of_all_that_was_asked():
    policy = replace(tiny_policy("learned"), budget=Price(0.2), selector=Gate())
    batch = tiny_batch()
    known = Hindsight(batch, torch.tensor([0, 1, 2, 0, 1]))
    record = roll_out(policy, batch, torch.Generator().manual_seed(0))
    bare, priced = EndToEnd(0.0), Priced(EndToEnd(0.0), policy.rules)
    bill = priced.loss(record, known) - bare.loss(record, known)
    assert bill.item() == pytest.approx(0.2 * float(record.cost.sum()) / 5, rel=1e-5)


@pytest.mark.parametrize("acquirer", ["learned", "table"])
def test_where_only_deliveries_count_the_bill_is_that_of_what_was_answered(acquirer):
    policy = replace(tiny_policy(acquirer), budget=Price(0.2), selector=Gate())
    batch = tiny_batch()
    gone = torch.rand(batch.values.shape, generator=torch.Generator().manual_seed(3)) < 0.4
    batch = replace(batch, observed=batch.observed & ~gone)
    known = Hindsight(batch, torch.tensor([0, 1, 2, 0, 1]))
    record = roll_out(policy, batch, torch.Generator().manual_seed(0))
    bare, priced = EndToEnd(0.0), Priced(EndToEnd(0.0), policy.rules, delivered=True)
    bill = priced.loss(record, known) - bare.loss(record, known)
    asked = record.selections.request.bool()
    answered = sum(
        int(batch.observed[i, t][asked[i, t]].sum()) for i in range(batch.size) for t in range(int(batch.lengths[i]))
    )
    assert 0 < answered < int(asked.sum())
    assert bill.item() == pytest.approx(0.2 * answered / 5, rel=1e-5)


def test_the_bill_s_gradient_makes_every_order_less_wanted():
    policy = replace(tiny_policy("table"), budget=Price(0.2), selector=Gate())
    record = roll_out(policy, tiny_batch(), torch.Generator().manual_seed(0))
    selection = record.flat(lambda step: step.selection)
    (selection.relaxed @ policy.rules.costs * selection.price).sum().backward()
    assert (policy.acquirer.by_time.grad[:7] > 0).all()


@pytest.mark.parametrize("kind", ["end-to-end", "greedy-cmi", "value", "foresight"])
@pytest.mark.parametrize("acquirer", ["learned-only", "table", "random"])
def test_under_a_price_all_that_learns_pays_but_regressed_values(acquirer, kind):
    spec = tiny_spec(acquirer__kind=acquirer, training__objective=kind)
    policy = make_model(spec, tiny_dataset()).policy
    bare, priced = (make_objective(spec, policy, priced) for priced in (False, True))
    assert type(priced) is (EndToEnd if acquirer == "random" else OrderValue if kind == "value" else Priced)
    assert priced == (Priced(bare, policy.rules) if isinstance(priced, Priced) else bare)
    assert priced.branches == bare.branches


# -- budgets of a model that was trained for one budget


def test_a_total_for_logits_becomes_available_evenly():
    data = tiny_dataset()
    model = make_model(tiny_spec(selector__kind="sequential"), data)
    assert at_budget(model, BudgetSpec(total=9.0), data.validation).budget == Total(9.0, over=data.horizon)


@pytest.mark.parametrize("bill", ["requested", "delivered"])
def test_values_spend_a_total_at_the_price_that_serves_best_on_validation(bill, tmp_path, monkeypatch):
    spec = tiny_spec(budget__per_step=None, budget__total=8.0, budget__bill=bill, training__objective="value")
    tried = []
    find = "whichwhen.evaluation.prices.find_price_of_total"
    monkeypatch.setattr(find, lambda policy, series, total, *rest: tried.append((len(series), total)) or 0.008)
    data = tiny_dataset()
    result = train(spec, tmp_path / "run", data=data)
    model, delivered = load_model(tmp_path / "run"), bill == "delivered"
    assert tried == [(len(data.validation), Total(8.0, delivered=delivered))]
    assert model.card.price == result["price"] == 0.008
    assert model.policy.budget == Total(8.0, 0.008, delivered=delivered)
    assert make_objective(spec, model.policy, priced=False).delivered == delivered
    assert result["test"]["requested_cost"] <= 8 + 1e-6


@pytest.mark.parametrize("objective", ["end-to-end", "value"])
@pytest.mark.parametrize("memory", [0, 4])
def test_what_an_order_is_worth_does_not_depend_on_its_price(memory, objective):
    data = tiny_dataset()
    spec = tiny_spec(acquirer__memory=memory, training__objective=objective)
    policy, batch = make_model(spec, data).policy, data.test.hindsight(np.arange(8)).batch
    free, dear = (roll_out(replace(policy, budget=Total(8.0, price)), batch).steps[0].scores.values for price in (None, 0.5))
    assert torch.equal(free, dear)


BUDGETS = [{"total": 6.0, "bill": "delivered"}, {"total": 6.0, "per_step": 2.0}, {"per_step": 2.0}, {}]
PRICES = [{"price": 0.01, "per_step": 3.0}, {"price": 0.01}]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [*(("static", each) for each in BUDGETS), *(("learned-only", each) for each in (*BUDGETS, *PRICES))],
    ids=str,
)
def test_the_budget_of_training_asked_for_again_is_the_same(kind, fields):
    data = tiny_dataset()
    wanted = {f"budget__{name}": value for name, value in ({"per_step": None} | fields).items()}
    model = make_model(tiny_spec(acquirer__kind=kind, **wanted), data)
    assert at_budget(model, BudgetSpec(**fields), data.validation).budget == model.policy.budget


# -- noise on the values of training


def test_noise_is_an_offset_for_each_column_of_a_series_and_a_draw_for_each_value():
    batch = tiny_batch((40,) * 200, n_features=3)
    spread = torch.tensor([1.0, 2.0, 0.0])
    known = augmented(Hindsight(batch, torch.zeros(200).long()), spread, NoisePool(3, 1 << 20))
    change = known.batch.values - batch.values
    offset = change.mean(1)
    assert offset.std(0).tolist() == pytest.approx([OFFSET, 2 * OFFSET, 0], rel=0.15)
    assert (change - offset.unsqueeze(1)).std((0, 1)).tolist() == pytest.approx([NOISE, 2 * NOISE, 0], rel=0.05)
    assert torch.equal(known.batch.values[..., 2], batch.values[..., 2])
    assert change.mean((0, 1)).tolist() == pytest.approx([0, 0, 0], abs=0.1)


@given(lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_noise_leaves_what_was_not_observed_and_all_but_the_values_as_they_are(lengths, seed):
    batch = tiny_batch(tuple(lengths))
    seen = batch.observed & (torch.rand(batch.values.shape, generator=torch.Generator().manual_seed(seed)) < 0.7)
    batch = replace(batch, values=batch.values * seen, observed=seen)
    known = Hindsight(batch, torch.zeros(batch.size).long())
    moved = augmented(known, torch.ones(5), NoisePool(seed, 1 << 10))
    assert (moved.batch.values[~seen] == 0).all()
    assert (moved.batch.values[seen] != batch.values[seen]).all()
    assert replace(moved, batch=batch) == known
    assert replace(moved.batch, values=batch.values) == batch


def test_the_spread_of_a_column_is_that_of_its_values_and_none_where_they_are_few():
    rng = np.random.default_rng(0)
    wild, level, holes = rng.normal(5, 3, 300), rng.integers(0, 32, 300) * 10.0, rng.normal(0, 2, 300)
    holes[::3] = np.nan
    values = np.stack([wild, level, holes], 1)
    part = SeriesSet.from_list([values[:100], values[100:]], np.array([0, 1]), [Feature(name) for name in "abc"])
    assert spread_of(part).tolist() == pytest.approx([wild.std(), 0, np.nanstd(holes)], rel=1e-4)


# -- weights


def test_balanced_classes_count_the_same_and_one_in_the_mean():
    part = tiny_dataset().train
    labels = np.array([0] * 30 + [1] * 10)
    weights = class_weights(replace(part, labels=labels), 2).numpy()
    assert weights * [30, 10] == pytest.approx([20, 20])


def test_weights_of_series_and_classes_scale_their_losses():
    policy, batch = tiny_policy("random"), tiny_batch()
    labels = torch.tensor([0, 1, 2, 0, 1])
    record = roll_out(policy, batch)
    ones = EndToEnd(0.3).loss(record, Hindsight(batch, labels)).item()
    heavy = Hindsight(batch, labels, weights=torch.full((5,), 3.0), class_weights=torch.full((3,), 0.5))
    assert EndToEnd(0.3).loss(record, heavy).item() == pytest.approx(1.5 * ones, rel=1e-5)
    only_first = Hindsight(batch, labels, weights=torch.tensor([5.0, 0, 0, 0, 0]))
    alone = torch.nn.functional.cross_entropy(record.final_logits[:1], labels[:1]).item()
    assert EndToEnd(0.0).loss(record, only_first).item() == pytest.approx(alone, rel=1e-5)


# -- predictors that carry


@pytest.mark.parametrize("changes", [{"carry": True}, {"carry": True, "kind": "gru"}])
def test_step_and_sequence_agree(changes):
    torch.manual_seed(0)
    predictor = make_predictor(PredictorSpec(width=6, layers=2, time_features=2, **changes), 3, 2, 6).eval()
    with torch.no_grad():
        for parameter in predictor.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    lengths = torch.tensor([6, 3, 5])
    mask = (torch.rand(3, 6, 3) > 0.5).float() * (torch.arange(6) < lengths.unsqueeze(1)).unsqueeze(-1)
    age = torch.randint(0, 2, (3, 6, 3)) * mask
    reveals = Reveal(torch.randn(3, 6, 3) * mask, mask, age, torch.arange(6).expand(3, 6).contiguous())
    logits, context = predictor.sequence(reveals, lengths)
    _, state = predictor.init(3)
    for t in range(6):
        now = Reveal(reveals.values[:, t], mask[:, t], age[:, t], reveals.time[:, t])
        stepped, seen, state = predictor.step(now, state)
        going = lengths > t
        assert torch.allclose(stepped[going], logits[going, t], atol=1e-5)
        assert torch.allclose(seen[going], context[going, t], atol=1e-5)


def test_a_value_that_was_carried_is_seen_later_and_a_bare_predictor_without_reach_forgets_it():
    torch.manual_seed(0)
    predictor = make_predictor(PredictorSpec(kind="conv", width=6, layers=1, carry=True), 2, 2, 9).eval()
    spread = []
    for value in (-2.0, 2.0):
        _, state = predictor.init(1)
        mask = torch.tensor([[1.0, 0.0]])
        for t in range(8):
            seen = mask if t == 0 else torch.zeros(1, 2)
            reveal = Reveal(value * seen, seen, torch.zeros(1, 2), torch.tensor([t]))
            _, context, state = predictor.step(reveal, state)
        spread.append(context[:, :6])
    assert not torch.allclose(*spread)


# -- wider steps


def test_the_last_value_in_a_wider_step_counts_and_labels_stay_positive():
    values = np.array([[1, np.nan], [2, 5], [np.nan, 6], [np.nan, np.nan], [9, np.nan]], dtype=np.float32)
    part = SeriesSet.from_list([values], np.array([1]), [Feature("a"), Feature("b")])
    part = replace(part, step_labels=np.array([0, 1, 0, 0, 0]))
    wide = widen(part, 2)
    assert np.array_equal(wide.values, np.array([[2, 5], [np.nan, 6], [9, np.nan]]), equal_nan=True)
    assert wide.step_labels.tolist() == [1, 0, 0]
    assert widen(part, 1) is part
    assert widen(part, 9).lengths.tolist() == [1]
