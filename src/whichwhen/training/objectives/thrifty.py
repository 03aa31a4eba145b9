"""Money spent on one thing is missing for another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from whichwhen.ordering import Rules
from whichwhen.training.objectives.base import Objective, bills_by_row
from whichwhen.types import Hindsight, Rollout


@dataclass(frozen=True)
class Thrifty(Objective):
    """Another objective, plus the bill at what money brings in the mean: what is bought has to bring more than that.

    A request's gradient says what it brings to the prediction, and nothing of what the same money would bring elsewhere:
    without this, what costs most is asked for as gladly as what costs least. What a unit of money brings is taken from the
    batch itself: the drop of the loss that all requests have in their gradients, by what they cost. It stands for the shadow
    price of the budget, and takes one more pass back through the predictor. What had to be asked was not chosen, and has no
    part in it. Requests may reach the loss through the predictor alone (``--gradient detached``), else they would count twice.

    Attributes:
        inner: what it is added to.
        rules: of the menu.
        delivered: whether only what the record could answer is billed.
        weight: of the bill; 1 = at its full price.
    """

    inner: Objective
    rules: Rules
    delivered: bool
    weight: float = 1.0

    def loss(self, record: Rollout, hindsight: Hindsight) -> Float[Tensor, ""]:
        """The inner loss and the bill."""
        loss = self.inner.loss(record, hindsight)
        relaxed = [step.selection.relaxed for step in record.steps]
        if not relaxed[0].requires_grad:
            return loss
        brings = -torch.cat(torch.autograd.grad(loss, relaxed, retain_graph=True, materialize_grads=True))
        bills = bills_by_row(self.rules, self.delivered, record, hindsight)
        requests, ranking = torch.cat(relaxed), torch.cat([step.selection.ranking for step in record.steps])
        asked = requests.detach() * (ranking > -torch.inf)
        spent = (asked * bills).sum()
        if not spent > 0:
            return loss
        price = ((asked * brings).sum() / spent).clamp(min=0)
        return loss + self.weight * price * (requests * bills).sum()
