"""Scores in nats: how far an order would bring the loss down (as DIME's value network; Gadgil et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from whichwhen.rollout import Policy
from whichwhen.training.objectives.base import Objective, branch, row_loss
from whichwhen.training.objectives.end_to_end import asked_at_every_step
from whichwhen.types import Episode, Hindsight, Reveal


@dataclass(frozen=True)
class OrderValue(Objective):
    """The acquirer's scores are regressed on the realised drop of the loss: with nothing at a step, minus with one order alone.

    For each step of each series ``candidates`` orders are drawn at random and tried from the predictor's recorded state. With
    the best predictor, the mean of the drop given what is known is the order's conditional mutual information with the label.

    Where only deliveries are billed, candidates are orders that would be billed, as the record can answer them: the score is
    the drop given an answer, and divided by the cost it says what a unit of money brings, however rare an answer is. (What
    takes longer than a step is always billed, and its score is the drop whether it is answered or not.)

    Attributes:
        policy: whose requests the record holds.
        step_loss: of the predictor's own loss.
        candidates: tries for each step.
        delivered: whether only what the record could answer is billed.
    """

    policy: Policy
    step_loss: float = 0.3
    candidates: int = 2
    delivered: bool = False
    branches = True

    def loss(self, record: Episode, hindsight: Hindsight) -> Float[Tensor, ""]:
        """The predictor's loss, and the squared error of the scores."""
        predicting = asked_at_every_step(record, hindsight, self.step_loss)
        scores = record.flat(lambda step: step.scores.values)
        open_ = self._open(record, hindsight) if self.delivered else None
        with torch.no_grad():
            nothing = self._alone(record, hindsight, None)
        errors = []
        for _ in range(self.candidates):
            if open_ is None:
                order = torch.randint(scores.shape[1], (len(scores),), device=scores.device)
            else:  # where no order can be answered, any, which does not count
                order = torch.multinomial((open_ | ~open_.any(1, keepdim=True)).float(), 1).squeeze(1)
            with torch.no_grad():
                drop = nothing - self._alone(record, hindsight, order)
            error = (scores.gather(1, order.unsqueeze(1)).squeeze(1) - drop).square()
            errors.append(error.mean() if open_ is None else error[open_.any(1)].sum() / open_.any(1).sum().clamp(min=1))
        return predicting + torch.stack(errors).mean()

    def _open(self, record: Episode, hindsight: Hindsight) -> Bool[Tensor, "N K"]:
        """Which orders would be billed at each row: those that could be answered, or take longer than a step."""
        batch = hindsight.batch
        rules = self.policy.rules.to(batch.values.device)
        return rules.bills(batch.observed[record.series_by_row, record.time_by_row]) > 0

    def _alone(self, record: Episode, hindsight: Hindsight, order: Int[Tensor, " N"] | None) -> Float[Tensor, " N"]:
        """The loss at each row, had only this order been measured there; None = nothing."""
        series, time = record.series_by_row, record.time_by_row
        batch = hindsight.batch
        request = torch.zeros(len(series), len(self.policy.menu.orders), device=batch.values.device)
        if order is not None:
            request.scatter_(1, order.unsqueeze(1), 1.0)
        mask = self.policy.rules.to(request.device).shown(request, batch.observed[series, time])
        reveal = Reveal(batch.values[series, time] * mask, mask, torch.zeros_like(mask), time)
        return row_loss(branch(self.policy.predictor, record, reveal), record, hindsight)
