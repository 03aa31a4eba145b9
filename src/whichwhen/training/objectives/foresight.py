"""Measuring now in order to order better later: a score-function term beside the prediction loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from whichwhen.selection import draw_log_prob
from whichwhen.training.objectives.base import Objective, row_loss
from whichwhen.training.objectives.end_to_end import EndToEnd
from whichwhen.types import Episode, Hindsight


@dataclass(frozen=True)
class Foresight(Objective):
    """The end-to-end loss, plus a policy gradient (REINFORCE) that credits each request with all that came of it.

    The gradient through the predictor's inputs says what a value is worth to the predictor, and nothing of what it is worth to
    the acquirer's own later choices. The score function does: a request is credited with the drop of the loss from before it to
    the series' end, minus what is usual for that step in the batch, in units of its spread. Draws are those of the Gumbel
    selectors, whose probability is known in closed form; ``entropy`` keeps them from settling too soon.
    """

    step_loss: float = 0.3
    weight: float = 1.0
    entropy: float = 0.02

    def loss(self, record: Episode, hindsight: Hindsight) -> Float[Tensor, ""]:
        """Prediction loss, minus what the requests were credited with, minus entropy."""
        predicting = EndToEnd(self.step_loss).loss(record, hindsight)
        scores = record.flat(lambda step: step.scores.values)
        if not scores.requires_grad:  # nothing to learn for this acquirer
            return predicting
        order = record.flat(lambda step: step.selection).order
        feasible = record.flat(lambda step: step.selection.feasible)
        if feasible is None:
            feasible = torch.ones_like(scores, dtype=torch.bool)
        log_prob = draw_log_prob(scores, order, feasible)
        spread = torch.log_softmax(scores.masked_fill(~feasible, -1e9), -1)
        entropy = -(spread.exp() * spread).sum(-1)
        count = len(record.lengths)
        return (
            predicting
            - (self.weight * (log_prob * self.credit(record, hindsight)).sum() + self.entropy * entropy.sum()) / count
        )

    @torch.no_grad()
    def credit(self, record: Episode, hindsight: Hindsight) -> Float[Tensor, " N"]:
        """How much better than usual things went from each row's request on."""
        losses = row_loss(record.logits_by_row.detach(), record, hindsight)
        padded = record.padded(losses)
        final = padded.gather(1, (record.lengths - 1).unsqueeze(1))
        start = padded.new_full((len(padded), 1), math.log(record.logits_by_row.shape[1]))
        gain = (torch.cat([start, padded[:, :-1]], 1) - final)[record.series_by_row, record.time_by_row]
        time, steps = record.time_by_row, len(record.sizes)
        counts = torch.bincount(time, minlength=steps).clamp(min=1)
        mean = torch.bincount(time, gain, minlength=steps) / counts
        centred = gain - mean[time]
        std = (torch.bincount(time, centred.square(), minlength=steps) / counts).sqrt()
        return centred / (std[time] + 1e-3)
