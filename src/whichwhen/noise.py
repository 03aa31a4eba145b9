"""Gumbel and logistic noise for selectors, and a cheap source of it for training."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import torch
from torch import Tensor


class NoisePool:
    """Noise that is drawn once and handed out in windows that start at random places.

    Drawing two million Gumbel values takes longer than half a training step of a small LSTM; a window costs nothing. Values
    within a window are independent. Two windows share values only where they overlap, in other places than before; training
    makes a new pool for each epoch. What must not share anything, such as a test of a distribution, uses a torch.Generator.
    """

    def __init__(self, seed: int, size: int) -> None:
        self._places = np.random.default_rng(seed)
        self._size = max(size, 1 << 16)

    @cached_property
    def _values(self) -> Tensor:
        """Drawn when the first window is asked for: what does not learn needs none."""
        return _gumbel_(torch.from_numpy(self._places.random(self._size, dtype=np.float32)))

    @cached_property
    def _logistic(self) -> Tensor:
        return _logistic_(torch.from_numpy(self._places.random(self._size, dtype=np.float32)))

    def take(self, shape: tuple[int, ...] | torch.Size, logistic: bool = False) -> Tensor:
        """A window of the pool as a tensor of this shape; it is shared, so it must not be written to."""
        count = math.prod(shape)
        if 2 * count > self._size:
            uniform = torch.from_numpy(self._places.random(shape, dtype=np.float32))
            return _logistic_(uniform) if logistic else _gumbel_(uniform)
        start = int(self._places.integers(self._size - count + 1))
        return (self._logistic if logistic else self._values)[start : start + count].view(shape)


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
        return generator.take(shape, logistic=True).to(like.device)
    return _logistic_(torch.rand(shape, generator=generator, device=like.device, dtype=like.dtype))


def _logistic_(uniform: Tensor) -> Tensor:
    return torch.logit(uniform, eps=1e-7)
