"""Wider steps: several steps of a series become one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whichwhen.data.store import SeriesSet, Source


def widen(series: SeriesSet, width: int) -> SeriesSet:
    """Every ``width`` steps become one, from each series' start; the last value that was measured in it counts.

    A rest at the end is a step of its own. A step is positive if any of its parts is (labels per step: the highest).
    """
    if width == 1:
        return series
    lengths = -(-series.lengths // width)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = np.repeat(offsets[:-1], series.lengths) + series.steps // width
    values = np.full((offsets[-1], series.values.shape[1]), np.nan, dtype=np.float32)
    place = series.steps % width
    for turn in range(width):
        own = place == turn
        values[rows[own]] = np.where(np.isnan(series.values[own]), values[rows[own]], series.values[own])
    step_labels = None
    if series.step_labels is not None:
        step_labels = np.zeros(offsets[-1], dtype=series.step_labels.dtype)
        np.maximum.at(step_labels, rows, series.step_labels)
    return replace(series, values=values, offsets=offsets, step_labels=step_labels)


def widen_source(source: Source, width: int) -> Source:
    """The same for all parts."""
    return replace(
        source,
        train=widen(source.train, width),
        tests={name: widen(part, width) for name, part in source.tests.items()},
    )
