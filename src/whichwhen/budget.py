"""How much may be spent: the budget and its running state, the ledger.

A budget is asked ``allow`` before each choice and told ``charge`` after it. It sees what was revealed, never the true values
(the paper's Algorithm 1 passes x: a leak).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from whichwhen import keyed
from whichwhen.errors import SpecError
from whichwhen.menu import Menu, slack, whole
from whichwhen.types import Allowance, Reveal


@dataclass(frozen=True)
class Ledger:
    """A budget's running state for B series.

    Attributes:
        spent: what has been charged so far, the request under way included.
        price: each series' own price per unit of cost, where they differ between series; else None.
        cap: each series' own cap per step, where they differ; else None.
        count: the same as a number of orders, where all cost the same.
    """

    spent: Float[Tensor, " B"]
    price: Float[Tensor, " B"] | None = None
    cap: Float[Tensor, " B"] | None = None
    count: Int[Tensor, " B"] | None = None


class Budget(ABC):
    """Contract: how much may be spent, and when."""

    @property
    def settles(self) -> bool:
        """Whether it matters what was answered."""
        return False

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
        return replace(ledger, spent=ledger.spent + cost)

    def settle(self, ledger: Ledger, unanswered: Float[Tensor, " B"]) -> Ledger:
        """The ledger once it is known what of the last request was not answered, by its cost. Requests count, by default."""
        return ledger


@dataclass(frozen=True)
class PerStep(Budget):
    """The same amount at every step; what is not spent is lost. The paper's budget."""

    amount: float

    def check(self, menu: Menu) -> None:
        """At least the cheapest order, at most the whole menu."""
        prices = _prices(menu)
        if not min(prices) - slack(min(prices)) <= self.amount <= sum(prices) + slack(sum(prices)):
            raise SpecError(
                f"budget {self.amount:g} per step for a menu of {len(prices)} orders",
                expected=f"{min(prices):g} to {sum(prices):g}",
                do="change --budget, or use --acquirer complete to measure everything",
            )
        _refuse_unpayable(menu, self.amount, "--budget")

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """``amount`` for everyone, on any order that it can pay for."""
        return _same_for_all(self.amount, menu.prices, ledger.spent.shape[0], ledger.spent.device)


@dataclass(frozen=True)
class Price(Budget):
    """Ask for every order that is worth more than ``price`` times its cost, at most ``cap`` at a step."""

    price: float
    cap: float = math.inf

    def check(self, menu: Menu) -> None:
        """Any price above 0, and a cap that pays for something."""
        if not (math.isfinite(self.price) and self.price > 0):
            raise SpecError(f"price {self.price:g}", expected="a number above 0", do="change --price")
        if self.cap < math.inf:
            PerStep(self.cap).check(menu)

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """All that the cap pays for, at that price."""
        cap = min(self.cap, sum(menu.prices))
        allowance = _same_for_all(cap, menu.prices, ledger.spent.shape[0], ledger.spent.device)
        return replace(allowance, price=ledger.spent.new_full(ledger.spent.shape, self.price))


@dataclass(frozen=True)
class RandomPrice(Budget):
    """For training: another price for each series, log-uniform from ``low`` to ``high``, and for ``capped`` of them a cap.

    Training gives the series other keys, and so other prices and caps, each time it sees them.

    Attributes:
        low, high: the range of prices.
        caps: amounts per step, each as likely as the others.
        menu: what is bought.
        capped: share of the series that have a cap.
        seed: of the draws.
    """

    low: float
    high: float
    caps: tuple[float, ...]
    menu: Menu
    capped: float = 0.5
    seed: int = 0

    def check(self, menu: Menu) -> None:
        """Both prices above 0, each cap for something."""
        Price(self.low).check(menu)
        Price(self.high).check(menu)
        for cap in self.caps:
            PerStep(cap).check(menu)

    def init(self, keys: Int[Tensor, " B"]) -> Ledger:
        """Draw prices and caps."""
        luck = keyed.uniform(keys, torch.full_like(keys, -2), 3, self.seed)
        price = self.low * (self.high / self.low) ** luck[:, 0]
        caps = torch.tensor(self.caps, device=keys.device)
        drawn = caps[(luck[:, 2] * len(caps)).long()]
        everything = sum(self.menu.prices)
        cap = torch.where(luck[:, 1] < self.capped, drawn, everything).clamp(max=everything)
        one = _only_price(self.menu)
        return Ledger(torch.zeros_like(price), price, cap, None if one is None else torch.round(cap / one).long())

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """All that each series' own cap pays for, at its own price."""
        assert ledger.cap is not None, "a ledger of another budget"
        if ledger.count is not None:
            payable = _same_for_all(sum(menu.prices), menu.prices, ledger.spent.shape[0], ledger.spent.device).feasible
        else:
            payable = torch.tensor(menu.prices, device=ledger.cap.device) <= (ledger.cap + slack(ledger.cap)).unsqueeze(-1)
        return Allowance(ledger.cap, payable, ledger.count, ledger.price)


@dataclass(frozen=True)
class MeanCost(Budget):
    """For acquirers that know no price: ``rate`` is credited at each step, and saved up for what is wanted most."""

    rate: float
    cap: float = math.inf

    def check(self, menu: Menu) -> None:
        """More than nothing, at most everything."""
        check_mean_cost(self.rate, menu)
        if self.cap < math.inf:
            PerStep(self.cap).check(menu)
        _refuse_unpayable(menu, max(self.rate, min(_prices(menu))), "--mean-cost")

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """What was credited so far, less what was spent, on what can be paid some day."""
        credit = self.rate * (reveal.time + 2).to(ledger.spent.dtype) - ledger.spent  # the request is for the next step
        amount = (credit + slack(credit.abs())).clamp(min=0, max=self.cap)
        prices = torch.tensor(menu.prices, device=amount.device)
        possible = (prices <= self.cap + slack(min(self.cap, sum(menu.prices)))).expand(len(amount), -1)
        return Allowance(amount, possible, None, None, waits=True)


@dataclass(frozen=True)
class Total(Budget):
    """So much for the whole series and never more.

    With ``price``, an order is asked for only if it is worth more than that times its cost; the price is found on validation
    (:func:`whichwhen.evaluation.prices.find_price`). With ``over``, for acquirers that know no price, the amount becomes
    available evenly over so many steps, and what is not spent at once is kept. With neither, each step may spend all that is
    left.

    Attributes:
        amount: for the whole series.
        price: per unit of cost.
        over: steps, the first of them included.
        delivered: whether only orders that were answered count; else every request does.
        cap: per step.
    """

    amount: float
    price: float | None = None
    over: int | None = None
    delivered: bool = False
    cap: float = math.inf

    def check(self, menu: Menu) -> None:
        """At least the cheapest order."""
        cheapest = min(_prices(menu))
        if not (math.isfinite(self.amount) and self.amount >= cheapest - slack(cheapest)):
            raise SpecError(
                f"a total of {self.amount:g} for a menu whose cheapest order costs {cheapest:g}",
                expected=f"at least {cheapest:g}",
                do="change --total",
            )
        _refuse_unpayable(menu, self.amount, "--total")
        if self.price is not None:
            Price(self.price).check(menu)
        if self.cap < math.inf:
            PerStep(self.cap).check(menu)

    @property
    def settles(self) -> bool:
        """Where only deliveries count."""
        return self.delivered

    def settle(self, ledger: Ledger, unanswered: Float[Tensor, " B"]) -> Ledger:
        """What was not answered is not paid for, where only deliveries count."""
        return replace(ledger, spent=ledger.spent - unanswered) if self.delivered else ledger

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """What is left, or available by now, on what it can pay for."""
        available = torch.full_like(ledger.spent, self.amount)
        if self.over is not None:
            by_now = (reveal.time + 2) / self.over  # the request is for the step after the reveal
            available = available * by_now.clamp(max=1.0)
        left = (available + slack(available) - ledger.spent).clamp(min=0, max=self.cap)
        prices = torch.tensor(menu.prices, device=left.device)
        price = None if self.price is None else torch.full_like(left, self.price)
        return Allowance(left, prices <= (left + slack(left)).unsqueeze(-1), None, price)


@dataclass(frozen=True)
class Unlimited(Budget):
    """No limit: everything that an acquirer wants."""

    def check(self, menu: Menu) -> None:
        """Fits any menu."""

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """The price of the whole menu."""
        return _same_for_all(sum(menu.prices), menu.prices, ledger.spent.shape[0], ledger.spent.device)


def _only_price(menu: Menu) -> float | None:
    """What every order costs, if all cost the same."""
    return menu.prices[0] if len(set(menu.prices)) == 1 and menu.prices[0] > 0 else None


def caps_up_to(largest: float, menu: Menu) -> tuple[float, ...]:
    """Caps per step for training: whole numbers of orders, or, where costs differ, eight amounts from the cheapest one on."""
    prices = _prices(menu)
    largest = min(max(largest, *(order.cost for order in menu.orders if not order.free)), sum(prices))
    least = max(min(prices), sum(order.cost for order in menu.orders if order.mandatory))
    if (one := _only_price(menu)) is not None:
        return tuple(one * count for count in range(1, max(1, int(whole(largest / one))) + 1))
    return tuple(float(amount) for amount in np.linspace(least, max(least, largest), 8))


def _prices(menu: Menu) -> list[float]:
    """Of what is not free."""
    prices = [price for price in menu.prices if price > 0]
    if not prices:
        raise SpecError("a menu of free orders only", expected="something to choose", do="use --acquirer none")
    return prices


def _refuse_unpayable(menu: Menu, amount: float, flag: str) -> None:
    """What has to be asked has to be payable."""
    for order in menu.orders:
        if order.mandatory and order.cost > amount + slack(amount):
            raise SpecError(
                f"{flag} {amount:g} with the mandatory order {order.name!r}, which costs {order.cost:g}",
                expected=f"{order.cost:g} or more",
                do=f"change {flag}, or take mandatory from the order",
            )


def default_per_step(menu: Menu) -> float:
    """A budget per step that fits the menu: five typical orders, but at most a quarter of the menu."""
    prices = _prices(menu)
    typical = float(np.median(prices))
    amount = min(5 * typical, sum(prices) / 4)
    if len(set(prices)) == 1:
        amount = max(1.0, float(whole(amount / typical))) * typical
    mandatory = [order.cost for order in menu.orders if order.mandatory]
    return max(amount, min(prices), *mandatory)


def check_mean_cost(rate: float, menu: Menu) -> None:
    """Raise :class:`SpecError` unless a mean cost per step is above 0 and at most that of the whole menu."""
    everything = sum(_prices(menu))
    if not (math.isfinite(rate) and 0 < rate <= everything + slack(everything)):
        raise SpecError(
            f"a mean cost of {rate:g} per step for a menu that costs {everything:g} in all",
            expected=f"more than 0, at most {everything:g}",
            do="change --mean-cost, or use --acquirer complete to measure everything",
        )


@lru_cache(maxsize=1024)
def _same_for_all(amount: float, prices: tuple[float, ...], size: int, device: torch.device) -> Allowance:
    """The same amount for each series, on any order that it can pay for. Made once for each size: nobody writes to it."""
    amounts = torch.full((size,), float(amount), device=device)
    payable = torch.tensor(prices, device=device) <= amount + slack(amount)
    count = None
    if len(set(prices)) == 1 and prices[0] > 0:
        count = min(int(whole(amount / prices[0])), len(prices))
    return Allowance(amounts, payable.expand(size, len(prices)), count)
