"""Means over seeds, and how sure a difference between two policies is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Difference:
    """How much more often one policy is right than another.

    Attributes:
        mean: of the differences of accuracy, over the seeds that both have.
        low, high: ends of the 95 % bootstrap interval.
        n_seeds: how many seeds both have.
    """

    mean: float
    low: float
    high: float
    n_seeds: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def mean_and_std(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean, and the standard deviation of a sample; None for a single value."""
    numbers = np.asarray(values, dtype=float)
    return float(numbers.mean()), float(numbers.std(ddof=1)) if len(numbers) > 1 else None


def paired_difference(one: Sequence[np.ndarray], other: Sequence[np.ndarray], draws: int = 2000, seed: int = 0) -> Difference:
    """One policy's accuracy minus another's, seed by seed and series by series.

    Five paired seeds can't make a sign test significant. So both layers are drawn again: seeds with replacement, and within
    each seed its test series; the two policies of a seed keep the same series, so what is hard for both cancels out.

    Args:
        one, other: for each seed whether each test series was classified rightly, ``[N]`` bool, in the same order.
        draws: bootstrap samples.
        seed: of the bootstrap.
    """
    gaps = [np.asarray(a, dtype=float) - np.asarray(b, dtype=float) for a, b in zip(one, other, strict=True)]
    rng = np.random.default_rng(seed)
    # the mean of a resample of a seed's series: multinomial counts of its three possible gaps, -1, 0 and 1
    shares = np.array([[(gap < 0).mean(), (gap == 0).mean(), (gap > 0).mean()] for gap in gaps])
    sizes = np.array([len(gap) for gap in gaps])
    chosen = rng.integers(len(gaps), size=(draws, len(gaps)))
    counts = rng.multinomial(sizes[chosen], shares[chosen])
    means = ((counts[..., 2] - counts[..., 0]) / sizes[chosen]).mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Difference(float(np.mean([gap.mean() for gap in gaps])), float(low), float(high), len(gaps))
