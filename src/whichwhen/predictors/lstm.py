"""A stack of LSTM layers: the paper's classifier."""

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


class LSTMPredictor(Predictor):
    """LSTM layers, a linear layer with ReLU (``head`` units; none if 0), class logits.

    The paper's sizes: 16 units, 2 layers (m-FordA) or 3 (SpokenArabicDigits), a head of 8. Its "ReLU activations" are taken to
    stand after the linear layer of 8. The context is the top layer's output.
    """

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
        self.lstm = nn.LSTM(self.inputs.width, width, layers, dropout=dropout if layers > 1 else 0.0)
        self.head = nn.Sequential(nn.Linear(width, head), nn.ReLU()) if head else nn.Identity()
        self.logits = nn.Linear(head or width, n_classes)

    def init(self, size: int) -> tuple[Float[Tensor, "B H"], State]:
        """Zeros, as in torch."""
        zeros = self.logits.weight.new_zeros(size, self.lstm.num_layers, self.lstm.hidden_size)
        return zeros[:, 0], {"hidden": zeros, "cell": zeros}

    def step(self, reveal: Reveal, state: State) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B H"], State]:
        """One step of all layers."""
        out = self.inputs(reveal)
        hidden, cell = [], []
        for i, (h, c) in enumerate(zip(state["hidden"].unbind(1), state["cell"].unbind(1), strict=True)):
            if i and self.training and self.lstm.dropout:
                out = functional.dropout(out, self.lstm.dropout)
            # one layer's cell: a third of the overhead of a whole nn.LSTM call on one step
            out, c = torch.lstm_cell(out, (h, c), *self.lstm.all_weights[i])
            hidden.append(out)
            cell.append(c)
        state = {"hidden": torch.stack(hidden, 1), "cell": torch.stack(cell, 1)}
        return self.logits(self.head(out)), out, state

    def packed(self, reveals: Reveal, sizes: tuple[int, ...]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N H"]]:
        """All steps at once; series of like length run side by side, see :func:`over_series`."""
        context = over_series(lambda block: self.lstm(block)[0], self.inputs(reveals), sizes)
        return self.logits(self.head(context)), context
