"""Acquirers that neither learn nor look: random, complete, none, and the random masks that predictors warm up on."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from whichwhen import keyed
from whichwhen.contracts import Acquirer
from whichwhen.types import Scores, State, View


class RandomAcquirer(Acquirer):
    """Other orders at each step, all equally likely.

    The choice depends on (seed, series, step) alone, so that a series gets the same requests in any batch. Training gives the
    series other keys in each epoch.
    """

    def __init__(self, n_orders: int, seed: int = 0) -> None:
        super().__init__()
        self.n_orders = n_orders
        self.seed = seed

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """The keys."""
        return {"keys": keys}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """Uniform numbers."""
        return Scores(keyed.uniform(state["keys"], view.time, self.n_orders, self.seed)), state


class RandomMasks(Acquirer):
    """Wants each order with a probability that is drawn once per series, uniformly from 0 to 1: masks of any size.

    What a predictor sees before its acquirer has learned anything, so that it can tell what any request would be worth.
    Comes with an unlimited budget.
    """

    def __init__(self, n_orders: int, seed: int = 0) -> None:
        super().__init__()
        self.n_orders = n_orders
        self.seed = seed

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """The keys, and each series' share of wanted orders."""
        return {"keys": keys, "share": keyed.uniform(keys, torch.full_like(keys, -1), 1, self.seed)}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """A uniform number for what is wanted, -inf for the rest."""
        drawn = keyed.uniform(state["keys"], view.time, self.n_orders, self.seed)
        return Scores(drawn.masked_fill(drawn > state["share"], -torch.inf)), state


class _Constant(Acquirer):
    """The same score for every order at every step."""

    reacts = False
    score: float

    def __init__(self, n_orders: int) -> None:
        super().__init__()
        self.n_orders = n_orders

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """Nothing to carry."""
        return {}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """The constant."""
        values = torch.full((len(view.time), self.n_orders), self.score, device=view.time.device)
        return Scores(values), state


class CompleteAcquirer(_Constant):
    """Wants everything; comes with an unlimited budget."""

    score = 0.0


class NoneAcquirer(_Constant):
    """Wants nothing: what can be said without measuring."""

    score = -torch.inf
