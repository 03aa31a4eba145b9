"""What training ends with."""

from __future__ import annotations

from dataclasses import dataclass, field

from whichwhen.acquirers import RoundRobinAcquirer
from whichwhen.model import Model
from whichwhen.training.checkpoints import TrainState


@dataclass(frozen=True)
class Candidate:
    """One of the policies that validation chose from.

    Attributes:
        model: trained to the end.
        loss: on validation, plus the bill where there is a price.
        kept: whether it was chosen.
    """

    model: Model
    loss: float
    kept: bool

    @property
    def title(self) -> str:
        """In words: ``learned``, ``round robin of 6``, ``static``."""
        acquirer, kind = self.model.policy.acquirer, self.model.card.acquirer
        if isinstance(acquirer, RoundRobinAcquirer):
            return f"round robin of {int(acquirer.size)}"
        return "learned" if kind == "learned-only" else kind


@dataclass(frozen=True)
class Trained:
    """The model that is kept, what it was chosen from, and the state that training ended in.

    Attributes:
        model: what is kept.
        state: history and weights.
        candidates: the network and the best fixed rule, where validation chose between them.
        screened: validation losses of fixed rules under the warmed-up predictor, from which the best one was found.
    """

    model: Model
    state: TrainState
    candidates: tuple[Candidate, ...] = ()
    screened: dict[str, float] = field(default_factory=dict)
