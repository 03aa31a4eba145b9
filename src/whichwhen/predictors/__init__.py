"""Predictors: one architecture per file, all behind :class:`whichwhen.contracts.Predictor`."""

from __future__ import annotations

from whichwhen.contracts import Predictor
from whichwhen.predictors.carry import CarryPredictor
from whichwhen.predictors.conv import ConvPredictor
from whichwhen.predictors.gru import GRUPredictor
from whichwhen.predictors.lstm import LSTMPredictor
from whichwhen.predictors.transformer import TransformerPredictor
from whichwhen.specs import PredictorSpec

__all__ = ["CarryPredictor", "ConvPredictor", "GRUPredictor", "LSTMPredictor", "TransformerPredictor", "make_predictor"]


def make_predictor(spec: PredictorSpec, n_features: int, n_classes: int, horizon: int) -> Predictor:
    """The predictor of a spec, with fresh weights. ``horizon``: the longest training series, the unit of time."""
    if spec.carry:
        return CarryPredictor(_bare(spec, 3 * n_features, n_classes, horizon), n_features)
    return _bare(spec, n_features, n_classes, horizon)


def _bare(spec: PredictorSpec, n_features: int, n_classes: int, horizon: int) -> Predictor:
    if spec.kind in ("lstm", "gru"):
        recurrent = LSTMPredictor if spec.kind == "lstm" else GRUPredictor
        shape = (spec.width, spec.layers, spec.head, spec.dropout, spec.time_features, spec.hinges)
        return recurrent(n_features, n_classes, horizon, *shape)
    sizes = (n_features, n_classes, horizon, spec.width, spec.layers, spec.dropout, spec.time_features)
    return ConvPredictor(*sizes, spec.time_gate, spec.hinges) if spec.kind == "conv" else TransformerPredictor(*sizes)
