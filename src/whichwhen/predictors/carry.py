"""What was measured last stays in sight: each feature's last value, and how long ago that was."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from whichwhen.contracts import Predictor
from whichwhen.timecode import freshness, steps_since
from whichwhen.types import Reveal, State, join

_LAST, _SINCE, _KNOWN = "carry.last", "carry.since", "carry.known"


class CarryPredictor(Predictor):
    """Another predictor, which reads beside each value the last one that was known and how fresh it is.

    For series of which little is measured at a step (a lab twice a day among hourly vital signs): a convolution would have to
    reach back, a recurrent net to remember. The inner predictor has three inputs for each feature: what arrived, the last that
    arrived by now, and 1 / (1 + steps since it was sampled). The last value passes the gradient of its mask on; with ``credit``
    so does that it is known at all.
    """

    def __init__(self, inner: Predictor, n_features: int, credit: bool = False) -> None:
        super().__init__()
        self.inner = inner
        self.n_features = n_features
        self.credit = credit
        self.context_size = inner.context_size

    def init(self, size: int) -> tuple[Float[Tensor, "B H"], State]:
        """Nothing known."""
        context, state = self.inner.init(size)
        return context, {**state, **self._nothing(context, size)}

    def step(self, reveal: Reveal, state: State) -> tuple[Float[Tensor, "B C"], Float[Tensor, "B H"], State]:
        """One step, with what is known by now."""
        own = self._known(reveal, state)
        inside = {name: tensor for name, tensor in state.items() if name not in own}
        logits, context, after = self.inner.step(_beside(reveal, own), inside)
        return logits, context, {**after, **own}

    def packed(self, reveals: Reveal, sizes: tuple[int, ...]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N H"]]:
        """All steps at once."""
        own = self._nothing(reveals.values, sizes[0])
        steps: list[State] = []
        by_step = [torch.split(part, list(sizes)) for part in (reveals.values, reveals.mask, reveals.age, reveals.time)]
        for values, mask, age, time in zip(*by_step, strict=True):
            before = {name: tensor[: len(values)] for name, tensor in own.items()}
            own = self._known(Reveal(values, mask, age, time), before)
            steps.append(own)
        return self.inner.packed(_beside(reveals, join(steps)), sizes)

    def _nothing(self, like: Tensor, size: int) -> State:
        zeros = like.new_zeros(size, self.n_features)
        return {_LAST: zeros, _SINCE: zeros - 1, **({_KNOWN: zeros} if self.credit else {})}

    def _known(self, reveal: Reveal, before: State) -> State:
        """The last known value, the steps since it was sampled (-1 = never), and whether there is one."""
        after = {
            _LAST: reveal.values + (1 - reveal.mask) * before[_LAST],
            _SINCE: steps_since(reveal, before[_SINCE]),
        }
        if self.credit:
            after[_KNOWN] = reveal.mask + (1 - reveal.mask) * before[_KNOWN]
        return after


def _beside(reveal: Reveal, own: State) -> Reveal:
    last, since = own[_LAST], own[_SINCE]
    seen = (since >= 0).to(last.dtype)
    known, fresh = own.get(_KNOWN, seen), freshness(since)
    return Reveal(
        torch.cat([reveal.values, last, fresh], -1),
        torch.cat([reveal.mask, known, seen], -1),
        torch.cat([reveal.age, since.clamp(min=0), since.clamp(min=0)], -1),
        reveal.time,
    )
