import pytest
import torch

from builders import ACQUIRERS, PREDICTORS, tiny_policy
from whichwhen.checks import check_acquirer, check_predictor
from whichwhen.contracts import Acquirer, Predictor
from whichwhen.predictors import ConvPredictor
from whichwhen.types import Scores


@pytest.mark.parametrize("kind", PREDICTORS)
def test_the_project_s_predictors_pass(kind):
    check_predictor(tiny_policy(predictor=kind).predictor, n_features=5, n_classes=3)


@pytest.mark.parametrize("kind", [kind for kind in ACQUIRERS if kind != "complete"])
def test_the_project_s_acquirers_pass(kind):
    check_acquirer(tiny_policy(kind).acquirer, n_features=5, n_orders=5)


class Wrapped(Predictor):
    """A sound predictor, to break in one place."""

    def __init__(self):
        super().__init__()
        self.inner = tiny_policy().predictor
        self.context_size = self.inner.context_size

    def init(self, size):
        return self.inner.init(size)

    def step(self, reveal, state):
        return self.inner.step(reveal, state)

    def packed(self, reveals, sizes):
        return self.inner.packed(reveals, sizes)


class ManyClasses(Wrapped):
    def sequence(self, reveals, lengths):
        logits, context = super().sequence(reveals, lengths)
        return torch.cat([logits, logits], -1), context


class OtherSteps(Wrapped):
    def step(self, reveal, state):
        logits, context, state = super().step(reveal, state)
        return logits + 1e-3, context, state


class WordsAfterTheEnd(Wrapped):
    def sequence(self, reveals, lengths):
        logits, context = super().sequence(reveals, lengths)
        return torch.where(logits == 0, 1.0, logits), context


class LooksAhead(Wrapped):
    """Both paths agree, as its steps know the whole series from an earlier call."""

    def sequence(self, reveals, lengths):
        logits, context = super().sequence(reveals, lengths)
        valid = torch.arange(logits.shape[1]) < lengths.unsqueeze(1)
        hint = (reveals.values * valid.unsqueeze(-1)).sum((1, 2)).view(-1, 1, 1) * valid.unsqueeze(-1)
        self.seen = hint[:, 0] if not hasattr(self, "seen") else self.seen
        return logits + hint, context

    def step(self, reveal, state):
        logits, context, state = super().step(reveal, state)
        return logits + self.seen, context, state


class LooksAtOthers(Wrapped):
    def sequence(self, reveals, lengths):
        logits, context = super().sequence(reveals, lengths)
        return logits + (logits != 0) * reveals.values[:, :1].mean(), context

    def step(self, reveal, state):
        mean = state.get("mean", reveal.values.mean().expand(len(reveal.values), 1))
        logits, context, after = super().step(reveal, state)
        return logits + mean, context, after | {"mean": mean}


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (ManyClasses, "shape"),
        (OtherSteps, "step path and sequence path differ"),
        (WordsAfterTheEnd, "after the end"),
        (LooksAhead, "a later value changes an earlier prediction"),
        (LooksAtOthers, "other logits in a batch than alone"),
    ],
)
def test_a_predictor_that_breaks_the_contract_is_found_out(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_predictor(broken(), n_features=5, n_classes=3)


def test_a_sound_predictor_in_a_wrapper_passes():
    check_predictor(Wrapped(), n_features=5, n_classes=3)


@pytest.mark.parametrize("steps", [2, 3, 9, 40])
def test_predictors_are_checked_at_any_length(steps):
    check_predictor(ConvPredictor(4, 2, steps, 6, 3), n_features=4, n_classes=2, steps=steps)


class Plain(Acquirer):
    """A table, to break in one place."""

    def init(self, keys):
        return {"asked": torch.zeros(len(keys))}

    def step(self, view, state):
        return Scores(torch.arange(6.0).expand(len(view.time), -1)), state


class LooksAround(Plain):
    """Its scores hang on the mean over the batch."""

    def step(self, view, state):
        return Scores(torch.sin(view.reveal.values.mean() * 1e3 + torch.arange(6.0)).expand(len(view.time), -1)), state


class Peeks(Plain):
    """Has got hold of the whole batch, as a bug in the loop or a global could bring about."""

    def step(self, view, state):
        table = self.values[: len(view.time), min(int(view.time[0]), self.values.shape[1] - 1)]
        return Scores(table.clone()), state


def peeking(monkeypatch, ahead):
    """An acquirer that is handed the batch behind the loop's back, and looks at step ``ahead`` from where it is."""
    from whichwhen import checks, rollout

    acquirer = Peeks()
    original = rollout.roll_out

    def leaky(policy, batch, generator=None):
        order = torch.sort(batch.lengths, descending=True, stable=True).indices
        acquirer.values = torch.roll(batch.values[order], -ahead, 1)
        return original(policy, batch, generator)

    monkeypatch.setattr(checks, "roll_out", leaky)
    return acquirer


def test_an_acquirer_that_looks_at_other_series_is_found_out():
    check_acquirer(Plain(), n_features=6, n_orders=6)
    with pytest.raises(AssertionError, match="other requests alone than in a batch"):
        check_acquirer(LooksAround(), n_features=6, n_orders=6)


def test_an_acquirer_that_sees_unrevealed_values_is_found_out(monkeypatch):
    with pytest.raises(AssertionError, match="values that were not revealed change a request"):
        check_acquirer(peeking(monkeypatch, ahead=0), n_features=6, n_orders=6)


def test_an_acquirer_that_sees_the_next_step_is_found_out(monkeypatch):
    with pytest.raises(AssertionError, match="change a"):
        check_acquirer(peeking(monkeypatch, ahead=1), n_features=6, n_orders=6)


def test_checks_switch_dropout_off_and_leave_the_mode_of_a_model_alone():
    predictor = ConvPredictor(5, 3, 9, dropout=0.5).train()
    check_predictor(predictor, n_features=5, n_classes=3)
    assert predictor.training
