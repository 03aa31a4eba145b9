"""The paper's loop, written down as its text reads: the yardstick for what this project's loop saves.

One Python step per time step, in it the same predictor's ``nn.LSTM`` on one step, and one ``gumbel_softmax`` per draw; a graph
through everything. Nothing that makes this project's own steps cheaper is in it. Used by the benchmark only.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from whichwhen.predictors import LSTMPredictor
from whichwhen.rollout import Policy
from whichwhen.types import Allowance, Batch, Reveal, View


def literal_logits(policy: Policy, batch: Batch, budget: int, temperature: float = 1.0) -> Float[Tensor, "B C"]:
    """The last prediction for series of one length, in a graph that reaches the acquirer."""
    predictor = policy.predictor
    assert isinstance(predictor, LSTMPredictor)
    size, steps, features = batch.values.shape
    context, state = predictor.init(size)[0], None
    acquirer_state = policy.acquirer.init(batch.keys)
    allowance = Allowance(torch.full((size,), float(budget)), torch.ones(size, features, dtype=torch.bool))
    reveal = Reveal.nothing(size, features)
    logits = batch.values.new_zeros(size, 0)
    for t in range(steps):
        view = View(reveal, allowance, context, torch.full((size,), t))
        scores, acquirer_state = policy.acquirer.step(view, acquirer_state)
        mask = pick_one_by_one(scores.values, budget, temperature)
        reveal = Reveal(mask * batch.values[:, t], mask, torch.zeros_like(mask), torch.full((size,), t))
        out, state = predictor.lstm(predictor.inputs(reveal).unsqueeze(0), state)
        context = out[0]
        logits = predictor.logits(predictor.head(context))
    return logits


def pick_one_by_one(logits: Float[Tensor, "B K"], budget: int, temperature: float) -> Float[Tensor, "B K"]:
    """Draw after draw, with the paper's penalty 100·m·|l| on what was drawn."""
    mask = torch.zeros_like(logits)
    for _ in range(budget):
        penalty = 100.0 * mask.detach() * logits.abs()
        mask = mask + F.gumbel_softmax(logits - penalty, tau=temperature, hard=True)
    return mask.clamp(max=1.0)
