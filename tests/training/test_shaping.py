"""What training adds around an acquirer and asks of a predictor: sharpening, exploring, prices, gates, values that stay."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import tiny_batch, tiny_dataset, tiny_policy, tiny_spec
from whichwhen.acquirers import LearnedAcquirer
from whichwhen.acquirers.reserve import relative_worth
from whichwhen.budget import PerStep, Price, RandomPrice, Total
from whichwhen.data.regrid import widen
from whichwhen.data.store import SeriesSet
from whichwhen.errors import SpecError
from whichwhen.evaluation import evaluate
from whichwhen.evaluation.pacing import at_budget, find_price, prices_between, try_prices
from whichwhen.menu import Feature
from whichwhen.model import make_model
from whichwhen.predictors import make_predictor
from whichwhen.presets import best_spec
from whichwhen.rollout import roll_out
from whichwhen.selection import GumbelTopK
from whichwhen.specs import AcquirerSpec, BudgetSpec, DataSpec, PredictorSpec
from whichwhen.training import fit
from whichwhen.training.augment import jittered, stretched
from whichwhen.training.exploring import Exploring
from whichwhen.training.loop import class_weights, make_optimizer, sharpness
from whichwhen.training.objectives import EndToEnd, Priced, make_objective
from whichwhen.training.run import train
from whichwhen.training.sharpened import Sharpened
from whichwhen.types import Hindsight, Reveal

# -- sharpening


def draws(policy, factor, seed=0):
    batch = tiny_batch((7,) * 64)
    sharp = replace(policy, acquirer=Sharpened(policy.acquirer, factor), selector=GumbelTopK())
    with torch.no_grad():
        return roll_out(sharp, batch, torch.Generator().manual_seed(seed)).selections.request


def test_sharpened_draws_become_what_evaluation_does():
    policy = tiny_policy("table")
    with torch.no_grad():
        hard = roll_out(policy, tiny_batch((7,) * 64)).selections.request
    same = [float((draws(policy, factor) == hard).float().mean()) for factor in (0.01, 1.0, 1000.0)]
    assert same[0] < same[1] < same[2]
    assert same[2] > 0.999


def test_sharpening_leaves_the_gradient_as_it_is():
    policy = tiny_policy("table")
    values = []
    for factor in (1.0, 50.0):
        policy.acquirer.zero_grad()
        sharp = Sharpened(policy.acquirer, factor)
        view_scores = roll_out(replace(policy, acquirer=sharp), tiny_batch()).scores.values
        view_scores.sum().backward()
        values.append(policy.acquirer.table.grad.clone())
    assert torch.equal(*values)


def test_sharpness_rises_from_1_to_its_end_over_the_epochs_after_the_warm_up():
    settings = tiny_spec(training__epochs=6, training__warm_up=2, training__sharpen=8.0).training
    found = [sharpness(settings, epoch) for epoch in range(3, 7)]
    assert found == pytest.approx([1, 2, 4, 8])
    assert sharpness(tiny_spec(training__epochs=1, training__sharpen=8.0).training, 1) == 8
    assert sharpness(tiny_spec().training, 2) == 1


# -- exploring


def test_explorers_are_a_share_of_the_series_and_do_not_listen():
    policy = tiny_policy("table")
    keys = torch.arange(4000) * 31
    acquirer = Exploring(policy.acquirer, 0.25, seed=3)
    listens = acquirer.init(keys)["listens"]
    assert float(1 - listens.mean()) == pytest.approx(0.25, abs=0.03)
    batch = tiny_batch((7,) * 5)
    record = roll_out(replace(policy, acquirer=acquirer), batch)
    stays = Exploring(policy.acquirer, 0.25, 3).init(batch.keys)["listens"].squeeze(1)
    assert torch.equal(record.scores.values.abs().sum((1, 2)) > 0, stays > 0)


def test_explorers_ask_for_every_order_alike():
    policy = replace(tiny_policy("table"), selector=GumbelTopK())
    policy = replace(policy, acquirer=Exploring(policy.acquirer, 0.999999, 0))
    with torch.no_grad():
        record = roll_out(policy, tiny_batch((7,) * 400), torch.Generator().manual_seed(0))
    share = record.selections.request.mean((0, 1))
    assert share.tolist() == pytest.approx([0.4] * 5, abs=0.05)


# -- prices


def test_the_bill_is_price_times_cost_of_all_that_was_asked():
    policy = replace(tiny_policy("learned"), budget=Price(0.2), selector=GumbelTopK())
    batch = tiny_batch()
    known = Hindsight(batch, torch.tensor([0, 1, 2, 0, 1]))
    record = roll_out(policy, batch, torch.Generator().manual_seed(0))
    bare, priced = EndToEnd(0.0), Priced(EndToEnd(0.0), policy.rules)
    bill = priced.loss(record, known) - bare.loss(record, known)
    assert bill.item() == pytest.approx(0.2 * float(record.cost.sum()) / 5, rel=1e-5)


@pytest.mark.parametrize("acquirer", ["learned", "table"])
def test_where_only_deliveries_count_the_bill_is_that_of_what_was_answered(acquirer):
    policy = replace(tiny_policy(acquirer), budget=Price(0.2), selector=GumbelTopK())
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
    policy = replace(tiny_policy("table"), budget=Price(0.2), selector=GumbelTopK())
    record = roll_out(policy, tiny_batch(), torch.Generator().manual_seed(0))
    selection = record.flat(lambda step: step.selection)
    (selection.relaxed @ policy.rules.costs * selection.price).sum().backward()
    assert (policy.acquirer.table.grad[:7] > 0).all()


def test_prices_for_training_are_log_uniform():
    rate = RandomPrice(0.001, 0.1).init(torch.arange(5000)).rate.log10()
    assert rate.min() >= -3 - 1e-5
    assert rate.max() <= -1 + 1e-5
    assert float(rate.mean()) == pytest.approx(-2, abs=0.05)


def test_a_price_in_training_needs_an_objective_that_can_pay_it():
    spec = tiny_spec(budget__price=0.1, training__objective="value")
    model = make_model(spec, tiny_dataset())
    with pytest.raises(SpecError, match=r"objective value .* train with --budget"):
        make_objective(spec, model.policy)
    spec = tiny_spec(budget__total=9.0, budget__pace="price", training__objective="value")
    with pytest.raises(SpecError, match=r"objective value .* use --pace even"):
        make_objective(spec, make_model(spec, tiny_dataset()).policy)


def test_the_pace_is_the_price_with_the_lowest_loss_and_never_exceeds_the_total():
    data = tiny_dataset()
    model = make_model(tiny_spec(budget__total=6.0, budget__pace="price"), data)
    model.policy.acquirer.unit = "nats"
    prices = prices_between(1e-3, 1.0, 5)
    assert prices == pytest.approx([1e-3, 10**-2.25, 10**-1.5, 10**-0.75, 1])
    paces = try_prices(model.policy, data.validation, Total(6.0), prices)
    assert all(pace.cost <= 6 + 1e-5 for pace in paces)
    assert find_price(model.policy, data.validation, Total(6.0), prices) == min(paces, key=lambda pace: pace.loss).price


def test_a_total_for_logits_becomes_available_evenly():
    data = tiny_dataset()
    even = at_budget(make_model(tiny_spec(), data), BudgetSpec(total=9.0), data.validation).budget
    assert even == Total(9.0, over=data.horizon)
    saved = at_budget(make_model(tiny_spec(), data), BudgetSpec(total=9.0, pace="saving"), data.validation).budget
    assert saved == Total(9.0, over=data.horizon, saves=True)


# -- a price for scores that are logits


@pytest.fixture(scope="module")
def trained():
    data = tiny_dataset()
    model = make_model(tiny_spec(training__epochs=4, training__learning_rate=0.05), data)
    fit(model, data)
    return model, data


@pytest.mark.parametrize("kind", ["learned", "static", "table", "random"])
def test_nothing_is_bought_at_a_price_that_nothing_is_worth_and_the_budget_is_the_most(kind, trained):
    _, data = trained
    model = make_model(tiny_spec(acquirer__kind=kind), data)
    dear = evaluate(at_budget(model, BudgetSpec(price=1e9), data.validation), data.validation).metrics
    assert dear.requested_cost == 0
    for price in (1e-9, 1e-3, 1e-2):
        found = evaluate(at_budget(model, BudgetSpec(price=price), data.validation), data.validation).metrics
        assert found.cost_per_step <= model.policy.budget.amount + 1e-6


def test_the_reserve_serves_best_among_those_tried_and_a_higher_price_never_buys_more(trained):
    model, data = trained
    costs = []
    for price in (1e-6, 1e-3, 1e-2, 1e-1, 1.0):
        found = evaluate(at_budget(model, BudgetSpec(price=price), data.validation), data.validation).metrics
        everything = evaluate(model.policy, data.validation).metrics
        assert found.loss + price * found.requested_cost <= everything.loss + price * everything.requested_cost + 1e-9
        costs.append(found.requested_cost)
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=6), st.data())
def test_relative_worth_is_the_softmax_per_unit_of_cost_whatever_is_added_to_the_logits(logits, draw):
    costs = torch.tensor(draw.draw(st.lists(st.floats(0.1, 50), min_size=len(logits), max_size=len(logits))))
    scores = torch.tensor(logits)
    worth = relative_worth(scores, costs)
    assert float((worth.exp() * costs).sum()) == pytest.approx(1, abs=1e-4)
    assert torch.allclose(worth, relative_worth(scores + 3, costs), atol=1e-4)
    assert torch.allclose(worth - relative_worth(scores, 2 * costs), torch.tensor(2.0).log(), atol=1e-4)


def test_a_model_for_many_budgets_is_priced_up_to_the_largest(trained):
    _, data = trained
    model = make_model(tiny_spec(budget__train_range=(1, 4), acquirer__budget=True), data)
    assert at_budget(model, BudgetSpec(price=0.1), data.validation).budget == PerStep(4)


def test_a_run_with_a_paced_total_keeps_its_price_and_its_cap(tmp_path):
    spec = tiny_spec(
        budget__total=8.0, budget__pace="price", budget__train_range=(0.001, 0.1), acquirer__budget=True, training__warm_up=1
    )
    result = train(spec, tmp_path / "run", data=tiny_dataset())
    from whichwhen.artifacts import load_model

    model = load_model(tmp_path / "run")
    assert model.card.price is not None
    assert model.policy.budget == Total(8.0, model.card.price)
    assert result["test"]["requested_cost"] <= 8


def test_a_paced_total_needs_no_range_of_prices(tmp_path):
    result = train(
        tiny_spec(budget__total=8.0, budget__pace="price", acquirer__budget=True), tmp_path / "run", data=tiny_dataset()
    )
    assert result["test"]["requested_cost"] <= 8


@pytest.mark.parametrize(("pace", "bill"), [("open", "delivered"), ("even", "requested"), ("saving", "delivered")])
def test_values_spend_a_total_at_a_price_of_its_own_whatever_paced_it_in_training(pace, bill, tmp_path, monkeypatch):
    spec = tiny_spec(
        budget__total=8.0, budget__pace=pace, budget__train_range=(1.6, 16), acquirer__budget=True, training__objective="value"
    ).change(budget__bill=bill)
    data, delivered = tiny_dataset(), bill == "delivered"
    monkeypatch.setattr("whichwhen.evaluation.pacing.find_price", lambda policy, series, budget, *rest: budget.amount / 1000)
    budgets = set()
    monkeypatch.setattr(
        "whichwhen.training.others.evaluate",
        lambda policy, *rest, **more: budgets.add(policy.budget) or evaluate(policy, *rest, **more),
    )
    train(spec, tmp_path / "run", data=data)
    from whichwhen.artifacts import load_model

    model = load_model(tmp_path / "run")
    assert model.card.price == pytest.approx(0.008)
    assert model.policy.budget == Total(8.0, model.card.price, delivered=delivered)
    assert make_objective(spec, model.policy).delivered == delivered
    assert {(round(budget.amount, 6), round(budget.price, 6)) for budget in budgets} == {
        (1.6, 0.0016),
        (3.2, 0.0032),
        (16, 0.016),
    }
    assert all(budget.delivered == delivered and budget.over is None for budget in budgets)


@pytest.mark.parametrize("memory", [0, 4])
def test_what_an_order_is_worth_does_not_depend_on_its_price(memory):
    data = tiny_dataset()
    spec = tiny_spec(budget__total=8.0, acquirer__budget=True, acquirer__memory=memory, training__objective="value")
    policy, batch = make_model(spec, data).policy, data.test.hindsight(np.arange(8)).batch
    free, dear = (roll_out(replace(policy, budget=Total(8.0, price)), batch).steps[0].scores.values for price in (None, 0.5))
    assert torch.equal(free, dear)


def test_an_open_total_may_be_spent_at_once_and_an_even_one_may_not():
    data = tiny_dataset()
    bills = {}
    for pace in ("even", "saving", "open"):
        model = make_model(tiny_spec(budget__total=4.0, budget__pace=pace, acquirer__kind="random"), data)
        bills[pace] = roll_out(model.policy, data.test.hindsight(np.arange(len(data.test))).batch).cost
        wanted = BudgetSpec(total=4.0, pace=pace)
        assert at_budget(model, wanted, data.validation).budget == model.policy.budget
        assert at_budget(make_model(tiny_spec(), data), wanted, data.validation).budget == model.policy.budget
    assert (bills["open"][:, 0] == 4).all()
    assert bills["open"][:, 1:].sum() == 0
    assert (bills["even"][:, 0] < 4).all()


def test_the_budget_of_training_asked_for_again_is_the_same():
    data = tiny_dataset()
    for fields in (
        {"price": 0.01, "cap": 3.0},
        {"price": 0.01},
        {"total": 6.0, "pace": "saving", "bill": "delivered", "advance": 2.0},
        {"per_step": 2.0},
    ):
        own = BudgetSpec(**fields)
        model = make_model(tiny_spec(**{f"budget__{name}": value for name, value in fields.items()}), data)
        amount = {own.kind.replace("-", "_"): getattr(own, own.kind.replace("-", "_"))}
        assert at_budget(model, own.at(**amount), data.validation).budget == model.policy.budget
    assert BudgetSpec(total=6.0, advance=2.0).at(total=1.0).advance == 1


# -- series that are moved in training


def test_jitter_moves_a_feature_of_a_series_as_a_whole_and_nothing_that_was_not_observed():
    batch = tiny_batch((7, 4, 6))
    observed = batch.observed & (torch.rand(batch.values.shape, generator=torch.Generator().manual_seed(0)) < 0.7)
    batch = replace(batch, values=batch.values * observed, observed=observed)
    torch.manual_seed(3)
    moved = jittered(batch, 0.5)
    change = moved.values - batch.values
    assert (moved.values[~observed] == 0).all()
    for i in range(3):
        for f in range(5):
            own = change[i, observed[i, :, f], f]
            assert torch.allclose(own, own[:1].expand_as(own), atol=1e-6)
    assert len(torch.unique(change[observed].round(decimals=4))) > 10


@given(seed=st.integers(0, 1000), amount=st.floats(0.01, 1), lengths=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_stretching_shows_steps_of_a_series_in_their_order_with_their_labels(seed, amount, lengths):
    batch = tiny_batch(tuple(lengths))
    clock = torch.arange(batch.steps).expand(batch.size, -1) * batch.observed.any(-1)  # each step's own number as its label
    batch = replace(batch, values=(clock.unsqueeze(-1) + 1.0) * batch.observed)
    torch.manual_seed(seed)
    known = stretched(Hindsight(batch, torch.zeros(batch.size).long(), step_labels=clock), amount)
    for i, (old, new) in enumerate(zip(lengths, known.batch.lengths.tolist(), strict=True)):
        assert round(old * np.exp(-amount)) - 1 <= new <= min(round(old * np.exp(amount)) + 1, max(lengths))
        assert new >= 1
        shown = known.step_labels[i, :new]
        assert (shown[1:] >= shown[:-1]).all()
        even = (np.arange(new) + 0.5) * old / new - 0.5
        assert np.abs(shown.numpy() - even).max() <= 0.5 + 1e-5  # the whole series, at an even pace
        assert shown.min() >= 0
        assert shown.max() < old
        assert (known.batch.values[i, :new] == shown.unsqueeze(-1) + 1).all()
        assert known.batch.observed[i, :new].all()
        assert not known.batch.observed[i, new:].any()
        assert not known.batch.values[i, new:].any()
        assert not known.step_labels[i, new:].any()


@pytest.mark.parametrize("what", ["jitter", "stretch"])
def test_series_are_changed_in_training_alone_and_the_same_way_after_a_break(what):
    data, spec = tiny_dataset(), tiny_spec(training__epochs=2)
    changed = spec.change(**{f"training__{what}": 1.0})
    one, other = fit(make_model(spec, data), data), fit(make_model(changed, data), data)
    assert one.history[0]["loss"] != other.history[0]["loss"]
    still = {"training__learning_rate": 1e-30, "training__weight_decay": 0.0, "predictor__dropout": 0.0}
    judged = [fit(make_model(each.change(**still), data), data).history[0]["validation_loss"] for each in (spec, changed)]
    assert judged[0] == judged[1]
    kept = []
    with pytest.raises(KeyboardInterrupt):
        fit(
            make_model(changed, data),
            data,
            on_epoch=lambda state: (kept.append(state), (_ for _ in ()).throw(KeyboardInterrupt))[0],
        )
    state = fit(make_model(changed, data), data, state=kept[0])
    assert [line["loss"] for line in state.history] == [line["loss"] for line in other.history]


def test_a_stretch_beyond_reason_is_refused():
    with pytest.raises(SpecError, match=r"stretch is 1.5; expected from 0 to 1"):
        tiny_spec(training__stretch=1.5)


def test_a_stretch_of_features_that_move_by_the_clock_is_refused_and_not_in_the_best_preset():
    with pytest.raises(SpecError, match="with shifted features"):
        tiny_spec(training__stretch=0.1, data__shift=True, data__fakes="zeros")
    moving = DataSpec(name="spoken-arabic-digits", fakes="zeros", shift=True)
    assert best_spec(moving, AcquirerSpec()).training.stretch == 0


# -- weights and rates


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


def test_the_acquirer_can_learn_at_its_own_rate():
    model = make_model(tiny_spec(training__acquirer_rate=5.0), tiny_dataset())
    groups = make_optimizer(model).param_groups
    assert [group["share"] for group in groups] == [5.0, 1.0]
    assert len(make_optimizer(make_model(tiny_spec(), tiny_dataset())).param_groups) == 1
    assert isinstance(model.policy.acquirer, LearnedAcquirer)


# -- predictors that gate and carry


@pytest.mark.parametrize("changes", [{"time_gate": True}, {"carry": True}, {"carry": True, "kind": "gru"}])
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


def test_a_gate_starts_open_and_can_shut_a_column():
    torch.manual_seed(0)
    gated = make_predictor(PredictorSpec(width=6, layers=1, time_gate=True), 2, 2, 9).eval()
    mask = torch.ones(1, 2)
    reveals = [Reveal(torch.tensor([[x, 1.0]]), mask, torch.zeros(1, 2), torch.tensor([3])) for x in (-1.0, 1.0)]
    assert not torch.equal(*(gated.step(reveal, gated.init(1)[1])[0] for reveal in reveals))
    with torch.no_grad():
        gated.inputs.gate.bias[0] = -200.0
    assert torch.equal(*(gated.step(reveal, gated.init(1)[1])[0] for reveal in reveals))


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
