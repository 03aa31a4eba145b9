"""How much may be spent: the budget and its running state, the ledger.

A budget is asked ``allow`` before each choice and told ``charge`` after it. It sees what was revealed, never the true values
(the paper's Algorithm 1 passes x: a leak).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from whichwhen.errors import SpecError
from whichwhen.menu import Menu
from whichwhen.types import Allowance, Reveal

_EPS = 1e-6  # room for rounding when costs are added up


@dataclass(frozen=True)
class Ledger:
    """A budget's running state for B series.

    Attributes:
        spent: what has been charged so far, the request under way included.
        last: the step that each order was last requested for; -1 = never. With the menu this tells what is pending and
            when an order may be asked again.
    """

    spent: Float[Tensor, " B"]
    last: Float[Tensor, "B K"]


class Budget(ABC):
    """Contract: how much may be spent, and when."""

    @abstractmethod
    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """What may be ordered now, given what was spent and what was revealed."""

    @abstractmethod
    def check(self, menu: Menu) -> None:
        """Raise :class:`SpecError` where this budget makes no sense for a menu."""

    def init(self, size: int, menu: Menu, device: torch.device | str = "cpu") -> Ledger:
        """The ledger of ``size`` series before the first request."""
        return Ledger(spent=torch.zeros(size, device=device), last=torch.full((size, len(menu.orders)), -1.0, device=device))

    def charge(
        self,
        ledger: Ledger,
        request: Float[Tensor, "B K"],
        cost: Float[Tensor, " B"],
        time: Int[Tensor, " B"],
    ) -> Ledger:
        """The ledger after a request for the step ``time`` that costs ``cost``."""
        # lerp by 0 or 1 is exact, and one pass
        last = torch.lerp(ledger.last, time.to(ledger.last.dtype).unsqueeze(-1), request)
        return Ledger(spent=ledger.spent + cost, last=last)


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
        amount = torch.full_like(ledger.spent, self.amount)
        if menu.same_cost is None:
            payable = torch.from_numpy(menu.costs <= self.amount + _EPS).to(ledger.last.device)
            return Allowance(amount, payable.expand_as(ledger.last))
        count = min(math.floor(self.amount / menu.same_cost + _EPS), len(menu.orders))
        anything = torch.ones((), dtype=torch.bool, device=ledger.last.device).expand_as(ledger.last)
        return Allowance(amount, anything, count)


@dataclass(frozen=True)
class Unlimited(Budget):
    """No limit: everything that an acquirer wants."""

    def check(self, menu: Menu) -> None:
        """Fits any menu."""

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """The price of the whole menu."""
        return PerStep(float(menu.costs.sum())).allow(ledger, reveal, menu)
