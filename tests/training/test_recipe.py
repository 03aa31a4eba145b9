"""The recipe: its phases, what each of them moves, going on after a break, and the choice at the end."""

import copy
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from builders import recipe_spec, tiny_dataset
from whichwhen import artifacts
from whichwhen.data import SeriesSet
from whichwhen.errors import TrainingError
from whichwhen.evaluation import evaluate, measure
from whichwhen.evaluation.calibration import apply_temperature
from whichwhen.evaluation.prices import at_budget
from whichwhen.model import make_model
from whichwhen.predictors import ConvPredictor, GRUPredictor
from whichwhen.provenance import Provenance
from whichwhen.specs import ATTEMPTS, RULES, BudgetSpec, TrainingSpec
from whichwhen.training import fit_recipe, recipe
from whichwhen.training.checkpoints import load_checkpoint, save_checkpoint
from whichwhen.training.recipe import phases_of

pytestmark = pytest.mark.filterwarnings("ignore::whichwhen.errors.BudgetWarning")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Phases of a few steps, with a round after every second one, and as many series as need no refit."""
    for name, value in {"WARM_UP": 4, "JOINT": 3, "SETTLE": 4, "ROUND": 2, "FEW": 0}.items():
        monkeypatch.setattr(recipe, name, value)


@pytest.fixture
def refits(monkeypatch):
    """As few series as need one."""
    monkeypatch.setattr(recipe, "FEW", 1000)


@pytest.fixture(scope="module")
def data():
    return tiny_dataset(n_train=24)


def spec_of(**changes):
    return recipe_spec(**({"training__effort": 1.0, "acquirer__trees": 5, "training__batch_size": 8} | changes))


def run(data, on_epoch=lambda state: None, state=None, **changes):
    return fit_recipe(make_model(spec_of(**changes), data), data, state=state, on_epoch=on_epoch)


def same(one, other):
    """Whether two sets of tensors are equal to the bit."""
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def history(state):
    return [{name: value for name, value in line.items() if name != "cpu_seconds"} for line in state.history]


def part(tensors, name):
    return {path: tensor for path, tensor in tensors.items() if path.startswith(f"{name}.")}


def assert_same(one, other):
    assert one.model.card == other.model.card
    assert same(one.model.tensors(), other.model.tensors())
    assert one.model.policy.budget == other.model.policy.budget
    assert [each.loss for each in one.candidates] == [each.loss for each in other.candidates]
    assert [each.kept for each in one.candidates] == [each.kept for each in other.candidates]
    for mine, yours in zip(one.candidates, other.candidates, strict=True):
        assert same(mine.model.tensors(), yours.model.tensors())
    assert one.screened == other.screened
    assert history(one.state) == history(other.state)


# -- phases


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("learned", ["warm-up", "joint", "settle", "rule"]),
        ("learned-only", ["warm-up", "joint", "settle"]),
        ("table", ["warm-up", "joint", "settle"]),
        *((kind, ["warm-up", "settle"]) for kind in ("static", "round-robin", "random", "none", "complete")),
    ],
)
def test_all_that_is_trained_takes_as_many_steps_after_its_warm_up(kind, names, data):
    phases = phases_of(make_model(spec_of(acquirer__kind=kind), data), 100)
    assert [phase.name for phase in phases] == names
    assert phases[0].start == 0
    ends = {phase.name: phase.start + phase.steps for phase in phases}
    assert {ends[name] for name in ("settle", "rule") if name in ends} == {11}
    for before, after in itertools.pairwise(phases):
        assert after.start in (before.start + before.steps, 4)


@pytest.mark.parametrize(("effort", "series", "factor"), [(1.0, 3000, 1), (1.5, 100, 1.5), (1.0, 12_000, 2), (0.5, 12_000, 1)])
def test_steps_grow_with_the_effort_and_beyond_3000_series_with_the_root_of_their_number(effort, series, factor, data):
    model = make_model(spec_of(training__effort=effort, acquirer__kind="learned-only"), data)
    assert [phase.steps for phase in phases_of(model, series)] == [round(steps * factor) for steps in (4, 3, 4)]


def test_the_history_has_a_line_for_each_round_and_the_rate_falls_along_one_cosine(data):
    state = run(data, acquirer__kind="learned-only").state
    found = [(line["phase"], line["step"]) for line in state.history]
    assert found == [
        *(("warm-up", 2), ("warm-up", 4), ("joint", 2), ("joint", 3)),
        *(("settle", 2), ("settle", 4)),
    ]
    assert state.rounds == len(state.history)
    last = {"warm-up": 0, "joint": 4, "settle": 7}
    for line in state.history:
        at = last[line["phase"]] + line["step"] - 1
        assert line["learning_rate"] == pytest.approx(0.005 * 0.5 * (1 + math.cos(math.pi * at / 11)))


def test_the_predictor_learns_in_each_phase_and_the_acquirer_in_the_joint_one_alone(data):
    seen = []
    run(data, lambda state: seen.append((state.history[-1]["phase"], state.weights)), acquirer__kind="learned-only")
    for (_, before), (phase, after) in itertools.pairwise(seen):
        assert not same(part(before, "predictor"), part(after, "predictor"))
        if phase != "joint":
            assert same(part(before, "acquirer"), part(after, "acquirer"))
    first, last = (next(weights for name, weights in order if name == "joint") for order in (seen, seen[::-1]))
    moved = part(last, "acquirer")
    assert all(not torch.equal(tensor, moved[name]) for name, tensor in part(first, "acquirer").items())


@pytest.mark.parametrize("kind", ["learned-only", "table"])
@pytest.mark.parametrize("objective", ["end-to-end", "greedy-cmi", "value", "foresight"])
def test_every_objective_moves_the_acquirer_in_the_joint_phase(objective, kind, data):
    trained = run(data, acquirer__kind=kind, training__objective=objective)
    fresh = make_model(trained.model.card.spec, data)
    moved = part(trained.model.tensors(), "acquirer")
    assert any(not torch.equal(tensor, fresh.tensors()[name]) for name, tensor in moved.items())
    assert all(torch.isfinite(tensor).all() for tensor in moved.values())


def test_a_loss_that_is_no_number_ends_training_with_advice(data):
    with pytest.raises(TrainingError, match=r"became (nan|inf).*--learning-rate"):
        run(data, training__learning_rate=1e30)


# -- randomness and breaks

BREAKS = {
    "learned": {},
    "mean cost": {"budget__per_step": None, "budget__mean_cost": 1.5},
    "reads context": {"acquirer__kind": "learned-only", "acquirer__context": True, "predictor__dropout": 0.3},
    "remembers": {"acquirer__kind": "learned-only", "acquirer__memory": 3, "predictor__kind": "lstm"},
    "values": {
        **{"acquirer__kind": "learned-only", "training__objective": "value", "budget__per_step": None},
        "budget__total": 6.0,
    },
    "table": {"acquirer__kind": "table", "budget__per_step": None, "budget__price": 0.02},
    "round robin": {"acquirer__kind": "round-robin"},
    "static, mean cost": {"acquirer__kind": "static", "budget__per_step": None, "budget__mean_cost": 1.5},
    "random": {"acquirer__kind": "random"},
    "bins": {"acquirer__kind": "static-by-time", "predictor__bins": 3},
}
MANY = {
    "learned, many attempts": {"training__effort": 2.0},
    "static, many attempts": {"training__effort": 2.0, "acquirer__kind": "static"},
    "round robin, many attempts, bins": {"training__effort": 2.0, "acquirer__kind": "round-robin", "predictor__bins": 3},
}


@pytest.mark.parametrize("changes", [*BREAKS.values(), *MANY.values()], ids=[*BREAKS, *MANY])
@pytest.mark.usefixtures("refits")
def test_after_a_break_training_goes_on_to_the_same_weights(changes, data, tmp_path):
    kept = []

    def keep(state):
        kept.append(tmp_path / f"{len(kept)}")
        save_checkpoint(kept[-1], state, "spec")

    whole = run(data, keep, **changes)
    assert len(kept) == len(whole.state.history)
    phases = [line["phase"] for line in whole.state.history]
    ends = [i for i, (one, other) in enumerate(zip(phases, [*phases[1:], ""], strict=True)) if one != other]
    stops = {*range(len(kept))} if not changes else {*ends, len(kept) - 2}
    if "training__effort" in changes:  # where the second attempt begins, within the last, and in the refit
        many = len(phases) - sum("refit" in phase for phase in phases)
        stops = {many // 3 - 1, many // 3, many - 2, *(end for end in ends if end >= many - 1), len(kept) - 2}
        assert phases[many // 3] == "warm-up"
    for stop in sorted(stops):
        torch.manual_seed(stop)  # nothing hangs on torch's own randomness
        assert_same(run(data, state=load_checkpoint(kept[stop], "spec"), **changes), whole)


def test_training_leaves_torch_s_own_randomness_alone_and_hangs_on_the_seed(data):
    before = torch.get_rng_state()
    one, again, other = (run(data, acquirer__kind="learned-only", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert same(one.model.tensors(), again.model.tensors())
    assert not same(one.model.tensors(), other.model.tensors())


class OffLimits(SeriesSet):
    """A test split that raises when it is touched."""

    def __getattribute__(self, name):
        if name.startswith("__"):
            return super().__getattribute__(name)
        raise AssertionError(f"training has read {name} of the test split")


@pytest.mark.parametrize("kind", ["learned", "round-robin", "oracle"])
def test_training_does_not_touch_the_test_split(kind, data):
    closed = replace(data, tests={"test": object.__new__(OffLimits)})
    assert_same(run(closed, acquirer__kind=kind), run(data, acquirer__kind=kind))


def test_which_features_are_real_changes_nothing(data):
    assert_same(run(data), run(replace(data, provenance=Provenance(~data.provenance.real))))


# -- the choice between the network and the best rule


@pytest.fixture
def candidates(data):
    return run(data)


def test_the_candidate_with_the_lower_validation_loss_is_kept(candidates):
    network, rule = candidates.candidates
    assert network.model.card.acquirer == "learned-only"
    assert rule.model.card.acquirer in RULES
    best = min(candidates.candidates, key=lambda one: one.loss)
    assert [one.kept for one in candidates.candidates] == [one is best for one in candidates.candidates]
    assert candidates.model is best.model
    assert candidates.model.card.kept == best.model.card.acquirer


@pytest.mark.parametrize("network_is_better", [False, True])
def test_either_can_be_kept(network_is_better, data, monkeypatch):
    worse = "rule" if network_is_better else "settle"
    monkeypatch.setattr(recipe._Recipe, "_loss_for_choice", lambda self, model, phase: float(phase == worse))
    found = run(data)
    assert (found.model.card.acquirer == "learned-only") == network_is_better


def test_a_tie_goes_to_the_rule(data, monkeypatch):
    monkeypatch.setattr(recipe._Recipe, "_loss_for_choice", lambda self, model, phase: 0.5)
    assert run(data).model.card.acquirer in RULES


def test_the_best_rule_of_those_that_were_screened_is_settled_as_it_would_be_alone(candidates, data):
    losses = {kind: candidates.screened[kind] for kind in RULES}
    rule = candidates.candidates[1].model
    assert rule.card.acquirer == min(losses, key=lambda kind: losses[kind])
    alone = run(data, acquirer__kind=rule.card.acquirer).model
    assert same(rule.tensors(), alone.tensors())
    assert evaluate(rule.policy, data.test).metrics == evaluate(alone.policy, data.test).metrics


def unsure_loss(model, data):
    """On validation, with the temperature of least loss if that is above 1, by trying many."""
    found = evaluate(model.policy, data.validation)
    logits, rows = np.log(found.probabilities), np.arange(len(found.labels))
    tried = [apply_temperature(logits, temperature)[rows, found.labels] for temperature in np.geomspace(1, 100, 2000)]
    return min(float(-np.log(shares).mean()) for shares in tried)


def test_with_many_validation_series_the_loss_of_the_choice_is_that_of_the_last_weights(data, monkeypatch):
    monkeypatch.setattr(recipe, "FEW_TO_CHOOSE", 1)
    for candidate in run(data).candidates:
        assert candidate.loss == pytest.approx(unsure_loss(candidate.model, data), rel=1e-4)


@pytest.mark.parametrize("sureness", [0.5, 30.0])
def test_how_sure_a_predictor_is_does_not_count_against_it(sureness, data):
    """Logits times 30 are much too sure, and as good to choose by; half as sure as it could be is as it is."""
    model = run(data, acquirer__kind="complete").model
    found = evaluate(model.policy, data.validation)
    logits = np.log(found.probabilities)
    changed = replace(found, probabilities=apply_temperature(logits, 1 / sureness))
    loss = recipe._unsure_loss(changed, data.validation)
    if sureness > 1:
        assert loss <= recipe._unsure_loss(found, data.validation) + 1e-6
    assert loss <= log_loss(changed.probabilities, data.validation.labels) + 1e-9


def log_loss(shares, labels):
    return float(-np.log(np.maximum(shares[np.arange(len(labels)), labels], 1e-30)).mean())


def test_with_few_validation_series_it_is_moved_by_the_mean_of_the_last_rounds(data):
    found = run(data)
    for candidate, phase in zip(found.candidates, ("settle", "rule"), strict=True):
        rounds = [line["unsure_loss"] for line in found.state.history if line["phase"] == phase][-4:]
        assert candidate.loss == pytest.approx(unsure_loss(candidate.model, data) + np.mean(rounds) - rounds[-1], rel=1e-4)


def test_where_there_is_a_price_the_bill_is_part_of_the_loss(data, monkeypatch):
    monkeypatch.setattr(recipe, "FEW_TO_CHOOSE", 1)
    for candidate in run(data, budget__per_step=None, budget__price=0.05).candidates:
        outcome = evaluate(candidate.model.policy, data.validation)
        expected = unsure_loss(candidate.model, data) + 0.05 * float(np.mean(outcome.cost))
        assert candidate.loss == pytest.approx(expected, rel=1e-4)


# -- refit

KINDS = ("learned", "learned-only", "round-robin", "random", "complete")


@pytest.mark.usefixtures("refits")
@pytest.mark.parametrize("kind", KINDS)
def test_of_few_series_the_predictor_learns_again_and_nothing_else_changes(kind, data, monkeypatch):
    whole = run(data, acquirer__kind=kind)
    monkeypatch.setattr(recipe, "_reads_predictor", lambda model: True)  # no refit
    before = run(data, acquirer__kind=kind)
    assert [(one.loss, one.kept) for one in whole.candidates] == [(one.loss, one.kept) for one in before.candidates]
    pairs = [(whole.model, before.model)]
    pairs += [(one.model, other.model) for one, other in zip(whole.candidates, before.candidates, strict=True)]
    for model, other in pairs:
        assert model.card == other.card.model_copy(update={"refitted": True})
        assert same(part(model.tensors(), "acquirer"), part(other.tensors(), "acquirer"))
        assert same(model.held_out.state_dict(), other.policy.predictor.state_dict())
        assert model.policy.budget == other.policy.budget
        moved = model.policy.predictor.state_dict()
        assert not any(torch.equal(moved[name], tensor) for name, tensor in model.held_out.named_parameters())
    assert history(whole.state)[: len(before.state.history)] == history(before.state)
    more = history(whole.state)[len(before.state.history) :]
    assert {line["phase"] for line in more} == ({"refit", "rule refit"} if kind == "learned" else {"refit"})
    assert all(line["validation_loss"] is None for line in more)


@pytest.mark.usefixtures("refits")
@pytest.mark.parametrize("better", [0, 1])
def test_of_few_series_the_second_attempt_has_noise_on_its_values_and_so_has_the_refit_of_what_it_gave(
    better, data, monkeypatch
):
    used, now = [], []
    own, begin = recipe.augmented, recipe._Recipe._begin
    monkeypatch.setattr(recipe, "augmented", lambda *given: used.append(now[-1]) or own(*given))
    monkeypatch.setattr(recipe._Recipe, "_begin", lambda self, phase, done: now.append(phase) or begin(self, phase, done))
    monkeypatch.setattr(recipe._Recipe, "_loss_for_choice", lambda self, model, _: float(model.card.attempt != better))
    found = run(data, acquirer__kind="static")
    assert found.model.card.attempt == better
    assert {(phase.name, phase.attempt) for phase in used} == {
        *((name, 1) for name in ("warm-up", "settle")),
        *((("refit", 1),) if better else ()),
    }


@pytest.mark.usefixtures("refits")
@pytest.mark.parametrize(("losses", "attempt"), [((0.5, 0.5), 1), ((0.49, 0.5), 1), ((0.47, 0.5), 0)])
def test_an_attempt_without_noise_must_be_clearly_better(losses, attempt, data, monkeypatch):
    monkeypatch.setattr(recipe._Recipe, "_loss_for_choice", lambda self, model, _: losses[model.card.attempt])
    assert run(data, acquirer__kind="static").model.card.attempt == attempt


@pytest.mark.parametrize(("least", "refits"), [(24, False), (25, True)])
def test_the_number_of_training_series_says_whether_there_is_a_refit(least, refits, data, monkeypatch):
    monkeypatch.setattr(recipe, "FEW", least)
    assert run(data, acquirer__kind="static").model.card.refitted == refits


@pytest.mark.usefixtures("refits")
def test_a_refit_learns_from_the_validation_series(data, monkeypatch):
    """Where the choice does not hang on them, other validation labels change nothing but what is learned from them."""
    monkeypatch.setattr(recipe._Recipe, "_loss_for_choice", lambda self, model, _: 0.0)
    changed = replace(data, validation=replace(data.validation, labels=(data.validation.labels + 1) % 3))
    one, other = (run(each, acquirer__kind="complete").model for each in (data, changed))
    assert same(one.held_out.state_dict(), other.held_out.state_dict())
    assert not same(one.policy.predictor.state_dict(), other.policy.predictor.state_dict())


@pytest.mark.usefixtures("refits")
def test_what_is_chosen_on_validation_is_chosen_with_the_predictor_that_has_not_seen_it(data, tmp_path):
    found = run(data, acquirer__kind="learned-only", budget__per_step=None, budget__total=6.0).model
    artifacts.save_model(tmp_path / "model.safetensors", found)
    again = artifacts.load_model(tmp_path / "model.safetensors")
    assert same(again.tensors(), found.tensors())
    for wanted in (BudgetSpec(total=6.0), BudgetSpec(mean_cost=1.0)):
        policy = at_budget(again, wanted, data.validation)
        assert policy.predictor is again.policy.predictor
        unseen = replace(again, policy=again.on_validation(again.policy), held_out=None)
        assert policy.budget == at_budget(unseen, wanted, data.validation).budget
    assert measure(found, data, "validation").evaluation.metrics.loss == evaluate(unseen.policy, data.validation).metrics.loss
    chosen = measure(found, data).calibration.temperature
    assert chosen == measure(unseen, data).calibration.temperature
    assert measure(found, data).evaluation.metrics.loss == evaluate(found.policy, data.test).metrics.loss


@pytest.mark.usefixtures("refits")
def test_an_acquirer_that_reads_the_policy_s_own_predictor_keeps_it(data):
    model = make_model(spec_of(acquirer__kind="learned-only", acquirer__context=True), data)
    assert phases_of(model, 10)[-1].name == "refit"  # it has a copy of its own
    bare = replace(model, policy=replace(model.policy, acquirer=model.policy.acquirer.inner))
    assert phases_of(bare, 10)[-1].name == "settle"


# -- several attempts


@pytest.mark.parametrize(
    ("fields", "attempts"),
    [
        ({}, 1),
        ({"effort": "quick"}, 1),
        ({"effort": "thorough"}, ATTEMPTS),
        ({"effort": 2.0}, ATTEMPTS),
        ({"effort": 1.99}, 1),
        ({"epochs": 9}, 1),
    ],
)
def test_thorough_and_more_make_several_attempts(fields, attempts):
    assert TrainingSpec(**fields).attempts == attempts


@pytest.mark.parametrize(("kind", "last"), [("conv", "gru"), ("gru", "conv"), ("lstm", "conv"), ("transformer", "conv")])
def test_the_last_attempt_has_another_architecture_and_the_others_the_one_asked_for(kind, last):
    spec = spec_of(training__effort="thorough", predictor__kind=kind)
    assert [spec.predictor_of(attempt).kind for attempt in range(3)] == [kind, kind, last]
    assert {spec.predictor_of(attempt).width for attempt in range(3)} == {6}
    assert spec.change(training__effort="normal").predictor_of(0).kind == kind


@pytest.mark.parametrize(("effort", "width"), [("quick", 24), ("normal", 32), ("thorough", 40), (0.001, 8), (8.0, 64)])
def test_the_width_grows_with_the_effort_where_none_is_given(effort, width):
    assert spec_of(training__effort=effort, predictor__width=None).predictor_of().width == width
    assert spec_of(training__effort=effort, predictor__width=5).predictor_of().width == 5


def attempts_of(data, **changes):
    """All that the attempts end with, attempt by attempt."""
    finished = []
    own = recipe._Recipe._finished

    def keep(self):
        found = own(self)
        finished.append([(copy.deepcopy(model.tensors()), model.card, loss) for model, loss in found])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recipe._Recipe, "_finished", keep)
        return run(data, training__effort=2.0, **changes), finished


def test_the_first_attempt_is_training_with_one_attempt(data, monkeypatch):
    _, finished = attempts_of(data)
    monkeypatch.setattr("whichwhen.specs.ATTEMPTS", 1)
    alone = run(data, training__effort=2.0)
    for (tensors, _, loss), candidate in zip(finished[0], alone.candidates, strict=True):
        assert same(tensors, candidate.model.tensors())
        assert loss == candidate.loss


def test_attempts_differ_in_weights_and_in_what_they_draw_and_share_a_rule_s_ranking(data):
    _, finished = attempts_of(data, acquirer__kind="static")
    (first,), (second,), (third,) = finished
    assert [one[1].attempt for one in (first, second, third)] == [0, 1, 2]
    assert first[0].keys() == second[0].keys() != third[0].keys()
    assert not any(torch.equal(tensor, second[0][name]) for name, tensor in part(first[0], "predictor").items())
    assert same(part(first[0], "acquirer"), part(second[0], "acquirer"))
    assert same(part(first[0], "acquirer"), part(third[0], "acquirer"))


@pytest.mark.parametrize("best", [(0, 2), (1, 0), (2, 1)], ids=str)
def test_the_best_network_and_the_best_rule_of_all_attempts_compete(best, data, monkeypatch, tmp_path):
    """``best``: which attempt has the best network, and which the best rule."""
    order = {"settle": best[0], "rule": best[1]}

    def planned(self, model, phase):
        return (phase == "rule") + float(model.card.attempt != order[phase]) * 0.5

    monkeypatch.setattr(recipe._Recipe, "_loss_for_choice", planned)
    found, finished = attempts_of(data)
    assert [len(one) for one in finished] == [2, 2, 2]
    for candidate, attempt, place in zip(found.candidates, best, (0, 1), strict=True):
        tensors, card, _ = finished[attempt][place]
        assert same(candidate.model.tensors(), tensors)
        assert candidate.model.card == card
        assert card.attempt == attempt
    assert found.model is found.candidates[0].model
    assert isinstance(found.model.policy.predictor, GRUPredictor if best[0] == 2 else ConvPredictor)
    artifacts.save_model(tmp_path / "model.safetensors", found.model)
    again = artifacts.load_model(tmp_path / "model.safetensors")
    assert evaluate(again.policy, data.test).metrics == evaluate(found.model.policy, data.test).metrics
