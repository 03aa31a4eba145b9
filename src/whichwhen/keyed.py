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
        mixed = start + ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _mix_numpy(mixed).astype(np.int64)


def salt_keys(keys: np.ndarray, salt: int) -> np.ndarray:
    """Other keys for the same series, one set for each salt: fresh requests in each epoch of training."""
    with np.errstate(over="ignore"):
        return _mix_numpy(keys.astype(np.uint64) ^ np.uint64(stream_seed(salt, "salt"))).astype(np.int64)


def uniform(keys: Int[Tensor, " B"], time: Int[Tensor, " B"], count: int, seed: int = 0) -> Float[Tensor, "B count"]:
    """Uniform numbers in (0, 1) that depend on (seed, key, time, column) alone."""
    columns = torch.arange(count, device=keys.device)
    rows = _mix(_mix(keys + _signed(seed * 0x9E3779B97F4A7C15)) + time * _signed(0xD1342543DE82EF95))
    bits = _mix(rows.unsqueeze(-1) + columns * _signed(0x9E3779B97F4A7C15))
    return ((bits >> 11) & ((1 << 53) - 1)).to(torch.float64).add(0.5).mul(2.0**-53).float().clamp(1e-7, 1 - 6e-8)


def _signed(word: int) -> int:
    word &= (1 << 64) - 1
    return word - (1 << 64) if word >> 63 else word


def _mix(x: Tensor) -> Tensor:
    """The finaliser of splitmix64 on int64, whose multiplication wraps as that of uint64 does."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * _signed(0x94D049BB133111EB)
    return x ^ ((x >> 31) & ((1 << 33) - 1))


def _mix_numpy(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed
