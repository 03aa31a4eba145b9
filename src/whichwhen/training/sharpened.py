"""Scores that count for more against the noise of the draws: a falling temperature."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor

from whichwhen.contracts import Acquirer
from whichwhen.types import Scores, State, View


class Sharpened(Acquirer):
    """An acquirer whose scores are multiplied by a number.

    Draws then follow the softmax of the multiplied scores, and log-probabilities and entropies with them. Gradients come back
    as they are: the acquirer would learn in ever larger leaps otherwise. Evaluation takes the highest scores, which are the
    same. Without it a policy can live on the randomness of its draws (two requests that take turns by chance), and what is left
    of it in evaluation is one of them for ever.
    """

    def __init__(self, inner: Acquirer, factor: float) -> None:
        super().__init__()
        self.inner = inner
        self.factor = factor
        self.reads_context = inner.reads_context

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """As inside."""
        return self.inner.init(keys)

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """As inside, multiplied; the gradient is not."""
        scores, state = self.inner.step(view, state)
        return Scores(scores.values + ((self.factor - 1) * scores.values).detach(), scores.unit), state
