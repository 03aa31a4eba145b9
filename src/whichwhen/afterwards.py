"""The same loop with the predictor reading all steps at once when the acquirer is through.

An acquirer that does not look at the predictor's context need not wait for it, and a whole series at once is far cheaper to
read than step by step. For training and evaluation; a session has no afterwards.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from whichwhen.contracts import Predictor
from whichwhen.noise import Generator
from whichwhen.ordering import Rules
from whichwhen.rollout import Policy, roll_out
from whichwhen.types import Batch, Reading, Reveal, Rollout, State, tree_map


def walk_then_read(policy: Policy, batch: Batch, generator: Generator | None = None) -> Rollout:
    """As :func:`roll_out`, to the same requests, logits and gradient; faster where the acquirer need not wait for predictions.

    The logits are those of the whole record (``flat_logits`` and what is made of it); its single steps have none then.
    """
    if policy.acquirer.reads_context:
        return roll_out(policy, batch, generator)
    return read_afterwards(policy, Unread(policy.predictor), batch, generator)


def read_afterwards(
    policy: Policy, reader: Reader, batch: Batch, generator: Generator | None, *, branching: bool = False
) -> Rollout:
    """The loop with ``reader`` in the predictor's place, and the predictor's own logits in the record.

    With ``branching`` the reader's states are kept, and no gradient goes from the predictions to the requests.
    """
    record = roll_out(replace(policy, predictor=reader), batch, generator, keep_states=branching)
    reveals = record.flat(lambda step: step.reveal)
    logits, _ = policy.predictor.packed(tree_map(Tensor.detach, reveals) if branching else reveals, record.sizes)
    return replace(record, flat_logits=logits)


def read_requests(predictor: Predictor, rules: Rules, batch: Batch, requests: Float[Tensor, "B T K"]) -> Reading:
    """The predictions after each step where these requests are made: the loop without an acquirer.

    ``batch`` holds the longest series first.
    """
    reveals = rules.reveals(requests, batch)
    lengths = batch.lengths
    going = lengths > torch.arange(batch.steps, device=lengths.device).unsqueeze(1)
    sizes = tuple(n for n in going.sum(1).tolist() if n)
    if sizes[-1] == batch.size:
        flat = tree_map(lambda tensor: tensor.transpose(0, 1).flatten(0, 1), reveals)
    else:
        step, series = going.nonzero(as_tuple=True)
        flat = tree_map(lambda tensor: tensor[series, step], reveals)
    logits, _ = predictor.packed(flat, sizes)
    return Reading(torch.arange(batch.size, device=lengths.device), lengths, sizes, logits)


class Reader(Predictor):
    """Stands in for a predictor while the acquirer walks; the real one reads everything afterwards."""

    def __init__(self, inner: Predictor) -> None:
        super().__init__()
        self.inner = inner
        self.context_size = inner.context_size

    def packed(self, reveals: Reveal, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """As inside."""
        return self.inner.packed(reveals, sizes)


class Unread(Reader):
    """Says nothing: for acquirers that do not look at the context."""

    def init(self, size: int) -> tuple[Tensor, State]:
        """An empty context."""
        return torch.zeros(size, 0), {}

    def step(self, reveal: Reveal, state: State) -> tuple[Tensor, Tensor, State]:
        """No logits, no context."""
        nothing = reveal.values.detach()[:, :0]
        return nothing, nothing, state
