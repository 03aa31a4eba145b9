"""Validation out of the training part: stratified by class, groups kept together."""

from __future__ import annotations

import numpy as np

from whichwhen import keyed
from whichwhen.data.store import SeriesSet
from whichwhen.errors import DataError


def split_validation(train: SeriesSet, share: float, seed: int) -> tuple[SeriesSet, SeriesSet]:
    """Two disjoint parts of about ``1 - share`` and ``share``, every class in both, no group in both."""
    from sklearn.model_selection import StratifiedGroupKFold, train_test_split

    classes, counts = np.unique(train.labels, return_counts=True)
    if counts.min() < 2 or share * len(train) < 1:
        raise DataError(
            f"{int(counts.min())} training series in the smallest class, {len(train)} in all",
            expected=f"enough to hold out a share of {share:g} with every class on both sides",
            do="use more data or another --validation",
        )
    state = keyed.stream_seed(seed, "validation") % 2**32
    rows = np.arange(len(train))
    if len(np.unique(train.groups)) == len(train):
        size = max(len(classes), round(share * len(train)))
        size = min(size, len(train) - len(classes))
        kept, held = train_test_split(rows, test_size=size, stratify=train.labels, random_state=state)
    else:
        folds = min(max(2, round(1 / share)), len(np.unique(train.groups)))
        splitter = StratifiedGroupKFold(folds, shuffle=True, random_state=state)
        kept, held = next(iter(splitter.split(rows, train.labels, train.groups)))
    if not set(classes) == set(train.labels[kept]) == set(train.labels[held]):
        raise DataError(
            "groups that leave a class out of one side of the validation split",
            expected="every class in at least two groups",
            do="use more data or another --validation",
        )
    return train.take(np.sort(kept)), train.take(np.sort(held))
