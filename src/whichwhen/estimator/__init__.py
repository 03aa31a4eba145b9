"""The front door in scikit-learn's style."""

from whichwhen.estimator.classifier import Acquired, AcquisitionClassifier
from whichwhen.estimator.skipped import SKIPPED_CHECKS

__all__ = ["SKIPPED_CHECKS", "Acquired", "AcquisitionClassifier"]
