"""whichwhen: which features of a time series to measure, and when.

The public names are flat and loaded when first used, so that ``import whichwhen`` and ``whichwhen --help`` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from whichwhen._version import __version__

if TYPE_CHECKING:
    from whichwhen.acquirers import (
        CompleteAcquirer,
        LearnedAcquirer,
        NoneAcquirer,
        OracleAcquirer,
        RandomAcquirer,
        StaticAcquirer,
        TableAcquirer,
    )
    from whichwhen.artifacts import load_model, load_result, save_model
    from whichwhen.budget import Budget, Ledger, PerStep, Unlimited
    from whichwhen.checks import check_acquirer, check_predictor
    from whichwhen.contracts import Acquirer, Predictor, Selector
    from whichwhen.data import Dataset, SeriesSet, load_dataset
    from whichwhen.errors import WhichwhenError
    from whichwhen.estimator import AcquisitionClassifier
    from whichwhen.evaluation import Evaluation, Metrics, evaluate
    from whichwhen.menu import Feature, Menu, Order
    from whichwhen.model import Model, make_model
    from whichwhen.predictors import ConvPredictor, GRUPredictor, LSTMPredictor, TransformerPredictor
    from whichwhen.rollout import Policy, acquisition_step, roll_out
    from whichwhen.selection import GumbelTopK, HardTopK, SequentialGumbel
    from whichwhen.session import Outcome, Session
    from whichwhen.specs import (
        AcquirerSpec,
        BudgetSpec,
        DataSpec,
        PredictorSpec,
        RunSpec,
        SelectorSpec,
        TrainingSpec,
        preset_spec,
    )
    from whichwhen.training import EndToEnd, Objective, fit, train
    from whichwhen.types import Batch, Hindsight, Reveal, Rollout, Scores, Selection, View

_HOMES = {
    "acquirers": (
        "CompleteAcquirer",
        "LearnedAcquirer",
        "NoneAcquirer",
        "OracleAcquirer",
        "RandomAcquirer",
        "StaticAcquirer",
        "TableAcquirer",
    ),
    "artifacts": ("load_model", "load_result", "save_model"),
    "budget": ("Budget", "Ledger", "PerStep", "Unlimited"),
    "checks": ("check_acquirer", "check_predictor"),
    "contracts": ("Acquirer", "Predictor", "Selector"),
    "data": ("Dataset", "SeriesSet", "load_dataset"),
    "errors": ("WhichwhenError",),
    "estimator": ("AcquisitionClassifier",),
    "evaluation": ("Evaluation", "Metrics", "evaluate"),
    "menu": ("Feature", "Menu", "Order"),
    "model": ("Model", "make_model"),
    "predictors": ("ConvPredictor", "GRUPredictor", "LSTMPredictor", "TransformerPredictor"),
    "rollout": ("Policy", "acquisition_step", "roll_out"),
    "selection": ("GumbelTopK", "HardTopK", "SequentialGumbel"),
    "session": ("Outcome", "Session"),
    "specs": (
        "AcquirerSpec",
        "BudgetSpec",
        "DataSpec",
        "PredictorSpec",
        "RunSpec",
        "SelectorSpec",
        "TrainingSpec",
        "preset_spec",
    ),
    "training": ("EndToEnd", "Objective", "fit", "train"),
    "types": ("Batch", "Hindsight", "Reveal", "Rollout", "Scores", "Selection", "View"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Acquirer",
    "AcquirerSpec",
    "AcquisitionClassifier",
    "Batch",
    "Budget",
    "BudgetSpec",
    "CompleteAcquirer",
    "ConvPredictor",
    "DataSpec",
    "Dataset",
    "EndToEnd",
    "Evaluation",
    "Feature",
    "GRUPredictor",
    "GumbelTopK",
    "HardTopK",
    "Hindsight",
    "LSTMPredictor",
    "LearnedAcquirer",
    "Ledger",
    "Menu",
    "Metrics",
    "Model",
    "NoneAcquirer",
    "Objective",
    "OracleAcquirer",
    "Order",
    "Outcome",
    "PerStep",
    "Policy",
    "Predictor",
    "PredictorSpec",
    "RandomAcquirer",
    "Reveal",
    "Rollout",
    "RunSpec",
    "Scores",
    "Selection",
    "Selector",
    "SelectorSpec",
    "SequentialGumbel",
    "SeriesSet",
    "Session",
    "StaticAcquirer",
    "TableAcquirer",
    "TrainingSpec",
    "TransformerPredictor",
    "Unlimited",
    "View",
    "WhichwhenError",
    "__version__",
    "acquisition_step",
    "check_acquirer",
    "check_predictor",
    "evaluate",
    "fit",
    "load_dataset",
    "load_model",
    "load_result",
    "make_model",
    "preset_spec",
    "roll_out",
    "save_model",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'whichwhen' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"whichwhen.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
