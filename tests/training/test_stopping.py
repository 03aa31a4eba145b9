from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from builders import tiny_batch, tiny_dataset, tiny_spec
from whichwhen.errors import SpecError
from whichwhen.model import make_model
from whichwhen.noise import NoisePool
from whichwhen.presets import preset_spec
from whichwhen.specs import TrainingSpec
from whichwhen.training import epochs, fit
from whichwhen.training.epochs import gain_of_last_fifth, warm_up_loop

ACCURACIES = st.lists(st.floats(0, 1), min_size=1, max_size=60)


def parameters(module):
    return {name: tensor.detach().clone() for name, tensor in module.named_parameters()}


def unchanged(before, module):
    return [name for name, tensor in module.named_parameters() if torch.equal(tensor, before[name])]


def history(state):
    return [{name: value for name, value in line.items() if name != "cpu_seconds"} for line in state.history]


def lines(accuracies):
    return [{"validation_accuracy": accuracy} for accuracy in accuracies]


# -- warm-up: the predictor alone


@pytest.mark.parametrize(("kind", "gradient"), [("learned", "detached"), ("learned", "full"), ("table", "detached")])
def test_warm_up_moves_the_predictor_alone_and_the_rest_moves_both(kind, gradient, tiny_data):
    changes = {"acquirer__kind": kind, "training__gradient": gradient, "training__warm_up": 2, "training__epochs": 3}
    model = make_model(tiny_spec(**changes), tiny_data)
    acquirer, predictor = model.policy.acquirer, model.policy.predictor
    first = parameters(acquirer), parameters(predictor)
    seen = []

    def look(state):
        kept, moved = unchanged(first[0], acquirer), unchanged(first[1], predictor)
        seen.append((len(kept) == len(first[0]), kept == [], moved == []))

    fit(model, tiny_data, on_epoch=look)
    # all of the acquirer as it was, all of it moved, all of the predictor moved
    assert seen == [(True, False, True), (True, False, True), (False, True, True)]


def test_without_warm_up_the_first_epoch_moves_the_acquirer(tiny_data):
    model = make_model(tiny_spec(training__epochs=1), tiny_data)
    before = parameters(model.policy.acquirer)
    fit(model, tiny_data)
    assert unchanged(before, model.policy.acquirer) == []


def test_warm_up_shows_the_predictor_masks_of_any_size_whatever_the_budget():
    data = tiny_dataset(n_features=12)
    model = make_model(tiny_spec(budget__per_step=1), data)
    batch = tiny_batch((7,) * 300, n_features=12)
    record = warm_up_loop(model)(batch, NoisePool(0, 1 << 12))
    sizes = record.selections.request.sum(-1)[:, 1:].flatten().int()
    assert set(sizes.tolist()) == set(range(13))
    counts = torch.bincount(sizes, minlength=13) / len(sizes)
    assert torch.allclose(counts, torch.full((13,), 1 / 13), atol=0.03)  # a binomial of a uniform share is uniform


def test_warm_up_reveals_what_was_requested_and_nothing_else():
    model = make_model(tiny_spec(), tiny_dataset())
    batch = tiny_batch((7, 5, 3))
    record = warm_up_loop(model)(batch, NoisePool(0, 1 << 12))
    assert torch.equal(record.reveals.values, record.reveals.mask * batch.values)


def test_warm_up_masks_differ_from_epoch_to_epoch(tiny_data, monkeypatch):
    seen = []
    roll_out = epochs.roll_out_detached

    def keep(policy, batch, noise):
        record = roll_out(policy, batch, noise)
        if isinstance(policy.acquirer, epochs.RandomMasks):
            seen.append(float(record.selections.request.sum()))
        return record

    monkeypatch.setattr(epochs, "roll_out_detached", keep)
    fit(make_model(tiny_spec(training__warm_up=3, training__epochs=4, training__batch_size=1000), tiny_data), tiny_data)
    assert len(set(seen)) == len(seen) == 3


def test_warm_up_leaves_acquirers_that_do_not_learn_out_of_it(tiny_data):
    """What an acquirer would request plays no part in warm-up: the predictor's weights are the same for all of them."""
    weights = []
    for kind in ("random", "static", "complete"):
        model = make_model(tiny_spec(acquirer__kind=kind, training__warm_up=1, training__epochs=2), tiny_data)
        fit(model, tiny_data, on_epoch=lambda state: weights.append(state.weights) if len(state.history) == 1 else None)
    for other in weights[1:]:
        names = [name for name in other if name.startswith("predictor")]
        assert names
        assert all(torch.equal(weights[0][name], other[name]) for name in names)


@pytest.mark.parametrize("stop_after", [1, 2, 3])
def test_a_break_within_or_after_warm_up_changes_nothing(stop_after, tiny_data):
    spec = tiny_spec(training__warm_up=2, training__epochs=4, predictor__dropout=0.3)
    whole = make_model(spec, tiny_data)
    expected = fit(whole, tiny_data)

    class StopError(Exception):
        pass

    stopped = []

    def stop(state):
        if len(state.history) == stop_after:
            stopped.append(state)
            raise StopError

    with pytest.raises(StopError):
        fit(make_model(spec, tiny_data), tiny_data, on_epoch=stop)
    later = make_model(spec, tiny_data)
    state = fit(later, tiny_data, state=stopped[0])
    assert history(state) == history(expected)
    assert all(torch.equal(tensor, whole.tensors()[name]) for name, tensor in later.tensors().items())
    assert state.optimizer.keys() == expected.optimizer.keys()
    assert all(torch.equal(tensor, expected.optimizer[name]) for name, tensor in state.optimizer.items())


@pytest.mark.parametrize(("warm_up", "count"), [(1, 1), (5, 5), (9, 5)])
def test_a_warm_up_that_leaves_no_epoch_is_refused(warm_up, count):
    with pytest.raises(SpecError, match=f"warm-up is {warm_up} of {count} epochs; expected fewer than all; lower --warm-up"):
        TrainingSpec(warm_up=warm_up, epochs=count)


@pytest.mark.parametrize("name", ["warm_up", "level_gain", "min_epochs"])
def test_negative_settings_are_refused(name):
    with pytest.raises(SpecError, match=f"{name.replace('_', '-')} is -1(.0)?; expected at least 0"):
        TrainingSpec(**{name: -1})


@pytest.mark.parametrize("dataset", ["m-forda", "spoken-arabic-digits", "japanese-vowels"])
def test_the_paper_s_preset_stops_by_levelling_off(dataset):
    assert preset_spec("default", dataset).training.epochs is None
    paper = preset_spec("paper", dataset).training
    assert (paper.warm_up, paper.level_gain) == (0, 0.002)
    assert 5 <= paper.min_epochs < paper.epochs


# -- levelling off


@given(ACCURACIES)
def test_the_gain_is_between_zero_and_the_whole_gain(accuracies):
    gain = gain_of_last_fifth(lines(accuracies))
    assert 0 <= gain <= max(accuracies) - accuracies[0]


@given(ACCURACIES, st.integers(1, 12))
def test_epochs_that_are_no_better_gain_nothing(accuracies, more):
    """A run that stays below its best for over a fifth of its epochs has levelled off."""
    level = [*accuracies, *[min(accuracies)] * (len(accuracies) * more)]
    assert gain_of_last_fifth(lines(level)) == 0


@given(st.integers(1, 40), st.floats(0.001, 0.01))
def test_a_steady_rise_gains_a_fifth_of_the_epochs(fifth, slope):
    accuracies = [slope * epoch for epoch in range(5 * fifth)]
    assert gain_of_last_fifth(lines(accuracies)) == pytest.approx(slope * fifth)


@given(ACCURACIES, st.randoms())
def test_the_order_within_the_parts_does_not_matter(accuracies, rng):
    before = max(1, len(accuracies) * 4 // 5)
    parts = [accuracies[:before], accuracies[before:]]
    shuffled = [value for part in parts for value in rng.sample(part, len(part))]
    assert gain_of_last_fifth(lines(shuffled)) == gain_of_last_fifth(lines(accuracies))


def stopped_after(monkeypatch, data, accuracies, **changes):
    """How many epochs a run trains whose validation accuracies are these; nothing is learned on the way."""
    numbers = iter(accuracies)
    monkeypatch.setattr(epochs, "_run_epoch", lambda *args: (1.0, 1.0, 0.5))
    evaluate = epochs.evaluate
    monkeypatch.setattr(epochs, "evaluate", lambda *args, **rest: _with_accuracy(evaluate(*args, **rest), next(numbers)))
    spec = tiny_spec(training__epochs=len(accuracies), **changes)
    return fit(make_model(spec, data), data).history


def _with_accuracy(found, accuracy):
    return replace(found, metrics=replace(found.metrics, accuracy=accuracy))


RISE = [0.5 + 0.01 * min(epoch, 20) for epoch in range(40)]
"""Rises for 20 epochs, then no more: from the 25th on the last fifth gains nothing."""


def test_a_run_stops_once_it_has_levelled_off_and_the_history_shows_it(tiny_data, monkeypatch):
    found = stopped_after(monkeypatch, tiny_data, RISE, training__level_gain=0.002)
    gains = [gain_of_last_fifth(lines(RISE[:count])) for count in range(5, len(RISE))]
    assert len(found) == 5 + next(i for i, gain in enumerate(gains) if gain < 0.002)
    assert gain_of_last_fifth(found) < 0.002
    assert gain_of_last_fifth(found[:-1]) >= 0.002


def test_without_a_limit_a_run_goes_on_to_its_last_epoch(tiny_data, monkeypatch):
    assert len(stopped_after(monkeypatch, tiny_data, RISE)) == len(RISE)


@pytest.mark.parametrize("least", [30, 39, 100])
def test_no_run_stops_before_its_least_epochs(tiny_data, monkeypatch, least):
    found = stopped_after(monkeypatch, tiny_data, RISE, training__level_gain=0.002, training__min_epochs=least)
    assert len(found) == min(least, len(RISE))


def test_least_epochs_hold_for_patience_too(tiny_data, monkeypatch):
    flat = [0.6] + [0.5] * 19
    with monkeypatch.context() as patch:
        assert len(stopped_after(patch, tiny_data, flat, training__patience=3)) == 4
    with monkeypatch.context() as patch:
        assert len(stopped_after(patch, tiny_data, flat, training__patience=3, training__min_epochs=9)) == 9


def test_a_flat_run_needs_five_epochs_to_have_a_last_fifth(tiny_data, monkeypatch):
    assert len(stopped_after(monkeypatch, tiny_data, [0.5] + [0.7] * 19, training__level_gain=0.002)) == 5


def test_a_run_that_is_still_where_it_began_has_not_levelled_off(tiny_data, monkeypatch):
    late = [0.5] * 12 + [0.7] * 8
    assert len(stopped_after(monkeypatch, tiny_data, late, training__level_gain=0.002)) == 17


def test_a_run_that_rose_to_a_guess_and_no_further_has_not_levelled_off(tiny_data, monkeypatch):
    guess = float(np.bincount(tiny_data.validation.labels).max() / len(tiny_data.validation))
    late = [guess - 0.1] + [guess, guess + 0.03] * 6 + [0.7] * 9
    assert len(stopped_after(monkeypatch, tiny_data, late, training__level_gain=0.002)) == 18


def test_where_a_guess_is_hard_to_beat_half_of_what_is_left_is_a_beginning(monkeypatch):
    data = tiny_dataset(n_classes=2)
    rare = replace(data, validation=replace(data.validation, labels=np.append(1, np.zeros(19, dtype=np.int64))))
    rise = [0.95] * 3 + [0.98] * 17
    assert len(stopped_after(monkeypatch, rare, rise, training__level_gain=0.002)) == 5


@pytest.mark.parametrize("warm_up", [6, 8])
def test_no_run_stops_within_its_warm_up(tiny_data, monkeypatch, warm_up):
    found = stopped_after(monkeypatch, tiny_data, [0.5] + [0.7] * 19, training__level_gain=0.002, training__warm_up=warm_up)
    assert len(found) == warm_up + 1


def test_a_run_that_has_levelled_off_is_not_taken_up_again(tiny_data):
    spec = tiny_spec(training__epochs=12, training__level_gain=2.0, training__min_epochs=6)
    state = fit(make_model(spec, tiny_data), tiny_data)
    assert len(state.history) == 6
    again = fit(make_model(spec, tiny_data), tiny_data, state=state)
    assert len(again.history) == 6
    assert np.isfinite(again.cpu_seconds)


def test_an_epoch_of_the_warm_up_is_never_kept_once_the_acquirer_has_learned(tiny_data, monkeypatch):
    found = stopped_after(monkeypatch, tiny_data, [0.9, 0.95, 0.9, 0.6, 0.5, 0.7], training__warm_up=3)
    assert [line["epoch"] for line in found if line["best"]] == [1, 2, 4, 6]


def test_epochs_can_t_be_chosen_by_auroc_where_validation_has_one_class():
    data = tiny_dataset(n_classes=2)
    alike = replace(data, validation=data.validation.take(np.flatnonzero(data.validation.labels == 0)))
    spec = tiny_spec(training__choose_by="auroc", training__epochs=2)
    with pytest.raises(SpecError, match="one class on validation"):
        fit(make_model(spec, alike), alike)
