"""A menu's rules at work: what may be asked now, what was asked before, what arrives when.

Money is the budget's business. Here is the rest: free channels arrive by themselves, mandatory orders are asked whenever they
may be, an order rests between two requests, and a result takes its turnaround. The request for step t is made after step t-1
and sampled at step t; with turnaround d its result arrives at step t + d - 1 and is d - 1 steps old by then. A menu that has
none of this costs nothing here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from whichwhen.menu import Menu, slack
from whichwhen.types import Allowance, Batch, Reveal, Selection


@dataclass(frozen=True)
class Pending:
    """What earlier requests of B series still mean; None where the menu asks for no such memory.

    Attributes:
        wait: steps until each order may be asked again; 0 = now.
        sent: the last D requests, newest first, the one under way included; D is the longest turnaround. In training they carry
            the selector's gradient.
    """

    wait: Float[Tensor, "B K"] | None = None
    sent: Float[Tensor, "B D K"] | None = None


class Rules:
    """A menu as tensors, and what follows from it at each step.

    Attributes:
        costs: of each order, ``[K]``.
        free: which orders arrive by themselves, ``[K]`` bool.
        plain: whether every order may be asked at every step, and none comes by itself.
        longest: D, the longest turnaround.
    """

    def __init__(self, menu: Menu) -> None:
        orders = menu.orders
        self.costs = torch.from_numpy(menu.costs)
        self.free = torch.tensor([order.free for order in orders])
        self.longest = max(order.turnaround for order in orders)
        self._mandatory = torch.tensor([order.mandatory for order in orders])
        self._rest = torch.tensor([float(order.retest) for order in orders])
        self._turnaround = torch.tensor([order.turnaround for order in orders])
        self._reveals = torch.from_numpy(menu.reveals).float()
        self._delays = sorted({order.turnaround for order in orders})
        self._zero = torch.zeros(())
        self._chosen = ~(self.free | self._mandatory)
        self._rests = any(order.retest > 1 for order in orders)
        self._must = any(order.mandatory for order in orders)
        self._gives = any(order.free for order in orders)
        self.plain = bool(self._chosen.all()) and not self._rests
        square = self._reveals.shape[0] == self._reveals.shape[1]
        self._identity = square and torch.equal(self._reveals, torch.eye(len(orders)))

    def to(self, device: torch.device) -> Rules:
        """The same rules where the tensors are."""
        if self.costs.device == device:
            return self
        moved = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(moved, name, value.to(device))
        return moved

    def init(self, size: int) -> Pending:
        """Nothing asked, nothing on its way."""
        zeros = self.costs.new_zeros(size, len(self.costs))
        sent = zeros.unsqueeze(1).expand(-1, self.longest, -1) if self.longest > 1 else None
        return Pending(zeros if self._rests else None, sent)

    def restrict(self, allowance: Allowance, pending: Pending) -> tuple[Allowance, Float[Tensor, "B K"] | None]:
        """What is left to choose from and to spend, and what must be asked as far as the amount pays for it."""
        if self.plain:
            return allowance, None
        may = allowance.feasible if pending.wait is None else allowance.feasible & (pending.wait <= 0)
        if not self._must:
            return replace(allowance, feasible=may & self._chosen, count=None), None
        due = may & self._mandatory
        most = (allowance.amount + slack(allowance.amount)).unsqueeze(-1)
        must = (due & ((self.costs * due).cumsum(-1) <= most)).to(self.costs.dtype)
        left = allowance.amount - must @ self.costs
        may = may & self._chosen
        if not allowance.waits:
            may = may & (self.costs <= (left + slack(left)).unsqueeze(-1))
        return replace(allowance, amount=left, feasible=may, count=None), must

    def remember(self, pending: Pending, selection: Selection) -> Pending:
        """After a request."""
        wait, sent = pending.wait, pending.sent
        if wait is not None:
            wait = torch.where(selection.request > 0, self._rest - 1, (wait - 1).clamp(min=0))
        if sent is not None:
            sent = torch.cat([selection.relaxed.unsqueeze(1), sent[:, :-1]], 1)
        return Pending(wait, sent)

    def under_way(self, pending: Pending) -> Float[Tensor, "B K"] | None:
        """1 for each order that was asked and whose result is yet to come after this step; None if none takes longer than one.

        For a decision after a step: of the requests before, those for i steps ago have arrived if their turnaround is at most
        i + 1.
        """
        if pending.sent is None:
            return None
        age = torch.arange(self.longest, device=self.costs.device).unsqueeze(-1)
        return (pending.sent.detach() * (self._turnaround > age + 1)).amax(1)

    def asked(self, request: Float[Tensor, "*N K"]) -> Float[Tensor, "*N F"]:
        """1 for each feature that a request reveals sooner or later, with the request's gradient."""
        return request if self._identity else (request @ self._reveals).clamp(max=1.0)

    def given(self, size: int) -> Float[Tensor, "N F"] | None:
        """1 for each feature that arrives by itself; None if there is none."""
        if not self._gives:
            return None
        return self._reveals[self.free].amax(0).expand(size, -1)

    def shown(self, request: Float[Tensor, "N K"], observed: Bool[Tensor, "N F"] | None) -> Float[Tensor, "N F"]:
        """1 for each feature that is seen at a step at which a request is sampled and answered at once."""
        mask, given = self.asked(request), self.given(len(request))
        if given is not None:
            mask = torch.maximum(mask, given)
        return mask if observed is None else mask * observed

    def arrive(self, batch: Batch, selection: Selection, pending: Pending, t: int) -> Reveal:
        """What arrives at step t from a recorded batch: all that was asked for, or comes by itself, and that the record holds.

        Where two results for one feature arrive at once, the one that was sampled last counts.
        """
        n = len(selection.request)
        time = torch.full((n,), t, device=self.costs.device)
        if pending.sent is None:
            observed = None if batch.complete else batch.observed[:n, t]
            mask = self.shown(selection.relaxed, observed)
            return Reveal(batch.values[:n, t] * mask, mask, self._zero.expand_as(mask), time)
        values = mask = age = torch.zeros_like(batch.values[:n, t])
        for steps in self._delays:
            sampled = t - steps + 1
            if sampled < 0:
                continue
            seen = self._sent(pending.sent, steps) * batch.observed[:n, sampled] * (1 - mask.detach())
            values, mask, age = values + batch.values[:n, sampled] * seen, mask + seen, age + (steps - 1) * seen.detach()
        return Reveal(values, mask, age, time)

    def with_mandatory(self, requests: Float[Tensor, "*N K"]) -> Float[Tensor, "*N K"]:
        """The same requests with the mandatory orders in them and without the free ones."""
        if self.plain:
            return requests
        return torch.where(self._mandatory, 1.0, torch.where(self.free, 0.0, requests))

    def reveals(self, requests: Float[Tensor, "B T K"], batch: Batch) -> Reveal:
        """What arrives at every step of whole series, ``[B, T, F]``, where ``requests`` are asked for.

        ``requests[:, t]`` are sampled at step t. The same as :meth:`arrive` step by step.
        """
        size, steps, _ = requests.shape
        time = torch.arange(steps, device=requests.device).expand(size, -1)
        observed = batch.observed
        if self.longest == 1:
            mask = self.asked(requests)
            if self._gives:
                mask = torch.maximum(mask, self._reveals[self.free].amax(0))
            mask = mask * observed
            return Reveal(batch.values * mask, mask, self._zero.expand_as(mask), time)
        values, mask, age = (torch.zeros_like(batch.values) for _ in range(3))
        for delay in self._delays:
            late = delay - 1
            if late >= steps:
                continue
            own = self._turnaround == delay
            sent = ((requests * own) @ self._reveals).clamp(max=1.0)
            sent = torch.maximum(sent, (self._reveals * (own & self.free).unsqueeze(1)).sum(0).clamp(max=1.0))
            new = (sent * observed)[:, : steps - late] * (1 - mask[:, late:])
            values[:, late:] += batch.values[:, : steps - late] * new
            mask[:, late:] += new
            age[:, late:] += late * new
        going = (batch.lengths.unsqueeze(1) > time).unsqueeze(-1)
        return Reveal(values * going, mask * going, age * going, time)

    def unanswered(self, selection: Selection, reveal: Reveal) -> Float[Tensor, " N"]:
        """What was asked for this step and brought nothing, by its cost. What takes longer counts as answered."""
        brought = (reveal.mask.detach() @ self._reveals.t()) > 0
        return (selection.request * ~(brought | (self._turnaround > 1))) @ self.costs

    def answerable(self, observed: Bool[Tensor, "*N F"]) -> Bool[Tensor, "*N K"]:
        """Whether the record holds anything of what each order would have brought, had it been sampled there."""
        return (observed.to(self._reveals.dtype) @ self._reveals.t()) > 0

    def bills(self, observed: Bool[Tensor, "*N F"]) -> Float[Tensor, "*N K"]:
        """What a request for each order costs where only deliveries count; what takes longer than a step counts as answered."""
        return (self.answerable(observed) | (self._turnaround > 1)) * self.costs

    def due(self, selection: Selection, pending: Pending) -> Float[Tensor, "N F"]:
        """The age at which each feature should arrive at the coming step; -1 where nothing is due."""
        if pending.sent is None:
            return self.shown(selection.request, None) - 1
        age = torch.full((len(selection.request), self._reveals.shape[1]), -1.0, device=self.costs.device)
        for steps in self._delays:
            age = torch.where((age < 0) & (self._sent(pending.sent, steps) > 0), float(steps - 1), age)
        return age

    def _sent(self, sent: Float[Tensor, "N D K"], steps: int) -> Float[Tensor, "N F"]:
        """1 for each feature whose order has this turnaround and was asked as long ago, or comes by itself."""
        own = self._turnaround == steps
        asked = ((sent[:, steps - 1] * own) @ self._reveals).clamp(max=1.0)
        return torch.maximum(asked, (self._reveals * (own & self.free).unsqueeze(1)).sum(0).clamp(max=1.0))


def also(selection: Selection, must: Float[Tensor, "B K"]) -> Selection:
    """A selection with what had to be asked added to it. It was not drawn: it has no place in the draw order."""
    return replace(
        selection,
        request=selection.request + must,
        relaxed=selection.relaxed + must,
        ranking=selection.ranking.masked_fill(must > 0, -torch.inf),
    )
