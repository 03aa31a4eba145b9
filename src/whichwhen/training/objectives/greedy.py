"""One step ahead: the bound on conditional mutual information of Covert et al. (2023), carried to series."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from whichwhen.contracts import Predictor
from whichwhen.training.objectives.base import Objective, branch, frozen, row_loss
from whichwhen.training.objectives.end_to_end import asked_at_every_step
from whichwhen.types import Episode, Hindsight


@dataclass(frozen=True)
class GreedyCMI(Objective):
    """Each request is judged by the prediction right after it, whatever it may be good for later.

    With the best predictor, the expected loss after a request is the entropy of the label given all that is known then, so what
    minimises it maximises the conditional mutual information of the request. The history is as it was measured; only the
    current request is relaxed. All steps of all series are judged at once, from the predictor's recorded states. The predictor
    learns from all its predictions on what was measured.
    """

    predictor: Predictor
    step_loss: float = 0.3
    branches = True

    def loss(self, record: Episode, hindsight: Hindsight) -> Float[Tensor, ""]:
        """The predictor's loss, and the acquirer's."""
        predicting = asked_at_every_step(record, hindsight, self.step_loss)
        with frozen(self.predictor):
            after = branch(self.predictor, record, record.flat(lambda step: step.reveal))
        return predicting + row_loss(after, record, hindsight).mean()
