"""Predictors: one architecture per file, all behind :class:`whichwhen.contracts.Predictor`."""

from __future__ import annotations

import numpy as np

from whichwhen.contracts import Predictor
from whichwhen.predictors._bins import Bins
from whichwhen.predictors.carry import CarryPredictor
from whichwhen.predictors.conv import ConvPredictor
from whichwhen.predictors.gru import GRUPredictor
from whichwhen.predictors.lstm import LSTMPredictor
from whichwhen.predictors.transformer import TransformerPredictor
from whichwhen.specs import PredictorSpec

__all__ = [
    "CarryPredictor",
    "ConvPredictor",
    "GRUPredictor",
    "LSTMPredictor",
    "TransformerPredictor",
    "fit_bins",
    "make_predictor",
]


def make_predictor(spec: PredictorSpec, n_features: int, n_classes: int, horizon: int) -> Predictor:
    """The predictor of a spec, with fresh weights. ``horizon``: the longest training series, the unit of time."""
    if not spec.carry:
        return _bare(spec, n_features, n_classes, horizon, _bins(spec, n_features))
    inner = _bare(spec, 3 * n_features, n_classes, horizon, _bins(spec, n_features, first=n_features))
    return CarryPredictor(inner, n_features, credit=spec.bins > 0)


def fit_bins(predictor: Predictor, values: np.ndarray) -> None:
    """Lay the edges of a predictor's bins, if it has any: by scaled training values ``[rows, F]``, NaN = not observed."""
    for module in predictor.modules():
        if isinstance(module, Bins):
            module.fit(values)


def _bins(spec: PredictorSpec, n_features: int, first: int = 0) -> Bins | None:
    return Bins(n_features, spec.bins, first) if spec.bins else None


def _bare(spec: PredictorSpec, n_features: int, n_classes: int, horizon: int, bins: Bins | None) -> Predictor:
    if spec.kind in ("lstm", "gru"):
        recurrent = LSTMPredictor if spec.kind == "lstm" else GRUPredictor
        shape = (spec.units, spec.layers, spec.head, spec.dropout, spec.time_features, spec.hinges)
        return recurrent(n_features, n_classes, horizon, *shape, bins)
    sizes = (n_features, n_classes, horizon, spec.units, spec.layers, spec.dropout, spec.time_features)
    if spec.kind == "transformer":
        return TransformerPredictor(*sizes)
    return ConvPredictor(*sizes, spec.hinges, bins, spec.now)
