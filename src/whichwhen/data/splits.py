"""Validation out of the training part: stratified by class, groups kept together."""

from __future__ import annotations

import numpy as np

from whichwhen import keyed
from whichwhen.data.store import SeriesSet
from whichwhen.errors import DataError


def split_validation(train: SeriesSet, share: float, seed: int) -> tuple[SeriesSet, SeriesSet]:
    """Two disjoint parts of about ``1 - share`` and ``share``, every class in both, no group in both.

    Groups are taken into the second part one after the other, large ones first and otherwise by chance, while that brings
    its classes closer to their share.
    """
    labels = np.unique(train.labels, return_inverse=True)[1]
    _, group, sizes = np.unique(train.groups, return_inverse=True, return_counts=True)
    counts = np.zeros((len(sizes), labels.max() + 1))  # [groups, classes]
    np.add.at(counts, (group, labels), 1)
    total = counts.sum(0)
    rng = np.random.default_rng(keyed.stream_seed(seed, "validation"))
    shuffled = rng.permutation(len(sizes))
    turns = shuffled[np.argsort(-sizes[shuffled], kind="stable")]

    held = np.zeros(len(sizes), dtype=bool)
    missing = share * total
    for one in turns:
        after = missing - counts[one]
        if ((after / total) ** 2).sum() < ((missing / total) ** 2).sum():
            held[one], missing = True, after
    for side in (True, False):  # a class that one side lacks gets its smallest group that the other side can spare
        for label in np.flatnonzero(counts[held == side].sum(0) == 0):
            other = counts[held != side].sum(0)
            spare = [
                one for one in turns[::-1] if counts[one, label] and not ((counts[one] > 0) & (other == counts[one])).any()
            ]
            if spare:
                held[spare[0]] = side
    if share * len(train) < 1 or not (counts[held].sum(0) > 0).all() or not (counts[~held].sum(0) > 0).all():
        raise DataError(
            f"{int(total.min())} training series in the smallest class, {len(train)} in all, in {len(sizes)} groups",
            expected=f"every class in at least two groups, and at least one series in a share of {share:g}",
            do="use more data or another --validation (copies of a series are one group)",
        )
    return train.take(np.flatnonzero(~held[group])), train.take(np.flatnonzero(held[group]))
