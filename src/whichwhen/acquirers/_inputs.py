"""What a learned acquirer reads at a step."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from whichwhen.timecode import TimeCode, steps_since
from whichwhen.types import State, View

_WAITED = "waited"
VALUE_FREQUENCY = math.pi / 2
"""Base angular frequency of the value encoding: one period spans ±2 standard deviations."""


class ViewInput(nn.Module):
    """The last observation, its mask and the time that it orders for; optionally more. Neither price nor budget is read.

    ``context_size``: width of the predictor's context. ``value_features``: number of sines and cosines per value, with which a
    small network can tell levels apart. ``delays``: whether to read what is under way.
    """

    def __init__(
        self,
        n_features: int,
        n_orders: int,
        horizon: int,
        time_features: int,
        context_size: int = 0,
        value_features: int = 0,
        delays: bool = False,
    ) -> None:
        super().__init__()
        self.time = TimeCode(horizon, time_features)
        self.reads_context, self.context_size = context_size > 0, context_size
        self.reads_under_way = delays
        self.n_features, self.n_orders = n_features, n_orders
        self.width = (2 + 2 * value_features) * n_features + self.time.width + context_size + delays * n_orders
        self.register_buffer("waves", VALUE_FREQUENCY * torch.arange(1, value_features + 1), persistent=False)

    waves: Tensor

    def forward(self, view: View) -> Float[Tensor, "B W"]:
        """``[B, width]``."""
        values, mask = view.reveal.values, view.reveal.mask
        parts = [values, mask, self.time(view.time)]
        if len(self.waves):
            phase = values.unsqueeze(-1) * self.waves
            parts += [(wave * mask.unsqueeze(-1)).flatten(1) for wave in (torch.sin(phase), torch.cos(phase))]
        if self.reads_context:
            parts.append(view.context)
        if self.reads_under_way:
            assert view.under_way is not None, "a menu without delays"
            parts.append(view.under_way)
        return torch.cat(parts, -1)


class Waiting(nn.Module):
    """The waiting term: w_k · log(1 + steps since the features of order k were last asked for or arrived).

    A feature that was neither counts from the start of the series. Of a panel the mean over its features counts. A hidden layer
    of a few units can't lead each feature's waiting time to its own order; this does, so that an acquirer can take turns.
    """

    def __init__(self, reveals: Float[Tensor, "K F"]) -> None:
        super().__init__()
        self.register_buffer("reveals", reveals, persistent=False)
        self.register_buffer("members", (reveals / reveals.sum(1, keepdim=True)).t().contiguous(), persistent=False)
        self.weight = nn.Parameter(torch.ones(len(reveals)))
        square = reveals.shape[0] == reveals.shape[1]
        self._identity = square and bool((reveals == torch.eye(len(reveals))).all())

    reveals: Tensor
    members: Tensor

    def init(self, size: int) -> State:
        """Nothing was asked for: -1."""
        return {_WAITED: self.members.new_full((size, len(self.members)), -1.0)}

    def forward(self, view: View, state: State) -> tuple[Float[Tensor, "B K"], State]:
        """What to add to the scores, and what to keep."""
        waited = state[_WAITED]
        if view.asked is not None:
            asked = view.asked if self._identity else view.asked @ self.reveals
            waited = steps_since(view.reveal, waited).masked_fill(asked > 0, 0.0)
        steps = torch.where(waited < 0, view.time.unsqueeze(-1).to(waited.dtype), waited)
        waiting = torch.log1p(steps)
        return (waiting if self._identity else waiting @ self.members) * self.weight, {_WAITED: waited}
