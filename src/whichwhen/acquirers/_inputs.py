"""What a learned acquirer reads at a step."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from whichwhen.timecode import TimeCode, freshness, steps_since
from whichwhen.types import State, View

_SINCE, _WAITED = "since", "waited"
SLOWEST = math.pi / 2
"""Of the waves of a value, per standard deviation: a whole turn from two below the mean to two above."""


class ViewInput(nn.Module):
    """The last observation, its mask and the time that it orders for, and what else is wanted.

    ``context_size``: the predictor's context. ``budget``: what may be spent at this step, as log(1 + amount) / log(1 + K), or
    the logarithm of the price. ``value_features``: sines and cosines of the values, with which a small network can tell levels
    apart, and need not have its choice rise or fall with them. ``delays``: what is under way. ``freshness``: 1 / (1 + steps
    since each feature was last sampled), 0 for those never seen, with which it can take turns. Without ``values`` the
    observation itself is left out.
    """

    def __init__(
        self,
        n_features: int,
        n_orders: int,
        horizon: int,
        time_features: int,
        context_size: int = 0,
        budget: bool = False,
        value_features: int = 0,
        delays: bool = False,
        freshness: bool = False,
        values: bool = True,
    ) -> None:
        super().__init__()
        self.time = TimeCode(horizon, time_features)
        self.reads_context = context_size > 0
        self.reads_budget = budget
        self.reads_under_way = delays
        self.reads_values = values
        self.reads_freshness = freshness
        self.n_features, self.n_orders = n_features, n_orders
        self.scale = 1 / math.log1p(n_orders)
        per_feature = 1 + values + 2 * value_features + freshness
        self.width = per_feature * n_features + self.time.width + context_size + budget + delays * n_orders
        self.register_buffer("waves", SLOWEST * torch.arange(1, value_features + 1), persistent=False)

    waves: Tensor

    def init(self, size: int) -> State:
        """What it has to keep from step to step, where nothing was seen: the steps since each feature was, -1 = never."""
        return {_SINCE: self.waves.new_full((size, self.n_features), -1.0)} if self.reads_freshness else {}

    def forward(self, view: View, state: State) -> tuple[Float[Tensor, "B W"], State]:
        """``[B, width]``, and what to keep."""
        values, mask = view.reveal.values, view.reveal.mask
        parts = [values, mask, self.time(view.time)] if self.reads_values else [mask, self.time(view.time)]
        if len(self.waves):
            phase = values.unsqueeze(-1) * self.waves
            parts += [(wave * mask.unsqueeze(-1)).flatten(1) for wave in (torch.sin(phase), torch.cos(phase))]
        if self.reads_context:
            parts.append(view.context)
        if self.reads_budget:
            price = view.allowance.price
            money = torch.log1p(view.allowance.amount).mul(self.scale) if price is None else torch.log(price)
            parts.append(money.unsqueeze(-1))
        if self.reads_under_way:
            assert view.under_way is not None, "a menu without delays"
            parts.append(view.under_way)
        if not self.reads_freshness:
            return torch.cat(parts, -1), {}
        since = steps_since(view.reveal, state[_SINCE])
        return torch.cat([*parts, freshness(since)], -1), {_SINCE: since}


class Turns(nn.Module):
    """What waiting adds to the score of each order: its own weight times log(1 + steps since what it reveals had its turn).

    A hidden layer of a few units can't lead each feature's waiting time to its own order; this does. A feature has its turn
    when it is asked for, be it answered late or never, or arrives by itself. It starts from taking turns, and what never had
    one waits since the start: nothing is forgotten for good. Of a panel the mean over its features counts.
    """

    def __init__(self, reveals: Float[Tensor, "K F"]) -> None:
        super().__init__()
        self.register_buffer("reveals", reveals, persistent=False)
        self.register_buffer("members", (reveals / reveals.sum(1, keepdim=True)).t().contiguous(), persistent=False)
        self.weight = nn.Parameter(torch.ones(len(reveals)))

    reveals: Tensor
    members: Tensor

    def init(self, size: int) -> State:
        """Nothing had its turn: -1."""
        return {_WAITED: self.members.new_full((size, len(self.members)), -1.0)}

    def forward(self, view: View, state: State) -> tuple[Float[Tensor, "B K"], State]:
        """What to add to the scores, and what to keep."""
        waited = steps_since(view.reveal, state[_WAITED])
        if view.asked is not None:
            waited = torch.where(view.asked @ self.reveals > 0, 0.0, waited)
        steps = torch.where(waited < 0, view.time.unsqueeze(-1).to(waited.dtype), waited)
        return (torch.log1p(steps) @ self.members) * self.weight, {_WAITED: waited}
