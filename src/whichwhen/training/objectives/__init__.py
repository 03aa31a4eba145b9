"""What is minimised: one objective per file, all behind :class:`Objective`."""

from __future__ import annotations

from whichwhen.errors import SpecError
from whichwhen.rollout import Policy
from whichwhen.specs import RunSpec, TrainingSpec
from whichwhen.training.objectives.base import Objective
from whichwhen.training.objectives.end_to_end import EndToEnd
from whichwhen.training.objectives.foresight import Foresight
from whichwhen.training.objectives.greedy import GreedyCMI
from whichwhen.training.objectives.priced import Priced
from whichwhen.training.objectives.thrifty import Thrifty
from whichwhen.training.objectives.value import OrderValue

__all__ = ["EndToEnd", "Foresight", "GreedyCMI", "Objective", "OrderValue", "Priced", "Thrifty", "make_objective"]


def make_objective(spec: RunSpec, policy: Policy) -> Objective:
    """The objective of a spec, for a policy; what does not learn has only predictions to improve."""
    training = spec.training
    if not policy.acquirer.learns:
        return EndToEnd(training.step_loss)
    if spec.budget.priced and training.objective in ("greedy-cmi", "value"):
        raise SpecError(
            f"objective {training.objective} while a price is paid in training",
            expected="end-to-end or foresight",
            do="train with --budget, then evaluate with --price or --total"
            if spec.budget.kind == "price" or training.objective == "greedy-cmi"
            else "use --pace even: values spend a total at the price that serves best on validation",
        )
    objective = _make(training, policy)
    if spec.budget.priced:
        return Priced(objective, policy.rules, policy.budget.settles)
    return Thrifty(objective, policy.rules, policy.budget.settles, training.thrift) if training.thrift else objective


def _make(training: TrainingSpec, policy: Policy) -> Objective:
    match training.objective:
        case "end-to-end":
            return EndToEnd(training.step_loss)
        case "greedy-cmi":
            return GreedyCMI(policy.predictor, training.step_loss)
        case "value":
            return OrderValue(policy, training.step_loss, delivered=policy.budget.settles)
        case "foresight":
            return Foresight(training.step_loss)
