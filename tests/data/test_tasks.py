import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.data import load_dataset, reference, task_of
from whichwhen.data.policies import Solver, uniform_requests
from whichwhen.data.synthetic import TASKS
from whichwhen.data.tasks import ChainTask, EnumerableTask, PlanningTask, PointerTask, Task, TriageTask
from whichwhen.errors import SpecError
from whichwhen.specs import DataSpec

CHAIN_TASKS = {name: task for name, task in TASKS.items() if isinstance(task, ChainTask)}
NAMES = list(CHAIN_TASKS)
POINTER, PLANNING, TRIAGE = PointerTask(), PlanningTask(), TriageTask()


def errors(accuracy: float, count: int, times: float = 4.5) -> float:
    return times * math.sqrt(accuracy * (1 - accuracy) / count)


def share(task: Task, name: str) -> float:
    """How far a reference policy gets on the way from chance to the optimum, at the budget the task is meant for."""
    known = task.reference(task.budget)
    return (getattr(known, name) - known.chance) / (known.optimum - known.chance)


def reached(task: ChainTask, choose, count: int = 6000) -> float:
    """Accuracy on drawn series of ``choose(t, symbols, seen)`` → columns ``[N, b]``, with the exact posterior as predictor."""
    made = task.make("test", count, 11)
    symbols = task.chain.symbols(made.padded())
    seen = np.zeros(symbols.shape, dtype=bool)
    for t in range(task.chain.steps):
        visible = np.where(seen, symbols, -1)
        np.put_along_axis(seen[:, t], choose(t, visible), True, 1)
    posterior = task.chain.follow(symbols, seen)[:, -1] @ task.chain.classes
    even = np.isclose(posterior[:, 0], posterior[:, 1])
    return float(np.where(even, 0.5, posterior.argmax(1) == made.labels).mean())


def at_random(task: ChainTask, budget: int):
    rng = np.random.default_rng(0)
    return lambda t, visible: rng.random((len(visible), task.n_features)).argsort(1)[:, :budget]


# all of them


@pytest.mark.parametrize("name", NAMES)
def test_a_task_keeps_the_contract(name: str) -> None:
    task = CHAIN_TASKS[name]
    assert isinstance(task, Task)
    assert task.real is None
    assert f"(budget {task.budget})" in task.about
    assert [feature.name for feature in task.menu.features] == list(task.names)


@pytest.mark.parametrize("name", NAMES)
def test_a_task_s_probabilities_are_probabilities(name: str) -> None:
    chain = CHAIN_TASKS[name].chain
    assert chain.prior.sum() == pytest.approx(1)
    np.testing.assert_allclose(chain.move.sum(1), 1)
    np.testing.assert_allclose(chain.emit.sum(-1), 1)
    assert (chain.emit >= 0).all()
    assert not chain.emit.sum((0, 2))[np.isnan(chain.levels)].any()
    assert not chain.move[chain.label[:, None] != chain.label].any()
    np.testing.assert_allclose(chain.prior @ chain.classes, 0.5)


@pytest.mark.parametrize("name", NAMES)
def test_series_depend_on_seed_source_and_place_alone(name: str) -> None:
    task = CHAIN_TASKS[name]
    few, many = task.make("train", 40, 0), task.make("train", 60, 0)
    np.testing.assert_array_equal(many.values[: len(few.values)], few.values)
    np.testing.assert_array_equal(many.labels[:40], few.labels)
    for other in (task.make("test", 40, 0), task.make("train", 40, 1)):
        assert (other.values != few.values).mean() > 0.2


@pytest.mark.parametrize("name", NAMES)
def test_classes_are_balanced_and_columns_have_the_same_spread_in_both(name: str) -> None:
    """No column's spread, and no column of noise, tells the label or who carries it."""
    chain = CHAIN_TASKS[name].chain
    made = CHAIN_TASKS[name].make("train", 4000, 0)
    assert made.labels.mean() == pytest.approx(0.5, abs=errors(0.5, 4000))
    belief = chain.prior
    for t in range(chain.steps):
        marginal = np.einsum("h,fhv->fv", belief, chain.emit[t])
        levels = np.nan_to_num(chain.levels)
        np.testing.assert_allclose((marginal * levels).sum(-1), 0, atol=1e-12)
        belief = belief @ chain.move


@pytest.mark.parametrize("budget", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_the_random_reference_is_what_random_requests_reach(name: str, budget: int) -> None:
    task = CHAIN_TASKS[name]
    expected = task.reference(budget).random
    assert reached(task, at_random(task, budget)) == pytest.approx(expected, abs=errors(expected, 6000))


@pytest.mark.parametrize("budget", [0, 0.5, 1, 2, 3, 20])
@pytest.mark.parametrize("name", NAMES)
def test_references_are_in_order(name: str, budget: float) -> None:
    task = CHAIN_TASKS[name]
    known = task.reference(budget)
    assert known.greedy is not None
    assert known.chance == pytest.approx(0.5)
    assert known.chance - 1e-9 <= known.random <= known.optimum + 1e-9
    assert known.chance - 1e-9 <= known.greedy <= known.optimum + 1e-9
    if known.blind is not None:
        assert known.random - 1e-9 <= known.blind <= known.optimum + 1e-9
    if budget < 1:
        assert known.optimum == pytest.approx(known.chance)
    if budget >= task.n_features:
        assert known.random == pytest.approx(known.optimum)
        assert known.blind == pytest.approx(known.optimum)
        assert known.greedy == pytest.approx(known.optimum)


@pytest.mark.parametrize("name", NAMES)
def test_fakes_dilute_random_requests_only(name: str) -> None:
    budget = CHAIN_TASKS[name].budget
    plain = reference(DataSpec(name=f"synthetic:{name}"), budget)
    diluted = reference(DataSpec(name=f"synthetic:{name}", fakes="noise", n_fakes=5), budget)
    assert plain is not None
    assert diluted is not None
    assert diluted.random < plain.random - 0.01
    for policy in ("optimum", "blind", "greedy"):
        assert getattr(diluted, policy) == pytest.approx(getattr(plain, policy), abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_a_task_loads_as_other_data_do(name: str) -> None:
    task = CHAIN_TASKS[name]
    data = load_dataset(f"synthetic:{name}", 3, fakes="noise", n_fakes=2)
    assert (len(data.train) + len(data.validation), len(data.test)) == (task.n_train, task.n_test)
    assert len(data.validation) == round(task.n_train * 0.2)
    assert data.provenance.real.shape == (task.steps, task.n_features + 2)
    assert data.provenance.real[:, : task.n_features].all()
    assert not data.provenance.real[:, task.n_features :].any()
    assert data.classes == ("0", "1")
    assert task_of(DataSpec(name=f"synthetic:{name}")) is task
    values = (data.test.values * data.scaler.std + data.scaler.mean)[:, : task.n_features]
    symbols = task.chain.symbols(values)
    np.testing.assert_array_equal(symbols, task.chain.symbols(task.make("test", task.n_test, 3).values))


@pytest.mark.parametrize("name", NAMES)
def test_a_task_cannot_be_shifted(name: str) -> None:
    with pytest.raises(SpecError, match=f"shift on synthetic:{name}"):
        load_dataset(f"synthetic:{name}", fakes="zeros", n_fakes=3, shift=True)


# the pointer


def test_the_pointer_names_the_next_step_s_carrier() -> None:
    made = PointerTask(right=1.0).make("train", 500, 0).padded()
    labels = PointerTask(right=1.0).make("train", 500, 0).labels
    named = POINTER.chain.symbols(made)[:, :-1, 0]
    carriers = np.take_along_axis(made[:, 1:, 1:], named[..., None], -1)[..., 0]
    np.testing.assert_array_equal(carriers, np.broadcast_to(2 * labels[:, None] - 1, carriers.shape))
    counts = np.bincount(named.ravel(), minlength=8)
    assert np.abs(counts / named.size - 1 / 8).max() < errors(1 / 8, named.size)


def test_carriers_look_like_the_others() -> None:
    """Every column is a fair coin whoever carries; two columns of one step, and two steps, are independent."""
    chain = POINTER.chain
    size = POINTER.carriers
    now = np.indices((2, size, size))[1].ravel()
    for carrier in range(size):
        belief = (now == carrier) / (now == carrier).sum()
        np.testing.assert_allclose(np.einsum("h,fhv->fv", belief, chain.emit[1, 1:, :, :2]), 0.5)
        table = chain.branch(belief, 1, (1, 2)).sum(-1).reshape(2, 2)
        np.testing.assert_allclose(table, 0.25)


def test_the_pointer_alone_tells_nothing_and_any_carrier_something() -> None:
    chain = POINTER.chain
    told = chain.information_of_each(chain.prior, 0)
    assert told[0] == pytest.approx(0, abs=1e-12)
    assert (told[1:] > 1e-4).all()
    after = chain.branch(chain.prior, 0, (0,))[3]
    told = chain.information_of_each(after / after.sum() @ chain.move, 1)
    assert np.flatnonzero(told > 1e-9).tolist() == [1 + 3]
    assert told[4] == pytest.approx(math.log(2) + 0.88 * math.log(0.88) + 0.12 * math.log(0.12))


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
def test_the_pointer_s_own_recursion_agrees_with_the_general_one(budget: int) -> None:
    task = PointerTask(carriers=3, steps=3, right=0.8)
    own = task.reference(budget, fakes=1)
    general = ChainTask.reference(task, budget, fakes=1)
    for name in ("chance", "optimum", "random", "blind", "greedy"):
        assert getattr(own, name) == pytest.approx(getattr(general, name), abs=1e-9), name


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(2, 4), st.floats(0.55, 0.99), st.integers(0, 2))
def test_references_of_pointers_are_in_order(budget: int, carriers: int, steps: int, right: float, fakes: int) -> None:
    known = PointerTask(carriers=carriers, steps=steps, right=right).reference(budget, fakes)
    assert known.blind is not None
    assert known.greedy is not None
    assert 0.5 - 1e-9 <= known.random <= known.blind + 1e-9
    assert known.greedy <= known.blind + 1e-9
    assert known.blind <= known.optimum + 1e-9


def follow_the_pointer(t: int, visible: np.ndarray) -> np.ndarray:
    named = visible[:, t - 1, 0] if t else np.zeros(len(visible), dtype=int)
    return np.stack([np.zeros_like(named), 1 + named], 1)


def test_following_the_pointer_reaches_the_optimum() -> None:
    known = POINTER.reference(2)
    assert reached(POINTER, follow_the_pointer) == pytest.approx(known.optimum, abs=errors(known.optimum, 6000))
    three_votes = 0.88**3 + 3 * 0.88**2 * 0.12
    assert known.optimum == pytest.approx(three_votes, abs=1e-6)


@pytest.mark.parametrize(
    ("policy", "columns"), [("blind", [(0, 1), (1, 2), (0, 1), (1, 2)]), ("greedy", [(1, 2), (3, 4), (5, 6), (7, 8)])]
)
def test_time_alone_and_greed_reach_what_is_said(policy: str, columns: list[tuple[int, int]]) -> None:
    expected = getattr(POINTER.reference(2), policy)
    found = reached(POINTER, lambda t, visible: np.tile(columns[t], (len(visible), 1)))
    assert found == pytest.approx(expected, abs=errors(expected, 6000))


def test_time_alone_gets_less_than_half_way_on_the_pointer_task() -> None:
    assert 0.94 < POINTER.reference(2).optimum < 0.97
    assert share(POINTER, "blind") < 0.45
    assert share(POINTER, "greedy") < 0.45


# planning


def test_the_key_tells_nothing_at_its_step_and_the_next() -> None:
    chain = PLANNING.chain
    assert chain.information(chain.prior, 0, (0,)) == pytest.approx(0, abs=1e-12)
    after = chain.branch(chain.prior, 0, (0,))
    beliefs = after / after.sum(-1, keepdims=True)
    np.testing.assert_allclose(beliefs @ chain.classes, 0.5)
    np.testing.assert_allclose(chain.information_of_each(beliefs, 1)[:, 2:], 0, atol=1e-12)
    told = chain.information_of_each(beliefs, 2)
    assert (told.argmax(1) == 2 + np.arange(4)).all()


def test_greed_takes_the_bait_at_every_step() -> None:
    """… whatever the baits said: its accuracy is that of a vote of T baits."""
    chain = PLANNING.chain
    for baits in itertools.product((0, 1), repeat=4):
        seen = np.zeros((1, 5, 6), dtype=bool)
        symbols = np.zeros((1, 5, 6), dtype=int)
        seen[:, :4, 1], symbols[0, :4, 1] = True, baits
        beliefs = chain.follow(symbols, seen)[0]
        for t in range(5):
            told = chain.information_of_each(beliefs[t], t)
            assert told[1] > 1.05 * np.delete(told, 1).max()
    votes = sum(math.comb(5, n) * 0.61**n * 0.39 ** (5 - n) for n in (3, 4, 5))
    assert PLANNING.reference(1).greedy == pytest.approx(votes)


def test_reading_the_key_first_reaches_the_optimum() -> None:
    def plan(t: int, visible: np.ndarray) -> np.ndarray:
        column = [np.zeros(len(visible), dtype=int), np.ones(len(visible), dtype=int)][t] if t < 2 else 2 + visible[:, 0, 0]
        return column[:, None]

    known = PLANNING.reference(1)
    assert reached(PLANNING, plan) == pytest.approx(known.optimum, abs=errors(known.optimum, 6000))
    assert known.optimum == pytest.approx(0.88**3 + 3 * 0.88**2 * 0.12)


def test_no_policy_that_starts_with_another_order_reaches_the_optimum() -> None:
    without = {cells: chance for cells, chance in uniform_requests(6, 1).items() if cells != (0,)}
    found = Solver(PLANNING.chain, without, PLANNING.fold).accuracy().optimum
    assert (found - 0.5) / (PLANNING.reference(1).optimum - 0.5) < 0.8


def test_folding_beliefs_changes_no_value() -> None:
    small = PlanningTask(vaults=3, steps=4)
    for budget in (1, 2):
        requests = uniform_requests(5, budget)
        folded, plain = Solver(small.chain, requests, small.fold).accuracy(), Solver(small.chain, requests).accuracy()
        for name in ("optimum", "greedy", "random"):
            assert getattr(folded, name) == pytest.approx(getattr(plain, name), abs=1e-9)


def test_greed_gets_less_than_half_way_on_the_planning_task() -> None:
    assert 0.94 < PLANNING.reference(1).optimum < 0.97
    assert share(PLANNING, "greedy") < 0.45


# triage


def screen_first(t: int, visible: np.ndarray) -> np.ndarray:
    kind = visible[:, 1, 0] if t == 2 else np.full(len(visible), -1)
    return np.array([[0, 1], [4, 5], [1, 2], [1, 3]])[kind + 1]


def test_the_screen_s_advice_reaches_the_optimum() -> None:
    known = TRIAGE.reference(2)
    assert reached(TRIAGE, screen_first) == pytest.approx(known.optimum, abs=errors(known.optimum, 6000))
    assert known.optimum == pytest.approx((0.85 + 2 * 0.97) / 3)
    assert share(TRIAGE, "blind") < 0.5


def test_half_a_test_tells_much_less_than_the_whole() -> None:
    chain = TRIAGE.chain
    belief = chain.branch(chain.prior, 0, (0,))[1]
    belief = belief / belief.sum()
    whole = chain.information(belief, 2, (1, 2))
    assert chain.information(belief, 2, (1,)) == pytest.approx(0, abs=1e-12)
    assert chain.information(belief, 2, (2,)) < 0.3 * whole
    assert chain.information(belief, 2, (1, 3)) == pytest.approx(0, abs=1e-12)
    assert chain.information(belief, 2, (4, 5)) == pytest.approx(0, abs=1e-12)


def test_before_the_last_step_only_the_screen_tells_anything() -> None:
    assert TRIAGE.chain.telling.tolist() == [[True] + [False] * 5] * 2 + [[True] * 6]
    assert TRIAGE.chain.information(TRIAGE.chain.prior, 2, (0,)) == pytest.approx(0, abs=1e-12)


def test_columns_of_a_triage_look_the_same_in_every_kind_of_series() -> None:
    kind = np.indices((2, 3, 2, 2, 4))[1].ravel()
    chain = TRIAGE.chain
    for t in range(3):
        tables = [np.einsum("h,fhv->fv", chain.prior * (kind == k) * 3, chain.emit[t, 1:]) for k in range(3)]
        np.testing.assert_allclose(tables[0], tables[1], atol=1e-12)
        np.testing.assert_allclose(tables[0], tables[2], atol=1e-12)


def test_the_menu_with_prices_allows_the_same_optimum() -> None:
    menu = TRIAGE.menu
    assert dict(zip(menu.names, menu.prices, strict=True)) == {
        "screen": 1, "routine_a": 1, "routine_b": 1, "test_a": 2, "test_b": 2,
    }  # fmt: skip
    orders = range(len(menu.orders))
    affordable = [
        one for count in (1, 2) for one in itertools.combinations(orders, count) if sum(menu.prices[k] for k in one) <= 2
    ]
    requests = {tuple(np.flatnonzero(menu.reveals[list(one)].any(0)).tolist()): 1 / len(affordable) for one in affordable}
    assert Solver(TRIAGE.chain, requests).accuracy().optimum == pytest.approx(TRIAGE.reference(2).optimum)


# the enumerable one


def test_all_policies_differ_on_the_exact_task() -> None:
    known = EnumerableTask().reference(1)
    assert known.greedy is not None
    assert known.blind is not None
    ladder = [known.chance, known.random, known.greedy, known.blind, known.optimum]
    assert (np.diff(ladder) > 0.004).all()


def test_a_clearer_task_is_easier() -> None:
    task = EnumerableTask()
    assert replace(task, right=0.95).reference(1).optimum > task.reference(1).optimum + 0.01
