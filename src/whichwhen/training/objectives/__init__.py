"""What is minimised: one objective per file, all behind :class:`Objective`."""

from __future__ import annotations

from whichwhen.rollout import Policy
from whichwhen.specs import TrainingSpec
from whichwhen.training.objectives.base import Objective
from whichwhen.training.objectives.end_to_end import EndToEnd
from whichwhen.training.objectives.foresight import Foresight
from whichwhen.training.objectives.greedy import GreedyCMI
from whichwhen.training.objectives.value import OrderValue

__all__ = ["EndToEnd", "Foresight", "GreedyCMI", "Objective", "OrderValue", "make_objective"]


def make_objective(spec: TrainingSpec, policy: Policy) -> Objective:
    """The objective of a spec, for a policy; what does not learn has only predictions to improve."""
    if not policy.acquirer.learns or spec.objective == "end-to-end":
        return EndToEnd(spec.step_loss)
    match spec.objective:
        case "greedy-cmi":
            return GreedyCMI(policy.predictor, spec.step_loss)
        case "value":
            return OrderValue(policy, spec.step_loss)
        case "foresight":
            return Foresight(spec.step_loss)
