"""The learned acquirer: a small network on what has just been seen; and the same with a memory."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from whichwhen.acquirers._inputs import ViewInput, Waiting
from whichwhen.contracts import Acquirer, Predictor
from whichwhen.types import Scores, State, Unit, View

_SMALL = 0.3
"""Factor on the initial weights of the last layer: at first all orders are worth about the same."""


class _Network(Acquirer):
    """What the two have in common: what they read, the waiting term, and a term of the context that moves all scores.

    Args:
        inputs: what it reads.
        waiting: the waiting term, which makes the scores log worths. None = plain logits, as in the paper.
    """

    scores: nn.Linear

    def __init__(self, inputs: ViewInput, waiting: Waiting | None) -> None:
        super().__init__()
        self.reads_context = inputs.reads_context
        self.inputs = inputs
        self.waiting = waiting
        self.level = nn.Linear(inputs.context_size, 1) if waiting is not None and inputs.reads_context else None
        if self.level is not None:
            nn.init.zeros_(self.level.weight)
            nn.init.zeros_(self.level.bias)
        self.unit = "logits" if waiting is None else "log-worth"

    def start_at(self, worth: float) -> None:
        """Start with nearly the same log worth for every order."""
        with torch.no_grad():
            self.scores.weight.mul_(_SMALL)
            self.scores.bias.fill_(worth)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """What the waiting term has to keep."""
        return self.waiting.init(len(keys)) if self.waiting is not None else {}

    def _scored(self, scores: Tensor, view: View, state: State, kept: State) -> tuple[Scores, State]:
        if self.waiting is None:
            return Scores(scores, self.unit), kept
        if self.level is not None:
            scores = scores + self.level(view.context)
        if self.unit == "nats":  # a drop of the loss that was regressed needs no help to take turns
            return Scores(scores, self.unit), {**kept, **{name: state[name] for name in self.waiting.init(0)}}
        waiting, waited = self.waiting(view, state)
        return Scores(scores + waiting, self.unit), {**kept, **waited}


class LearnedAcquirer(_Network):
    """One hidden layer with ReLU on the last observation, its mask and the time step that it orders for.

    The paper's sizes: 4 units (m-FordA) or 8 (SpokenArabicDigits), the bare time step, no waiting term. The initial request
    comes from the same network, with nothing observed and time 0.
    """

    def __init__(self, inputs: ViewInput, hidden: int = 32, waiting: Waiting | None = None) -> None:
        super().__init__(inputs, waiting)
        self.hidden = nn.Linear(inputs.width, hidden)
        self.scores = nn.Linear(hidden, inputs.n_orders)

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """Log worth of each order, or logits."""
        first, last = self.hidden, self.scores
        hidden = torch.relu(F.linear(self.inputs(view), first.weight, first.bias))
        # weights by input: the product that their gradient takes is four times as fast at a handful of units
        return self._scored(torch.addmm(last.bias, hidden, last.weight.t().contiguous()), view, state, {})


class RecurrentAcquirer(_Network):
    """The same inputs, remembered by a GRU: what was seen at any earlier step can tell what to order.

    Its own state carries the gradient from step to step; with ``gradient="detached"`` what it reads does not.
    """

    remembers = True

    def __init__(self, inputs: ViewInput, hidden: int = 32, waiting: Waiting | None = None, memory: int = 32) -> None:
        super().__init__(inputs, waiting)
        self.memory = nn.GRUCell(inputs.width, memory)
        self.hidden = nn.Linear(inputs.width + memory, hidden)
        self.scores = nn.Linear(hidden, inputs.n_orders)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """An empty memory beside what the waiting term keeps."""
        return {"memory": self.scores.weight.new_zeros(len(keys), self.memory.hidden_size), **super().init(keys)}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """Log worth, or logits, from what is seen now and what is remembered, this step included."""
        inputs = self.inputs(view)
        memory = self.memory(inputs, state["memory"])
        hidden = torch.relu(self.hidden(torch.cat([inputs, memory], -1)))
        return self._scored(self.scores(hidden), view, state, {"memory": memory})


_LEAST_ENTROPY, _ENTROPY_SCALE = 1e-3, 3.0


def read_prediction(logits: Float[Tensor, "B C"]) -> Float[Tensor, "B C+1"]:
    """Class probabilities, and the logarithm of their entropy on a scale of about 1."""
    shares = logits.softmax(-1)
    entropy = -(shares * logits.log_softmax(-1)).sum(-1, keepdim=True)
    return torch.cat([shares, (entropy + _LEAST_ENTROPY).log() / _ENTROPY_SCALE], -1)


class WithOwnPredictor(Acquirer):
    """An acquirer that reads what a predictor says, with its own copy of that predictor.

    The copy is what the predictor was when the acquirer stopped learning: a predictor that goes on learning would change the
    requests.

    Args:
        inner: what reads the prediction, or the predictor's context.
        predictor: the copy.
        n_classes: C where the prediction is read (:func:`read_prediction`); 0 = the predictor's context is.
    """

    def __init__(self, inner: Acquirer, predictor: Predictor, n_classes: int = 0) -> None:
        super().__init__()
        self.inner: Acquirer = inner
        self.predictor: Predictor = predictor.requires_grad_(False)
        self.n_classes = n_classes

    @property
    def remembers(self) -> bool:  # type: ignore[override]
        """As inside."""
        return self.inner.remembers

    @property
    def unit(self) -> Unit:  # type: ignore[override]
        """As inside."""
        return self.inner.unit

    def start_at(self, worth: float) -> None:
        """As inside."""
        self.inner.start_at(worth)  # type: ignore[operator]

    def around(self, inner: Acquirer) -> WithOwnPredictor:
        """Another acquirer with the same copy."""
        return WithOwnPredictor(inner, self.predictor, self.n_classes)

    def follow(self, predictor: Predictor) -> None:
        """Take over a predictor's weights."""
        self.predictor.load_state_dict(predictor.state_dict())
        self.predictor.eval()

    def train(self, mode: bool = True) -> WithOwnPredictor:
        """The copy is never in training mode."""
        super().train(mode)
        self.predictor.eval()
        return self

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """The states of both."""
        context, own = self.predictor.init(len(keys))
        if self.n_classes:
            context = read_prediction(context.new_zeros(len(keys), self.n_classes))
        return {"context": context, **_named("own", own), **_named("inner", self.inner.init(keys))}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """The copy reads what arrived, the acquirer what the copy makes of it."""
        context, own = state["context"], _part("own", state)
        if view.asked is not None:
            with torch.no_grad():
                logits, context, own = self.predictor.step(view.reveal, own)
                context = read_prediction(logits) if self.n_classes else context
        scores, inner = self.inner.step(replace(view, context=context), _part("inner", state))
        return scores, {"context": context, **_named("own", own), **_named("inner", inner)}


def _named(prefix: str, state: State) -> State:
    return {f"{prefix}.{name}": tensor for name, tensor in state.items()}


def _part(prefix: str, state: State) -> State:
    return {name.removeprefix(f"{prefix}."): tensor for name, tensor in state.items() if name.startswith(f"{prefix}.")}
