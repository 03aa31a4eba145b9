"""What a result on clinical records is held against: what is known without any value, or without any order.

What was measured tells how sick a patient was, and how long a record goes on tells whether sepsis came. Learn the same
model on these to see how much of a result comes from there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whichwhen.data.store import SeriesSet
from whichwhen.errors import SpecError
from whichwhen.menu import Menu

_BLOCK = 1 << 16
"""Series that are priced together."""


def mask_only(series: SeriesSet) -> SeriesSet:
    """The same series with 1 for each measured value: all that is left is which cells were measured."""
    return replace(series, values=np.where(np.isnan(series.values), np.nan, 1).astype(np.float32))


def time_only(series: SeriesSet) -> SeriesSet:
    """The same series with nothing measured: all that is left is the step."""
    return replace(series, values=np.full_like(series.values, np.nan))


def free_channels_only(menu: Menu) -> Menu:
    """The menu without anything that has to be paid for, over the same features."""
    free = tuple(order for order in menu.orders if order.free)
    if not free:
        raise SpecError("a menu without free orders", expected="at least one", do="measure nothing instead (--acquirer none)")
    return Menu(menu.features, free)


def recorded_cost(series: SeriesSet, menu: Menu) -> np.ndarray:
    """What the record itself would cost to order, ``[N]`` float64: its mean over a cohort is 100 % of a budget.

    At each step, the cheapest set of orders that reveals every feature that was measured, free ones aside. Panels that share
    features are weighed against each other; others add up.
    """
    paid = [order for order in menu.orders if not order.free]
    free = {name for order in menu.orders if order.free for name in order.features}
    column = {feature.name: i for i, feature in enumerate(menu.features)}
    cost = np.zeros(len(series))
    for start in range(0, len(series), _BLOCK):
        part = series.take(np.arange(start, min(start + _BLOCK, len(series))))
        values, of_step = part.values[:], np.zeros(len(part.values))
        for names, orders in _connected([(set(order.features) - free, order.cost) for order in paid]):
            measured = ~np.isnan(values[:, [column[name] for name in sorted(names)]])
            first, which = _patterns(measured)
            wanted = [{name for name, seen in zip(sorted(names), row, strict=True) if seen} for row in measured[first]]
            of_step += np.array([_cheapest(one, orders) for one in wanted])[which]
        cost[start : start + len(part)] = np.add.reduceat(of_step, part.offsets[:-1])
    return cost


def _patterns(measured: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the different rows of a bool table: where each occurs first, and which one each row is."""
    which = np.zeros(len(measured), dtype=np.int64)
    for start in range(0, measured.shape[1], 30):
        block = measured[:, start : start + 30]
        which = np.unique((which << 30) | (block @ (1 << np.arange(block.shape[1]))), return_inverse=True)[1].reshape(-1)
    return np.unique(which, return_index=True)[1], which


def _connected(orders: list[tuple[set[str], float]]) -> list[tuple[set[str], list[tuple[set[str], float]]]]:
    """Orders in groups that share no feature: the features of each group, and its orders."""
    groups: list[tuple[set[str], list[tuple[set[str], float]]]] = []
    for reveals, price in orders:
        touching = [group for group in groups if group[0] & reveals]
        groups = [group for group in groups if not group[0] & reveals]
        groups.append(
            (
                reveals.union(*(names for names, _ in touching)),
                [one for _, held in touching for one in held] + [(reveals, price)],
            )
        )
    return [group for group in groups if group[0]]


def _cheapest(wanted: set[str], orders: list[tuple[set[str], float]]) -> float:
    """Least sum of prices that reveals all that is wanted."""
    if not wanted:
        return 0.0
    one = min(wanted)
    return min(
        price + _cheapest(wanted - reveals, [other for other in orders if other[0] is not reveals])
        for reveals, price in orders
        if one in reveals
    )
