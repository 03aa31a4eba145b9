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
from whichwhen.menu import Menu, slack, whole
from whichwhen.types import Allowance, Reveal


@dataclass(frozen=True)
class Ledger:
    """A budget's running state for B series.

    Attributes:
        spent: what has been charged so far, the request under way included.
        rate: each series' own amount or price, where they differ between series; else None.
    """

    spent: Float[Tensor, " B"]
    rate: Float[Tensor, " B"] | None = None


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
        return Ledger(ledger.spent + cost, ledger.rate)

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
class RandomPerStep(Budget):
    """Another whole amount for each series, the same at each of its steps, from ``low`` to ``high``.

    For training: a model that learns under it serves every budget in that range. It is uniform in its logarithm, so that small
    amounts come up more often, as that is where each measurement counts; or ``even``, all alike. Training gives the series
    other keys, and so other amounts, in each epoch.
    """

    low: int
    high: int
    seed: int = 0
    even: bool = False

    def check(self, menu: Menu) -> None:
        """Both ends must make sense for the menu."""
        PerStep(self.low).check(menu)
        PerStep(self.high).check(menu)

    def init(self, keys: Int[Tensor, " B"]) -> Ledger:
        """Draw the amounts."""
        if self.even:
            drawn = self.low + (self.high + 1 - self.low) * _uniform(keys, self.seed)
        else:
            drawn = _log_uniform(keys, self.low, self.high + 1, self.seed)
        rate = torch.floor(drawn).clamp(max=self.high)
        return Ledger(torch.zeros_like(rate), rate)

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """Each series its own amount, on any order that it can pay for."""
        rate = ledger.rate
        assert rate is not None, "a ledger of another budget"
        prices = torch.tensor(menu.prices, device=rate.device)
        count = None
        if len(set(menu.prices)) == 1:
            count = whole(rate / menu.prices[0]).long().clamp(max=len(prices))
        return Allowance(rate, prices <= (rate + slack(rate)).unsqueeze(-1), count)


@dataclass(frozen=True)
class Price(Budget):
    """Buy while it pays: every order that is worth more than ``price`` times its cost, at most ``cap`` at a step."""

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
        return _priced(ledger.spent.new_full(ledger.spent.shape, self.price), self.cap, menu)


@dataclass(frozen=True)
class RandomPrice(Budget):
    """Another price for each series, from ``low`` to ``high``, uniform in its logarithm; for training, as ``RandomPerStep``."""

    low: float
    high: float
    seed: int = 0
    cap: float = math.inf

    def check(self, menu: Menu) -> None:
        """Both ends above 0."""
        Price(self.low, self.cap).check(menu)
        Price(self.high).check(menu)

    def init(self, keys: Int[Tensor, " B"]) -> Ledger:
        """Draw the prices."""
        rate = _log_uniform(keys, self.low, self.high, self.seed)
        return Ledger(torch.zeros_like(rate), rate)

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """All that the cap pays for, at each series' own price."""
        assert ledger.rate is not None, "a ledger of another budget"
        return _priced(ledger.rate, self.cap, menu)


@dataclass(frozen=True)
class Total(Budget):
    """So much for the whole series and never more.

    Something has to pace it. With ``price``, an order is asked for only if it is worth more than that times its cost; the price
    is learned from data (:func:`whichwhen.evaluation.pacing.find_price`). With ``over``, the amount becomes available evenly
    over so many steps, an ``advance`` at the first of them, and what is not spent at once is kept; if it ``saves``, even where
    something cheaper than what is wanted most could be paid. With neither, each step may spend all that is left.

    Attributes:
        amount: for the whole series.
        price: per unit of cost.
        over: steps, the first of them included.
        delivered: whether only orders that were answered count; else every request does.
        saves: wait until what is wanted most can be paid, instead of buying what is cheaper.
        advance: of the amount, what is available from the first step on; it is not paid twice.
    """

    amount: float
    price: float | None = None
    over: int | None = None
    delivered: bool = False
    saves: bool = False
    advance: float = 0.0

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

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """What is left, or available by now, on what it can pay for."""
        return self._allow(ledger, reveal, menu, torch.full_like(ledger.spent, self.amount))

    @property
    def settles(self) -> bool:
        """Where only deliveries count."""
        return self.delivered

    def settle(self, ledger: Ledger, unanswered: Float[Tensor, " B"]) -> Ledger:
        """What was not answered is not paid for, where only deliveries count."""
        return Ledger(ledger.spent - unanswered, ledger.rate) if self.delivered else ledger

    def drawn(self, low: float, high: float, seed: int) -> RandomTotal:
        """The same rules with another amount for each series."""
        return RandomTotal(**{**vars(self), "amount": high}, low=low, seed=seed)

    def _allow(self, ledger: Ledger, reveal: Reveal, menu: Menu, amount: Float[Tensor, " B"]) -> Allowance:
        available = amount
        if self.over is not None:
            by_now = (reveal.time + 2) / self.over  # the request is for the step after the reveal
            available = torch.maximum(amount * by_now.clamp(max=1.0), amount.clamp(max=self.advance))
        left = (available + slack(available) - ledger.spent).clamp(min=0)
        prices = torch.tensor(menu.prices, device=left.device)
        price = None if self.price is None else torch.full_like(left, self.price)
        some_day = (amount + slack(amount) - ledger.spent) if self.saves else left
        return Allowance(left, prices <= (some_day + slack(some_day)).unsqueeze(-1), None, price, self.saves)


@dataclass(frozen=True)
class RandomTotal(Total):
    """Another total for each series, from ``low`` to ``amount``, uniform in its logarithm; for training."""

    low: float = 1.0
    seed: int = 0

    def check(self, menu: Menu) -> None:
        """Both ends must make sense for the menu."""
        super().check(menu)
        Total(self.low).check(menu)

    def init(self, keys: Int[Tensor, " B"]) -> Ledger:
        """Draw the amounts."""
        rate = _log_uniform(keys, self.low, self.amount, self.seed)
        return Ledger(torch.zeros_like(rate), rate)

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """As with a fixed total, each series its own."""
        assert ledger.rate is not None, "a ledger of another budget"
        return self._allow(ledger, reveal, menu, ledger.rate)


@dataclass(frozen=True)
class Unlimited(Budget):
    """No limit: everything that an acquirer wants."""

    def check(self, menu: Menu) -> None:
        """Fits any menu."""

    def allow(self, ledger: Ledger, reveal: Reveal, menu: Menu) -> Allowance:
        """The price of the whole menu."""
        return _same_for_all(sum(menu.prices), menu.prices, ledger.spent.shape[0], ledger.spent.device)


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


def _uniform(keys: Int[Tensor, " B"], seed: int) -> Float[Tensor, " B"]:
    """A number below 1 for each key, the same in any batch."""
    return keyed.uniform(keys, torch.full_like(keys, -2), 1, seed).squeeze(-1)


def _log_uniform(keys: Int[Tensor, " B"], low: float, high: float, seed: int) -> Float[Tensor, " B"]:
    return low * (high / low) ** _uniform(keys, seed)


def _priced(price: Float[Tensor, " B"], cap: float, menu: Menu) -> Allowance:
    """All orders that a step may pay for, if they are worth the price."""
    payable = torch.tensor(menu.prices, device=price.device) <= cap + slack(cap)
    amount = torch.full_like(price, min(cap, sum(menu.prices)))
    return Allowance(amount, payable.expand(len(price), -1), None, price)


@lru_cache(maxsize=1024)
def _same_for_all(amount: float, prices: tuple[float, ...], size: int, device: torch.device) -> Allowance:
    """The same amount for each series, on any order that it can pay for. Made once for each size: nobody writes to it."""
    amounts = torch.full((size,), float(amount), device=device)
    payable = torch.tensor(prices, device=device) <= amount + slack(amount)
    count = None
    if len(set(prices)) == 1 and prices[0] > 0:
        count = min(int(whole(amount / prices[0])), len(prices))
    return Allowance(amounts, payable.expand(size, len(prices)), count)
