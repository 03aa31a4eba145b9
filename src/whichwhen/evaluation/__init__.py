"""What a policy reaches on a set of series, with hard selection."""

from whichwhen.evaluation.metrics import Metrics
from whichwhen.evaluation.scoring import Evaluation, evaluate

__all__ = ["Evaluation", "Metrics", "evaluate"]
