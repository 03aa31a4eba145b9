"""Quality against cost: the rows of a frontier, and policies compared at equal cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from whichwhen.errors import DataError
from whichwhen.evaluation.bootstrap import CostKind, MetricName, Scored, bootstrap_metric, make_difference
from whichwhen.evaluation.statistics import Difference


@dataclass(frozen=True)
class FrontierRow:
    """A point of quality against cost.

    Attributes:
        policy, budget: which.
        metric: which number ``value`` is.
        value: mean over the seeds; ``low`` and ``high`` are the ends of its 95 % interval, over series and seeds.
        std: over the seeds; None for one.
        requested_cost, delivered_cost: mean over series and seeds.
        n_seeds, n: seeds, and series in each.
    """

    policy: str
    budget: float | None
    metric: str
    value: float
    low: float
    high: float
    std: float | None
    requested_cost: float
    delivered_cost: float
    n_seeds: int
    n: int

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def difference_at_cost(
    metric: MetricName,
    one: Scored,
    others: Sequence[Scored],
    kind: CostKind = "delivered",
    draws: int = 1000,
    seed: int = 0,
    shared: bool = True,
) -> Difference | None:
    """One policy's metric minus what another would reach at the same cost: the other's frontier, read between its points.

    The frontier is taken as straight between two neighbouring budgets: that is what flipping a coin between the two
    reaches in accuracy. In each bootstrap draw the two points are those of the draw; their costs are held fixed.

    Args:
        metric, draws, seed, shared: as in :func:`bootstrap_metric`.
        one: the policy, at one budget.
        others: the other policy, at several budgets, over the same seeds and series.
        kind: which cost is to be equal.

    Returns:
        The difference, or None where the cost lies outside the other's frontier: nothing is extrapolated.
    """
    if strange := {len(point.scores) for point in others} - {len(one.scores)}:
        raise DataError(f"{strange.pop()} seeds against {len(one.scores)}", expected="the same seeds for both policies")
    ranked = sorted(others, key=lambda point: point.cost(kind))
    costs = np.array([point.cost(kind) for point in ranked])
    cost = one.cost(kind)
    if not len(costs) or not costs[0] <= cost <= costs[-1]:
        return None
    right = int(np.searchsorted(costs, cost))
    left = right if costs[right] == cost else right - 1
    share = 0.0 if left == right else (cost - costs[left]) / (costs[right] - costs[left])
    mine, low, high = (bootstrap_metric(metric, point, draws, seed, shared) for point in (one, ranked[left], ranked[right]))
    value = mine.value - (1 - share) * low.value - share * high.value
    return make_difference(value, mine.draws - (1 - share) * low.draws - share * high.draws, len(one.scores))


def frontier_rows(
    metric: MetricName, points: Sequence[Scored], draws: int = 1000, seed: int = 0, shared: bool = True
) -> list[FrontierRow]:
    """A row for each policy and budget, in the order given, all with the same bootstrap draws."""
    rows = []
    for point in points:
        found = bootstrap_metric(metric, point, draws, seed, shared)
        low, high = found.interval
        n_seeds = len(found.by_seed)
        rows.append(
            FrontierRow(
                policy=point.policy,
                budget=point.budget,
                metric=metric,
                value=found.value,
                low=low,
                high=high,
                std=float(found.by_seed.std(ddof=1)) if n_seeds > 1 else None,
                requested_cost=point.cost("requested"),
                delivered_cost=point.cost("delivered"),
                n_seeds=n_seeds,
                n=len(point.labels[0]) if point.series is None else int(np.max(point.series[0])) + 1,
            )
        )
    return rows


def gap_closed(value: float, floor: float, everything: float) -> float | None:
    """Share of the way from the floor (free channels only) to everything measured; None where there is no way to go."""
    return (value - floor) / (everything - floor) if everything > floor else None
