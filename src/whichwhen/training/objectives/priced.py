"""What is measured has its price."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from whichwhen.ordering import Rules
from whichwhen.training.objectives.base import Objective, bills_by_row
from whichwhen.types import Episode, Hindsight


@dataclass(frozen=True)
class Priced(Objective):
    """Another objective plus the bill: price times cost of all that a series asks for.

    The price is each series' own, or its cap's own price where that is higher (:class:`whichwhen.selection.Gate`).

    Attributes:
        inner: what it is added to.
        rules: of the menu.
        delivered: whether only what the record could answer is billed.
    """

    inner: Objective
    rules: Rules
    delivered: bool = False

    @property
    def branches(self) -> bool:  # type: ignore[override]
        """As inside."""
        return self.inner.branches

    def loss(self, record: Episode, hindsight: Hindsight) -> Float[Tensor, ""]:
        """Prediction loss and bill."""
        relaxed = record.flat(lambda step: step.selection.relaxed)
        price = record.flat(lambda step: step.selection.price)
        assert price is not None, "a budget without prices"
        if self.delivered:
            cost = (relaxed * bills_by_row(self.rules, True, record, hindsight)).sum(-1)
        else:
            cost = relaxed @ self.rules.costs.to(relaxed.device)
        bill = cost * price
        return self.inner.loss(record, hindsight) + bill.sum() / len(record.lengths)
