import inspect
import typing
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from builders import ACQUIRERS, features_of, recipe_spec, tiny_batch, tiny_dataset, tiny_policy
from whichwhen import acquirers, contracts
from whichwhen.acquirers import (
    CompleteAcquirer,
    LearnedAcquirer,
    NoneAcquirer,
    OracleAcquirer,
    RandomAcquirer,
    RoundRobinAcquirer,
    StaticAcquirer,
    TableAcquirer,
    WithOwnPredictor,
    make_acquirer,
)
from whichwhen.acquirers._inputs import ViewInput, Waiting
from whichwhen.acquirers.learned import read_prediction
from whichwhen.acquirers.static import forest_importance
from whichwhen.budget import MeanCost, PerStep
from whichwhen.contracts import Acquirer
from whichwhen.menu import Menu, Order
from whichwhen.model import READS_PREDICTION, make_model
from whichwhen.presets import preset_spec
from whichwhen.provenance import Provenance
from whichwhen.rollout import inference, roll_out
from whichwhen.specs import AcquirerSpec
from whichwhen.training.objectives import EndToEnd, Objective
from whichwhen.types import Allowance, Reveal, View

CLASSES = {
    "learned": LearnedAcquirer,
    "learned-only": LearnedAcquirer,
    "table": TableAcquirer,
    "random": RandomAcquirer,
    "round-robin": RoundRobinAcquirer,
    "static": StaticAcquirer,
    "static-by-time": StaticAcquirer,
    "oracle": OracleAcquirer,
    "complete": CompleteAcquirer,
    "none": NoneAcquirer,
}


def plain_menu(count):
    return Menu.one_per_feature(features_of(count))


def make(kind="learned", count=4, horizon=7, gated=True, context_size=16, **fields):
    """An acquirer of a menu of one order per feature."""
    spec = AcquirerSpec(kind=kind, **fields)
    return make_acquirer(kind, spec, plain_menu(count), horizon, horizon, context_size, 0, gated)


def view_at(time, values=None, mask=None, size=1, n_features=4):
    zeros = torch.zeros(size, n_features)
    reveal = Reveal(zeros if values is None else values, zeros if mask is None else mask, zeros, torch.full((size,), time - 1))
    allowance = Allowance(torch.ones(size), torch.ones(size, n_features, dtype=torch.bool))
    return View(reveal, allowance, torch.zeros(size, 1), torch.full((size,), time))


def scores_at(acquirer, time, **view):
    size = view.get("size", 1)
    with torch.no_grad():
        return acquirer.step(view_at(time, **view), acquirer.init(torch.arange(size)))[0].values


def requests(policy, batch):
    with inference(policy):
        return roll_out(policy, batch).selections.request


# -- which there are, and what they may know


def test_every_kind_has_a_class_and_every_public_acquirer_a_kind():
    assert set(ACQUIRERS) == set(typing.get_args(AcquirerSpec.model_fields["kind"].annotation))
    for kind, expected in CLASSES.items():
        assert type(make(kind)) is expected


@pytest.mark.parametrize("function", [Objective.loss, EndToEnd.loss, Acquirer.init, Acquirer.step, make_acquirer])
def test_no_objective_and_no_acquirer_is_handed_provenance(function):
    names = str(inspect.signature(function))
    assert "Provenance" not in names
    assert "Hindsight" not in names or function in (Objective.loss, EndToEnd.loss)
    assert "Batch" not in names


@pytest.mark.parametrize("kind", ACQUIRERS)
def test_only_the_oracle_has_a_method_that_takes_provenance(kind):
    takes = {
        name
        for name, method in inspect.getmembers(CLASSES[kind], inspect.isfunction)
        if method.__module__.startswith("whichwhen") and "Provenance" in str(inspect.signature(method))
    }
    assert takes == ({"tell"} if kind == "oracle" else set())


def test_only_the_oracle_s_module_knows_provenance():
    from whichwhen import predictors, training
    from whichwhen.acquirers import fixed, learned, oracle, round_robin, static, table

    knows = [module for module in (fixed, learned, round_robin, static, table, oracle) if hasattr(module, "Provenance")]
    assert knows == [oracle]
    for module in (contracts, acquirers, predictors, training.objectives):
        assert not hasattr(module, "Provenance")


def test_learned_and_table_learn_and_the_others_do_not():
    for kind in ACQUIRERS:
        assert tiny_policy(kind).acquirer.learns == (kind in ("learned", "learned-only", "table"))


@pytest.mark.parametrize("kind", ACQUIRERS)
def test_what_says_that_it_does_not_react_asks_the_same_of_every_series(kind):
    policy = tiny_policy(kind)
    reacts = kind not in ("round-robin", "static", "static-by-time", "complete", "none")
    if not policy.acquirer.reacts:
        found = requests(policy, tiny_batch((7,) * 9))
        assert (found == found[:1]).all()
    assert policy.acquirer.reacts == reacts or kind in ("oracle", "table")


# -- random


def test_random_takes_every_order_equally_often():
    batch = tiny_batch((7,) * 300)
    counts = requests(tiny_policy("random"), batch).sum((0, 1))
    expected = 300 * 7 * 2 / 5
    assert counts.tolist() == pytest.approx([expected] * 5, abs=4 * (2100 * 0.4 * 0.6) ** 0.5)


def test_random_depends_on_seed_series_and_step():
    first = requests(tiny_policy("random"), tiny_batch((7, 7)))
    assert torch.equal(first, requests(tiny_policy("random"), tiny_batch((7, 7), seed=5)))  # other values, same requests
    assert not torch.equal(first, requests(tiny_policy("random", seed=1), tiny_batch((7, 7))))


# -- learned


def test_learned_reads_values_mask_and_time_as_the_paper_s_does():
    spec = preset_spec("paper", "m-forda").acquirer
    acquirer = make_acquirer(spec.kind, spec, plain_menu(40), 50, 50, 16, 0, gated=False)
    assert acquirer.unit == "logits"
    assert [name for name, _ in acquirer.named_parameters()] == [
        f"{layer}.{part}" for layer in ("hidden", "scores") for part in ("weight", "bias")
    ]
    assert (acquirer.hidden.in_features, acquirer.hidden.out_features, acquirer.scores.out_features) == (81, 4, 40)
    assert preset_spec("paper", "spoken-arabic-digits").acquirer.hidden == 8


def test_learned_tells_values_masks_and_times_apart():
    acquirer = tiny_policy(n_features=4).acquirer
    base = scores_at(acquirer, 2)
    mask = torch.tensor([[1.0, 0, 0, 0]])
    assert not torch.equal(base, scores_at(acquirer, 3))
    assert not torch.equal(base, scores_at(acquirer, 2, mask=mask))
    assert not torch.equal(scores_at(acquirer, 2, mask=mask), scores_at(acquirer, 2, mask=mask, values=mask * 2))


# -- table


def test_table_has_a_row_for_each_step_and_the_last_one_for_later_steps():
    acquirer = TableAcquirer(4, horizon=3)
    with torch.no_grad():
        acquirer.by_time.copy_(torch.arange(12.0).view(3, 4))
    for time, row in ((0, 0), (2, 2), (3, 2), (50, 2)):
        assert scores_at(acquirer, time)[0].tolist() == [4.0 * row + k for k in range(4)]


def test_table_reacts_to_nothing_but_time():
    acquirer = tiny_policy("table", n_features=4).acquirer
    values = torch.full((1, 4), 9.0)
    assert torch.equal(scores_at(acquirer, 1), scores_at(acquirer, 1, values=values, mask=torch.ones(1, 4)))


# -- static


@pytest.mark.parametrize("segments", [1, 3])
def test_static_adds_up_importance_over_the_steps_of_a_segment(segments):
    importance = np.random.default_rng(0).random((6, 4))
    acquirer = StaticAcquirer(4, segments, horizon=6)
    acquirer.fit(importance, plain_menu(4))
    for time in range(8):
        part = importance if segments == 1 else importance[2 * min(time // 2, 2) :][:2]
        assert scores_at(acquirer, time)[0].tolist() == pytest.approx(part.sum(0).tolist(), rel=1e-5)


def test_static_fitted_again_forgets_the_first_time():
    acquirer = StaticAcquirer(4, 1, horizon=3)
    acquirer.fit(np.ones((3, 4)), plain_menu(4))
    acquirer.fit(np.ones((3, 4)) * 2, plain_menu(4))
    assert scores_at(acquirer, 0)[0].tolist() == [6.0] * 4


def test_static_gives_a_panel_the_importance_of_its_features_per_unit_of_cost_and_what_is_free_none():
    acquirer = StaticAcquirer(3, 1, horizon=1)
    orders = (Order("ab", ("x0", "x1"), 1.0), Order("bc", ("x1", "x2"), 4.0), Order("c", ("x2",), 0.0, free=True))
    acquirer.fit(np.array([[1.0, 2.0, 4.0]]), Menu(tuple(features_of(3)), orders))
    assert scores_at(acquirer, 0, n_features=3)[0].tolist() == [3.0, 1.5, 0.0]


@pytest.mark.parametrize("horizon", [1, 2, 7, 12])
@pytest.mark.parametrize("segments", [1, 2, 3, 10])
def test_segments_are_equal_parts_of_the_horizon(horizon, segments):
    acquirer = make("static-by-time", horizon=horizon, segments=segments)
    counts = Counter(acquirer._segment(torch.arange(horizon)).tolist())
    assert sorted(counts) == list(range(min(segments, horizon)))
    assert max(counts.values()) - min(counts.values()) <= 1
    assert acquirer._segment(torch.tensor([horizon, 10 * horizon])).tolist() == [min(segments, horizon) - 1] * 2


def test_the_forest_finds_the_step_and_feature_that_tell_the_class():
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=200)
    values = rng.standard_normal((200, 3, 4))
    values[:, 1, 2] += 3 * labels
    found = forest_importance(values, labels, trees=30, seed=0, jobs=1)
    assert found.shape == (3, 4)
    assert found.sum() == pytest.approx(1)
    assert np.unravel_index(found.argmax(), found.shape) == (1, 2)
    assert np.array_equal(found, forest_importance(values, labels, trees=30, seed=0, jobs=2))
    assert not np.array_equal(found, forest_importance(values, labels, trees=30, seed=1, jobs=1))


# -- oracle


def oracle_requests(real, budget, steps):
    policy = tiny_policy("oracle", budget=budget, n_features=real.shape[1], horizon=len(real))
    policy.acquirer.tell(Provenance(real), policy.menu.reveals)
    return requests(policy, tiny_batch((steps,), n_features=real.shape[1]))[0].numpy()


@pytest.mark.parametrize("n_real", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("budget", [1, 2, 3, 5])
def test_the_oracle_asks_for_real_features_only_and_for_each_as_often(n_real, budget):
    real = np.zeros((2 * n_real, 8), dtype=bool)
    columns = np.random.default_rng(n_real).permutation(8)[:n_real]
    real[:, columns] = True
    found = oracle_requests(real, budget, 2 * n_real)
    assert not found[:, ~real[0]].any()
    assert (found.sum(1) == min(budget, n_real)).all()
    assert (found[:, columns].sum(0) == 2 * min(budget, n_real)).all()


def test_the_oracle_follows_features_that_move():
    real = np.eye(6, dtype=bool)
    assert np.array_equal(oracle_requests(real, 2, 6), real)


def test_an_oracle_that_was_told_nothing_asks_for_nothing():
    assert torch.isneginf(scores_at(OracleAcquirer(4, 3), 0)).all()


@pytest.mark.parametrize("kind", ACQUIRERS)
def test_fitted_tables_travel_with_the_weights(kind):
    one, other = (
        tiny_policy(kind).acquirer,
        make(kind, 5, hidden=16, time_features=3, segments=3),
    )
    other.load_state_dict(one.state_dict())
    for time in range(8):
        assert torch.equal(scores_at(one, time, n_features=5), scores_at(other, time, n_features=5))


def test_a_memory_tells_apart_what_the_last_observation_can_not():
    torch.manual_seed(0)
    seen = torch.ones(1, 4)
    for memory in (0, 6):
        acquirer = make(hidden=8, memory=memory, context_size=0)
        found = []
        for first in (-1.0, 1.0):
            _, state = acquirer.step(view_at(1, first * seen, seen), acquirer.init(torch.arange(1)))
            found.append(acquirer.step(view_at(2, seen, seen), state)[0].values)
        assert torch.equal(*found) != bool(memory)


def test_waves_of_the_values_make_any_choice_among_eight_levels_a_linear_one():
    levels = torch.linspace(-1.5, 1.5, 8).unsqueeze(1)
    read = ViewInput(1, 1, 7, 0, value_features=4)(view_at(1, levels, torch.ones(8, 1), size=8, n_features=1))
    assert torch.linalg.matrix_rank(read) == 8
    bare = ViewInput(1, 1, 7, 0)(view_at(1, levels, torch.ones(8, 1), size=8, n_features=1))
    assert torch.linalg.matrix_rank(bare) == 2


def test_waves_say_nothing_of_a_value_that_was_not_measured():
    inputs = ViewInput(3, 3, 7, 2, value_features=3)
    found = inputs(view_at(2, n_features=3))
    assert found[0, inputs.time.width + 6 :].abs().sum() == 0
    assert found.shape == (1, inputs.width)


# -- price and budget are not read


@pytest.mark.parametrize("fields", [{}, {"memory": 6}, {"value_features": 2}, {"context": True}], ids=str)
def test_neither_price_nor_cap_changes_a_score(fields):
    torch.manual_seed(0)
    acquirer = make(hidden=8, context_size=1, **fields)
    found = []
    for amount, price in ((1.0, None), (3.0, 0.1), (9.0, 7.0)):
        prices = None if price is None else torch.tensor([price])
        allowance = Allowance(torch.tensor([amount]), torch.tensor([[True, False, amount > 2, True]]), price=prices)
        view = replace(view_at(2), allowance=allowance, asked=torch.zeros(1, 4))
        found.append(acquirer.step(view, acquirer.init(torch.arange(1)))[0].values)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("kind", ["learned", "table"])
@pytest.mark.parametrize("memory", [0, 4])
def test_before_training_every_order_is_worth_about_what_it_is_told(kind, memory):
    acquirer = make(kind, memory=memory) if kind == "learned" else make(kind)
    acquirer.start_at(-4.0)
    values = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    found = scores_at(acquirer, 0, size=50, values=values, mask=torch.ones(50, 4))
    assert acquirer.unit == "log-worth"
    assert (found + 4).abs().max() < 0.5


# -- reading the prediction


def test_a_prediction_is_read_as_probabilities_and_the_logarithm_of_their_entropy():
    logits = torch.randn(50, 4, generator=torch.Generator().manual_seed(0)) * 2
    found = read_prediction(logits)
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    assert torch.allclose(found[:, :4], logits.softmax(-1))
    assert torch.allclose(found[:, 4], (entropy + 1e-3).log() / 3, atol=1e-4)
    assert torch.isfinite(read_prediction(torch.tensor([[1000.0, 0.0], [0.0, 0.0]]))).all()


def test_the_prediction_moves_all_scores_alike_beside_what_the_network_makes_of_it():
    acquirer = LearnedAcquirer(ViewInput(4, 4, 7, 2, context_size=3), 8, Waiting(torch.eye(4)))
    view = replace(view_at(2), context=torch.tensor([[0.2, 0.8, -1.0]]))
    before, _ = acquirer.step(view, acquirer.init(torch.arange(1)))
    with torch.no_grad():
        acquirer.level.weight.copy_(torch.tensor([[0.0, 0.0, 2.0]]))
    after, _ = acquirer.step(view, acquirer.init(torch.arange(1)))
    assert torch.allclose(after.values - before.values, torch.full((1, 4), -2.0), atol=1e-5)


@pytest.mark.parametrize(("series", "reads"), [(READS_PREDICTION - 1, False), (READS_PREDICTION, True)])
def test_predictions_are_read_where_there_are_many_training_series(series, reads, monkeypatch):
    data = tiny_dataset(n_train=40)
    monkeypatch.setattr("whichwhen.model.READS_PREDICTION", len(data.train) + (READS_PREDICTION - series))
    acquirer = make_model(recipe_spec(), data).policy.acquirer
    assert isinstance(acquirer, WithOwnPredictor) == reads


# -- the waiting term


def waiting_alone(menu, budget=1.0, memory=0, unwanted=()):
    """A policy whose acquirer knows nothing but how long each order has waited; 7 steps."""
    policy = tiny_policy(budget=budget, n_features=len(menu.features), menu=menu, memory=memory)
    with torch.no_grad():
        for part in (policy.acquirer.scores.weight, policy.acquirer.scores.bias):
            part.zero_()
        policy.acquirer.scores.bias[list(unwanted)] = -9.0
        policy.acquirer.waiting.weight.fill_(1.0)
    return policy


def requests_of(policy, batch):
    """What the first series asked for, step by step."""
    with inference(policy):
        record = roll_out(policy, batch)
    return [tuple(step.selection.request[0].nonzero().flatten().tolist()) for step in record.steps]


@pytest.mark.parametrize("memory", [0, 4])
def test_by_waiting_alone_an_acquirer_asks_for_what_has_waited_longest(memory):
    policy = waiting_alone(plain_menu(5), budget=2, memory=memory, unwanted=[3])
    assert requests_of(policy, tiny_batch((7,)))[:4] == [(0, 1), (2, 4), (0, 1), (2, 4)]


def test_who_has_asked_has_had_a_turn_even_before_the_result_arrives():
    menu = Menu(tuple(features_of(4)), tuple(Order(f"x{i}", (f"x{i}",), 1.0, turnaround=3) for i in range(4)))
    assert requests_of(waiting_alone(menu), tiny_batch((7,), n_features=4)) == [(i % 4,) for i in range(7)]


def test_who_was_not_answered_has_had_a_turn():
    batch = tiny_batch((7,), n_features=4)
    observed = batch.observed.clone()
    observed[..., 1] = False
    batch = replace(batch, observed=observed, values=batch.values * observed, complete=False)
    assert requests_of(waiting_alone(plain_menu(4)), batch) == [(i % 4,) for i in range(7)]


def test_a_panel_that_shares_features_with_others_has_had_part_of_its_turn_with_them():
    orders = (Order("ab", ("x0", "x1"), 1.0), Order("bc", ("x1", "x2"), 1.0), Order("d", ("x3",), 1.0))
    asked = requests_of(waiting_alone(Menu(tuple(features_of(4)), orders)), tiny_batch((7,), n_features=4))
    assert asked[:5] == [(0,), (2,), (1,), (2,), (0,)]


def test_of_a_panel_the_mean_waiting_time_of_its_features_counts_and_what_never_had_a_turn_waits_since_the_start():
    waiting = Waiting(torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    with torch.no_grad():
        waiting.weight.copy_(torch.tensor([1.0, 2.0]))
    waited = torch.tensor([[-1.0, 2.0, -1.0], [-1.0, 0.0, 1.0]])
    view = view_at(6, mask=torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), size=2, n_features=3)
    view = replace(view, asked=torch.zeros(2, 2))
    found, kept = waiting(view, dict.fromkeys(waiting.init(2), waited))
    assert [tensor.tolist() for tensor in kept.values()] == [[[0.0, 3.0, -1.0], [-1.0, 1.0, 2.0]]]
    wanted = [[np.log(4) / 2, 2 * np.log(7)], [(np.log(7) + np.log(2)) / 2, 2 * np.log(3)]]
    assert torch.allclose(found, torch.tensor(wanted).float())


PANELS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4, unique=True), min_size=1, max_size=5)


@given(panels=st.one_of(st.just([[0], [1], [2], [3]]), PANELS), data=st.data())
def test_the_waiting_term_is_the_log_of_the_steps_since_an_order_s_features_were_asked_for_or_arrived(panels, data):
    reveals = torch.zeros(len(panels), 4)
    for k, panel in enumerate(panels):
        reveals[k, panel] = 1
    waiting, weights = Waiting(reveals), torch.linspace(0.5, 2, len(panels))
    with torch.no_grad():
        waiting.weight.copy_(weights)
    state, last = waiting.init(1), [None] * 4  # the step at which each feature last had a turn
    for t in range(6):
        asked = data.draw(st.lists(st.booleans(), min_size=len(panels), max_size=len(panels))) if t else []
        arrived = data.draw(st.lists(st.integers(-1, t - 1), min_size=4, max_size=4)) if t else [-1] * 4  # ages; -1: nothing
        view = view_at(t, mask=torch.tensor([[float(age >= 0) for age in arrived]]))
        view = replace(view, reveal=replace(view.reveal, age=torch.tensor([[float(max(age, 0)) for age in arrived]])))
        view = replace(view, asked=torch.tensor([asked]).float() if t else None)
        for f, age in enumerate(arrived):
            if age >= 0:
                last[f] = t - 1 - age  # a late result tells of its sample
        for k, panel in enumerate(panels):
            if t and asked[k]:
                for f in panel:
                    last[f] = t - 1
        found, state = waiting(view, state)
        steps = [t if at is None else t - 1 - at for at in last]
        expected = [w * np.mean([np.log1p(steps[f]) for f in p]) for w, p in zip(weights.tolist(), panels, strict=True)]
        assert found[0].tolist() == pytest.approx(expected, abs=1e-5)


def test_scores_in_nats_have_no_waiting_term_and_their_state_stays_of_one_form():
    acquirer = make()
    waited = acquirer.step(view_at(3), acquirer.init(torch.arange(1)))[0].values
    acquirer.unit = "nats"
    scores, state = acquirer.step(view_at(3), acquirer.init(torch.arange(1)))
    assert scores.unit == "nats"
    assert torch.allclose(waited - scores.values, torch.full((1, 4), 3.0).log1p())
    assert state.keys() == acquirer.init(torch.arange(1)).keys()


# -- round robin


def robin(ranking, size, costs=None, budget=None):
    """A policy that takes the first ``size`` of a ranking in turn."""
    features = features_of(len(ranking))
    orders = [Order(f.name, (f.name,), cost) for f, cost in zip(features, costs or [1.0] * len(ranking), strict=True)]
    policy = tiny_policy("none", n_features=len(ranking), menu=Menu(tuple(features), tuple(orders)))
    acquirer = RoundRobinAcquirer(len(ranking))
    acquirer.fit(-torch.tensor(ranking).argsort().float())
    acquirer.choose({1.0: size})
    return replace(policy, acquirer=acquirer.at(1.0), budget=budget)


@given(ranking=st.permutations(range(6)), turns=st.integers(1, 6), count=st.integers(1, 6))
def test_a_round_robin_of_a_multiple_of_what_the_budget_buys_asks_for_its_best_in_turn(ranking, turns, count):
    size = turns * count
    assume(size <= 6)
    found = requests(robin(ranking, size, budget=PerStep(count)), tiny_batch((9, 4), n_features=6))
    for t in range(9):
        assert set(np.flatnonzero(found[0, t])) == {ranking[(t * count + i) % size] for i in range(count)}
    assert torch.equal(found[1, :4], found[0, :4])


@given(ranking=st.permutations(range(6)), size=st.integers(1, 6), data=st.data())
def test_a_round_robin_asks_for_what_waited_longest_the_better_one_first(ranking, size, data):
    count = data.draw(st.integers(1, size))
    found = requests(robin(ranking, size, budget=PerStep(count)), tiny_batch((9,), n_features=6))[0]
    last = {order: place - 6 for place, order in enumerate(ranking[:size])}  # at first, the better counts as asked for earlier
    for t, row in enumerate(found):
        expected = sorted(last, key=lambda order: (last[order], ranking.index(order)))[:count]
        assert set(np.flatnonzero(row)) == set(expected)
        last |= dict.fromkeys(expected, t)


@given(ranking=st.permutations(range(6)), size=st.integers(1, 6))
def test_a_round_robin_of_as_many_as_the_budget_buys_is_static(ranking, size):
    found = requests(robin(ranking, size, budget=PerStep(size)), tiny_batch((7,), n_features=6))[0]
    assert all(set(np.flatnonzero(row)) == set(ranking[:size]) for row in found)


def test_a_round_robin_at_unequal_costs_takes_what_waited_longest_as_far_as_the_budget_goes():
    policy = robin([0, 1, 2], 3, costs=[2.0, 1.0, 1.0], budget=PerStep(2.0))
    asked = [tuple(np.flatnonzero(row)) for row in requests(policy, tiny_batch((6,), n_features=3))[0]]
    assert asked == [(0,), (1, 2), (0,), (1, 2), (0,), (1, 2)]


def test_a_round_robin_under_a_mean_cost_saves_up_for_the_one_whose_turn_it_is():
    policy = robin([0, 1], 2, costs=[3.0, 1.0], budget=MeanCost(1.0))
    asked = [tuple(np.flatnonzero(row)) for row in requests(policy, tiny_batch((7,), n_features=2))[0]]
    assert asked == [(), (), (0,), (1,), (), (), (0,)]


@given(st.dictionaries(st.floats(0.05, 50), st.integers(1, 6), min_size=1, max_size=12), st.floats(0.01, 100))
def test_a_round_robin_at_another_amount_takes_the_size_of_the_nearest_that_was_tried(sizes, amount):
    acquirer = RoundRobinAcquirer(6)
    acquirer.fit(torch.arange(6.0))
    acquirer.choose(sizes)
    found = acquirer.at(amount)
    away = {tried: abs(np.log(tried) - np.log(amount)) for tried in sizes}
    assert int(found.size) in {sizes[tried] for tried in sizes if away[tried] <= min(away.values()) + 1e-5}
    assert torch.equal(found.ranks, acquirer.ranks)
    assert found.ranks.tolist() == [5, 4, 3, 2, 1, 0]


def test_choosing_again_forgets_the_amounts_before():
    acquirer = RoundRobinAcquirer(6)
    acquirer.choose({1.0: 1, 2.0: 2, 3.0: 3})
    acquirer.choose({8.0: 5})
    assert int(acquirer.at(1.0).size) == 5
