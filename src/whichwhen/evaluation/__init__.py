"""What a policy reaches on a set of series, with hard selection, and how sure that is."""

from whichwhen.evaluation.alarms import Detection, alarm_threshold, detect, pad_steps
from whichwhen.evaluation.answers import answered_until, unanswered_share
from whichwhen.evaluation.bootstrap import Bootstrap, Scored, bootstrap_metric, paired_metric_difference
from whichwhen.evaluation.calibration import (
    Reliability,
    TemperatureFit,
    apply_temperature,
    expected_calibration_error,
    fit_temperature,
    reliability_curve,
)
from whichwhen.evaluation.complete import Asked, estimate_complete
from whichwhen.evaluation.frontier import FrontierRow, difference_at_cost, frontier_rows, gap_closed
from whichwhen.evaluation.measures import Calibration, Measures, measure
from whichwhen.evaluation.metrics import Metrics
from whichwhen.evaluation.off_policy import (
    Estimate,
    Limits,
    effective_sample_size,
    inverse_propensity_estimate,
    naive_estimate,
    restricted_estimate,
    step_estimate,
    step_weights,
)
from whichwhen.evaluation.propensity import AnswerModel, JointAnswerModel, history_features
from whichwhen.evaluation.ranking import auprc, auroc
from whichwhen.evaluation.scoring import Evaluation, evaluate
from whichwhen.evaluation.subgroups import SubgroupRow, subgroup_rows

__all__ = [
    "AnswerModel",
    "Asked",
    "Bootstrap",
    "Calibration",
    "Detection",
    "Estimate",
    "Evaluation",
    "FrontierRow",
    "JointAnswerModel",
    "Limits",
    "Measures",
    "Metrics",
    "Reliability",
    "Scored",
    "SubgroupRow",
    "TemperatureFit",
    "alarm_threshold",
    "answered_until",
    "apply_temperature",
    "auprc",
    "auroc",
    "bootstrap_metric",
    "detect",
    "difference_at_cost",
    "effective_sample_size",
    "estimate_complete",
    "evaluate",
    "expected_calibration_error",
    "fit_temperature",
    "frontier_rows",
    "gap_closed",
    "history_features",
    "inverse_propensity_estimate",
    "measure",
    "naive_estimate",
    "pad_steps",
    "paired_metric_difference",
    "reliability_curve",
    "restricted_estimate",
    "step_estimate",
    "step_weights",
    "subgroup_rows",
    "unanswered_share",
]
