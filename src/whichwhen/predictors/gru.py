"""A stack of GRU layers."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from whichwhen.contracts import Predictor
from whichwhen.predictors._bins import Bins
from whichwhen.predictors._inputs import RevealInput
from whichwhen.predictors._packing import over_series
from whichwhen.types import Reveal, State


class GRUPredictor(Predictor):
    """GRU layers, a linear layer with ReLU (``head`` units; none if 0), class logits. The context is the top layer's output."""

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        horizon: int,
        width: int = 16,
        layers: int = 2,
        head: int = 8,
        dropout: float = 0.0,
        time_features: int = 0,
        hinges: bool = False,
        bins: Bins | None = None,
    ) -> None:
        super().__init__()
        self.context_size = width
        self.inputs = RevealInput(n_features, horizon, time_features, hinges=hinges, bins=bins)
        self.gru = nn.GRU(self.inputs.width, width, layers, dropout=dropout if layers > 1 else 0.0)
        self.head = nn.Sequential(nn.Linear(width, head), nn.ReLU()) if head else nn.Identity()
        self.logits = nn.Linear(head or width, n_classes)

    def init(self, size: int) -> tuple[Float[Tensor, "B H"], State]:
        """Zeros, as in torch."""
        zeros = self.logits.weight.new_zeros(size, self.gru.num_layers, self.gru.hidden_size)
        return zeros[:, 0], {"hidden": zeros}

    def step(self, reveal: Reveal, state: State) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B H"], State]:
        """One step of all layers."""
        out = self.inputs(reveal)
        hidden = []
        for i, before in enumerate(state["hidden"].unbind(1)):
            if i and self.training and self.gru.dropout:
                out = functional.dropout(out, self.gru.dropout)
            out = torch.gru_cell(out, before, *self.gru.all_weights[i])
            hidden.append(out)
        return self.logits(self.head(out)), out, {"hidden": torch.stack(hidden, 1)}

    def packed(self, reveals: Reveal, sizes: tuple[int, ...]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N H"]]:
        """All steps at once; series of like length run side by side, see :func:`over_series`."""
        context = over_series(lambda block: self.gru(block)[0], self.inputs(reveals), sizes)
        return self.logits(self.head(context)), context
