"""How much may be spent: the budget and its running state, the ledger.

A budget is asked ``allow`` before each choice and told ``charge`` after it. It sees what was revealed, never the true values
(the paper's Algorithm 1 passes x: a leak).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from whichwhen import keyed
from whichwhen.errors import SpecError
from whichwhen.menu import Menu
from whichwhen.types import Allowance, Reveal

_EPS = 1e-6  # room for rounding when costs are added up


@dataclass(frozen=True)
class Ledger:
    """A budget's running state for B series. What is pending and when an order may be asked again will stand here, too.

    Attributes:
        spent: what has been charged so far, the request under way included.
        rate: what each series may spend at a step, where that differs between series; else None.
    """

    spent: Float[Tensor, " B"]
    rate: Float[Tensor, " B"] | None = None


class Budget(ABC):
    """Contract: how much may be spent, and when."""

    @abstractmethod
    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """What may be ordered now, given what was spent and what was revealed."""

    @abstractmethod
    def check(self, menu: Menu) -> None:
        """Raise :class:`SpecError` where this budget makes no sense for a menu."""

    def init(self, keys: Int[Tensor, " B"]) -> Ledger:
        """The ledger before the first request. ``keys`` are what keyed randomness starts from, one per series."""
        return Ledger(spent=torch.zeros(len(keys), device=keys.device))

    def charge(
        self,
        ledger: Ledger,
        request: Float[Tensor, "B K"],
        cost: Float[Tensor, " B"],
        time: Int[Tensor, " B"],
    ) -> Ledger:
        """The ledger after a request for the step ``time`` that costs ``cost``."""
        return Ledger(ledger.spent + cost, ledger.rate)


@dataclass(frozen=True)
class PerStep(Budget):
    """The same amount at every step; what is not spent is lost. The paper's budget."""

    amount: float

    def check(self, menu: Menu) -> None:
        """At least the cheapest order, at most the whole menu."""
        costs = menu.costs
        if not float(costs.min()) <= self.amount <= float(costs.sum()) + _EPS:
            raise SpecError(
                f"budget {self.amount:g} per step for a menu of {len(costs)} orders",
                expected=f"{float(costs.min()):g} to {float(costs.sum()):g}",
                do="change --budget, or use --acquirer complete to measure everything",
            )

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """``amount`` for everyone, on any order that it can pay for."""
        return _same_for_all(self.amount, menu.prices, ledger.spent.shape[0], ledger.spent.device)


@dataclass(frozen=True)
class RandomPerStep(Budget):
    """Another whole amount for each series, the same at each of its steps, from ``low`` to ``high``, uniform in its logarithm.

    For training: a model that learns under it serves every budget in that range. Small amounts come up more often, as that is
    where each measurement counts. Training gives the series other keys, and so other amounts, in each epoch.
    """

    low: int
    high: int
    seed: int = 0

    def check(self, menu: Menu) -> None:
        """Both ends must make sense for the menu."""
        PerStep(self.low).check(menu)
        PerStep(self.high).check(menu)

    def init(self, keys: Int[Tensor, " B"]) -> Ledger:
        """Draw the amounts."""
        drawn = keyed.uniform(keys, torch.full_like(keys, -2), 1, self.seed).squeeze(-1)
        rate = torch.floor(self.low * ((self.high + 1) / self.low) ** drawn).clamp(max=self.high)
        return Ledger(torch.zeros_like(rate), rate)

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """Each series its own amount, on any order that it can pay for."""
        rate = ledger.rate
        assert rate is not None, "a ledger of another budget"
        prices = torch.tensor(menu.prices, device=rate.device)
        count = None
        if len(set(menu.prices)) == 1:
            count = torch.floor(rate / menu.prices[0] + _EPS).long().clamp(max=len(prices))
        return Allowance(rate, prices <= rate.unsqueeze(-1) + _EPS, count)


@dataclass(frozen=True)
class Unlimited(Budget):
    """No limit: everything that an acquirer wants."""

    def check(self, menu: Menu) -> None:
        """Fits any menu."""

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """The price of the whole menu."""
        return _same_for_all(sum(menu.prices), menu.prices, ledger.spent.shape[0], ledger.spent.device)


@lru_cache(maxsize=1024)
def _same_for_all(amount: float, prices: tuple[float, ...], size: int, device: torch.device) -> Allowance:
    """The same amount for each series, on any order that it can pay for. Made once for each size: nobody writes to it."""
    amounts = torch.full((size,), float(amount), device=device)
    payable = torch.tensor(prices, device=device) <= amount + _EPS
    count = None
    if len(set(prices)) == 1:
        count = min(math.floor(amount / prices[0] + _EPS), len(prices))
    return Allowance(amounts, payable.expand(size, len(prices)), count)
