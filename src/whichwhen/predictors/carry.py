"""What was measured last stays in sight: each feature's last value, and how long ago that was."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from whichwhen.contracts import Predictor
from whichwhen.timecode import freshness, steps_since
from whichwhen.types import Reveal, State

_LAST, _SINCE = "carry.last", "carry.since"


class CarryPredictor(Predictor):
    """Another predictor, which reads beside each value the last one that was known and how fresh it is.

    For series of which little is measured at a step (a lab twice a day among hourly vital signs): a convolution would have to
    reach back, a recurrent net to remember. The inner predictor has three inputs for each feature: what arrived, the last that
    arrived by now, and 1 / (1 + steps since it was sampled). The last value passes the gradient of its mask on.
    """

    def __init__(self, inner: Predictor, n_features: int) -> None:
        super().__init__()
        self.inner = inner
        self.n_features = n_features
        self.context_size = inner.context_size

    def init(self, size: int) -> tuple[Float[Tensor, "B H"], State]:
        """Nothing known."""
        context, state = self.inner.init(size)
        nothing = context.new_zeros(size, self.n_features)
        return context, {**state, _LAST: nothing, _SINCE: nothing - 1}

    def step(self, reveal: Reveal, state: State) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B H"], State]:
        """One step, with what is known by now."""
        last, since = _known(reveal, state[_LAST], state[_SINCE])
        inside = {name: tensor for name, tensor in state.items() if name not in (_LAST, _SINCE)}
        logits, context, after = self.inner.step(_beside(reveal, last, since), inside)
        return logits, context, {**after, _LAST: last, _SINCE: since}

    def packed(self, reveals: Reveal, sizes: tuple[int, ...]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N H"]]:
        """All steps at once."""
        last = reveals.values.new_zeros(sizes[0], self.n_features)
        since = last - 1
        lasts, sinces = [], []
        by_step = [torch.split(part, list(sizes)) for part in (reveals.values, reveals.mask, reveals.age, reveals.time)]
        for values, mask, age, time in zip(*by_step, strict=True):
            last, since = _known(Reveal(values, mask, age, time), last[: len(values)], since[: len(values)])
            lasts.append(last)
            sinces.append(since)
        return self.inner.packed(_beside(reveals, torch.cat(lasts), torch.cat(sinces)), sizes)


def _known(reveal: Reveal, last: Tensor, since: Tensor) -> tuple[Tensor, Tensor]:
    """The last known value, and the steps since it was sampled (-1 = never)."""
    last = reveal.values + (1 - reveal.mask) * last
    return last, steps_since(reveal, since)


def _beside(reveal: Reveal, last: Tensor, since: Tensor) -> Reveal:
    known, fresh = (since >= 0).to(last.dtype), freshness(since)
    return Reveal(
        torch.cat([reveal.values, last, fresh], -1),
        torch.cat([reveal.mask, known, known], -1),
        torch.cat([reveal.age, since.clamp(min=0), since.clamp(min=0)], -1),
        reveal.time,
    )
