"""What training does to its series before it shows them, anew in each epoch: for test series of other people or devices."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from whichwhen.specs import TrainingSpec
from whichwhen.types import Batch, Hindsight


def augmented(known: Hindsight, settings: TrainingSpec) -> Hindsight:
    """A batch as an epoch shows it; torch's own generator says how."""
    if settings.jitter:
        known = replace(known, batch=jittered(known.batch, settings.jitter))
    if settings.stretch:
        known = stretched(known, settings.stretch)
    return known


def jittered(batch: Batch, amount: float) -> Batch:
    """The same series with every feature of each moved up or down as a whole; what was not observed stays 0."""
    size, _, features = batch.values.shape
    offset = amount * torch.randn(size, 1, features).to(batch.values.device)
    return replace(batch, values=torch.where(batch.observed, batch.values + offset, batch.values))


def stretched(known: Hindsight, amount: float) -> Hindsight:
    """The same series, each faster or slower by a factor of at most ``exp(amount)``: steps are left out, or shown twice.

    No value is made up between two steps, so what was not observed stays so. None gets longer than the batch's longest was.
    """
    batch = known.batch
    steps, lengths = batch.steps, batch.lengths
    factor = torch.exp(amount * (2 * torch.rand(batch.size) - 1)).to(lengths.device)
    new = (lengths * factor).round().long().clamp(1, steps)
    place = torch.arange(steps, device=lengths.device).expand(batch.size, -1)
    source = torch.minimum(((place + 0.5) * (lengths / new).unsqueeze(1)).long(), (lengths - 1).unsqueeze(1))
    going_on = place < new.unsqueeze(1)

    def resampled(tensor: Tensor) -> Tensor:
        """[B, T, ...] at the new steps, 0 after the new end."""
        shape = (batch.size, steps, *(1,) * (tensor.ndim - 2))
        taken = tensor.gather(1, source.view(shape).expand_as(tensor))
        return torch.where(going_on.view(shape), taken, torch.zeros((), dtype=tensor.dtype, device=tensor.device))

    batch = replace(batch, values=resampled(batch.values), observed=resampled(batch.observed), lengths=new)
    return replace(known, batch=batch, step_labels=None if known.step_labels is None else resampled(known.step_labels))
