"""Tasks whose best acquisition is known: who learns must find it, who doesn't can't."""

import math
from functools import cache

import numpy as np
import pytest

from builders import task_dataset, tiny_spec
from whichwhen.data.synthetic import TASKS, SignalTask
from whichwhen.evaluation import evaluate
from whichwhen.model import make_model
from whichwhen.training import fit

SIZES = {"n_features": 6, "steps": 6, "signal": 0.9, "n_train": 1200, "n_test": 2000}
FIXED = SignalTask("the carrier stays", stride=0, **SIZES)
MOVING = SignalTask("each column is the carrier at one step", stride=1, **SIZES)
ROOM = 0.005  # what a predictor that is estimated from 1200 series may lose to the best one


def four_errors(share, count=SIZES["n_test"]):
    """Four standard errors of an observed share."""
    return 4 * math.sqrt(share * (1 - share) / count)


data_of = cache(task_dataset)


def reached(task, kind, epochs, **changes):
    data = data_of(task)
    sizes = {
        "acquirer__hidden": 32,
        "acquirer__time_features": 8,
        "acquirer__segments": 6,
        "acquirer__trees": 50,
        "predictor__width": 16,
        "predictor__layers": 1,
        "predictor__dropout": 0.0,
        "predictor__time_features": 4,
        "budget__per_step": 1,
        "training__batch_size": 64,
        "training__learning_rate": 0.01,
        "training__choose_by": "loss",
    }
    model = make_model(tiny_spec(**(sizes | {"acquirer__kind": kind, "training__epochs": epochs} | changes)), data)
    fit(model, data)
    found = evaluate(model.policy, data.test, data.provenance).metrics
    assert found.cost_per_step == (0 if kind == "none" else 1)
    return found


def assert_found(task, metrics):
    best = task.reference(1).optimum
    assert metrics.real_fraction > 0.98
    assert best - four_errors(best) - ROOM <= metrics.accuracy <= best + four_errors(best)


@pytest.mark.parametrize("task", [FIXED, MOVING], ids=["fixed", "moving"])
@pytest.mark.parametrize("kind", ["learned", "table"])
def test_learned_and_table_find_the_carrier_and_reach_the_optimum(kind, task):
    assert_found(task, reached(task, kind, epochs=12 if task is MOVING else 5))


@pytest.mark.parametrize("repeat", ["mask", "penalty"])
def test_the_paper_s_selector_finds_the_carrier_with_the_full_gradient(repeat):
    paper = {"selector__kind": "sequential", "selector__repeat": repeat, "training__gradient": "full"}
    assert_found(FIXED, reached(FIXED, "learned", epochs=5, **paper))


@pytest.mark.parametrize("task", [FIXED, MOVING], ids=["fixed", "moving"])
def test_random_sees_the_carrier_as_often_as_chance_has_it_and_stays_behind(task):
    found, known = reached(task, "random", epochs=4), task.reference(1)
    assert found.real_fraction == pytest.approx(1 / 6, abs=four_errors(1 / 6, 6 * SIZES["n_test"]))
    assert found.accuracy <= known.random + four_errors(known.random)
    assert found.accuracy < known.optimum - 0.1


def test_static_finds_a_carrier_that_stays():
    assert_found(FIXED, reached(FIXED, "static", epochs=4))


def test_static_can_not_follow_a_carrier_that_moves():
    found = reached(MOVING, "static", epochs=4)
    assert found.real_fraction == pytest.approx(1 / 6)  # each column carries at one step of six
    seen_once = 0.5 * (1 + math.erf(0.9 / math.sqrt(2)))
    assert found.accuracy <= seen_once + four_errors(seen_once)


def test_static_by_time_follows_a_carrier_that_moves():
    assert reached(MOVING, "static-by-time", epochs=1).real_fraction == 1


@pytest.mark.parametrize("task", [FIXED, MOVING], ids=["fixed", "moving"])
def test_the_oracle_asks_only_for_the_carrier(task):
    assert reached(task, "oracle", epochs=1).real_fraction == 1


def test_without_measuring_there_is_only_chance():
    found = reached(FIXED, "none", epochs=1)
    assert found.real_fraction is None
    assert found.accuracy == pytest.approx(0.5, abs=four_errors(0.5))


# -- the closed form itself


@pytest.mark.parametrize(
    "task",
    [FIXED, MOVING, TASKS["fixed"], TASKS["moving"]],
    ids=["fixed", "moving", "catalog fixed", "catalog moving"],
)
@pytest.mark.parametrize("budget", [1, 3])
def test_the_closed_form_agrees_with_the_best_predictor_on_samples(task, budget):
    """The best predictor is the sign of the sum of all carriers that were seen; without any it is a coin."""
    count = 4000
    series = task.make("test", count, seed=7)
    carriers = series.padded()[:, task.real]
    signs = 2 * series.labels - 1

    def accuracy(total):
        return np.where(total == 0, 0.5, np.sign(total) == signs).mean()

    known = task.reference(budget)
    assert accuracy(carriers.sum(1)) == pytest.approx(known.optimum, abs=four_errors(known.optimum, count))
    chosen = np.random.default_rng(0).random((count, task.steps, task.n_features)).argsort(-1)[..., :budget]
    seen = (chosen == task.carrier(np.arange(task.steps))[:, None]).any(-1)
    assert accuracy((carriers * seen).sum(1)) == pytest.approx(known.random, abs=four_errors(known.random, count))
    assert known.chance == 0.5


def test_the_closed_form_at_its_ends():
    everything = FIXED.reference(6)
    assert everything.random == pytest.approx(everything.optimum)
    assert FIXED.reference(1.9).random == FIXED.reference(1).random  # a whole number of orders fits
