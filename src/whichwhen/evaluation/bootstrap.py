"""Ranking metrics and accuracy over seeds and series, with intervals, and how sure a difference between two policies is.

Several seeds of a policy are given as one entry per seed. A bootstrap draw takes seeds with replacement and the test series
with replacement; with the same ``seed`` of the bootstrap it is the same draw for every policy with as many seeds and series,
so what is hard for all of them cancels out of a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation._inputs import check_scores
from whichwhen.evaluation.ranking import RankedScores, RankingMetric
from whichwhen.evaluation.statistics import Difference

MetricName = Literal["auroc", "auprc", "accuracy"]
CostKind = Literal["delivered", "requested"]


@dataclass(frozen=True)
class Scored:
    """A policy at one budget or price, on the test series, once for each of S seeds.

    Attributes:
        policy: its name.
        budget: what it was allowed, in whatever unit (a fraction, a price); None where that has no meaning.
        scores: for each seed ``[R]`` or ``[R, C]``, probabilities of R rows.
        labels: for each seed ``[R]``.
        requested_cost, delivered_cost: for each seed, mean cost of a series.
        series: which of the N series each row belongs to, 0 to N - 1, ``[R]`` for each seed; None = one row per series. Rows
            of a series (its steps, in early event prediction) are drawn together.
    """

    policy: str
    budget: float | None
    scores: Sequence[np.ndarray]
    labels: Sequence[np.ndarray]
    requested_cost: Sequence[float] = ()
    delivered_cost: Sequence[float] = ()
    series: Sequence[np.ndarray] | None = None

    def cost(self, kind: CostKind) -> float:
        """Mean over the seeds."""
        found = self.delivered_cost if kind == "delivered" else self.requested_cost
        if not len(found):
            raise DataError(f"{self.policy!r} has no {kind} cost", expected="one per seed")
        return float(np.mean(found))


@dataclass(frozen=True)
class Bootstrap:
    """A metric and its bootstrap values; those of two policies with the same ``seed`` belong together, draw by draw.

    Attributes:
        value: mean over the seeds.
        by_seed: ``[S]``.
        draws: ``[D]``; NaN where a draw lacks a class, which intervals leave out.
    """

    value: float
    by_seed: np.ndarray
    draws: np.ndarray

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the 95 % interval."""
        return interval(self.draws)


@dataclass(frozen=True)
class _Seed:
    """What a bootstrap needs of one seed: how many series there are, and the metric when they count so and so often."""

    metric: MetricName
    ranked: RankedScores | None
    right: np.ndarray
    series: np.ndarray | None
    n: int

    @classmethod
    def of(cls, metric: MetricName, scores: np.ndarray, labels: np.ndarray, series: np.ndarray | None) -> _Seed:
        columns, found = check_scores(scores, labels)
        if series is not None and (series.shape != found.shape or series.min() < 0):
            raise DataError(f"series of shape {series.shape} for {len(found)} rows", expected="one position from 0 per row")
        predicted = (columns > 0.5).astype(np.int64) if columns.ndim == 1 else columns.argmax(1)
        ranked = None if metric == "accuracy" else RankedScores.of(columns, found)
        return cls(metric, ranked, predicted == found, series, len(found) if series is None else int(series.max()) + 1)

    def value(self, counts: np.ndarray) -> float:
        """The metric, NaN where it is not defined."""
        weights = counts if self.series is None else counts[self.series]
        if self.ranked is None:
            total = weights.sum()
            return float(weights @ self.right / total) if total else np.nan
        name: RankingMetric = "auroc" if self.metric == "auroc" else "auprc"
        found = self.ranked.metric(name, weights)
        return np.nan if found is None else found


def bootstrap_metric(metric: MetricName, scored: Scored, draws: int = 1000, seed: int = 0, shared: bool = True) -> Bootstrap:
    """A metric of a policy, with bootstrap values over seeds and, within them, series.

    Args:
        metric: ``auroc``, ``auprc`` (both macro over classes where there are more than two) or ``accuracy``.
        scored: the policy.
        draws: bootstrap samples.
        seed: of the bootstrap; the same for policies that are to be compared.
        shared: all seeds were tested on the same series in the same order, as on an archive's test part: a draw then takes the
            same series for all of them, since the luck of the test set does not average out over seeds. False = each seed
            has series of its own, drawn by themselves (the convention of ``statistics.paired_difference``).
    """
    if metric not in ("auroc", "auprc", "accuracy"):
        raise SpecError(f"metric {metric!r}", expected="auroc, auprc or accuracy")
    if draws < 1:
        raise SpecError(f"{draws} draws", expected="at least 1")
    if not len(scored.scores) or len(scored.scores) != len(scored.labels):
        raise DataError(
            f"scores of {len(scored.scores)} seeds with labels of {len(scored.labels)}", expected="one of each per seed"
        )
    groups = [None] * len(scored.scores) if scored.series is None else list(scored.series)
    rows = zip(scored.scores, scored.labels, groups, strict=True)
    parts = [_Seed.of(metric, np.asarray(one), np.asarray(labels), own) for one, labels, own in rows]
    by_seed = np.array([part.value(np.ones(part.n)) for part in parts])
    if np.isnan(by_seed).any():
        raise DataError(f"a class without rows for the {metric} of {scored.policy!r}", expected="all classes in each test set")
    sizes = {part.n for part in parts}
    if shared and len(sizes) > 1:
        raise DataError(
            f"test sets of {' and '.join(map(str, sorted(sizes)))} series",
            expected="the same series for all seeds",
            do="pass shared=False if each seed has its own",
        )
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(parts), size=(draws, len(parts)))
    values = np.empty(draws)
    for i, seeds in enumerate(chosen):
        if shared:
            counts = _counts(rng, parts[0].n)
            found = {s: parts[s].value(counts) for s in set(seeds.tolist())}
            values[i] = np.mean([found[s] for s in seeds.tolist()])
        else:
            values[i] = np.mean([parts[s].value(_counts(rng, parts[s].n)) for s in seeds.tolist()])
    return Bootstrap(float(by_seed.mean()), by_seed, values)


def paired_metric_difference(
    metric: MetricName,
    scores_a: Sequence[np.ndarray],
    scores_b: Sequence[np.ndarray],
    labels: Sequence[np.ndarray],
    draws: int = 1000,
    seed: int = 0,
    shared: bool = True,
    series: Sequence[np.ndarray] | None = None,
) -> Difference:
    """One policy's AUROC, AUPRC or accuracy minus another's, over the same seeds and series.

    Args:
        metric, draws, seed, shared: as in :func:`bootstrap_metric`.
        scores_a, scores_b: for each seed ``[R]`` or ``[R, C]``, in the same order.
        labels: for each seed ``[R]``.
        series: for each seed which series each row belongs to; None = one row per series.
    """
    one, other = (
        bootstrap_metric(metric, Scored(name, None, scores, labels, series=series), draws, seed, shared)
        for name, scores in (("a", scores_a), ("b", scores_b))
    )
    return make_difference(one.value - other.value, one.draws - other.draws, len(labels))


def _counts(rng: np.random.Generator, n: int) -> np.ndarray:
    """How often each of n series occurs in a resample."""
    return np.bincount(rng.integers(n, size=n), minlength=n).astype(np.float64)


def interval(draws: np.ndarray) -> tuple[float, float]:
    """Ends of the 95 % interval of bootstrap values; those that are NaN are left out."""
    known = draws[~np.isnan(draws)]
    if not len(known):
        return float("nan"), float("nan")
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


def make_difference(value: float, draws: np.ndarray, n_seeds: int) -> Difference:
    """A difference with the interval of its bootstrap values."""
    return Difference(value, *interval(draws), n_seeds)
