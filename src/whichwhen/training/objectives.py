"""What is minimised. An objective gets the record of the loop and the hindsight of the batch; acquirers never get either."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from whichwhen.types import Hindsight, Rollout


class Objective(ABC):
    """Contract: a scalar to minimise, lower is better."""

    @abstractmethod
    def loss(self, record: Rollout, hindsight: Hindsight) -> Float[Tensor, ""]:
        """The mean over the series of a batch."""


@dataclass(frozen=True)
class EndToEnd(Objective):
    """The paper's objective: cross-entropy after the last step, whose gradient reaches the acquirer through the requests.

    ``step_loss`` adds that share of the mean cross-entropy over the later half of each series' steps, which makes every
    later step a teacher (the paper's is 0).
    """

    step_loss: float = 0.0

    def loss(self, record: Rollout, hindsight: Hindsight) -> Float[Tensor, ""]:
        """Cross-entropy of the last prediction, plus that of the later ones."""
        final = F.cross_entropy(record.final_logits, hindsight.labels)
        if not self.step_loss:
            return final
        series = record.series_by_row
        later = record.time_by_row >= (record.lengths // 2)[series]
        each = F.cross_entropy(record.logits_by_row, hindsight.labels[series], reduction="none")
        share = later / ((record.lengths + 1) // 2)[series]  # of its series' later steps
        return final + self.step_loss * (each * share).sum() / len(record.lengths)
