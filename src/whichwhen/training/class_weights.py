"""How much each class counts in the loss."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from whichwhen.data.rows import count_classes
from whichwhen.data.store import SeriesSet


def class_weights(series: SeriesSet, n_classes: int) -> Tensor:
    """``[C]``: one over each class's share, so that all count the same and the mean weight is 1."""
    labels = series.labels if series.step_labels is None else series.step_labels
    counts = count_classes(labels, n_classes)
    return torch.from_numpy(len(labels) / (n_classes * np.maximum(counts, 1))).float()
