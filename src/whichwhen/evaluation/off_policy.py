"""What a policy would have scored if all its requests had been answered, when the record holds only part of the values.

A request that the record can't answer reveals nothing, so the score as it stands (:func:`naive_estimate`) is that of a policy
whose orders get lost. But a series all of whose requests were answered was scored exactly as it would have been with a
complete record. Those series are the witnesses; the question is whom they stand for.

* :func:`restricted_estimate`: themselves. Right if being answered has nothing to do with the score.
* :func:`inverse_propensity_estimate`: each also the series like it that were not answered, with weight 1 / P(all its requests
  answered), self-normalised. Right if, given the features behind the propensities, whether a value was measured has
  nothing to do with the values that were not seen, and every request has some chance of an answer. (In the language of
  target trials: an unanswered request is censoring, and these are inverse-probability-of-censoring weights.)
* :func:`step_estimate`: for scores at every step, the prediction after step t needs only the requests up to t answered.
  Exact, and it wastes far less: weights grow with the requests up to a step, not with those of the whole series.

Estimates are refused (value None, with the reason) when Kish's effective sample size is tiny, as a few series then speak for
all, and when the weights do not add up to about the number of series, as the propensities are wrong then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation.bootstrap import interval

Statistic = Callable[[np.ndarray], float | None]
"""A metric as a function of the weights of the rows, ``[N]`` (or ``[N, T]`` for steps); None where it is not defined."""


@dataclass(frozen=True)
class Limits:
    """When an estimate is refused, and how its interval is made.

    Attributes:
        smallest_size: least effective sample size.
        smallest_share: the same as a share of all series.
        largest_ratio: how far Σ w / n may be from 1, as a factor either way: beyond it the propensities do not fit.
        clip: largest weight, as a multiple of the mean weight of the witnesses; None = as they are. Trades bias for variance.
        draws, seed: bootstrap over series; 0 draws = no interval. The propensities are held fixed.
    """

    smallest_size: float = 20.0
    smallest_share: float = 0.02
    largest_ratio: float = 2.0
    clip: float | None = None
    draws: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        if self.clip is not None and not self.clip >= 1:
            raise SpecError(f"weights clipped at {self.clip} times their mean", expected="at least 1")


@dataclass(frozen=True)
class Estimate:
    """An estimate, or why there is none.

    Attributes:
        estimator: its name.
        value: None = refused.
        low, high: ends of the 95 % bootstrap interval.
        n, n_answered: series, and those all of whose requests were answered.
        effective_sample_size: of Kish, (Σ w)² / Σ w²; n_answered where all weights are equal.
        weight_ratio: Σ w / n before clipping (for steps: over the steps), 1 in expectation when the propensities are right.
            Far below 1: some kinds of series are never answered, and nobody speaks for them. Far above: answers come
            together more than the propensities say. None where nothing is weighted.
        reason: why it was refused, else empty.
    """

    estimator: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    n_answered: int
    effective_sample_size: float
    weight_ratio: float | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def effective_sample_size(weights: np.ndarray) -> float:
    """Kish's: how many equally weighted series would tell as much; 0 for no weight."""
    total = float((weights**2).sum())
    return float(weights.sum()) ** 2 / total if total > 0 else 0.0


def naive_estimate(score: np.ndarray | Statistic, n: int, limits: Limits | None = None) -> Estimate:
    """The score as it stands, unanswered requests and all; ``score`` as in :func:`inverse_propensity_estimate`."""
    return _estimate("naive", score, np.ones(n, dtype=bool), np.ones(n), limits or Limits(), None)


def restricted_estimate(score: np.ndarray | Statistic, answered: np.ndarray, limits: Limits | None = None) -> Estimate:
    """The score on the series all of whose requests were answered; arguments as in :func:`inverse_propensity_estimate`."""
    return _estimate("restricted", score, answered, answered.astype(np.float64), limits or Limits(), None)


def inverse_propensity_estimate(
    score: np.ndarray | Statistic, answered: np.ndarray, propensity: np.ndarray, limits: Limits | None = None
) -> Estimate:
    """The score with each answered series standing for those like it.

    Args:
        score: ``[N]``, per series (right or wrong, a loss), of which the weighted mean is taken; or a function of the weights
            ``[N]``, such as ``lambda w: auroc(probabilities, labels, w)``.
        answered: ``[N]`` bool, whether all requests of the series were answered (``answered_until(…)[:, -1]``).
        propensity: ``[N]``, the probability of that: the product over the steps of what :class:`AnswerModel` or
            :class:`JointAnswerModel` say. Only those of answered series are used.
        limits: when to refuse.
    """
    limits = limits or Limits()
    weights = np.where(answered, 1.0 / _check_propensity(propensity, answered), 0.0)
    return _estimate("ipw", score, answered, _clipped(weights, limits.clip), limits, float(weights.mean()))


def step_weights(
    until: np.ndarray, lengths: np.ndarray, propensity: np.ndarray | None = None, clip: float | None = None
) -> np.ndarray:
    """Weights ``[N, T]`` for scores at every step: those of a step add up to the number of series that have it.

    Args:
        until: ``[N, T]`` bool, of :func:`answered_until`.
        lengths: ``[N]``.
        propensity: ``[N, T]`` of each step by itself (not yet multiplied up); None = restricted, all witnesses alike.
        clip: as in :class:`Limits`, step by step.
    """
    valid = np.arange(until.shape[1]) < np.asarray(lengths)[:, None]
    witness = until & valid
    chance = np.ones(until.shape) if propensity is None else np.cumprod(np.where(valid, propensity, 1.0), axis=1)
    weights = np.where(witness, 1.0 / _check_propensity(chance, witness), 0.0)
    weights = np.stack([_clipped(column, clip) for column in weights.T], 1)
    totals = weights.sum(0)
    return np.asarray(weights * np.where(totals > 0, valid.sum(0) / np.where(totals > 0, totals, 1.0), 0.0))


def step_estimate(
    scores: np.ndarray,
    until: np.ndarray,
    lengths: np.ndarray,
    propensity: np.ndarray | None = None,
    limits: Limits | None = None,
) -> Estimate:
    """The mean score over all steps of all series, from the steps until which everything was answered.

    Each step is self-normalised by itself. The effective sample size is that of the series, each with the sum of its steps'
    weights; a step that no series witnesses leads to refusal.

    Args:
        scores: ``[N, T]``, per step.
        until, lengths, propensity: as in :func:`step_weights`.
        limits: when to refuse.
    """
    limits = limits or Limits()
    weights = step_weights(until, lengths, propensity, limits.clip)
    valid = np.arange(until.shape[1]) < np.asarray(lengths)[:, None]
    name = "restricted-by-step" if propensity is None else "ipw-by-step"
    blind = np.flatnonzero(valid.any(0) & (weights.sum(0) <= 0))
    going = valid.sum(0)
    filled = np.where(weights > 0, scores, 0.0)

    def value(counts: np.ndarray) -> float | None:
        totals = counts @ weights
        known = totals > 0
        by_step = (counts @ (weights * filled))[known] / totals[known]
        return float(by_step @ going[known] / going[known].sum()) if known.any() else None

    ratio = None
    if propensity is not None:
        chance = np.cumprod(np.where(valid, propensity, 1.0), axis=1)
        ratio = float((until & valid)[valid] @ (1 / np.maximum(chance[valid], 1e-300)) / valid.sum())
    size = effective_sample_size(weights.sum(1))
    answered = np.where(valid, until, True).all(1)
    reason = f"no series has all its requests answered up to step {blind[0]}" if len(blind) else ""
    return _finish(name, value, len(until), int(answered.sum()), size, limits, ratio, reason)


def _estimate(
    name: str,
    score: np.ndarray | Statistic,
    answered: np.ndarray,
    weights: np.ndarray,
    limits: Limits,
    ratio: float | None,
) -> Estimate:
    def value(counts: np.ndarray) -> float | None:
        own = counts * weights
        if callable(score):
            return score(own)
        total = own.sum()
        return float(own @ np.where(weights > 0, score, 0.0) / total) if total > 0 else None

    if not callable(score) and np.shape(score) != answered.shape:
        raise DataError(f"scores of shape {np.shape(score)} for {len(answered)} series", expected="one per series")
    return _finish(name, value, len(answered), int(answered.sum()), effective_sample_size(weights), limits, ratio)


def _finish(
    name: str,
    value: Statistic,
    n: int,
    n_answered: int,
    size: float,
    limits: Limits,
    ratio: float | None,
    reason: str = "",
) -> Estimate:
    least = max(limits.smallest_size, limits.smallest_share * n)
    if not reason and size < least:
        reason = f"effective sample size {size:.1f} of {n} series is below {least:.1f}"
    if not reason and ratio is not None and not 1 / limits.largest_ratio <= ratio <= limits.largest_ratio:
        reason = f"the weights add up to {ratio:.2f} times the number of series: the propensities do not fit"
    found = None if reason else value(np.ones(n))
    if found is None:
        return Estimate(name, None, None, None, n, n_answered, size, ratio, reason or "the metric is not defined on them")
    if not limits.draws:
        return Estimate(name, found, None, None, n, n_answered, size, ratio)
    rng = np.random.default_rng(limits.seed)
    drawn = [value(np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)) for _ in range(limits.draws)]
    low, high = interval(np.array([np.nan if one is None else one for one in drawn]))
    return Estimate(name, found, low, high, n, n_answered, size, ratio)


def _clipped(weights: np.ndarray, clip: float | None) -> np.ndarray:
    if clip is None or not (weights > 0).any():
        return weights
    return np.minimum(weights, clip * weights[weights > 0].mean())


def _check_propensity(propensity: np.ndarray, answered: np.ndarray) -> np.ndarray:
    """The propensities, 1 where they are not used."""
    if np.shape(propensity) != answered.shape:
        raise DataError(f"propensities of shape {np.shape(propensity)}", expected=f"shape {answered.shape}")
    used = np.where(answered, propensity, 1.0)
    if not ((used > 0) & (used <= 1 + 1e-9)).all():
        row = np.argwhere(~((used > 0) & (used <= 1 + 1e-9)))[0]
        raise DataError(f"propensity {used[tuple(row)]} in series {row[0]}, which was answered", expected="above 0, at most 1")
    return used
