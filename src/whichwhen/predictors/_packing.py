"""Packed rows as padded blocks, for nets that want whole series side by side."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor


def over_series(run: Callable[[Tensor], Tensor], rows: Float[Tensor, "N W"], sizes: tuple[int, ...]) -> Float[Tensor, "N V"]:
    """What a causal net makes of packed rows.

    Args:
        run: the net, from ``[T, B, W]`` to ``[T, B, V]``. It may not look ahead: behind a series' end stands anything.
        rows: step after step, each with the series that go on, longest first.
        sizes: how many series take part in each step.
    """
    if sizes[0] == sizes[-1]:
        return run(rows.view(len(sizes), sizes[0], -1)).reshape(len(rows), -1)
    places, shapes, back = by_group(sizes)
    padded = rows.index_select(0, places.to(rows.device))
    groups = torch.split(padded, [steps * series for steps, series in shapes])
    parts = [run(group.view(*shape, -1)).flatten(0, 1) for group, shape in zip(groups, shapes, strict=True)]
    return torch.cat(parts).index_select(0, back.to(rows.device))


def by_group(sizes: tuple[int, ...], group: int = 128) -> tuple[Int[Tensor, " P"], list[tuple[int, int]], Int[Tensor, " N"]]:
    """Packed rows as padded groups of about ``group`` series of like length, and the way back.

    torch's own LSTM over a PackedSequence takes nearly three times as long: it has no fused kernel for that. What is computed
    after a series' end is dropped; it can't reach the steps before it.

    Returns:
        The packed rows, group after group, each padded with any row; each group's steps and series; and for each packed row
        its place in the first.
    """
    starts = np.cumsum([0, *sizes])
    lengths = (np.array(sizes)[:, None] > np.arange(sizes[0])).sum(0)
    padded, shapes = [], []
    for series in np.array_split(np.arange(sizes[0]), max(1, sizes[0] // group)):
        steps = np.arange(lengths[series[0]])[:, None]
        padded.append(np.where(lengths[series] > steps, starts[steps] + series, -1).ravel())
        shapes.append((len(steps), len(series)))
    rows = np.concatenate(padded)
    back = np.empty(starts[-1], np.int64)
    back[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
    return torch.from_numpy(np.maximum(rows, 0)), shapes, torch.from_numpy(back)
