"""The prediction loss, end to end."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from whichwhen.training.objectives.base import Objective, final_loss, row_loss
from whichwhen.types import Hindsight, Rows


@dataclass(frozen=True)
class EndToEnd(Objective):
    """The paper's objective: cross-entropy after the last step, whose gradient reaches the acquirer through the requests.

    ``step_loss`` adds that share of the mean cross-entropy over the later half of each series' steps, which makes every
    later step a teacher (the paper's is 0). With labels for every step, all steps of all series count the same, as they do in
    the metrics. Whether the gradient also runs through the acquirer's own later inputs is a matter of the loop
    (``--gradient``).
    """

    step_loss: float = 0.0

    def loss(self, record: Rows, hindsight: Hindsight) -> Float[Tensor, ""]:
        """Cross-entropy of the last prediction, plus that of the later ones; with labels for every step, the mean over all."""
        if hindsight.step_labels is not None:
            return row_loss(record.logits_by_row, record, hindsight).mean()
        final = final_loss(record, hindsight)
        if not self.step_loss:
            return final
        series = record.series_by_row
        later = record.time_by_row >= (record.lengths // 2)[series]
        share = later / ((record.lengths + 1) // 2)[series]  # of its series' later steps
        return final + self.step_loss * (row_loss(record.logits_by_row, record, hindsight) * share).sum() / len(record.lengths)


def asked_at_every_step(record: Rows, hindsight: Hindsight, step_loss: float) -> Float[Tensor, ""]:
    """The loss of a predictor whose prediction at each step others learn from: end to end, and the mean over all steps.

    With labels for every step, the first is that mean already, and it counts once.
    """
    loss = EndToEnd(step_loss).loss(record, hindsight)
    if hindsight.step_labels is not None:
        return loss
    return loss + row_loss(record.logits_by_row, record, hindsight).mean()
