"""What can be ordered: features, orders and the menu. No torch here; the tensors are made where they are needed.

With no menu given, every feature is its own order at cost 1 with turnaround 1: the paper's setting.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from whichwhen.errors import SpecError

_ROUNDING = 1e-6
LEAST_COST = 1e-6
"""Lower bound on cost in worth per cost, to avoid division by zero."""
LEAST_WORTH = 1e-9
"""Lower bound on worth in nats, whose logarithm is taken."""


def slack(amount: Any) -> Any:
    """By how much an amount (number, array or tensor) may be exceeded: costs are added up in single precision."""
    return _ROUNDING * (1 + amount)


def whole(ratio: Any) -> Any:
    """The whole part of an amount over a price, of what is whole but for rounding the next one up."""
    return (ratio + slack(ratio)) // 1


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of the series.

    Attributes:
        name: unique name; models are bound to it.
        unit: unit of the values, for display.
        low, high: plausible range of the raw values, for warnings; infinite where nothing is known.
    """

    name: str
    unit: str = ""
    low: float = -math.inf
    high: float = math.inf


@dataclass(frozen=True, slots=True)
class Order:
    """One thing that can be requested: a single feature, or a panel that reveals several at once.

    Attributes:
        name: unique name on the menu.
        features: names of the features that it reveals.
        cost: what one request costs.
        turnaround: steps between request and result; 1 = the next step.
        retest: fewest steps between two requests of this order; 1 = may be asked at every step.
        free: arrives at every step without being asked for (a vital sign).
        mandatory: is requested at every step, and paid for.
    """

    name: str
    features: tuple[str, ...]
    cost: float = 1.0
    turnaround: int = 1
    retest: int = 1
    free: bool = False
    mandatory: bool = False


@dataclass(frozen=True)
class Menu:
    """The K orders over F features. Panels may overlap.

    Attributes:
        features: the F columns, in the order of the data.
        orders: the K orders, in the order of scores and requests.
    """

    features: tuple[Feature, ...]
    orders: tuple[Order, ...]
    _column: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _refuse_repeats("feature", [feature.name for feature in self.features])
        _refuse_repeats("order", [order.name for order in self.orders])
        object.__setattr__(self, "_column", {feature.name: i for i, feature in enumerate(self.features)})
        if not self.orders:
            raise SpecError("a menu without orders", expected="at least one order")
        for order in self.orders:
            _check_order(order, self._column)

    @classmethod
    def one_per_feature(cls, features: Iterable[Feature]) -> Menu:
        """The paper's menu: each feature an order of its own, at cost 1, with turnaround 1."""
        features = tuple(features)
        return cls(features, tuple(Order(feature.name, (feature.name,)) for feature in features))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the orders."""
        return tuple(order.name for order in self.orders)

    @cached_property
    def prices(self) -> tuple[float, ...]:
        """Cost of each order."""
        return tuple(order.cost for order in self.orders)

    @property
    def delays(self) -> bool:
        """Whether a result takes longer than to the next step."""
        return any(order.turnaround > 1 for order in self.orders)

    @property
    def costs(self) -> np.ndarray:
        """Cost of each order, ``[K]`` float32."""
        return np.array(self.prices, dtype=np.float32)

    @property
    def reveals(self) -> np.ndarray:
        """Which features each order reveals, ``[K, F]`` bool."""
        table = np.zeros((len(self.orders), len(self.features)), dtype=bool)
        for k, order in enumerate(self.orders):
            table[k, [self._column[name] for name in order.features]] = True
        return table


def _refuse_repeats(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SpecError(f"two {what}s called {name!r}", expected="unique names", do="rename one of them")
        seen.add(name)


def _check_order(order: Order, known: dict[str, int]) -> None:
    if not order.features:
        raise SpecError(f"order {order.name!r} reveals nothing", expected="at least one feature")
    for name in order.features:
        if name not in known:
            raise SpecError(f"order {order.name!r} names the unknown feature {name!r}", expected=f"one of {', '.join(known)}")
    if order.free and order.cost != 0:
        raise SpecError(
            f"order {order.name!r} is free and has cost {order.cost:g}",
            expected="cost 0 for what arrives by itself",
            do="set its cost to 0, or leave out free",
        )
    if not order.free and not (math.isfinite(order.cost) and order.cost > 0):
        raise SpecError(
            f"order {order.name!r} has cost {order.cost}",
            expected="a finite cost above 0",
            do="mark it as free where it costs nothing",
        )
    if order.free and order.mandatory:
        raise SpecError(f"order {order.name!r} is free and mandatory", expected="one of them", do="leave out mandatory")
    for name in ("turnaround", "retest"):
        steps = getattr(order, name)
        if not (isinstance(steps, int) and steps >= 1):
            raise SpecError(f"order {order.name!r} has {name} {steps!r}", expected="a whole number of steps from 1")
