"""Requests of a frozen policy, computed once and kept as bits: what settling trains on."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from whichwhen.afterwards import Unread, read_requests
from whichwhen.data.store import SeriesSet
from whichwhen.noise import NoisePool
from whichwhen.rollout import Policy, inference, roll_out
from whichwhen.selection import HardTopK

_IN_MEMORY = 1 << 27
"""Bytes up to which requests are kept in memory, 128 MB; more go to a temporary file."""


@dataclass(frozen=True)
class Requests:
    """What a policy asks for in each of N series.

    Attributes:
        bits: ``[sum of lengths, ceil(K / 8)]``, a row per step, series after series.
        offsets: ``[N + 1]``, where each series begins.
        n_orders: K.
    """

    bits: np.ndarray
    offsets: np.ndarray
    n_orders: int

    def take(self, rows: np.ndarray) -> Float[Tensor, "B T K"]:
        """The requests of some series, 0 after the end of each."""
        lengths = self.offsets[rows + 1] - self.offsets[rows]
        at = np.arange(int(lengths.max()))
        lines = self.offsets[rows][:, None] + np.minimum(at, lengths[:, None] - 1)
        asked = np.unpackbits(self.bits[lines], axis=-1, count=self.n_orders)
        asked[at >= lengths[:, None]] = 0
        return torch.from_numpy(asked.astype(np.float32))


def collect(
    policy: Policy, series: SeriesSet, device: torch.device | str = "cpu", salt: int | None = None, batch_size: int = 512
) -> Requests:
    """Let a policy ask its way through all series, with hard selection and, where it can do without, no predictor."""
    reader = policy.predictor if policy.acquirer.reads_context else Unread(policy.predictor)
    policy = replace(policy, predictor=reader, selector=HardTopK())
    n_orders = len(policy.menu.orders)
    shape = len(series.values), (n_orders + 7) // 8
    bits = np.zeros(shape, np.uint8) if shape[0] * shape[1] <= _IN_MEMORY else _on_disk(shape)
    offsets = series.offsets  # shared by all that are collected from the same series
    by_length = np.argsort(-series.lengths, kind="stable")
    alike = not policy.acquirer.reacts and not policy.budget.settles
    walked = by_length[:1] if alike else by_length
    with inference(policy):
        for start in range(0, len(walked), batch_size):
            rows = walked[start : start + batch_size]
            record = roll_out(policy, series.hindsight(rows, device, salt=salt).batch)
            for t, step in enumerate(record.steps):
                asked = step.selection.request.cpu().numpy() > 0
                bits[offsets[rows[: len(asked)]] + t] = np.packbits(asked, axis=-1)
    if alike:
        first = bits[offsets[walked[0]] : offsets[walked[0] + 1]].copy()
        for row in range(len(series)):
            bits[offsets[row] : offsets[row + 1]] = first[: series.lengths[row]]
    return Requests(bits, offsets, n_orders)


def losses_on(
    policy: Policy, series: SeriesSet, requests: Requests, device: torch.device | str = "cpu", batch_size: int = 512
) -> tuple[np.ndarray, np.ndarray]:
    """Of each series where these requests are made: the loss as in :class:`Evaluation`, and what the requests cost."""
    rules = policy.rules.to(torch.device(device))
    losses, costs = np.zeros(len(series)), np.zeros(len(series))
    by_length = np.argsort(-series.lengths, kind="stable")
    with inference(policy):
        for start in range(0, len(series), batch_size):
            rows = by_length[start : start + batch_size]
            known, asked = series.hindsight(rows, device), requests.take(rows).to(device)
            record = read_requests(policy.predictor, rules, known.batch, asked)
            each = torch.zeros(len(rows), dtype=torch.float64, device=asked.device)
            if known.step_labels is None:
                each += F.cross_entropy(record.final_logits.double(), known.labels, reduction="none")
            else:
                labels = known.step_labels[record.series_by_row, record.time_by_row]
                loss = F.cross_entropy(record.logits_by_row.double(), labels, reduction="none")
                each.index_add_(0, record.series_by_row, loss / known.batch.lengths[record.series_by_row])
            losses[rows], costs[rows] = each.cpu().numpy(), (asked.sum(1) @ rules.costs).cpu().numpy()
    return losses, costs


def _on_disk(shape: tuple[int, int]) -> np.ndarray:
    with tempfile.TemporaryFile() as file:  # the map keeps it, and it leaves nothing behind
        return np.memmap(file, dtype=np.uint8, mode="w+", shape=shape)


def mixture(sets: list[Requests], first: float, rng: np.random.Generator, rows: np.ndarray) -> Float[Tensor, "B T K"]:
    """Requests of some series, each from a set drawn at random: the first with probability ``first``, else any of them."""
    which = rng.integers(len(sets), size=len(rows))
    which[rng.random(len(rows)) < first] = 0
    lengths = sets[0].offsets[rows + 1] - sets[0].offsets[rows]
    out = torch.zeros(len(rows), int(lengths.max()), sets[0].n_orders)
    for i in np.unique(which):
        own = np.flatnonzero(which == i)
        part = sets[i].take(rows[own])
        out[torch.from_numpy(own), : part.shape[1]] = part
    return out


def random_requests(size: int, steps: int, n_orders: int, noise: NoisePool, largest: float = 1.0) -> Float[Tensor, "B T K"]:
    """Each series its own share of requested orders, uniform from 0 to ``largest``."""
    share = noise.take((size, 1, 1), "uniform") * largest
    return (noise.take((size, steps, n_orders), "uniform") < share).float()
