"""A causal transformer over observed cells."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from whichwhen.contracts import Predictor
from whichwhen.predictors._packing import over_series
from whichwhen.timecode import TimeCode
from whichwhen.types import Reveal, State

_STEEPEST = 10.0


class TransformerPredictor(Predictor):
    """Attention within each step over its observed cells, then causal attention over the steps, class logits.

    Each step has a summary token: a learned vector plus the time code. It first attends to the observed cells of its own step
    (:class:`_Cells`), then goes through ``layers`` pre-norm blocks, where it attends to the summaries of all steps so far. The
    logits are a linear map of its final, normalised state, which is the context, too. Full attention among all cells would
    cost (T·F)² per series; this costs T·F + T².

    The step path keeps, per block, keys and values of the steps so far, ``past{i}`` of shape ``[B, t, 2·width]``: tensors that
    grow by one entry per step instead of one buffer that is written to, as a state may be branched from and may carry
    gradient. No step is encoded again; only attention itself reads further back as t grows.

    Args:
        heads: at most so many; the largest number of them is taken that divides both this and ``width``. On a CPU, attention
            with four heads of 8 takes more than twice as long as with two of 16.
        dropout: of what attention and feed-forward layers add to the summary.
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        horizon: int,
        width: int = 32,
        layers: int = 4,
        dropout: float = 0.0,
        time_features: int = 8,
        heads: int = 2,
    ) -> None:
        super().__init__()
        self.context_size = width
        heads = math.gcd(width, heads)
        self.start = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.time = TimeCode(horizon, time_features) if time_features else None
        self.embed_time = nn.Linear(self.time.width, width) if self.time else None
        self.cells = _Cells(n_features, width, heads, dropout)
        self.blocks = nn.ModuleList(_Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.logits = nn.Linear(width, n_classes)

    def init(self, size: int) -> tuple[Float[Tensor, "B H"], State]:
        """Zeros, and no keys and values yet."""
        nothing = self.start.new_zeros(size, 0, 2 * self.context_size)
        return self.start.new_zeros(size, self.context_size), {f"past{i}": nothing for i in range(len(self.blocks))}

    def step(self, reveal: Reveal, state: State) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B H"], State]:
        """One step, from the kept keys and values of each block."""
        summary = self._summary(reveal)
        after: State = {}
        for i, block in enumerate(self._blocks()):
            summary, after[f"past{i}"] = block.step(summary, state[f"past{i}"])
        context = self.norm(summary)
        return self.logits(context), context, after

    def packed(self, reveals: Reveal, sizes: tuple[int, ...]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N H"]]:
        """All steps at once; series of like length run side by side, see :func:`over_series`."""
        context = self.norm(over_series(self._causal, self._summary(reveals), sizes))
        return self.logits(context), context

    def _summary(self, reveal: Reveal) -> Float[Tensor, "N W"]:
        summary = self.start.expand(len(reveal.values), -1)
        if self.time is not None and self.embed_time is not None:
            summary = summary + self.embed_time(self.time(reveal.time))
        return self.cells(summary, reveal)

    def _causal(self, summaries: Float[Tensor, "T B W"]) -> Float[Tensor, "T B W"]:
        for block in self._blocks():
            summaries = block(summaries)
        return summaries

    def _blocks(self) -> list[_Block]:
        return list(self.blocks)  # type: ignore[arg-type]


class _Cells(nn.Module):
    """x + dropout(attention of x to the observed cells of its step).

    A cell is a token: its key is a vector of its feature plus its value times another one, its value vector likewise; the
    time is in the query. One more token, nothing, is always there, so that a step without cells has something to attend to.

    The mask scales the softmax weights: m·exp(l) / Σ m·exp(l), which for 0 and 1 is attention to the observed cells alone, and
    has a derivative at 0, too. What the value adds to the value vector is not scaled again, as ``Reveal.values`` come masked:
    so the gradient of a cell that was not asked for says what its true value would have brought. As keys and value vectors are
    linear in the value, no tensor is as large as N·F·width, and there is no need to pick out the observed cells.
    """

    def __init__(self, n_features: int, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        size = width // heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.keys = nn.Parameter(torch.randn(heads, size, 2 * n_features))
        self.vectors = nn.Parameter(torch.randn(2, heads, n_features, size))
        self.no_key = nn.Parameter(torch.randn(heads, size, 1))
        self.no_vector = nn.Parameter(torch.randn(heads, 1, size))
        self.out = nn.Linear(width, width)
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "N W"], reveal: Reveal) -> Float[Tensor, "N W"]:
        heads, size = self.keys.shape[:2]
        query = self.query(self.norm(x)).view(-1, heads, size).transpose(0, 1) / math.sqrt(size)
        of_feature, of_value = torch.bmm(query, self.keys).chunk(2, -1)
        logits = torch.addcmul(of_feature, of_value, reveal.values)
        nothing = torch.bmm(query, self.no_key)
        with torch.no_grad():
            observed = logits.masked_fill(reveal.mask == 0, -torch.inf)
            top = torch.maximum(observed.amax(-1, keepdim=True), nothing)
        # observed cells are at most at the top; the others have no weight, and their gradient must not overflow
        weight = torch.exp((logits - top).clamp(max=_STEEPEST))
        rest = torch.exp(nothing - top)
        present = weight * reveal.mask
        pooled = torch.baddbmm(rest * self.no_vector, present, self.vectors[0])
        pooled = torch.baddbmm(pooled, weight * reveal.values, self.vectors[1])
        pooled = pooled / (present.sum(-1, keepdim=True) + rest)
        return x + F.dropout(self.out(pooled.transpose(0, 1).flatten(1)), self.dropout, self.training)


class _Block(nn.Module):
    """Causal self-attention and a GELU feed-forward layer, each on normalised inputs and added to them."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.attention_in = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.forward_norm = nn.LayerNorm(width)
        self.forward_in = nn.Linear(width, 2 * width)
        self.forward_out = nn.Linear(2 * width, width)
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "T B W"]) -> Float[Tensor, "T B W"]:
        steps, series, width = x.shape
        parts = self.attention_in(self.attention_norm(x)).view(steps, series, 3, self.heads, -1)
        query, key, value = parts.permute(2, 1, 3, 0, 4).unbind(0)
        read = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self._add(x, read.permute(2, 0, 1, 3).reshape(steps, series, width))

    def step(self, x: Float[Tensor, "B W"], past: Float[Tensor, "B t V"]) -> tuple[Tensor, Tensor]:
        """The same at one step; ``past`` holds keys beside values of the steps before, oldest first."""
        series, width = x.shape
        query, own = self.attention_in(self.attention_norm(x)).split([width, 2 * width], -1)
        past = torch.cat([past, own.unsqueeze(1)], 1)
        key, value = past.view(series, past.shape[1], 2, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        read = F.scaled_dot_product_attention(query.view(series, self.heads, 1, -1), key, value)
        return self._add(x, read.reshape(series, width)), past

    def _add(self, x: Tensor, read: Tensor) -> Tensor:
        x = x + F.dropout(self.attention_out(read), self.dropout, self.training)
        hidden = self.forward_out(F.gelu(self.forward_in(self.forward_norm(x))))
        return x + F.dropout(hidden, self.dropout, self.training)
