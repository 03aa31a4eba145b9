"""What an acquirer, a predictor and a selector must be. Classes are a contract (here) or an implementation (elsewhere).

State is passed, not hidden: ``init`` gives the state before the first step, ``step`` takes a state and returns the next.
States are dicts of tensors with the series in the first dimension (:data:`whichwhen.types.State`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from whichwhen.noise import Generator
from whichwhen.types import Allowance, Reveal, Scores, Selection, State, Unit, View, tree_map


class Acquirer(nn.Module, ABC):
    """Contract: at each step, how much each order is worth measuring next.

    An acquirer sees a :class:`View`: what was revealed, what the budget allows, the predictor's context and the time.
    Labels, unrevealed values and which features are real are not in it.
    """

    reads_context: bool = False
    """Whether ``step`` looks at the predictor's context. If not, training need not step the predictor."""

    unit: Unit = "logits"
    """What its scores mean. An objective that teaches it the drop of the loss makes them nats."""

    reacts: bool = True
    """Whether its requests may differ between series. If not, they need to be found only once."""

    remembers: bool = False
    """Whether the gradient has to run through its own state. If not, training can take all steps up again at once."""

    @property
    def learns(self) -> bool:
        """Whether training moves it. If so, training selects with the relaxed selector, otherwise with the hard one."""
        return any(parameter.requires_grad for parameter in self.parameters())

    @abstractmethod
    def init(self, keys: Int[Tensor, " B"]) -> State:
        """The state before the initial request. ``keys`` are what keyed randomness starts from, one per series."""

    @abstractmethod
    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """Scores ``[B, K]`` for the step ``view.time``, and the next state. The initial request is such a step, too."""


class Predictor(nn.Module, ABC):
    """Contract: class logits after every step, in two ways that agree: step by step, and over whole series.

    Attributes:
        context_size: H, the width of what the acquirer gets to see.
    """

    context_size: int

    @abstractmethod
    def init(self, size: int) -> tuple[Float[Tensor, "B H"], State]:
        """Context and state before the first step."""

    @abstractmethod
    def step(self, reveal: Reveal, state: State) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B H"], State]:
        """Logits and context after one more step, and the next state. No history is encoded again."""

    @abstractmethod
    def packed(self, reveals: Reveal, sizes: tuple[int, ...]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N H"]]:
        """Logits and context after each step of whole series at once.

        Args:
            reveals: all steps ``[N, F]``, step after step, each with the series that go on, longest first.
            sizes: how many series take part in each step; never rising. N is their sum.
        """

    def sequence(self, reveals: Reveal, lengths: Int[Tensor, " B"]) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "B T H"]]:
        """The same for padded series ``[B, T, F]`` in any order; what stands after the end of a series is 0."""
        size, steps = reveals.values.shape[:2]
        by_length = torch.sort(lengths, descending=True, stable=True).indices
        going = lengths[by_length] > torch.arange(steps, device=lengths.device).unsqueeze(1)
        step, place = going.nonzero(as_tuple=True)
        series = by_length[place]
        sizes = tuple(n for n in going.sum(1).tolist() if n)
        logits, context = self.packed(tree_map(lambda tensor: tensor[series, step], reveals), sizes)
        where = series * steps + step

        def pad(flat: Tensor) -> Tensor:
            return flat.new_zeros(size * steps, flat.shape[1]).index_copy(0, where, flat).view(size, steps, -1)

        return pad(logits), pad(context)


class Selector(ABC):
    """Contract: scores + allowance + costs → selection, within the budget, no order twice."""

    @abstractmethod
    def select(
        self,
        scores: Scores,
        allowance: Allowance,
        costs: Float[Tensor, " K"],
        generator: Generator | None = None,
        noise: Tensor | None = None,
    ) -> Selection:
        """Choose. ``noise`` is that of an earlier selection, to take it up again; without it, it is drawn."""
