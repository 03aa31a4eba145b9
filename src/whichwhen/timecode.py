"""Time as an input of a model: the step, and how long ago something was seen."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from whichwhen.types import Reveal


class TimeCode(nn.Module):
    """Sines and cosines of the time step, slow ones first; with no frequencies, the step as a share of the horizon.

    The slowest wave takes two horizons, so that no two steps within the horizon look alike. The horizon is that of the training
    data; a series' own length is never used, as it would tell the future. Steps after four horizons count as the last of them.
    """

    def __init__(self, horizon: int, frequencies: int) -> None:
        super().__init__()
        self.horizon = horizon
        self.frequencies = frequencies
        self.width = 2 * frequencies if frequencies else 1
        self.register_buffer("table", self._code(torch.arange(4 * horizon + 1)), persistent=False)

    table: Tensor

    def forward(self, time: Int[Tensor, "*B"]) -> Float[Tensor, "*B W"]:
        """``[..., width]`` for each step."""
        return torch.embedding(self.table, time.clamp(max=4 * self.horizon))

    def _code(self, time: Int[Tensor, "*B"]) -> Float[Tensor, "*B W"]:
        share = time.to(torch.get_default_dtype()).unsqueeze(-1) / self.horizon
        if not self.frequencies:
            return share
        phase = share * (math.pi * torch.arange(1, self.frequencies + 1, device=time.device))
        return torch.cat([torch.sin(phase), torch.cos(phase)], -1)


def steps_since(reveal: Reveal, since: Float[Tensor, "*B F"]) -> Float[Tensor, "*B F"]:
    """Steps since each feature was last sampled, once ``reveal`` is known, too; -1 = never."""
    return torch.where(reveal.mask > 0, reveal.age, torch.where(since < 0, since, since + 1))


def freshness(since: Float[Tensor, "*B F"]) -> Float[Tensor, "*B F"]:
    """1 / (1 + steps since a feature was sampled); 0 = never."""
    return (since >= 0).to(since.dtype) / (1 + since.clamp(min=0))
