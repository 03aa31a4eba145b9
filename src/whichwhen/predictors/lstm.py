"""A stack of LSTM layers: the paper's classifier."""

from __future__ import annotations

from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from whichwhen.contracts import Predictor
from whichwhen.predictors._inputs import RevealInput
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
    ) -> None:
        super().__init__()
        self.context_size = width
        self.inputs = RevealInput(n_features, horizon, time_features)
        self.lstm = nn.LSTM(self.inputs.width, width, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.head = nn.Sequential(nn.Linear(width, head), nn.ReLU()) if head else nn.Identity()
        self.logits = nn.Linear(head or width, n_classes)

    def init(self, size: int) -> tuple[Float[Tensor, "B H"], State]:
        """Zeros, as in torch."""
        zeros = self.logits.weight.new_zeros(size, self.lstm.num_layers, self.lstm.hidden_size)
        return zeros[:, 0], {"hidden": zeros, "cell": zeros}

    def step(self, reveal: Reveal, state: State) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B H"], State]:
        """One step of all layers."""
        layered = tuple(state[name].transpose(0, 1).contiguous() for name in ("hidden", "cell"))
        out, (hidden, cell) = self.lstm(self.inputs(reveal).unsqueeze(1), layered)
        context = out[:, 0]
        return (
            self.logits(self.head(context)),
            context,
            {"hidden": hidden.transpose(0, 1), "cell": cell.transpose(0, 1)},
        )

    def sequence(self, reveals: Reveal, lengths: Int[Tensor, " B"]) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "B T H"]]:
        """All steps at once, on packed series: nothing is computed on padding."""
        steps = reveals.values.shape[1]
        packed = pack_padded_sequence(self.inputs(reveals), lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = self.lstm(packed)
        logits = self.logits(self.head(out.data))
        padded = [
            pad_packed_sequence(out._replace(data=data), batch_first=True, total_length=steps)[0] for data in (logits, out.data)
        ]
        return padded[0], padded[1]
