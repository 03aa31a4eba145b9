import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whichwhen.data.exact import Chain, evenly, vote
from whichwhen.data.policies import Solver, uniform_requests
from whichwhen.data.tasks import EnumerableTask

TASK = EnumerableTask()
CELLS = range(4)


def random_chain(seed: int, states: int = 3, steps: int = 2, n_features: int = 3, width: int = 2, still: bool = False) -> Chain:
    """Any chain of two classes whose moves keep the class."""
    rng = np.random.default_rng(seed)
    label = np.arange(states) % 2
    move = rng.random((states, states)) * (label[:, None] == label)
    return Chain(
        prior=rng.dirichlet(np.ones(states)),
        label=label,
        move=np.eye(states) if still else move / move.sum(1, keepdims=True),
        emit=rng.dirichlet(np.full(width, 0.5), (steps, n_features, states)),
        levels=np.tile(evenly(width), (n_features, 1)),
    )


def reachable(chain: Chain, budget: int = 1) -> list[tuple[int, np.ndarray]]:
    return list(Solver(chain, uniform_requests(chain.n_features, budget)).states())


def joint_by_hand(chain: Chain) -> np.ndarray:
    """p(label, every cell of every step), ``[C, V, V, …]``, by summing over all paths of the hidden state."""
    width = chain.emit.shape[-1]
    out = np.zeros((2, *[width] * (chain.steps * chain.n_features)))
    for path in itertools.product(range(len(chain.prior)), repeat=chain.steps):
        chance = chain.prior[path[0]] * math.prod(chain.move[a, b] for a, b in itertools.pairwise(path))
        cells = np.array(chance)
        for t, state in enumerate(path):
            for cell in range(chain.n_features):
                cells = np.multiply.outer(cells, chain.emit[t, cell, state])
        out[chain.label[path[0]]] += cells
    return out


def entropy(table: np.ndarray) -> float:
    chances = table[table > 0]
    return float(-(chances * np.log(chances)).sum())


# beliefs


@pytest.mark.parametrize("seed", range(5))
def test_beliefs_along_a_series_give_the_posterior_of_the_joint_distribution(seed: int) -> None:
    chain = random_chain(seed)
    joint = joint_by_hand(chain)
    rng = np.random.default_rng(seed)
    symbols = rng.integers(2, size=(20, 2, 3))
    seen = rng.random((20, 2, 3)) < 0.6
    beliefs = chain.follow(symbols, seen)
    assert beliefs.shape == (20, 3, 3)
    for i in range(20):
        where = tuple(s if m else slice(None) for s, m in zip(symbols[i].ravel(), seen[i].ravel(), strict=True))
        table = joint[(slice(None), *where)].reshape(2, -1).sum(1)
        np.testing.assert_allclose(beliefs[i, -1] @ chain.classes, table / table.sum(), atol=1e-12)


def test_cells_that_were_not_seen_do_not_matter() -> None:
    rng = np.random.default_rng(0)
    seen = rng.random((30, 3, 4)) < 0.5
    one, other = rng.integers(2, size=(2, 30, 3, 4))
    np.testing.assert_array_equal(TASK.chain.follow(one, seen), TASK.chain.follow(np.where(seen, one, other), seen))


def test_values_are_read_back_as_the_symbols_that_they_stand_for() -> None:
    chain = random_chain(0, n_features=2, width=5)
    symbols = np.random.default_rng(0).integers(5, size=(50, 2))
    values = chain.levels[np.arange(2), symbols]
    np.testing.assert_array_equal(chain.symbols(values + 0.01), symbols)


def test_the_nearest_level_is_the_largest_of_linear_functions() -> None:
    levels = evenly(8)
    value = np.linspace(-1.2, 1.2, 401)[:, None]
    np.testing.assert_array_equal((value * levels - levels**2 / 2).argmax(1), np.abs(value - levels).argmin(1))


def test_draws_have_the_chain_s_probabilities() -> None:
    chain = random_chain(1)
    labels, values = chain.draw(np.random.default_rng(0).random((20_000, 2, 4)))
    counts = np.zeros((2,) * 7)
    np.add.at(counts, (labels, *chain.symbols(values).reshape(-1, 6).T), 1)
    joint = joint_by_hand(chain)
    errors = np.sqrt(joint * (1 - joint) / 20_000) + 1e-12
    assert (np.abs(counts / 20_000 - joint) < 5 * errors + 1e-4).all()


def test_a_vote_is_right_as_often_as_it_says() -> None:
    np.testing.assert_allclose(vote(np.array([-1, 1]), 0.9), [[0.9, 0.1], [0.1, 0.9]])


# information


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_information_is_at_least_0_and_at_most_what_is_unknown(seed: int) -> None:
    chain = random_chain(seed)
    for t, belief in reachable(chain):
        told = chain.information_of_each(belief, t)
        assert told.shape == (3,)
        assert (told >= 0).all()
        assert (told <= entropy(belief @ chain.classes) + 1e-12).all()


@pytest.mark.parametrize("seed", range(5))
def test_information_is_that_of_the_joint_distribution(seed: int) -> None:
    chain = random_chain(seed, steps=1)
    joint = joint_by_hand(chain)
    label = entropy(joint.reshape(2, -1).sum(1))
    for count in (1, 2, 3):
        for cells in itertools.combinations(range(3), count):
            table = joint.sum(tuple(1 + cell for cell in range(3) if cell not in cells))
            expected = label + entropy(table.sum(0)) - entropy(table)
            assert chain.information(chain.prior, 0, cells) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_information_obeys_the_chain_rule(seed: int) -> None:
    """I(y; a, b) = I(y; a) + E I(y; b | a), within a step."""
    chain = random_chain(seed)
    for t, belief in reachable(chain):
        outcomes = chain.branch(belief, t, (0,))
        share = outcomes.sum(-1)
        later = chain.information(outcomes / share[:, None], t, (1,))
        together = chain.information(belief, t, (0, 1))
        assert together == pytest.approx(chain.information(belief, t, (0,)) + share @ later, abs=1e-12)
        assert together == pytest.approx(chain.information(belief, t, (1, 0)), abs=1e-12)


def test_information_is_the_expected_drop_of_cross_entropy() -> None:
    """On drawn series with random histories, against the losses of the exact posteriors before and after."""
    count = 20_000
    series = TASK.make("test", count, 0)
    symbols = TASK.chain.symbols(series.padded())
    rng = np.random.default_rng(0)
    seen = rng.random((count, 3, 4)) < 0.4
    seen[:, 2] = False
    before = TASK.chain.follow(symbols, seen)[:, 2]
    told = TASK.chain.information_of_each(before, 2)
    rows = np.arange(count)
    for cell in CELLS:
        seen[:, 2] = np.arange(4) == cell
        after = TASK.chain.follow(symbols, seen)[:, 3]
        drop = np.log((after @ TASK.chain.classes)[rows, series.labels] / (before @ TASK.chain.classes)[rows, series.labels])
        assert drop.mean() == pytest.approx(told[:, cell].mean(), abs=4.5 * drop.std() / math.sqrt(count))


def test_information_of_a_batch_is_that_of_each_belief() -> None:
    beliefs = np.stack([belief for t, belief in reachable(TASK.chain) if t == 2])
    together = TASK.chain.information_of_each(beliefs, 2)
    assert together.shape == (len(beliefs), 4)
    for belief, row in zip(beliefs, together, strict=True):
        np.testing.assert_array_equal(TASK.chain.information_of_each(belief, 2), row)


def test_the_mode_tells_nothing_until_a_column_of_some_mode_was_seen() -> None:
    chain = TASK.chain
    first = chain.information_of_each(chain.prior, 0)
    assert first[0] == pytest.approx(0, abs=1e-12)
    assert (first[1:] > 0.01).all()
    after = chain.branch(chain.prior, 0, (1,))[1]
    assert chain.information(after / after.sum(), 1, (0,)) > 0.01


def test_the_worth_of_a_column_depends_on_what_was_seen() -> None:
    chain = TASK.chain
    after = chain.branch(chain.prior, 0, (0,))
    told = chain.information_of_each(after / after.sum(-1, keepdims=True), 1)
    assert told[0, 1] > 5 * told[0, 2]
    assert told[1, 2] > 5 * told[1, 1]


def test_every_state_of_the_exact_task_is_listed_once() -> None:
    listed = reachable(TASK.chain)
    at = [[belief for t, belief in listed if t == step] for step in range(3)]
    assert (len(at[0]), len(at[1])) == (1, 8)
    histories = set()
    for first, second in itertools.product(CELLS, repeat=2):
        seen = np.zeros((4, 3, 4), dtype=bool)
        seen[:, 0, first] = seen[:, 1, second] = True
        symbols = np.zeros((4, 3, 4), dtype=int)
        symbols[:, 0, first], symbols[:, 1, second] = (0, 0, 1, 1), (0, 1, 0, 1)
        histories |= {np.round(belief, 8).tobytes() for belief in TASK.chain.follow(symbols, seen)[:, 2]}
    assert {np.round(belief, 8).tobytes() for belief in at[2]} == histories


# policies


def best_by_brute_force(chain: Chain, budget: int) -> float:
    """The best of all policies, each a table from what was seen to a request, by trying all of them."""
    sets = list(itertools.combinations(range(chain.n_features), budget))
    outcomes = 2**budget
    best = 0.0
    for first in sets:
        for second in itertools.product(sets, repeat=outcomes):
            total = 0.0
            for i, joint in enumerate(chain.branch(chain.prior, 0, first)):
                total += (chain.branch(joint @ chain.move, 1, second[i]) @ chain.classes).max(-1).sum()
            best = max(best, total)
    return best


def blind_by_brute_force(chain: Chain, budget: int) -> float:
    sets = list(itertools.combinations(range(chain.n_features), budget))

    def accuracy(plan: tuple[tuple[int, ...], ...]) -> float:
        joint = chain.prior[None]
        for t, cells in enumerate(plan):
            joint = chain.branch(joint, t, cells).reshape(-1, len(chain.prior)) @ chain.move
        return float((joint @ chain.classes).max(-1).sum())

    return max(accuracy(plan) for plan in itertools.product(sets, repeat=chain.steps))


@pytest.mark.parametrize("budget", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_dynamic_programming_finds_what_trying_every_policy_finds(seed: int, budget: int) -> None:
    chain = random_chain(seed, states=4)
    solver = Solver(chain, uniform_requests(3, budget))
    assert solver.accuracy().optimum == pytest.approx(best_by_brute_force(chain, budget), abs=1e-9)


@pytest.mark.parametrize("still", [True, False])
@pytest.mark.parametrize("budget", [1, 2])
def test_the_blind_optimum_is_the_best_of_all_plans(budget: int, still: bool) -> None:
    chain = random_chain(3, states=4, steps=3, still=still)
    assert Solver(chain, uniform_requests(3, budget)).blind() == pytest.approx(blind_by_brute_force(chain, budget), abs=1e-12)
    same = TASK.chain
    assert Solver(same, uniform_requests(4, budget)).blind() == pytest.approx(blind_by_brute_force(same, budget), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 3), st.booleans())
def test_policies_are_in_order_on_any_chain(seed: int, budget: int, still: bool) -> None:
    chain = random_chain(seed, states=4, still=still)
    solver = Solver(chain, uniform_requests(3, budget))
    found, blind = solver.accuracy(), solver.blind()
    chance = (chain.prior @ chain.classes).max()
    assert blind is not None
    assert chance <= found.random + 1e-12
    assert found.random <= blind + 1e-12
    assert max(found.greedy, blind) <= found.optimum + 1e-12
    if budget == 0:
        assert found.optimum == pytest.approx(chance)
    if budget == 3:
        assert found.random == pytest.approx(found.optimum)


@pytest.mark.parametrize(("n_features", "budget", "fakes"), [(4, 1, 0), (4, 2, 3), (3, 5, 4), (2, 9, 3), (3, 0, 2)])
def test_random_requests_are_those_of_a_menu_with_fakes(n_features: int, budget: int, fakes: int) -> None:
    expected: dict[tuple[int, ...], float] = {}
    sets = list(itertools.combinations(range(n_features + fakes), min(budget, n_features + fakes)))
    for one in sets:
        cells = tuple(cell for cell in one if cell < n_features)
        expected[cells] = expected.get(cells, 0) + 1 / len(sets)
    assert uniform_requests(n_features, budget, fakes) == pytest.approx(expected)


def test_too_many_plans_are_not_tried() -> None:
    chain = random_chain(0, steps=9, n_features=3)
    assert Solver(chain, uniform_requests(3, 1)).blind() is None
