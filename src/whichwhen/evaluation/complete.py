"""What a policy would have scored if the record had held all that it asked for: the estimators of ``off_policy`` at work.

Docs and limits: docs/missing.md. The propensities are those of :class:`JointAnswerModel`, learned from the policy's own
requests on training series.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch

from whichwhen.data.store import SeriesSet
from whichwhen.evaluation.answers import answered_until
from whichwhen.evaluation.off_policy import (
    Estimate,
    Limits,
    Statistic,
    inverse_propensity_estimate,
    naive_estimate,
    restricted_estimate,
    step_estimate,
)
from whichwhen.evaluation.propensity import JointAnswerModel, history_features
from whichwhen.evaluation.ranking import RankedScores
from whichwhen.evaluation.scoring import Evaluation, evaluate
from whichwhen.menu import Menu
from whichwhen.rollout import Policy

Estimates = dict[str, Estimate]
"""By the estimator's name: ``naive``, ``restricted``, ``ipw``."""
MOST_SERIES = 4000
"""Training series from which the propensities are learned, at most; taken evenly from all."""


@dataclass(frozen=True)
class Asked:
    """A policy's requests on N series, what the record held of them, and what was known before.

    Attributes:
        requested, answered: ``[N, T, K]`` bool; answered = the record holds all that the order reveals at that step.
        features: ``[N, T, D]``, of :func:`history_features`.
        lengths: ``[N]``.
    """

    requested: np.ndarray
    answered: np.ndarray
    features: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, menu: Menu, series: SeriesSet, requests: Mapping[int, np.ndarray]) -> Asked:
        """From the requests of every series, by position: ``Evaluation.samples`` where all were kept."""
        values = series.padded()
        n, steps, _ = values.shape
        requested = np.zeros((n, steps, len(menu.orders)), dtype=bool)
        for i, own in requests.items():
            requested[i, : len(own)] = own
        missing = np.isnan(values)
        held = ~((missing.astype(np.float32) @ menu.reveals.T.astype(np.float32)) > 0)
        free = menu.reveals[[order.free for order in menu.orders]].any(0)
        at_hand = np.concatenate([np.nan_to_num(values[..., free]), ~missing[..., free]], 2)
        return cls(requested, requested & held, history_features(values, at_hand), series.lengths)

    @property
    def until(self) -> np.ndarray:
        """Whether all requests up to each step were answered, ``[N, T]``."""
        return answered_until(self.requested, self.answered)


def estimates_of(
    score: np.ndarray | Statistic, witness: np.ndarray, propensity: np.ndarray, limits: Limits | None = None
) -> Estimates:
    """One score as it stands, of the witnesses, and of the witnesses by weight; arguments as in
    :func:`inverse_propensity_estimate`.
    """
    return {
        "naive": naive_estimate(score, len(witness), limits),
        "restricted": restricted_estimate(score, witness, limits),
        "ipw": inverse_propensity_estimate(score, witness, propensity, limits),
    }


def step_estimates_of(
    scores: np.ndarray, until: np.ndarray, lengths: np.ndarray, propensity: np.ndarray, limits: Limits | None = None
) -> Estimates:
    """The same for a score at every step, ``[N, T]``; arguments as in :func:`step_estimate`."""
    valid = np.arange(until.shape[1]) < lengths[:, None]
    as_it_stands = step_estimate(np.where(valid, scores, 0.0), np.ones_like(until), lengths, None, limits)
    return {
        "naive": replace(as_it_stands, estimator="naive"),
        "restricted": step_estimate(scores, until, lengths, None, limits),
        "ipw": step_estimate(scores, until, lengths, propensity, limits),
    }


def estimate_complete(
    policy: Policy,
    train: SeriesSet,
    series: SeriesSet,
    found: Evaluation,
    device: torch.device | str = "cpu",
    limits: Limits | None = None,
) -> dict[str, Estimates]:
    """Accuracy, loss and, for two classes, AUROC as they stand and as they would be with every request answered.

    Args:
        policy: what was evaluated.
        train: series to learn the propensities from, not those that are judged.
        series, found: what is judged, and the policy's evaluation on it with all its requests (``samples=len(series)``).
        device: where the models are.
        limits: when an estimate is refused.

    Where every step has a label, accuracy and loss are by step, and there is no AUROC.
    """
    some = train.take(np.unique(np.linspace(0, len(train) - 1, min(len(train), MOST_SERIES)).astype(np.int64)))
    learned = Asked.of(policy.menu, some, evaluate(policy, some, device=device, samples=len(some)).samples)
    answers = JointAnswerModel.fit(learned.features, learned.requested, learned.answered)
    asked = Asked.of(policy.menu, series, found.samples)
    chance, until = np.maximum(answers.of_steps(asked.features, asked.requested), 1e-12), asked.until
    each = found.step_probabilities is not None
    shares = found.step_probabilities if found.step_probabilities is not None else found.probabilities
    labels = series.step_labels[:] if each and series.step_labels is not None else series.labels
    scores: dict[str, np.ndarray] = {
        "accuracy": (shares.argmax(1) == labels).astype(np.float64),
        "loss": -np.log(np.maximum(shares[np.arange(len(labels)), labels], 1e-300)),
    }
    if each:
        valid = np.arange(until.shape[1]) < series.lengths[:, None]
        out = {}
        for name, flat in scores.items():
            by_step = np.zeros(until.shape)
            by_step[valid] = flat
            out[name] = step_estimates_of(by_step, until, series.lengths, chance, limits)
        return out
    whole: dict[str, np.ndarray | Statistic] = dict(scores)
    if shares.shape[1] == 2:
        ranked = RankedScores.of(shares, labels)
        whole["auroc"] = lambda weights: ranked.metric("auroc", weights)
    witness, propensity = until[:, -1], chance.prod(1)
    return {name: estimates_of(score, witness, np.maximum(propensity, 1e-300), limits) for name, score in whole.items()}
