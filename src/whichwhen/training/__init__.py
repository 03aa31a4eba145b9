"""Acquirer and predictor learn together from the prediction loss: by the recipe, or as in the paper."""

from __future__ import annotations

from whichwhen.training.epochs import EpochRecord, fit
from whichwhen.training.objectives import EndToEnd, Objective
from whichwhen.training.recipe import fit_recipe
from whichwhen.training.run import train
from whichwhen.training.trained import Candidate, Trained

__all__ = ["Candidate", "EndToEnd", "EpochRecord", "Objective", "Trained", "fit", "fit_recipe", "train"]
