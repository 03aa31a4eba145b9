"""Causal dilated convolutions with a running mean over time."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from whichwhen.contracts import Predictor
from whichwhen.predictors._inputs import RevealInput
from whichwhen.types import Reveal, State

_KERNEL = 3


class ConvPredictor(Predictor):
    """Linear embedding, residual causal convolutions with dilations 1, 2, 4, …, mean over the steps so far, class logits.

    The step path keeps, per block, the last inputs that its kernel reaches back to, and the running sum: its cost does not
    grow with the number of steps that came before. The context is the last block's output beside the running mean.
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        horizon: int,
        width: int = 32,
        blocks: int = 4,
        dropout: float = 0.0,
        time_features: int = 8,
    ) -> None:
        super().__init__()
        self.context_size = 2 * width
        self.inputs = RevealInput(n_features, horizon, time_features)
        self.embed = nn.Linear(self.inputs.width, width)
        self.blocks = nn.ModuleList(_Block(width, 2**i, dropout) for i in range(blocks))
        self.logits = nn.Linear(width, n_classes)

    def init(self, size: int) -> tuple[Float[Tensor, "B H"], State]:
        """Zeros: the same as the padding on the left of a whole sequence."""
        width = self.embed.out_features
        like = self.embed.weight
        state = {f"past{i}": like.new_zeros(size, block.reach, width) for i, block in enumerate(self._blocks())}
        state["sum"] = like.new_zeros(size, width)
        state["count"] = like.new_zeros(size, 1)
        return like.new_zeros(size, self.context_size), state

    def step(self, reveal: Reveal, state: State) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B H"], State]:
        """One step, from the kept inputs of each block."""
        hidden = self.embed(self.inputs(reveal))
        after: State = {}
        for i, block in enumerate(self._blocks()):
            hidden, after[f"past{i}"] = block.step(hidden, state[f"past{i}"])
        after["sum"] = state["sum"] + hidden
        after["count"] = state["count"] + 1
        mean = after["sum"] / after["count"]
        return self.logits(mean), torch.cat([hidden, mean], -1), after

    def sequence(self, reveals: Reveal, lengths: Int[Tensor, " B"]) -> tuple[Float[Tensor, "B T C"], Float[Tensor, "B T H"]]:
        """All steps at once. Series are grouped by length, so that little is computed on padding."""
        steps = reveals.values.shape[1]
        inputs = self.inputs(reveals)
        logits = inputs.new_zeros(len(inputs), steps, self.logits.out_features)
        context = inputs.new_zeros(len(inputs), steps, self.context_size)
        for rows, longest in _length_groups(lengths):
            hidden = self.embed(inputs[rows, :longest]).transpose(1, 2)
            for block in self._blocks():
                hidden = block(hidden)
            hidden = hidden.transpose(1, 2)
            count = torch.arange(1, longest + 1, device=hidden.device).unsqueeze(-1)
            mean = hidden.cumsum(1) / count
            valid = (count.squeeze(-1) <= lengths[rows].unsqueeze(1)).unsqueeze(-1)
            places = (rows.unsqueeze(1), torch.arange(longest, device=hidden.device))
            logits = logits.index_put(places, self.logits(mean) * valid)
            context = context.index_put(places, torch.cat([hidden, mean], -1) * valid)
        return logits, context

    def _blocks(self) -> list[_Block]:
        return list(self.blocks)  # type: ignore[arg-type]


class _Block(nn.Module):
    """x + dropout(GELU(causal convolution of x))."""

    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.dilation = dilation
        self.reach = (_KERNEL - 1) * dilation
        self.conv = nn.Conv1d(width, width, _KERNEL, dilation=dilation)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Float[Tensor, "B W T"]) -> Float[Tensor, "B W T"]:
        padded: Tensor = F.pad(x, (self.reach, 0))
        out: Tensor = x + self.drop(F.gelu(self.conv(padded)))
        return out

    def step(self, x: Float[Tensor, "B W"], past: Float[Tensor, "B R W"]) -> tuple[Tensor, Tensor]:
        """The same at one step; ``past`` holds the last ``reach`` inputs, oldest first."""
        window = torch.cat([past, x.unsqueeze(1)], 1)
        taps = window[:, :: self.dilation].transpose(1, 2)
        out = F.linear(taps.flatten(1), self.conv.weight.flatten(1), self.conv.bias)
        return x + self.drop(F.gelu(out)), window[:, 1:]


def _length_groups(lengths: Int[Tensor, " B"], slack: float = 0.125) -> list[tuple[Int[Tensor, " G"], int]]:
    """Rows of similar length, with the longest of each group: no row is padded by more than ``slack`` of that, or 2 steps."""
    ranked, rows = torch.sort(lengths, descending=True, stable=True)
    groups: list[tuple[Tensor, int]] = []
    start, values = 0, ranked.tolist()
    for i, value in enumerate([*values, -1]):
        longest = values[start]
        if value < longest - max(2, int(slack * longest)):
            groups.append((rows[start:i], longest))
            start = i
    return groups
