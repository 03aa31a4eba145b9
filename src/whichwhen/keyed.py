"""Randomness that belongs to a series, not to a batch.

Data and evaluation draw from (seed, split, series id), so a series gets the same fakes and the same random requests alone or
in any batch. Two forms: :func:`series_rng`, a numpy generator per series, for data made once; :func:`uniform`, a hash
of (key, step, order) computed for a whole batch at once, for requests made in the loop.
"""

from __future__ import annotations

import zlib

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15


def series_rng(seed: int, purpose: str, split: str, series_id: int) -> np.random.Generator:
    """The generator of one series for one purpose."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), zlib.crc32(split.encode()), series_id])


def stream_seed(seed: int, *place: str | int) -> int:
    """A 63-bit seed for one place (purpose, epoch, …) of a run."""
    words = [seed, *(zlib.crc32(part.encode()) if isinstance(part, str) else part for part in place)]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


def series_keys(seed: int, split: str, ids: np.ndarray) -> np.ndarray:
    """One int64 per series, from (seed, split, series id)."""
    start = np.uint64(stream_seed(seed, "keys", split))
    with np.errstate(over="ignore"):
        mixed = start + ids.astype(np.uint64) * np.uint64(_GOLDEN)
    return _mix(mixed).astype(np.int64)


def salt_keys(keys: np.ndarray, salt: int) -> np.ndarray:
    """Other keys for the same series, one set for each salt: fresh requests in each epoch of training."""
    with np.errstate(over="ignore"):
        return _mix(keys.astype(np.uint64) ^ np.uint64(stream_seed(salt, "salt"))).astype(np.int64)


def uniform(keys: Int[Tensor, " B"], time: Int[Tensor, " B"], count: int, seed: int = 0) -> Float[Tensor, "B count"]:
    """Uniform numbers in (0, 1) that depend on (seed, key, time, column) alone.

    In numpy, which shifts unsigned words and needs no copy on the way: half the time of the same in torch.
    """
    with np.errstate(over="ignore"):
        rows = _mix(keys.cpu().numpy().astype(np.uint64) + _word(seed * _GOLDEN))
        rows = _mix(rows + time.cpu().numpy().astype(np.uint64) * np.uint64(0xD1342543DE82EF95))
        bits = _mix(rows[:, None] + np.arange(count, dtype=np.uint64) * np.uint64(_GOLDEN))
    bits >>= np.uint64(11)
    shares = bits.view(np.int64).astype(np.float64)
    shares += 0.5
    shares *= 2.0**-53
    return torch.from_numpy(shares.astype(np.float32)).clamp_(1e-7, 1 - 6e-8).to(keys.device)


def _word(number: int) -> np.uint64:
    return np.uint64(number & ((1 << 64) - 1))


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64, in place."""
    shifted = np.empty_like(x)
    with np.errstate(over="ignore"):
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None)):
            x ^= np.right_shift(x, np.uint64(shift), out=shifted)
            if factor is not None:
                x *= np.uint64(factor)
    return x
