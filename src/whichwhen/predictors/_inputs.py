"""What every predictor reads at a step."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from whichwhen.timecode import TimeCode
from whichwhen.types import Reveal


class RevealInput(nn.Module):
    """Values, mask and, where wanted, time, side by side. The mask tells a measured 0 from a value that is not there."""

    def __init__(self, n_features: int, horizon: int, time_features: int) -> None:
        super().__init__()
        self.time = TimeCode(horizon, time_features) if time_features else None
        self.width = 2 * n_features + (self.time.width if self.time else 0)

    def forward(self, reveal: Reveal) -> Float[Tensor, "*B W"]:
        """``[..., width]``."""
        parts = [reveal.values, reveal.mask]
        if self.time is not None:
            parts.append(self.time(reveal.time))
        return torch.cat(parts, -1)
