import inspect
import typing
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import ACQUIRERS, features_of, tiny_batch, tiny_policy
from whichwhen import acquirers, contracts
from whichwhen.acquirers import (
    CompleteAcquirer,
    LearnedAcquirer,
    NoneAcquirer,
    OracleAcquirer,
    RandomAcquirer,
    StaticAcquirer,
    TableAcquirer,
    make_acquirer,
)
from whichwhen.acquirers._inputs import Turns, ViewInput
from whichwhen.acquirers.static import forest_importance
from whichwhen.contracts import Acquirer
from whichwhen.errors import SpecError
from whichwhen.menu import Menu, Order
from whichwhen.presets import preset_spec
from whichwhen.provenance import Provenance
from whichwhen.rollout import inference, roll_out
from whichwhen.specs import AcquirerSpec
from whichwhen.training.objectives import EndToEnd, Objective
from whichwhen.types import Allowance, Reveal, View

CLASSES = {
    "learned": LearnedAcquirer,
    "table": TableAcquirer,
    "random": RandomAcquirer,
    "static": StaticAcquirer,
    "static-by-time": StaticAcquirer,
    "oracle": OracleAcquirer,
    "complete": CompleteAcquirer,
    "none": NoneAcquirer,
}


def plain_menu(count):
    return Menu.one_per_feature(features_of(count))


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
        assert type(make_acquirer(AcquirerSpec(kind=kind), plain_menu(5), 7, 9, 16, 0)) is expected


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
    from whichwhen.acquirers import fixed, learned, oracle, static, table

    knows = [module for module in (fixed, learned, static, table, oracle) if hasattr(module, "Provenance")]
    assert knows == [oracle]
    for module in (contracts, acquirers, predictors, training.objectives):
        assert not hasattr(module, "Provenance")


def test_learned_and_table_learn_and_the_others_do_not():
    for kind in ACQUIRERS:
        assert tiny_policy(kind).acquirer.learns == (kind in ("learned", "table"))


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
    acquirer = make_acquirer(spec, plain_menu(40), 50, 50, 16, 0)
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
        acquirer.table.copy_(torch.arange(12.0).view(3, 4))
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
    acquirer.fit(importance, np.eye(4, dtype=bool))
    for time in range(8):
        part = importance if segments == 1 else importance[2 * min(time // 2, 2) :][:2]
        assert scores_at(acquirer, time)[0].tolist() == pytest.approx(part.sum(0).tolist(), rel=1e-5)


def test_static_fitted_again_forgets_the_first_time():
    acquirer = StaticAcquirer(4, 1, horizon=3)
    acquirer.fit(np.ones((3, 4)), np.eye(4, dtype=bool))
    acquirer.fit(np.ones((3, 4)) * 2, np.eye(4, dtype=bool))
    assert scores_at(acquirer, 0)[0].tolist() == [6.0] * 4


def test_static_gives_a_panel_the_importance_of_its_features():
    acquirer = StaticAcquirer(2, 1, horizon=1)
    acquirer.fit(np.array([[1.0, 2.0, 4.0]]), np.array([[True, True, False], [False, True, True]]))
    assert scores_at(acquirer, 0, n_features=3)[0].tolist() == [3.0, 6.0]


@pytest.mark.parametrize("horizon", [1, 2, 7, 12])
@pytest.mark.parametrize("segments", [1, 2, 3, 10])
def test_segments_are_equal_parts_of_the_horizon(horizon, segments):
    acquirer = make_acquirer(AcquirerSpec(kind="static-by-time", segments=segments), plain_menu(4), horizon, horizon, 16, 0)
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
        make_acquirer(AcquirerSpec(kind=kind, hidden=16, time_features=3, segments=3), plain_menu(5), 7, 7, 16, 0),
    )
    other.load_state_dict(one.state_dict())
    for time in range(8):
        assert torch.equal(scores_at(one, time, n_features=5), scores_at(other, time, n_features=5))


@pytest.mark.parametrize("memory", [0, 6])
def test_a_learned_acquirer_reads_the_budget_only_where_it_is_told_to(memory):
    for reads in (False, True):
        torch.manual_seed(0)
        acquirer = make_acquirer(AcquirerSpec(hidden=8, budget=reads, memory=memory), plain_menu(4), 7, 7, 0, 0)
        views = [replace(view_at(0), allowance=Allowance(torch.tensor([x]), torch.ones(1, 4) > 0)) for x in (1.0, 3.0)]
        scores = [acquirer.step(view, acquirer.init(torch.arange(1)))[0].values for view in views]
        assert torch.equal(*scores) != reads


def test_a_memory_tells_apart_what_the_last_observation_can_not():
    torch.manual_seed(0)
    seen = torch.ones(1, 4)
    for memory in (0, 6):
        acquirer = make_acquirer(AcquirerSpec(hidden=8, memory=memory), plain_menu(4), 7, 7, 0, 0)
        found = []
        for first in (-1.0, 1.0):
            _, state = acquirer.step(view_at(1, first * seen, seen), acquirer.init(torch.arange(1)))
            found.append(acquirer.step(view_at(2, seen, seen), state)[0].values)
        assert torch.equal(*found) != bool(memory)


def test_waves_of_the_values_make_any_choice_among_eight_levels_a_linear_one():
    levels = torch.linspace(-1.5, 1.5, 8).unsqueeze(1)
    read = ViewInput(1, 1, 7, 0, value_features=4)(view_at(1, levels, torch.ones(8, 1), size=8, n_features=1), {})[0]
    assert torch.linalg.matrix_rank(read) == 8
    bare = ViewInput(1, 1, 7, 0)(view_at(1, levels, torch.ones(8, 1), size=8, n_features=1), {})[0]
    assert torch.linalg.matrix_rank(bare) == 2


def test_waves_say_nothing_of_a_value_that_was_not_measured():
    inputs = ViewInput(3, 3, 7, 2, value_features=3)
    found, _ = inputs(view_at(2, n_features=3), {})
    assert found[0, inputs.time.width + 6 :].abs().sum() == 0
    assert found.shape == (1, inputs.width)


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=8))
def test_freshness_counts_the_steps_since_each_feature_was_seen(masks):
    inputs = ViewInput(3, 3, 7, 0, freshness=True)
    state, seen = inputs.init(1), torch.tensor(masks, dtype=torch.float32)
    for t, mask in enumerate(seen):
        found, state = inputs(view_at(t + 1, mask=mask.unsqueeze(0), n_features=3), state)
        last = [next((back for back in range(t + 1) if seen[t - back, i]), None) for i in range(3)]
        assert found[0, -3:].tolist() == pytest.approx([0 if back is None else 1 / (1 + back) for back in last])
    assert found.shape == (1, inputs.width)


def test_a_result_that_took_its_time_is_as_old_as_its_sample():
    inputs = ViewInput(2, 2, 7, 0, freshness=True)
    late = view_at(3, mask=torch.tensor([[1.0, 0.0]]), n_features=2)
    late = replace(late, reveal=replace(late.reveal, age=torch.tensor([[2.0, 0.0]])))
    assert inputs(late, inputs.init(1))[0][0, -2:].tolist() == pytest.approx([1 / 3, 0])


@pytest.mark.parametrize("memory", [0, 4])
def test_freshness_tells_apart_what_the_last_observation_can_not(memory):
    torch.manual_seed(0)
    acquirer = make_acquirer(AcquirerSpec(hidden=8, memory=memory, freshness=True), plain_menu(4), 7, 7, 0, 0)
    found = []
    for first in (0, 1):
        earlier = torch.zeros(1, 4)
        earlier[0, first] = 1
        _, state = acquirer.step(view_at(1, mask=earlier), acquirer.init(torch.arange(1)))
        found.append(acquirer.step(view_at(2), state)[0].values)
    assert not torch.equal(*found)


def turns_alone(menu, budget=1.0, memory=0, unwanted=()):
    """A policy whose acquirer knows nothing but whose turn it is; 7 steps."""
    policy = tiny_policy(budget=budget, n_features=len(menu.features), menu=menu, memory=memory, turns=True)
    with torch.no_grad():
        policy.acquirer.scores.weight.zero_()
        policy.acquirer.scores.bias.zero_()
        policy.acquirer.scores.bias[list(unwanted)] = -9.0
        policy.acquirer.turns.weight.fill_(1.0)
    return policy


def requests_of(policy, batch):
    """What the first series asked for, step by step."""
    with inference(policy):
        record = roll_out(policy, batch)
    return [tuple(step.selection.request[0].nonzero().flatten().tolist()) for step in record.steps]


@pytest.mark.parametrize("memory", [0, 4])
def test_with_turns_alone_an_acquirer_asks_for_what_has_waited_longest(memory):
    policy = turns_alone(plain_menu(5), budget=2, memory=memory, unwanted=[3])
    assert requests_of(policy, tiny_batch((7,)))[:4] == [(0, 1), (2, 4), (0, 1), (2, 4)]


def test_who_has_asked_has_had_a_turn_even_before_the_result_arrives():
    menu = Menu(tuple(features_of(4)), tuple(Order(f"x{i}", (f"x{i}",), 1.0, turnaround=3) for i in range(4)))
    assert requests_of(turns_alone(menu), tiny_batch((7,), n_features=4)) == [(i % 4,) for i in range(7)]


def test_who_was_not_answered_has_had_a_turn():
    batch = tiny_batch((7,), n_features=4)
    observed = batch.observed.clone()
    observed[..., 1] = False
    batch = replace(batch, observed=observed, values=batch.values * observed, complete=False)
    assert requests_of(turns_alone(plain_menu(4)), batch) == [(i % 4,) for i in range(7)]


def test_a_panel_that_shares_features_with_others_has_had_part_of_its_turn_with_them():
    orders = (Order("ab", ("x0", "x1"), 1.0), Order("bc", ("x1", "x2"), 1.0), Order("d", ("x3",), 1.0))
    asked = requests_of(turns_alone(Menu(tuple(features_of(4)), orders)), tiny_batch((7,), n_features=4))
    assert asked[:5] == [(0,), (2,), (1,), (2,), (0,)]


def test_of_a_panel_the_mean_waiting_time_of_its_features_counts_and_what_never_had_a_turn_waits_since_the_start():
    turns = Turns(torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    with torch.no_grad():
        turns.weight.copy_(torch.tensor([1.0, 2.0]))
    waited = torch.tensor([[-1.0, 2.0, -1.0], [-1.0, 0.0, 1.0]])
    view = view_at(6, mask=torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), size=2, n_features=3)
    found, kept = turns(view, dict.fromkeys(turns.init(2), waited))
    assert [tensor.tolist() for tensor in kept.values()] == [[[0.0, 3.0, -1.0], [-1.0, 1.0, 2.0]]]
    wanted = [[np.log(4) / 2, 2 * np.log(7)], [(np.log(7) + np.log(2)) / 2, 2 * np.log(3)]]
    assert torch.allclose(found, torch.tensor(wanted).float())


@pytest.mark.parametrize("memory", [0, 4])
def test_without_values_an_acquirer_asks_the_same_whatever_was_measured(memory):
    acquirer = make_acquirer(AcquirerSpec(hidden=8, memory=memory, values=False, freshness=True), plain_menu(4), 7, 7, 0, 0)
    found = []
    for scale in (1.0, -3.0):
        view = view_at(1, mask=torch.tensor([[1.0, 0.0, 1.0, 0.0]]))
        view = replace(view, reveal=replace(view.reveal, values=scale * view.reveal.mask))
        found.append(acquirer.step(view, acquirer.init(torch.arange(1)))[0].values)
    assert torch.equal(*found)
    with pytest.raises(SpecError, match="waves of values that are not read"):
        AcquirerSpec(values=False, value_features=2)
    with pytest.raises(SpecError, match="context, in which the values are"):
        AcquirerSpec(values=False, context=True)
