"""Some series of each epoch ask at random, so that the predictor does not forget what the acquirer no longer asks for."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor

from whichwhen import keyed
from whichwhen.contracts import Acquirer
from whichwhen.types import Scores, State, View

_CHANCE = -3  # the step that the draw of who explores stands for in the keyed randomness


class Exploring(Acquirer):
    """An acquirer that a share of the series does not listen to: for them every order scores the same, and the noise decides.

    What is asked for is what the predictor learns to read, and what it can read is what the acquirer finds worth asking for:
    left alone, the two settle on the first columns that work. Which series explore is drawn from their keys, which are others
    in each epoch.
    """

    def __init__(self, inner: Acquirer, share: float, seed: int) -> None:
        super().__init__()
        self.inner = inner
        self.share = share
        self.seed = seed
        self.reads_context = inner.reads_context

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """As inside, and who listens."""
        luck = keyed.uniform(keys, keys.new_full(keys.shape, _CHANCE), 1, self.seed)
        return {**self.inner.init(keys), "listens": (luck >= self.share).float()}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """As inside, or all the same."""
        listens = state["listens"]
        scores, after = self.inner.step(view, {name: tensor for name, tensor in state.items() if name != "listens"})
        return Scores(scores.values * listens, scores.unit), {**after, "listens": listens}
