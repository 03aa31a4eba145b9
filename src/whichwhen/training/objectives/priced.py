"""What is measured has its price."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from whichwhen.ordering import Rules
from whichwhen.training.objectives.base import Objective, bills_by_row
from whichwhen.types import Hindsight, Rollout


@dataclass(frozen=True)
class Priced(Objective):
    """Another objective, plus price times cost of all that a series asks for: spend where it brings the loss down by more.

    The price is each series' own, as the budget says; the acquirer reads it.

    Attributes:
        inner: what it is added to.
        rules: of the menu.
        delivered: whether only what the record could answer is billed.
    """

    inner: Objective
    rules: Rules
    delivered: bool = False

    def loss(self, record: Rollout, hindsight: Hindsight) -> Float[Tensor, ""]:
        """Prediction loss and bill."""
        selection = record.flat(lambda step: step.selection)
        assert selection.price is not None, "a budget without prices"
        relaxed = selection.relaxed
        if self.delivered:
            cost = (relaxed * bills_by_row(self.rules, True, record, hindsight)).sum(-1)
        else:
            cost = relaxed @ self.rules.costs.to(relaxed.device)
        bill = cost * selection.price
        return self.inner.loss(record, hindsight) + bill.sum() / len(record.lengths)
