"""Conformance checks that a stranger's plug-in can run.

Does it keep the contract? Each raises AssertionError with what is wrong. The project's own models pass them in its tests.
"""

from __future__ import annotations

import torch
from torch import Tensor

from whichwhen.budget import PerStep
from whichwhen.contracts import Acquirer, Predictor
from whichwhen.menu import Feature, Menu
from whichwhen.rollout import Policy, evaluating, inference, roll_out
from whichwhen.types import Batch, Reveal, State, tree_map


def check_predictor(predictor: Predictor, n_features: int, n_classes: int, steps: int = 9, tolerance: float = 1e-5) -> None:
    """Shapes; step path and whole-sequence path agree; no step looks ahead; no series looks at another."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([steps, max(2, steps // 2), steps - 1, 2])
    reveals = _random_reveals(len(lengths), steps, n_features, generator)
    with evaluating(predictor):
        logits, context = predictor.sequence(reveals, lengths)
        assert logits.shape == (len(lengths), steps, n_classes), f"sequence gave logits of shape {tuple(logits.shape)}"
        assert context.shape == (len(lengths), steps, predictor.context_size), "context is not context_size wide"
        stepped = step_through(predictor, reveals)
        for i, length in enumerate(lengths.tolist()):
            gap = float((stepped[i, :length] - logits[i, :length]).abs().max())
            assert gap <= tolerance, f"step path and sequence path differ by {gap:.2g} in series {i}"
            assert not logits[i, length:].any(), f"logits after the end of series {i}"
            alone, _ = predictor.sequence(tree_map(lambda x, i=i: x[i : i + 1], reveals), lengths[i : i + 1])  # type: ignore[misc]
            gap = float((alone[0, :length] - logits[i, :length]).abs().max())
            assert gap <= tolerance, f"series {i} gets other logits in a batch than alone, by {gap:.2g}"
        later = reveals.values.clone()
        later[:, steps // 2 :] += 1.0
        changed, _ = predictor.sequence(Reveal(later, reveals.mask, reveals.age, reveals.time), lengths)
        gap = float((changed[:, : steps // 2] - logits[:, : steps // 2]).abs().max())
        assert gap <= tolerance, f"a later value changes an earlier prediction by {gap:.2g}"


def check_acquirer(acquirer: Acquirer, n_features: int, n_orders: int, steps: int = 9) -> None:
    """Shapes; exact budgets in the loop; a series gets the same requests alone and in a batch; values it did not ask for,
    and later ones, change no request.
    """
    assert n_features == n_orders, "this check builds a menu of one order per feature"
    menu = Menu.one_per_feature(Feature(f"x{i}") for i in range(n_features))
    amount = max(1, n_orders // 3)
    policy = Policy(menu, PerStep(amount), acquirer, _Blind())
    generator = torch.Generator().manual_seed(1)
    batch = _random_batch(4, steps, n_features, generator)
    with inference(policy):
        record = roll_out(policy, batch)
        requests = record.selections.request
        assert requests.shape == (4, steps, n_orders), f"requests of shape {tuple(requests.shape)}"
        assert float(record.cost.max()) <= amount, "more was requested than the budget allows"
        for i, length in enumerate(batch.lengths.tolist()):
            alone = roll_out(policy, tree_map(lambda x, i=i: x[i : i + 1], batch)).selections.request  # type: ignore[misc]
            assert torch.equal(alone[0, :length], requests[i, :length]), f"series {i}: other requests alone than in a batch"
        hidden = batch.values + torch.where(record.reveals.mask > 0, 0.0, 1.0)
        again = roll_out(policy, Batch(hidden, batch.observed, batch.lengths, batch.keys))
        assert torch.equal(again.selections.request, requests), "values that were not revealed change a request"
        later = batch.values.clone()
        later[:, steps // 2 :] += 1.0
        again = roll_out(policy, Batch(later, batch.observed, batch.lengths, batch.keys))
        seen = slice(0, steps // 2 + 1)  # the request for step t was made after step t-1
        assert torch.equal(again.selections.request[:, seen], requests[:, seen]), "later values change an earlier request"


def step_through(predictor: Predictor, reveals: Reveal) -> Tensor:
    """Logits ``[B, T, C]`` by the step path alone."""
    _, state = predictor.init(len(reveals.values))
    out = []
    for t in range(reveals.values.shape[1]):
        logits, _, state = predictor.step(tree_map(lambda x, t=t: x[:, t], reveals), state)  # type: ignore[misc]
        out.append(logits)
    return torch.stack(out, 1)


class _Blind(Predictor):
    """Knows nothing and says so."""

    context_size = 1

    def init(self, size: int) -> tuple[Tensor, State]:
        return torch.zeros(size, 1), {}

    def step(self, reveal: Reveal, state: State) -> tuple[Tensor, Tensor, State]:
        size = len(reveal.values)
        return torch.zeros(size, 2), torch.zeros(size, 1), state

    def packed(self, reveals: Reveal, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        return torch.zeros(sum(sizes), 2), torch.zeros(sum(sizes), 1)


def _random_reveals(size: int, steps: int, n_features: int, generator: torch.Generator) -> Reveal:
    mask = (torch.rand(size, steps, n_features, generator=generator) < 0.5).float()
    values = torch.randn(size, steps, n_features, generator=generator) * mask
    return Reveal(values, mask, torch.zeros_like(mask), torch.arange(steps).expand(size, steps))


def _random_batch(size: int, steps: int, n_features: int, generator: torch.Generator) -> Batch:
    lengths = torch.tensor([steps, steps - 1, max(2, steps // 2), steps])[:size]
    values = torch.randn(size, steps, n_features, generator=generator)
    observed = (torch.arange(steps) < lengths.unsqueeze(1)).unsqueeze(-1).expand_as(values)
    return Batch(values * observed, observed, lengths, torch.arange(size) * 7919 + 13)
