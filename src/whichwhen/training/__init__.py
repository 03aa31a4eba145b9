"""Acquirer and predictor learn together from the prediction loss."""

from whichwhen.training.loop import EpochRecord, fit
from whichwhen.training.objectives import EndToEnd, Objective
from whichwhen.training.run import train

__all__ = ["EndToEnd", "EpochRecord", "Objective", "fit", "train"]
