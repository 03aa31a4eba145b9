import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from builders import PREDICTORS, tiny_dataset, tiny_spec
from whichwhen.afterwards import walk_then_read
from whichwhen.data import SeriesSet
from whichwhen.errors import TrainingError
from whichwhen.evaluation import Metrics, evaluate
from whichwhen.model import make_model
from whichwhen.provenance import Provenance
from whichwhen.selection import Gate, HardTopK, SequentialGumbel
from whichwhen.training import Objective, epochs, fit
from whichwhen.training.detached import roll_out_detached
from whichwhen.training.epochs import learning_rate, training_loop


def run(data, **changes):
    """A trained model and the state of its training."""
    model = make_model(tiny_spec(**changes), data)
    return model, fit(model, data)


def same(one, other):
    """Whether two sets of tensors are equal to the bit."""
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def copies(model):
    return {name: tensor.clone() for name, tensor in model.tensors().items()}


def history(state):
    return [{name: value for name, value in line.items() if name != "cpu_seconds"} for line in state.history]


# -- the same seed, the same numbers


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_two_runs_with_one_seed_agree_exactly_and_another_seed_differs(predictor, tiny_data):
    changes = {"predictor__kind": predictor, "predictor__dropout": 0.3}
    first, first_state = run(tiny_data, **changes)
    torch.manual_seed(1234)  # nothing hangs on torch's own randomness
    torch.randn(7)
    again, again_state = run(tiny_data, **changes)
    other, _ = run(tiny_data, **changes, seed=1)
    assert same(first.tensors(), again.tensors())
    assert history(first_state) == history(again_state)
    assert not same(first.tensors(), other.tensors())


def test_training_leaves_torch_s_own_randomness_alone(tiny_data):
    before = torch.get_rng_state()
    run(tiny_data, predictor__dropout=0.3, training__epochs=1)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("kind", ["learned", "random", "none"])
def test_training_moves_what_learns_and_lowers_the_loss(kind, tiny_data):
    model = make_model(tiny_spec(acquirer__kind=kind, training__epochs=12, training__learning_rate=0.02), tiny_data)
    before = copies(model)
    state = fit(model, tiny_data)
    assert all(not torch.equal(tensor, before[name]) for name, tensor in model.tensors().items())
    assert state.history[-1]["objective"] < state.history[0]["objective"]


def test_an_interrupted_training_goes_on_to_the_same_weights(tiny_data):
    spec = {"predictor__dropout": 0.3, "training__epochs": 4, "training__gradient": "full"}
    whole, expected = run(tiny_data, **spec)

    class StopError(Exception):
        pass

    def stop(state):
        if len(state.history) == 2:
            stopped.append(state)
            raise StopError

    stopped, model = [], make_model(tiny_spec(**spec), tiny_data)
    with pytest.raises(StopError):
        fit(model, tiny_data, on_epoch=stop)
    later = make_model(tiny_spec(**spec), tiny_data)
    state = fit(later, tiny_data, state=stopped[0])
    assert same(whole.tensors(), later.tensors())
    assert history(state) == history(expected)
    assert same(state.optimizer, expected.optimizer)


# -- who may see what


class OffLimits(SeriesSet):
    """A test split that raises when it is touched."""

    def __getattribute__(self, name):
        if name.startswith("__"):
            return super().__getattribute__(name)
        raise AssertionError(f"training has read {name} of the test split")


@pytest.mark.parametrize("kind", ["learned", "static", "random", "oracle"])
def test_training_does_not_touch_the_test_split(kind, tiny_data):
    data = replace(tiny_data, tests={"test": object.__new__(OffLimits)})
    with pytest.raises(AssertionError, match="has read"):
        len(data.test)
    model, _ = run(data, acquirer__kind=kind, training__epochs=2)
    expected, _ = run(tiny_data, acquirer__kind=kind, training__epochs=2)
    assert same(model.tensors(), expected.tensors())


@pytest.mark.parametrize("kind", ["learned", "static", "static-by-time", "table", "random"])
def test_which_features_are_real_changes_nothing_but_the_oracle(kind, tiny_data):
    other = replace(tiny_data, provenance=Provenance(~tiny_data.provenance.real))
    one, two = (run(data, acquirer__kind=kind, training__epochs=2)[0] for data in (tiny_data, other))
    assert same(one.tensors(), two.tensors())


def test_which_features_are_real_does_change_the_oracle(tiny_data):
    other = replace(tiny_data, provenance=Provenance(~tiny_data.provenance.real))
    one, two = (make_model(tiny_spec(acquirer__kind="oracle"), data) for data in (tiny_data, other))
    assert not same(one.tensors(), two.tensors())


def test_validation_series_are_not_learned_from(tiny_data):
    shuffled = replace(tiny_data.validation, values=tiny_data.validation.values[::-1].copy())
    weights = []
    for data in (tiny_data, replace(tiny_data, validation=shuffled)):
        model = make_model(tiny_spec(), data)
        fit(model, data, on_epoch=lambda state: weights.append(state.weights))
    assert same(weights[2], weights[5])  # after the last epoch; the one that is kept may differ


def test_random_requests_are_fresh_in_each_epoch_of_training_and_fixed_in_evaluation(tiny_data, monkeypatch):
    model = make_model(tiny_spec(acquirer__kind="random", training__epochs=2, training__batch_size=100), tiny_data)
    seen = []

    def spy(policy, batch, generator=None):
        record = roll_out_detached(policy, batch, generator)
        seen.append({key: record.selections.request[i] for i, key in enumerate(batch.values.sum((1, 2)).tolist())})
        return record

    monkeypatch.setattr(epochs, "roll_out_detached", spy)
    fit(model, tiny_data)
    assert seen[0].keys() == seen[1].keys()
    assert sum(torch.equal(seen[0][key], seen[1][key]) for key in seen[0]) < len(seen[0]) / 2
    one, two = (evaluate(model.policy, tiny_data.validation).requested for _ in range(2))
    assert np.array_equal(one, two)


def test_noise_is_fresh_in_each_epoch_and_the_same_for_the_same_seed(tiny_data, monkeypatch):
    seen = []

    def spy(policy, batch, generator=None):
        record = roll_out_detached(policy, batch, generator)
        seen.append(record.steps[0].selection.noise.clone())
        return record

    monkeypatch.setattr(epochs, "roll_out_detached", spy)
    for _ in range(2):
        run(tiny_data, training__epochs=2, training__batch_size=100)
    first, second, *again = seen
    assert not torch.equal(first, second)
    assert torch.equal(first, again[0])
    assert torch.equal(second, again[1])


# -- the choice of the epoch


def planned(monkeypatch, accuracies, losses=None):
    """Validation metrics as planned, one pair per epoch."""
    plan = iter(zip(accuracies, losses or [0.5] * len(accuracies), strict=True))

    class Found:
        @property
        def metrics(self):
            accuracy, loss = next(plan)
            return Metrics(accuracy=accuracy, loss=loss, cost_per_step=0.0, real_fraction=None, n=1)

    monkeypatch.setattr(epochs, "evaluate", lambda *_, **__: Found())


@pytest.mark.parametrize(
    ("choose_by", "accuracies", "losses", "best"),
    [
        ("accuracy", [0.1, 0.6, 0.5, 0.6], [0.9, 0.8, 0.1, 0.8], 2),  # the first of equals
        ("accuracy", [0.1, 0.6, 0.5, 0.6], [0.9, 0.8, 0.1, 0.7], 4),  # equal accuracy, lower loss
        ("loss", [0.9, 0.6, 0.5, 0.6], [0.9, 0.8, 0.1, 0.7], 3),
        ("loss", [0.1, 0.6, 0.5, 0.7], [0.9, 0.2, 0.2, 0.2], 4),  # equal loss, higher accuracy
        ("accuracy", [0.9, 0.2, 0.2, 0.2], [0.1, 0.1, 0.1, 0.1], 1),
        ("last", [0.9, 0.6, 0.5, 0.2], [0.1, 0.8, 0.2, 0.7], 4),
    ],
)
def test_the_best_epoch_on_validation_is_kept(choose_by, accuracies, losses, best, monkeypatch, tiny_data):
    planned(monkeypatch, accuracies, losses)
    model = make_model(tiny_spec(training__epochs=4, training__choose_by=choose_by), tiny_data)
    weights = []
    state = fit(model, tiny_data, on_epoch=lambda state: weights.append(state.weights))
    assert state.best_epoch == best
    assert [i + 1 for i, line in enumerate(state.history) if line["best"]][-1] == best
    assert same(model.tensors(), weights[best - 1])
    assert not same(weights[0], weights[1])


def test_what_is_kept_reaches_on_validation_what_the_history_says(tiny_data):
    model, state = run(tiny_data, training__epochs=6, training__learning_rate=0.05)
    best = state.history[state.best_epoch - 1]
    found = evaluate(model.policy, tiny_data.validation).metrics
    assert found.accuracy == best["validation_accuracy"]
    assert found.loss == pytest.approx(best["validation_loss"], rel=1e-5)  # there the predictor reads all steps at once
    assert best["validation_accuracy"] == max(line["validation_accuracy"] for line in state.history)


@pytest.mark.parametrize(
    ("patience", "accuracies", "epochs"),
    [
        (2, [0.5, 0.4, 0.6, 0.5, 0.5, 0.9], 5),
        (1, [0.5, 0.4, 0.6, 0.5, 0.5, 0.9], 2),
        (3, [0.5, 0.4, 0.6, 0.5, 0.5, 0.9], 6),
        (0, [0.5, 0.4, 0.4, 0.4, 0.4, 0.4], 6),
    ],
)
def test_training_stops_when_patience_is_at_an_end(patience, accuracies, epochs, monkeypatch, tiny_data):
    planned(monkeypatch, accuracies)
    _, state = run(tiny_data, training__epochs=6, training__patience=patience)
    assert len(state.history) == epochs


def test_resuming_a_training_that_ran_out_of_patience_trains_no_more(monkeypatch, tiny_data):
    planned(monkeypatch, [0.5, 0.4, 0.3, 0.9])
    model, state = run(tiny_data, training__epochs=9, training__patience=2)
    again = fit(make_model(model.card.spec, tiny_data), tiny_data, state=state)
    assert len(again.history) == 3


# -- the history


def test_the_history_holds_each_epoch_s_numbers(tiny_data):
    _, state = run(tiny_data, training__epochs=3, training__step_loss=0.3)
    assert [line["epoch"] for line in state.history] == [1, 2, 3]
    for line in state.history:
        assert 0 <= line["accuracy"] <= 1
        assert line["objective"] > line["loss"] > 0
        assert line["learning_rate"] > 0
    seconds = [line["cpu_seconds"] for line in state.history]
    assert seconds == sorted(seconds)
    assert len({line["loss"] for line in state.history}) == 3


def test_cpu_seconds_go_on_from_the_sitting_before(tiny_data):
    _, state = run(tiny_data, training__epochs=2)
    state.cpu_seconds = 1000.0
    more = make_model(tiny_spec(training__epochs=3), tiny_data)
    assert fit(more, tiny_data, state=state).history[-1]["cpu_seconds"] > 1000


def test_the_learning_rate_falls_along_a_cosine_or_not_at_all():
    settings = tiny_spec(training__learning_rate=0.4).training
    assert [learning_rate(settings, share) for share in (0, 0.5, 1)] == pytest.approx([0.4, 0.2, 0.0])
    constant = tiny_spec(training__learning_rate=0.4, training__schedule="constant").training
    assert learning_rate(constant, 0.9) == 0.4


def test_the_learning_rate_falls_over_the_whole_training_and_not_over_each_epoch(tiny_data):
    _, state = run(tiny_data, training__epochs=3, training__batch_size=16, training__learning_rate=0.01)
    shares = [(3 * epoch + 2) / 9 for epoch in range(3)]  # the third of three steps of each epoch
    expected = [0.005 * (1 + math.cos(math.pi * share)) for share in shares]
    assert [line["learning_rate"] for line in state.history] == pytest.approx(expected)


@pytest.mark.parametrize("clip", [0.01, 0.0])
def test_gradients_are_clipped_where_the_spec_says_so(clip, tiny_data, monkeypatch):
    norms, step = [], torch.optim.AdamW.step

    def spy(self, *args, **kwargs):
        gradients = [parameter.grad for group in self.param_groups for parameter in group["params"]]
        norms.append(float(torch.cat([gradient.flatten() for gradient in gradients]).norm()))
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.AdamW, "step", spy)
    run(tiny_data, training__epochs=1, training__clip=clip)
    assert (max(norms) <= 0.01 * (1 + 1e-4)) == bool(clip)


def test_every_training_series_is_seen_once_in_each_epoch(tiny_data, monkeypatch):
    seen = []

    def spy(policy, batch, generator=None):
        seen.append(batch.values.sum((1, 2)))
        return roll_out_detached(policy, batch, generator)

    monkeypatch.setattr(epochs, "roll_out_detached", spy)
    run(tiny_data, training__epochs=2, training__batch_size=16)
    assert [len(part) for part in seen] == [14, 13, 13] * 2
    first, second = torch.cat(seen[:3]), torch.cat(seen[3:])
    assert torch.allclose(first.sort().values, second.sort().values, atol=1e-4)
    assert len(first.unique()) == len(tiny_data.train)
    assert not torch.equal(first, second)


class Broken(Objective):
    def loss(self, record, hindsight):
        return record.logits.sum() * math.nan


def test_a_loss_that_is_no_number_ends_training_with_advice(tiny_data):
    model = make_model(tiny_spec(), tiny_data)
    with pytest.raises(TrainingError, match=r"nan in epoch 1.*learning-rate"):
        fit(model, tiny_data, objective=Broken())


# -- what differs between training and evaluation


def loop_of(kind, data, **changes):
    """The function and the selector that training uses."""
    found = training_loop(make_model(tiny_spec(acquirer__kind=kind, **changes), data))
    return found.func, found.args[0].selector


@pytest.mark.parametrize("kind", ["random", "static", "oracle", "complete", "none"])
@pytest.mark.parametrize("gradient", ["detached", "full"])
def test_what_does_not_learn_selects_as_in_evaluation(kind, gradient, tiny_data):
    assert loop_of(kind, tiny_data, training__gradient=gradient) == (roll_out_detached, HardTopK())


@pytest.mark.parametrize("kind", ["learned", "table"])
def test_what_learns_selects_as_the_spec_says(kind, tiny_data):
    assert loop_of(kind, tiny_data) == (roll_out_detached, Gate())
    paper = {"selector__kind": "sequential", "selector__repeat": "penalty", "training__gradient": "full"}
    assert loop_of(kind, tiny_data, **paper) == (walk_then_read, SequentialGumbel(repeat="penalty"))


@pytest.mark.parametrize("gradient", ["detached", "full"])
def test_the_spec_s_gradient_is_the_one_that_is_used(gradient):
    data = tiny_dataset(n_train=12)
    weights = [run(data, training__gradient=kind, training__epochs=1)[0].tensors() for kind in (gradient, "full")]
    assert same(*weights) == (gradient == "full")
