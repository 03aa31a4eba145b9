"""Dropout at a tenth of the price: torch's own draws one number after the other on a CPU."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

_LEVELS = 1 << 16


def dropout(x: Tensor, share: float) -> Tensor:
    """A random ``share`` of the values at 0, to the nearest of 65,536 levels, the rest scaled up to the same mean.

    Torch's generator is asked for a seed, so the outcome follows from ``torch.manual_seed`` like everything else.
    """
    if x.device.type != "cpu":
        return F.dropout(x, share)
    level, count = min(round(share * _LEVELS), _LEVELS - 1), x.numel()
    words = np.random.SFC64(int(torch.randint(2**62, ()))).random_raw(-(-count // 4))
    draws = words.view(np.uint16)[:count]
    kept = np.multiply(draws >= level, np.float32(_LEVELS / (_LEVELS - level)), dtype=np.float32)
    return x * torch.from_numpy(kept).view(x.shape).to(x.dtype)
