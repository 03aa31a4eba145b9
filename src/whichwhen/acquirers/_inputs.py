"""What a learned acquirer reads at a step."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from whichwhen.timecode import TimeCode, freshness, steps_since
from whichwhen.types import State, View

SINCE = "since"
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
        turns: bool = False,
        values: bool = True,
    ) -> None:
        super().__init__()
        self.time = TimeCode(horizon, time_features)
        self.reads_context = context_size > 0
        self.reads_budget = budget
        self.reads_under_way = delays
        self.reads_values = values
        self.reads_freshness = freshness
        self.keeps_since = freshness or turns
        self.n_features = n_features
        self.scale = 1 / math.log1p(n_orders)
        per_feature = 1 + values + 2 * value_features + freshness
        self.width = per_feature * n_features + self.time.width + context_size + budget + delays * n_orders
        self.register_buffer("waves", SLOWEST * torch.arange(1, value_features + 1), persistent=False)

    waves: Tensor

    def init(self, size: int) -> State:
        """What it has to keep from step to step, where nothing was seen: the steps since each feature was, -1 = never."""
        return {SINCE: self.waves.new_full((size, self.n_features), -1.0)} if self.keeps_since else {}

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
        if self.keeps_since:
            since = steps_since(view.reveal, state[SINCE])
            if self.reads_freshness:
                parts.append(freshness(since))
            state = {SINCE: since}
        return torch.cat(parts, -1), state


class Turns(nn.Module):
    """What waiting adds to the score of each order: its own weight times log(1 + steps since what it reveals was sampled).

    A hidden layer of a few units can't lead each feature's waiting time to its own order; this does. It starts from taking
    turns, and what was never sampled waits since the start: nothing is forgotten for good. Of a panel the mean over its
    features counts.
    """

    def __init__(self, reveals: Float[Tensor, "K F"]) -> None:
        super().__init__()
        self.register_buffer("members", (reveals / reveals.sum(1, keepdim=True).clamp(min=1)).t().contiguous(), False)
        self.weight = nn.Parameter(torch.ones(len(reveals)))

    members: Tensor

    def forward(self, since: Float[Tensor, "B F"], time: Int[Tensor, " B"]) -> Float[Tensor, "B K"]:
        """From the steps since each feature was sampled, -1 = never, and the step that is ordered for."""
        waited = torch.log1p(torch.where(since < 0, time.unsqueeze(-1).to(since.dtype), since))
        return (waited @ self.members) * self.weight
