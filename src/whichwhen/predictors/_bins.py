"""Values as a net reads them best where their spread says little: by which part of the training values they lie in."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from whichwhen.types import Reveal

_TAIL = 0.01
"""The share of training values below the first edge, and above the last."""
_NARROWEST = 0.01
"""In standard deviations: repeated values put several edges in one place. Where one value is far from all the rest, most bins
are narrower than this and run into each other: such a feature needs a plausible range first."""


class Bins(nn.Module):
    """Piecewise linear encoding: for each feature, how much of each of ``count`` bins lies below the value, from 0 to 1.

    Edges are quantiles of the training values, so that a laboratory value with a long tail is read as finely where most of its
    values are as a symmetric one. A linear map of the bins is any piecewise linear function of the value. What is not known is
    0 in all bins. (Gorishniy et al. 2022, "On embeddings for numerical features in tabular deep learning".)

    The gradient reaches the mask, not the value: how much a prediction would change, were the value not there.

    Args:
        n_features: how many columns are read.
        count: bins of each.
        first: the first of these columns.
    """

    def __init__(self, n_features: int, count: int, first: int = 0) -> None:
        super().__init__()
        self.width = n_features * count
        self.columns = slice(first, first + n_features)
        start = torch.linspace(-2, 2, count + 1).expand(n_features, -1)  # until fitted
        self.register_buffer("edges", start.clone())

    edges: Tensor

    def fit(self, values: np.ndarray) -> None:
        """From scaled training values ``[rows, F]``, NaN = not observed; a feature that never was keeps its edges."""
        found = ~np.isnan(values).all(0)
        levels = np.linspace(_TAIL, 1 - _TAIL, self.edges.shape[1])
        for column in np.flatnonzero(found):
            self.edges[column] = torch.from_numpy(np.nanquantile(values[:, column], levels)).to(self.edges)

    def forward(self, reveal: Reveal) -> Float[Tensor, "*B W"]:
        """``[..., F * count]``."""
        values, mask = reveal.values[..., self.columns].detach(), reveal.mask[..., self.columns]
        wide = self.edges.diff(dim=1).clamp(min=_NARROWEST)
        share = ((values.unsqueeze(-1) - self.edges[:, :-1]) / wide).clamp(0, 1)
        return (share * mask.unsqueeze(-1)).flatten(-2)

    def spread(self, factors: Float[Tensor, "*B G"]) -> Float[Tensor, "*B W"]:
        """Factors of columns, one for each bin of those that are read here."""
        return factors[..., self.columns].repeat_interleave(self.edges.shape[1] - 1, -1)
