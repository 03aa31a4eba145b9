"""Gumbel and logistic noise for selectors, and a cheap source of random numbers for training."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Kind = Literal["uniform", "normal", "gumbel", "logistic"]


class NoisePool:
    """Random numbers that are drawn once and handed out in windows that start at random places.

    Drawing two million Gumbel values takes longer than half a training step of a small LSTM; a window costs nothing. Values
    within a window are independent. Two windows share values only where they overlap, in other places than before; training
    makes a new pool for each epoch. What must not share anything, such as a test of a distribution, uses a torch.Generator.
    """

    def __init__(self, seed: int, size: int) -> None:
        self._places = np.random.default_rng(seed)
        self._size = max(size, 1 << 16)
        self._pools: dict[Kind, Tensor] = {}

    def take(self, shape: tuple[int, ...] | torch.Size, kind: Kind = "gumbel") -> Tensor:
        """A window of the pool as a tensor of this shape; it is shared, so it must not be written to."""
        count = math.prod(shape)
        if 2 * count > self._size:
            return self._draw(kind, tuple(shape))
        if kind not in self._pools:  # when the first window is asked for: what does not learn needs none
            self._pools[kind] = self._draw(kind, (self._size,))
        start = int(self._places.integers(self._size - count + 1))
        return self._pools[kind][start : start + count].view(shape)

    def _draw(self, kind: Kind, shape: tuple[int, ...]) -> Tensor:
        if kind == "normal":
            return torch.from_numpy(self._places.standard_normal(shape, dtype=np.float32))
        uniform = torch.from_numpy(self._places.random(shape, dtype=np.float32))
        return uniform if kind == "uniform" else _gumbel_(uniform) if kind == "gumbel" else _logistic_(uniform)


Generator = torch.Generator | NoisePool
"""Where the noise of a selector comes from."""


def gumbel(shape: tuple[int, ...] | torch.Size, like: Tensor, generator: Generator | None) -> Tensor:
    """Standard Gumbel noise on the device of ``like``."""
    if isinstance(generator, NoisePool):
        return generator.take(shape).to(like.device)
    return _gumbel_(torch.rand(shape, generator=generator, device=like.device, dtype=like.dtype))


def _gumbel_(uniform: Tensor) -> Tensor:
    return uniform.clamp_(1e-20, 1 - 6e-8).log_().neg_().log_().neg_()


def logistic(shape: tuple[int, ...] | torch.Size, like: Tensor, generator: Generator | None) -> Tensor:
    """Standard logistic noise, the difference of two Gumbel draws, on the device of ``like``."""
    if isinstance(generator, NoisePool):
        return generator.take(shape, "logistic").to(like.device)
    return _logistic_(torch.rand(shape, generator=generator, device=like.device, dtype=like.dtype))


def _logistic_(uniform: Tensor) -> Tensor:
    return torch.logit(uniform, eps=1e-7)
