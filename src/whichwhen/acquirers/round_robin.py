"""The best few orders in turn."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Int
from torch import Tensor

from whichwhen.contracts import Acquirer
from whichwhen.types import Scores, State, View


class RoundRobinAcquirer(Acquirer):
    """The n best orders in turn, as many at a step as the budget buys: the one that waited longest comes first.

    Orders are ranked once, on training data; n is chosen on validation, one for each budget that was tried. With n = what the
    budget buys it is a static choice.
    """

    reacts = False
    ranks: Tensor
    amounts: Tensor
    sizes: Tensor
    size: Tensor

    def __init__(self, n_orders: int, slots: int = 12) -> None:
        super().__init__()
        self.register_buffer("ranks", torch.arange(n_orders))
        self.register_buffer("amounts", torch.zeros(slots))
        self.register_buffer("sizes", torch.full((slots,), n_orders))
        self.register_buffer("size", torch.tensor(n_orders))

    def fit(self, worth: Tensor) -> None:
        """Rank the orders by worth per cost, ``[K]``; the best has rank 0."""
        best_first = torch.sort(worth, descending=True, stable=True).indices
        self.ranks[best_first] = torch.arange(len(worth), device=best_first.device)

    def choose(self, sizes: Mapping[float, int]) -> None:
        """Take over n for each amount per step that was tried, at most as many as there are slots."""
        for slot, (amount, size) in enumerate(sorted(sizes.items())):
            self.amounts[slot], self.sizes[slot] = amount, size
        self.amounts[len(sizes) :] = 0

    def at(self, amount: float) -> RoundRobinAcquirer:
        """The same ranking with the n of the nearest amount per step."""
        other = RoundRobinAcquirer(len(self.ranks), len(self.amounts))
        other.load_state_dict(self.state_dict())
        known = other.amounts > 0
        if bool(known.any()):
            away = (other.amounts.clamp(min=1e-9).log() - torch.tensor(amount).log()).abs().masked_fill(~known, torch.inf)
            other.size.copy_(other.sizes[away.argmin()])
        return other.to(self.ranks.device)

    def init(self, keys: Int[Tensor, " B"]) -> State:
        """The step at which each order was last asked for; before the first, better orders count as asked for earlier."""
        start = self.ranks.to(torch.get_default_dtype()) - len(self.ranks) - 1
        return {"last": start.expand(len(keys), -1)}

    def step(self, view: View, state: State) -> tuple[Scores, State]:
        """Steps since each of the n orders was last asked for; the rank decides between equals."""
        last, now = state["last"], view.time.unsqueeze(-1).to(state["last"].dtype)
        if view.asked is not None:
            last = torch.where(view.asked > 0, now - 1, last)
        scores = (now - last) - self.ranks / len(self.ranks)
        return Scores(scores.masked_fill(self.ranks >= self.size, -torch.inf)), {"last": last}
