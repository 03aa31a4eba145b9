"""What is measured has its price."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from whichwhen.training.objectives.base import Objective
from whichwhen.types import Hindsight, Rollout


@dataclass(frozen=True)
class Priced(Objective):
    """Another objective, plus price times cost of all that a series asks for: spend where it brings the loss down by more.

    ``costs`` are those of the orders. The price is each series' own, as the budget says; the acquirer reads it.
    """

    inner: Objective
    costs: Float[Tensor, " K"]

    def loss(self, record: Rollout, hindsight: Hindsight) -> Float[Tensor, ""]:
        """Prediction loss and bill."""
        selection = record.flat(lambda step: step.selection)
        assert selection.price is not None, "a budget without prices"
        bill = (selection.relaxed @ self.costs.to(selection.relaxed.device)) * selection.price
        return self.inner.loss(record, hindsight) + bill.sum() / len(record.lengths)
