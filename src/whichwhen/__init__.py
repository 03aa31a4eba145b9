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
        RoundRobinAcquirer,
        StaticAcquirer,
        TableAcquirer,
    )
    from whichwhen.artifacts import load_candidates, load_model, load_result, save_model
    from whichwhen.budget import Budget, Ledger, MeanCost, PerStep, Price, Total, Unlimited
    from whichwhen.checks import check_acquirer, check_predictor
    from whichwhen.contracts import Acquirer, Predictor, Selector
    from whichwhen.data import Dataset, SeriesSet, load_dataset
    from whichwhen.data.frames import TableReport, check_new_table, describe_table, load_table
    from whichwhen.errors import DataWarning, WhichwhenError
    from whichwhen.estimator import AcquisitionClassifier
    from whichwhen.evaluation import Evaluation, Measures, Metrics, evaluate, measure
    from whichwhen.evaluation.choice import Chosen, choose_at_budget
    from whichwhen.evaluation.prices import at_budget
    from whichwhen.menu import Feature, Menu, Order
    from whichwhen.menu_files import load_menu, save_menu
    from whichwhen.model import Model, make_model
    from whichwhen.predictors import CarryPredictor, ConvPredictor, GRUPredictor, LSTMPredictor, TransformerPredictor
    from whichwhen.presets import preset_spec
    from whichwhen.rollout import Policy, acquisition_step, roll_out
    from whichwhen.selection import Gate, HardTopK, SequentialGumbel
    from whichwhen.session import Outcome, Session
    from whichwhen.specs import (
        AcquirerSpec,
        BudgetSpec,
        DataSpec,
        PredictorSpec,
        RunSpec,
        SelectorSpec,
        TableSpec,
        TrainingSpec,
    )
    from whichwhen.training import Candidate, EndToEnd, Objective, Trained, fit, fit_recipe, train
    from whichwhen.types import Batch, Hindsight, Reveal, Rollout, Scores, Selection, View

_HOMES = {
    "acquirers": (
        "CompleteAcquirer",
        "LearnedAcquirer",
        "NoneAcquirer",
        "OracleAcquirer",
        "RandomAcquirer",
        "RoundRobinAcquirer",
        "StaticAcquirer",
        "TableAcquirer",
    ),
    "artifacts": ("load_candidates", "load_model", "load_result", "save_model"),
    "budget": ("Budget", "Ledger", "MeanCost", "PerStep", "Price", "Total", "Unlimited"),
    "checks": ("check_acquirer", "check_predictor"),
    "contracts": ("Acquirer", "Predictor", "Selector"),
    "data": ("Dataset", "SeriesSet", "load_dataset"),
    "data.frames": ("TableReport", "check_new_table", "describe_table", "load_table"),
    "errors": ("DataWarning", "WhichwhenError"),
    "estimator": ("AcquisitionClassifier",),
    "evaluation": ("Evaluation", "Measures", "Metrics", "evaluate", "measure"),
    "evaluation.choice": ("Chosen", "choose_at_budget"),
    "evaluation.prices": ("at_budget",),
    "menu": ("Feature", "Menu", "Order"),
    "menu_files": ("load_menu", "save_menu"),
    "model": ("Model", "make_model"),
    "predictors": ("CarryPredictor", "ConvPredictor", "GRUPredictor", "LSTMPredictor", "TransformerPredictor"),
    "presets": ("preset_spec",),
    "rollout": ("Policy", "acquisition_step", "roll_out"),
    "selection": ("Gate", "HardTopK", "SequentialGumbel"),
    "session": ("Outcome", "Session"),
    "specs": (
        "AcquirerSpec",
        "BudgetSpec",
        "DataSpec",
        "PredictorSpec",
        "RunSpec",
        "SelectorSpec",
        "TableSpec",
        "TrainingSpec",
    ),
    "training": ("Candidate", "EndToEnd", "Objective", "Trained", "fit", "fit_recipe", "train"),
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
    "Candidate",
    "CarryPredictor",
    "Chosen",
    "CompleteAcquirer",
    "ConvPredictor",
    "DataSpec",
    "DataWarning",
    "Dataset",
    "EndToEnd",
    "Evaluation",
    "Feature",
    "GRUPredictor",
    "Gate",
    "HardTopK",
    "Hindsight",
    "LSTMPredictor",
    "LearnedAcquirer",
    "Ledger",
    "MeanCost",
    "Measures",
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
    "Price",
    "RandomAcquirer",
    "Reveal",
    "Rollout",
    "RoundRobinAcquirer",
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
    "TableReport",
    "TableSpec",
    "Total",
    "Trained",
    "TrainingSpec",
    "TransformerPredictor",
    "Unlimited",
    "View",
    "WhichwhenError",
    "__version__",
    "acquisition_step",
    "at_budget",
    "check_acquirer",
    "check_new_table",
    "check_predictor",
    "choose_at_budget",
    "describe_table",
    "evaluate",
    "fit",
    "fit_recipe",
    "load_candidates",
    "load_dataset",
    "load_menu",
    "load_model",
    "load_result",
    "load_table",
    "make_model",
    "measure",
    "preset_spec",
    "roll_out",
    "save_menu",
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
