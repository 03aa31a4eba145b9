"""What every predictor reads at a step."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from whichwhen.predictors._bins import Bins
from whichwhen.timecode import TimeCode
from whichwhen.types import Reveal

_KNEE, _MOST = 0.7, 3.0
"""In standard deviations: where a value begins to be high or low, and beyond which it is not read as higher or lower."""


class RevealInput(nn.Module):
    """Values, mask and, where wanted, time, side by side. The mask tells a measured 0 from a value that is not there.

    With ``hinges``, values are cut off at 3 standard deviations and read three
    times: as they are, how far above the usual and how far below; too high and too low can then mean the same. With ``bins``,
    some of the columns are read in bins, too.
    """

    def __init__(
        self,
        n_features: int,
        horizon: int,
        time_features: int,
        hinges: bool = False,
        bins: Bins | None = None,
    ) -> None:
        super().__init__()
        self.time = TimeCode(horizon, time_features) if time_features else None
        self.hinges = hinges
        self.bins = bins
        self.width = (4 if hinges else 2) * n_features + (self.time.width if self.time else 0) + (bins.width if bins else 0)

    def forward(self, reveal: Reveal) -> Float[Tensor, "*B W"]:
        """``[..., width]``."""
        parts = [reveal.values, reveal.mask]
        if self.hinges:
            values = reveal.values.clamp(-_MOST, _MOST)
            parts = [values, torch.relu(values - _KNEE), torch.relu(-values - _KNEE), reveal.mask]
        if self.bins is not None:
            parts.append(self.bins(reveal))
        if self.time is not None:
            parts.append(self.time(reveal.time))
        return torch.cat(parts, -1)
