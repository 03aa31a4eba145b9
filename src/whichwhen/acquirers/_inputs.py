"""What a learned acquirer reads at a step."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from whichwhen.timecode import TimeCode
from whichwhen.types import View


class ViewInput(nn.Module):
    """The last observation, its mask and the time that it orders for; where wanted, the predictor's context and the budget.

    The budget is what may be spent at this step, as log(1 + amount) / log(1 + K).
    """

    def __init__(
        self, n_features: int, n_orders: int, horizon: int, time_features: int, context_size: int, budget: bool
    ) -> None:
        super().__init__()
        self.time = TimeCode(horizon, time_features)
        self.reads_context = context_size > 0
        self.reads_budget = budget
        self.scale = 1 / math.log1p(n_orders)
        self.width = 2 * n_features + self.time.width + context_size + budget

    def forward(self, view: View) -> Float[Tensor, "B W"]:
        """``[B, width]``."""
        parts = [view.reveal.values, view.reveal.mask, self.time(view.time)]
        if self.reads_context:
            parts.append(view.context)
        if self.reads_budget:
            parts.append(torch.log1p(view.allowance.amount).mul(self.scale).unsqueeze(-1))
        return torch.cat(parts, -1)
