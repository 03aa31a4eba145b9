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

from whichwhen.errors import SpecError
from whichwhen.menu import Menu
from whichwhen.types import Allowance, Reveal

_EPS = 1e-6  # room for rounding when costs are added up


@dataclass(frozen=True)
class Ledger:
    """A budget's running state for B series. What is pending and when an order may be asked again will stand here, too.

    Attributes:
        spent: what has been charged so far, the request under way included.
    """

    spent: Float[Tensor, " B"]


class Budget(ABC):
    """Contract: how much may be spent, and when."""

    @abstractmethod
    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """What may be ordered now, given what was spent and what was revealed."""

    @abstractmethod
    def check(self, menu: Menu) -> None:
        """Raise :class:`SpecError` where this budget makes no sense for a menu."""

    def init(self, size: int, device: torch.device | str = "cpu") -> Ledger:
        """The ledger of ``size`` series before the first request."""
        return Ledger(spent=torch.zeros(size, device=device))

    def charge(
        self,
        ledger: Ledger,
        request: Float[Tensor, "B K"],
        cost: Float[Tensor, " B"],
        time: Int[Tensor, " B"],
    ) -> Ledger:
        """The ledger after a request for the step ``time`` that costs ``cost``."""
        return Ledger(spent=ledger.spent + cost)


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
