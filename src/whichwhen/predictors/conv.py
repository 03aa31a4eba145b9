"""Causal dilated convolutions with a running mean over time."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from whichwhen.contracts import Predictor
from whichwhen.predictors._bins import Bins
from whichwhen.predictors._dropout import dropout
from whichwhen.predictors._inputs import RevealInput
from whichwhen.types import Reveal, State

_KERNEL = 3


class ConvPredictor(Predictor):
    """Linear embedding, residual causal convolutions with dilations 1, 2, 4, …, mean over the steps so far, class logits.

    With ``now`` the logits are read from the last block's output, too: where the label changes from step to step, as the
    danger that a patient is in does, the mean alone moves ever more slowly. The step path keeps, per block, the last inputs
    that its kernel reaches back to, and the running sum: its cost does not grow with the number of steps that came before.
    The context is the last block's output beside the running mean.
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
        hinges: bool = False,
        bins: Bins | None = None,
        now: bool = False,
    ) -> None:
        super().__init__()
        self.context_size = 2 * width
        self.now = now
        self.inputs = RevealInput(n_features, horizon, time_features, hinges, bins)
        self.embed = nn.Linear(self.inputs.width, width)
        self.blocks = nn.ModuleList(_Block(width, 2**i, dropout) for i in range(blocks))
        self.logits = nn.Linear(2 * width if now else width, n_classes)

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
        context = torch.cat([hidden, mean], -1)
        return self.logits(context if self.now else mean), context, after

    def packed(self, reveals: Reveal, sizes: tuple[int, ...]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N H"]]:
        """All steps at once; nothing is computed on padding."""
        hidden = self.embed(self.inputs(reveals))
        for block in self._blocks():
            hidden = block(hidden, sizes)
        count = torch.repeat_interleave(torch.arange(1, len(sizes) + 1), torch.tensor(sizes)).to(hidden)
        mean = _running_sum(hidden, sizes) / count.unsqueeze(-1)
        context = torch.cat([hidden, mean], -1)
        return self.logits(context if self.now else mean), context

    def _blocks(self) -> list[_Block]:
        return list(self.blocks)  # type: ignore[arg-type]


class _Block(nn.Module):
    """x + dropout(GELU(causal convolution of x)).

    The convolution is three linear maps of the inputs at lags 0, d and 2d. In the packed order a lag is a shift of whole rows,
    so there is nothing to transpose: a third cheaper than ``conv1d`` on this machine, and no padding.
    """

    def __init__(self, width: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.dilation = dilation
        self.reach = (_KERNEL - 1) * dilation
        self.conv = nn.Linear(_KERNEL * width, width)
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "N W"], sizes: tuple[int, ...]) -> Float[Tensor, "N W"]:
        taps = [_lag(x, sizes, self.dilation * i) for i in reversed(range(_KERNEL))]
        return self._act(x, torch.cat(taps, -1))

    def step(self, x: Float[Tensor, "B W"], past: Float[Tensor, "B R W"]) -> tuple[Tensor, Tensor]:
        """The same at one step; ``past`` holds the last ``reach`` inputs, oldest first."""
        window = torch.cat([past, x.unsqueeze(1)], 1)
        return self._act(x, window[:, :: self.dilation].flatten(1)), window[:, 1:]

    def _act(self, x: Tensor, taps: Tensor) -> Tensor:
        out = F.gelu(F.linear(taps, self.conv.weight, self.conv.bias))
        return x + (dropout(out, self.dropout) if self.training and self.dropout else out)


def _lag(x: Float[Tensor, "N W"], sizes: tuple[int, ...], lag: int) -> Float[Tensor, "N W"]:
    """The rows of the same series ``lag`` steps earlier; 0 before the first step."""
    if lag == 0:
        return x
    if sizes[0] == sizes[-1]:
        start = min(lag, len(sizes)) * sizes[0]
        return torch.cat([x.new_zeros(start, x.shape[1]), x[: len(x) - start]])
    rows = torch.split(x, list(sizes))  # one node in the graph, where slices would be one each
    before = x.new_zeros(sum(sizes[:lag]), x.shape[1])
    return torch.cat([before, *(rows[t - lag][: sizes[t]] for t in range(lag, len(sizes)))])


def _running_sum(x: Float[Tensor, "N W"], sizes: tuple[int, ...]) -> Float[Tensor, "N W"]:
    """The sum over the steps so far, for each series."""
    if sizes[0] == sizes[-1]:
        return x.view(len(sizes), sizes[0], -1).cumsum(0).view_as(x)
    total, out = x.new_zeros(sizes[0], x.shape[1]), []
    for row in torch.split(x, list(sizes)):
        total = total[: len(row)] + row
        out.append(total)
    return torch.cat(out)
