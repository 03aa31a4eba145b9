"""How likely it is that the record holds what is asked for, learned from what is known before asking.

The record's author decided what was measured. :class:`AnswerModel` learns that choice order by order, from the record
alone; :class:`JointAnswerModel` learns from a policy's own requests how likely a whole step is answered, which stays right
where orders are measured together. Both are logistic regressions on features that must be known before the answer:
:func:`history_features` makes such.

Shapes: N series, T steps, F features, K orders, D columns. Steps after the end of a series are never looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from whichwhen.errors import DataError


def history_features(values: np.ndarray, at_hand: np.ndarray | None = None) -> np.ndarray:
    """What is known just before the requests of each step are answered, ``[N, T, 2 F + 1 + G]``.

    The last value that the record holds from an earlier step (0 where there is none), whether there is one, the step, and what
    is at hand at the step itself. Nothing of the step's own values is in it.

    Args:
        values: ``[N, T, F]``, scaled; NaN = not in the record.
        at_hand: ``[N, T, G]``, finite: free channels and descriptors of the step.
    """
    n, steps, n_features = values.shape
    last, any_yet = np.zeros((n, n_features)), np.zeros((n, n_features))
    parts = np.zeros((n, steps, 2 * n_features + 1))
    for t in range(steps):
        parts[:, t] = np.concatenate([last, any_yet, np.full((n, 1), t)], 1)
        held = ~np.isnan(values[:, t])
        last, any_yet = np.where(held, values[:, t], last), np.maximum(any_yet, held)
    return parts if at_hand is None else np.concatenate([parts, at_hand], 2)


@dataclass(frozen=True)
class AnswerModel:
    """The probability that the record holds each order, each by itself.

    A product of these over the orders of one step is right only where they are measured independently of each other, given the
    features. Where a nurse draws one tube for all of them it is not: use :class:`JointAnswerModel`.

    Attributes:
        models: K regressions; a number where an order was always or never held.
    """

    models: tuple[Pipeline | float, ...]

    @classmethod
    def fit(cls, features: np.ndarray, held: np.ndarray, lengths: np.ndarray) -> AnswerModel:
        """From training series.

        Args:
            features: ``[N, T, D]``.
            held: ``[N, T, K]`` bool, whether the record holds all that the order reveals.
            lengths: ``[N]``.
        """
        _check(features, held, lengths)
        valid = np.arange(held.shape[1]) < lengths[:, None]
        rows = features[valid]
        return cls(tuple(_fit(rows, held[valid][:, k]) for k in range(held.shape[2])))

    def predict(self, features: np.ndarray) -> np.ndarray:
        """``[N, T, K]`` from features ``[N, T, D]``."""
        rows = features.reshape(-1, features.shape[-1])
        return np.stack([_predict(model, rows) for model in self.models], 1).reshape(*features.shape[:2], -1)

    def of_steps(self, features: np.ndarray, requested: np.ndarray) -> np.ndarray:
        """The probability that all requests of each step are answered, ``[N, T]``; 1 where there are none."""
        _check(features, requested, np.zeros(len(requested)))
        return np.asarray(np.where(requested, self.predict(features), 1.0).prod(2))


@dataclass(frozen=True)
class JointAnswerModel:
    """The probability that *all* requests of a step are answered, given that all earlier ones were.

    A discrete-time survival model: an unanswered request ends a series' life as a witness of what full answers would do.

    Attributes:
        model: one regression on the features and on what is requested; a number where steps were always or never answered.
    """

    model: Pipeline | float

    @classmethod
    def fit(cls, features: np.ndarray, requested: np.ndarray, answered: np.ndarray) -> JointAnswerModel:
        """From the policy's own requests on training or validation series.

        Args:
            features: ``[N, T, D]``.
            requested, answered: ``[N, T, K]`` bool; nothing is requested after the end of a series.
        """
        _check(features, requested, np.zeros(len(requested)))
        fine = (answered | ~requested).all(2)
        before = np.cumprod(np.pad(fine, ((0, 0), (1, 0)), constant_values=True)[:, :-1], axis=1).astype(bool)
        rows = before & requested.any(2)
        if not rows.any():
            return cls(1.0)
        return cls(_fit(np.concatenate([features, requested], 2)[rows], fine[rows]))

    def of_steps(self, features: np.ndarray, requested: np.ndarray) -> np.ndarray:
        """The probability that all requests of each step are answered, ``[N, T]``; 1 where there are none."""
        both = np.concatenate([features, requested], 2)
        found = _predict(self.model, both.reshape(-1, both.shape[-1])).reshape(both.shape[:2])
        return np.asarray(np.where(requested.any(2), found, 1.0))


def _fit(rows: np.ndarray, held: np.ndarray) -> Pipeline | float:
    """A regression; where there is nothing to tell apart, the share (never quite 0: once is enough to be wrong)."""
    if held.all():
        return 1.0
    if not held.any():
        return 1.0 / (len(held) + 2)
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(rows, held)


def _predict(model: Pipeline | float, rows: np.ndarray) -> np.ndarray:
    if isinstance(model, float):
        return np.full(len(rows), model)
    return np.asarray(model.predict_proba(rows)[:, 1])


def _check(features: np.ndarray, requested: np.ndarray, lengths: np.ndarray) -> None:
    if features.ndim != 3 or requested.ndim != 3 or features.shape[:2] != requested.shape[:2] or len(lengths) != len(features):
        raise DataError(
            f"features of shape {features.shape}, requests of shape {requested.shape}, {len(lengths)} lengths",
            expected="[N, T, D], [N, T, K] and [N]",
        )
    if not np.isfinite(features).all():
        series, step, column = np.argwhere(~np.isfinite(features))[0]
        raise DataError(
            f"feature {features[series, step, column]} in series {series}, step {step}, column {column}",
            expected="finite numbers",
            do="carry values forward, as history_features does",
        )
