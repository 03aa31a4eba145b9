"""Scores in nats: how far an order would bring the loss down (as DIME's value network; Gadgil et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from whichwhen.rollout import Policy
from whichwhen.training.objectives.base import Objective, branch, row_loss
from whichwhen.training.objectives.end_to_end import asked_at_every_step
from whichwhen.types import Hindsight, Reveal, Rollout


@dataclass(frozen=True)
class OrderValue(Objective):
    """The acquirer's scores are regressed on the realised drop of the loss: with nothing at a step, minus with one order alone.

    For each step of each series ``candidates`` orders are drawn at random and tried from the predictor's recorded state. With
    the best predictor, the mean of the drop given what is known is the order's conditional mutual information with the label.
    """

    policy: Policy
    step_loss: float = 0.3
    candidates: int = 2
    branches = True

    def loss(self, record: Rollout, hindsight: Hindsight) -> Float[Tensor, ""]:
        """The predictor's loss, and the squared error of the scores."""
        predicting = asked_at_every_step(record, hindsight, self.step_loss)
        scores = record.flat(lambda step: step.scores.values)
        with torch.no_grad():
            nothing = self._alone(record, hindsight, None)
        errors = []
        for _ in range(self.candidates):
            order = torch.randint(scores.shape[1], (len(scores),), device=scores.device)
            with torch.no_grad():
                drop = nothing - self._alone(record, hindsight, order)
            errors.append((scores.gather(1, order.unsqueeze(1)).squeeze(1) - drop).square().mean())
        return predicting + torch.stack(errors).mean()

    def _alone(self, record: Rollout, hindsight: Hindsight, order: Int[Tensor, " N"] | None) -> Float[Tensor, " N"]:
        """The loss at each row, had only this order been measured there; None = nothing."""
        series, time = record.series_by_row, record.time_by_row
        batch = hindsight.batch
        request = torch.zeros(len(series), len(self.policy.menu.orders), device=batch.values.device)
        if order is not None:
            request.scatter_(1, order.unsqueeze(1), 1.0)
        mask = self.policy.rules.to(request.device).shown(request, batch.observed[series, time])
        reveal = Reveal(batch.values[series, time] * mask, mask, torch.zeros_like(mask), time)
        return row_loss(branch(self.policy.predictor, record, reveal), record, hindsight)
