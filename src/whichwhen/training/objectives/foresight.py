"""Measuring now in order to order better later: a score-function term beside the prediction loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from whichwhen.selection import draw_log_prob, gate_log_odds
from whichwhen.training.objectives.base import Objective, row_loss
from whichwhen.training.objectives.end_to_end import EndToEnd
from whichwhen.types import Episode, Hindsight, Selection


@dataclass(frozen=True)
class Foresight(Objective):
    """The end-to-end loss, plus a policy gradient (REINFORCE) that credits each request with all that came of it.

    The gradient through the predictor's inputs says what a value is worth to the predictor, and nothing of what it is worth to
    the acquirer's own later choices. The score function does: a request is credited with the drop of the loss from before it to
    the series' end, less the bill from then on, minus what is usual for that step in the batch, in units of its spread.
    ``entropy`` keeps the draws from settling too soon.

    Under the gate each order is drawn by itself, with the probability sigmoid(margin - threshold), the threshold held fixed;
    the paper's draws follow a softmax without replacement.
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
        selection = record.flat(lambda step: step.selection)
        log_prob, entropy = (_of_draws if selection.threshold is None else _of_gate)(scores, selection)
        credited = (log_prob * self.credit(record, hindsight)).sum()
        return predicting - (self.weight * credited + self.entropy * entropy.sum()) / len(record.lengths)

    @torch.no_grad()
    def gain(self, record: Episode, hindsight: Hindsight) -> Float[Tensor, " N"]:
        """What was gained from the requests of each row on: the drop of the loss up to the series' end, less the bill."""
        losses = row_loss(record.logits_by_row, record, hindsight)
        padded = record.padded(losses)
        final = padded.gather(1, (record.lengths - 1).unsqueeze(1))
        start = padded.new_full((len(padded), 1), math.log(record.logits_by_row.shape[1]))
        gain = torch.cat([start, padded[:, :-1]], 1) - final
        if (price := record.flat(lambda step: step.selection).price) is not None:
            bill = record.padded(record.flat(lambda step: step.cost) * price)
            gain = gain - bill.flip(1).cumsum(1).flip(1)
        return gain[record.series_by_row, record.time_by_row]

    @torch.no_grad()
    def credit(self, record: Episode, hindsight: Hindsight) -> Float[Tensor, " N"]:
        """What each row's requests are credited with: the gain against the usual one of that step, in units of its spread."""
        gain = self.gain(record, hindsight)
        time, steps = record.time_by_row, len(record.sizes)
        counts = torch.bincount(time, minlength=steps).clamp(min=1)
        mean = torch.bincount(time, gain, minlength=steps) / counts
        centred = gain - mean[time]
        std = (torch.bincount(time, centred.square(), minlength=steps) / counts).sqrt()
        return centred / (std[time] + 1e-3)


def _of_gate(scores: Float[Tensor, "N K"], selection: Selection) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Log-probability of each row's request and the entropy of its draws."""
    odds = gate_log_odds(scores, selection)
    drawn = torch.isfinite(odds)
    odds = odds.masked_fill(~drawn, 0.0)
    chosen = F.logsigmoid(torch.where(selection.request > 0, odds, -odds)) * drawn
    entropy = (F.softplus(odds) - odds * torch.sigmoid(odds)) * drawn
    return chosen.sum(-1), entropy.sum(-1)


def _of_draws(scores: Float[Tensor, "N K"], selection: Selection) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """The same for draws without replacement from a softmax."""
    feasible = torch.ones_like(scores, dtype=torch.bool) if selection.feasible is None else selection.feasible
    spread = torch.log_softmax(scores.masked_fill(~feasible, -1e9), -1)
    return draw_log_prob(scores, selection.order, feasible), -(spread.exp() * spread).sum(-1)
