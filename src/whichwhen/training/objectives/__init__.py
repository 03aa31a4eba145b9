"""What is minimised: one objective per file, all behind :class:`Objective`."""

from __future__ import annotations

from whichwhen.rollout import Policy
from whichwhen.specs import RunSpec, TrainingSpec
from whichwhen.training.objectives.base import Objective
from whichwhen.training.objectives.end_to_end import EndToEnd
from whichwhen.training.objectives.foresight import Foresight
from whichwhen.training.objectives.greedy import GreedyCMI
from whichwhen.training.objectives.priced import Priced
from whichwhen.training.objectives.value import OrderValue

__all__ = ["EndToEnd", "Foresight", "GreedyCMI", "Objective", "OrderValue", "Priced", "make_objective"]


def make_objective(spec: RunSpec, policy: Policy, priced: bool) -> Objective:
    """The objective of a spec, for a policy; what does not learn has only predictions to improve.

    ``priced``: whether a bill is paid in training. Values are regressed and pay none.
    """
    training, delivered = spec.training, spec.budget.bill == "delivered"
    if not policy.acquirer.learns:
        return EndToEnd(training.step_loss)
    objective = _make(training, policy, delivered)
    bill = priced and training.objective != "value"
    return Priced(objective, policy.rules, delivered) if bill else objective


def _make(training: TrainingSpec, policy: Policy, delivered: bool) -> Objective:
    match training.objective:
        case "end-to-end":
            return EndToEnd(training.step_loss)
        case "greedy-cmi":
            return GreedyCMI(policy.predictor, training.step_loss)
        case "value":
            return OrderValue(policy, training.step_loss, delivered=delivered)
        case "foresight":
            return Foresight(training.step_loss)
