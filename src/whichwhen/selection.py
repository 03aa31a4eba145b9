"""From scores to requests, within the budget.

All selectors agree on what fits: orders are taken one after the other, each must be feasible, wanted (a score above -inf) and
payable from what is left of the allowance; what no longer fits is skipped. Where there is a price, an order must be worth it.
:class:`HardTopK` takes orders by score, for evaluation and fixed acquirers; :class:`Gate` perturbs the scores with logistic
noise, for training; :class:`SequentialGumbel` makes the paper's Gumbel-Softmax draws, one after the other.

Requests are always 0 or 1, in training too: soft samples would show the predictor a fraction of what was not measured. The
gradient comes straight through a relaxation instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from whichwhen.contracts import Selector
from whichwhen.errors import SpecError
from whichwhen.menu import LEAST_COST, LEAST_WORTH, slack, whole
from whichwhen.noise import Generator, gumbel, logistic
from whichwhen.specs import SelectorSpec
from whichwhen.types import Allowance, Scores, Selection


@dataclass(frozen=True)
class HardTopK(Selector):
    """The highest scores that fit, and are worth their price where there is one. Ties go to the first on the menu."""

    def select(
        self,
        scores: Scores,
        allowance: Allowance,
        costs: Float[Tensor, " K"],
        generator: Generator | None = None,
        noise: Tensor | None = None,
    ) -> Selection:
        """Take the highest scores; no noise, no gradient."""
        ranking = margin(scores, allowance, costs).detach()
        if allowance.price is not None:
            allowance = replace(allowance, feasible=allowance.feasible & (ranking > 0), count=None)
        request, _, _ = take_highest(ranking, allowance, costs)
        return Selection(request, request, ranking, None, _choices(allowance), allowance.price)


@dataclass(frozen=True)
class Gate(Selector):
    """Ask for each order whose margin, perturbed by logistic noise, is above a threshold; the selector of training.

    The margin is the log worth of an order minus the log of its price times its cost. With a price the threshold is 0, or,
    where a cap binds, the midpoint between the last order that the cap takes and the first one that it leaves; without a
    price it is that midpoint. The gradient is that of sigmoid(margin + noise - threshold), straight through, with the
    threshold held fixed. ``Selection.price`` is what each series is billed per unit of cost: its price, or its cap's own price
    (the threshold of the margins without noise) where that is higher.

    Attributes:
        bills: whether to work out what the cap makes a unit of cost; a walk whose steps are replayed can do without.
    """

    bills: bool = True

    def select(
        self,
        scores: Scores,
        allowance: Allowance,
        costs: Float[Tensor, " K"],
        generator: Generator | None = None,
        noise: Tensor | None = None,
    ) -> Selection:
        """Perturb, keep what passes; ``noise`` is ``[B, K]``."""
        if noise is None:  # the difference of two Gumbel draws: Gumbel-Softmax between asking and not asking
            noise = logistic(scores.values.shape, scores.values, generator)
        plain = margin(scores, allowance, costs)
        perturbed = plain + noise
        if allowance.count is None:
            perturbed = perturbed.masked_fill(~allowance.feasible, -torch.inf)
        ranking = perturbed.detach()
        request, limit = _within_cap(ranking, allowance, costs)
        price = allowance.price
        if price is not None:
            request = request * (ranking > 0)
        if price is not None and self.bills:
            own = plain.detach()
            if allowance.count is None:
                own = own.masked_fill(~allowance.feasible, -torch.inf)
            price = price * _within_cap(own, allowance, costs)[1].squeeze(-1).exp()
        relaxed = request
        if perturbed.requires_grad:
            relaxed = _StraightThrough.apply(perturbed, request, ranking - limit)  # type: ignore[no-untyped-call]
        return Selection(request, relaxed, ranking, noise, _choices(allowance), price, limit.squeeze(-1))


def _within_cap(
    ranking: Float[Tensor, "*B K"], allowance: Allowance, costs: Float[Tensor, " K"]
) -> tuple[Float[Tensor, "*B K"], Float[Tensor, "*B 1"]]:
    """What the cap alone would take, and its threshold; with a price at least 0, as a cap that does not bind costs nothing."""
    count = allowance.count
    if isinstance(count, Tensor) and allowance.price is not None and ranking.device.type == "cpu":
        width, first = ranking.shape[-1], ranking.shape[-1] - count.numpy()
        ordered = np.sort(ranking.numpy().reshape(-1, width), axis=-1)
        rows, first = np.arange(len(ordered)), first.ravel()
        lowest, highest = ordered[rows, first], ordered[rows, np.maximum(first - 1, 0)]
        limit = np.where(first > 0, np.maximum((lowest + highest) / 2, 0), np.float32(0))
        shape = (*ranking.shape[:-1], 1)
        if ((lowest == highest) & (first > 0)).any():  # of equals, only the first on the menu fit
            taken = greedy_fill(ranking, allowance, costs)
        else:
            taken = torch.ge(ranking, torch.from_numpy(lowest).view(shape), out=torch.empty_like(ranking))
        return taken, torch.from_numpy(limit).view(shape)
    request, lowest, highest = take_highest(ranking, allowance, costs)
    if allowance.price is None:
        return request, threshold(lowest, highest)
    binding = torch.isfinite(highest) & torch.isfinite(lowest)
    return request, torch.where(binding, ((lowest + highest) / 2).clamp(min=0), 0.0)


class _StraightThrough(torch.autograd.Function):
    """The request itself, with the gradient of sigmoid(margin) in the perturbed scores."""

    @staticmethod
    def forward(ctx: Any, perturbed: Tensor, request: Tensor, margin: Tensor) -> Tensor:
        """``request``."""
        ctx.save_for_backward(margin)
        return request.view_as(request)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Of the sigmoid."""
        (margin,) = ctx.saved_tensors
        return torch.ops.aten.sigmoid_backward(gradient, torch.sigmoid(margin)), None, None


@dataclass(frozen=True)
class SequentialGumbel(Selector):
    """The paper's selector: one straight-through Gumbel-Softmax draw after the other until the budget is spent.

    ``repeat="penalty"`` keeps drawn orders away as the paper does, by taking ``100 · m · |l|`` off their logits, with m the
    hard mask of what was drawn. The penalty vanishes with the logit, so an order can come up twice: the second draw is lost
    and fewer orders than the budget allows are requested. ``repeat="mask"`` makes the budget exact.
    """

    temperature: float = 1.0
    repeat: Literal["mask", "penalty"] = "mask"

    def select(
        self,
        scores: Scores,
        allowance: Allowance,
        costs: Float[Tensor, " K"],
        generator: Generator | None = None,
        noise: Tensor | None = None,
    ) -> Selection:
        """Draw one after the other; ``noise`` is ``[B, S, K]``."""
        if allowance.price is not None or allowance.waits:
            what = "a price" if allowance.price is not None else "a budget that is saved up"
            raise SpecError(f"{what} with the paper's selector", expected="a budget per step", do="use --selector gate")
        logits = scores.values
        draws = most_picks(allowance, costs)
        if noise is None:
            noise = gumbel((*logits.shape[:-1], draws, logits.shape[-1]), logits, generator)
        wanted: Tensor | None = None
        if not isinstance(allowance.count, int) or not math.isfinite(float(logits.detach().sum())):
            wanted = allowance.feasible & torch.isfinite(logits)
            logits = logits.masked_fill(~wanted, 0.0)
        relaxed, ranking = _Draws.apply(logits, noise, wanted, allowance, costs, self)  # type: ignore[no-untyped-call]
        return Selection(relaxed.detach(), relaxed, ranking, noise, _choices(allowance))


class _Draws(torch.autograd.Function):
    """All draws of :class:`SequentialGumbel` as one node of the graph, with the gradient worked out by hand.

    What is requested in the end is ``1 - prod_s (1 - h_s)`` with the straight-through draws ``h_s``, so the gradient of a draw
    is that of the request wherever no other draw took the order. A tenth of the calls that autograd would make of it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Float[Tensor, "*B K"],
        noise: Float[Tensor, "*B S K"],
        wanted: Bool[Tensor, "*B K"] | None,
        allowance: Allowance,
        costs: Float[Tensor, " K"],
        selector: SequentialGumbel,
    ) -> tuple[Float[Tensor, "*B K"], Float[Tensor, "*B K"]]:
        """The request and the ranking; ``wanted`` is None where every order may be drawn as long as draws are left."""
        penalty = -100.0 * logits.abs() if selector.repeat == "penalty" else None
        request, left = torch.zeros_like(logits), allowance.amount + slack(allowance.amount)
        steps, standing = noise.shape[-2], torch.zeros_like(logits)
        before, soft, hard = [], [], []
        for s in range(steps):
            current = logits
            if s and penalty is not None:
                current = torch.addcmul(logits, request, penalty)
            elif s:
                current = logits.masked_fill(request > 0, -torch.inf)
            perturbed = current + noise[..., s, :]
            alive: Tensor | None = None
            if wanted is not None:
                open_ = wanted & (costs <= left.unsqueeze(-1))
                if penalty is None:
                    open_ = open_ & (request == 0)
                alive = open_.any(-1, keepdim=True)
                perturbed = perturbed.masked_fill(~open_, -torch.inf).masked_fill(~alive, 0.0)
            hard_draw = _highest(perturbed)
            soft_draw = torch.softmax(perturbed if selector.temperature == 1 else perturbed / selector.temperature, -1)
            if alive is not None:
                soft_draw, hard_draw = soft_draw * alive, hard_draw * alive
                left = left - hard_draw @ costs
            before.append(request)
            soft.append(soft_draw)
            hard.append(hard_draw)
            request = torch.maximum(request, hard_draw)
            standing += request
        ranking = (standing - steps).masked_fill_(request == 0, -torch.inf)  # 0 for the first draw, -1 for the second
        ctx.save_for_backward(logits, *before, *soft, *hard)
        ctx.selector = selector
        ctx.mark_non_differentiable(ranking)
        return request, ranking

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        """Straight through each draw's softmax, and through the penalty."""
        logits, *saved = ctx.saved_tensors
        steps = len(saved) // 3
        before, soft, hard = saved[:steps], saved[steps : 2 * steps], saved[2 * steps :]
        times = torch.zeros_like(logits)
        for hard_draw in hard:
            times += hard_draw
        elsewhere, own = gradient * (times == 0), gradient * (times == 1)  # what was taken once is the business of that draw
        total, penalised = torch.zeros_like(logits), torch.zeros_like(logits)
        for s in range(steps):
            weighted = torch.addcmul(elsewhere, own, hard[s]).mul_(soft[s])
            inner = torch.addcmul(weighted, soft[s], weighted.sum(-1, keepdim=True), value=-1)
            total += inner
            penalised.addcmul_(before[s], inner)
        if ctx.selector.repeat == "penalty":
            total.addcmul_(penalised, logits.sign(), value=-100)
        return total / ctx.selector.temperature, None, None, None, None, None


def _highest(scores: Float[Tensor, "*B K"]) -> Float[Tensor, "*B K"]:
    """1 at the highest of each row, the first of them if several are: by comparison, which is far faster than an argmax."""
    top = torch.eq(scores, scores.amax(-1, keepdim=True), out=torch.empty_like(scores))
    if int(top.sum()) == top[..., 0].numel():
        return top
    return torch.zeros_like(scores).scatter_(-1, scores.argmax(-1, keepdim=True), 1.0)


def margin(scores: Scores, allowance: Allowance, costs: Float[Tensor, " K"]) -> Float[Tensor, "*B K"]:
    """What orders are ranked by. Where there is a price, above 0 = worth it.

    Logits are taken as they are. A log worth, and the log of a worth in nats, is compared with log(price · cost); without a
    price, with log(cost).
    """
    if scores.unit == "logits":
        return scores.values
    worth = scores.values if scores.unit == "log-worth" else scores.values.clamp(min=LEAST_WORTH).log()
    worth = worth - costs.clamp(min=LEAST_COST).log()
    return worth if allowance.price is None else worth - allowance.price.log().unsqueeze(-1)


def _choices(allowance: Allowance) -> Bool[Tensor, "*B K"] | None:
    """What there is to choose from, where that is not everything."""
    return allowance.feasible if allowance.count is None else None


def make_selector(spec: SelectorSpec) -> Selector:
    """The relaxed selector of a spec."""
    if spec.kind == "gate":
        return Gate()
    return SequentialGumbel(spec.temperature, spec.repeat)


Edges = tuple[Float[Tensor, "*B K"], Float[Tensor, "*B 1"], Float[Tensor, "*B 1"]]


def take_highest(ranking: Float[Tensor, "*B K"], allowance: Allowance, costs: Float[Tensor, " K"]) -> Edges:
    """The request for the highest that fit, the lowest taken (inf if none), the highest left (-inf if none)."""
    quick = _take_count(ranking, allowance.count) if allowance.count is not None else None
    if quick is not None:
        return quick
    request = greedy_fill(ranking, allowance, costs)
    left = (request == 0) & allowance.feasible & (ranking > -torch.inf)
    lowest = ranking.masked_fill(request == 0, torch.inf).amin(-1, keepdim=True)
    highest = ranking.masked_fill(~left, -torch.inf).amax(-1, keepdim=True)
    return request, lowest, highest


def threshold(lowest: Float[Tensor, "*B 1"], highest: Float[Tensor, "*B 1"]) -> Float[Tensor, "*B 1"]:
    """Midway between what was taken and what was not; where one is missing, one below or above the other."""
    middle = (lowest + highest) / 2
    if math.isfinite(float(middle.sum())):
        return middle
    middle = torch.where(torch.isinf(highest), lowest - 1, middle)
    middle = torch.where(torch.isinf(lowest), highest + 1, middle)
    return torch.nan_to_num(middle, nan=0.0, posinf=0.0, neginf=0.0)


def _take_count(ranking: Float[Tensor, "*B K"], count: int | Int[Tensor, "*B"]) -> Edges | None:
    """The ``count`` highest of each row, all orders being feasible at one cost; None where ties or -inf need a closer look."""
    width = ranking.shape[-1]
    if isinstance(count, int):
        if count == width:  # enough for everything that is wanted
            wanted = ranking > -torch.inf
            lowest = ranking.masked_fill(~wanted, torch.inf).amin(-1, keepdim=True)
            return wanted.to(ranking.dtype), lowest, torch.full_like(lowest, -torch.inf)
        if not 0 < count < width:
            return None
    elif not bool(((count > 0) & (count < width)).all()):
        return None
    if ranking.device.type == "cpu":
        rows = np.sort(ranking.numpy(), axis=-1)  # vectorised in numpy: five times as fast as torch.topk here
        if isinstance(count, int):
            taken, left = rows[..., -count, None], rows[..., -count - 1, None]
        else:
            first = width - count.numpy()[..., None]
            taken, left = np.take_along_axis(rows, first, -1), np.take_along_axis(rows, first - 1, -1)
        if not (taken > left).all() or left.min() == -np.inf:
            return None
        lowest, highest = torch.from_numpy(taken), torch.from_numpy(left)
    else:
        last = torch.as_tensor(count, device=ranking.device).expand(ranking.shape[:-1]).unsqueeze(-1)
        top = torch.topk(ranking, int(last.max()) + 1).values
        lowest, highest = top.gather(-1, last - 1), top.gather(-1, last)
        if not bool(((lowest > highest) & (highest > -torch.inf)).all()):
            return None
    return torch.ge(ranking, lowest, out=torch.empty_like(ranking)), lowest, highest


def greedy_fill(scores: Float[Tensor, "*B K"], allowance: Allowance, costs: Float[Tensor, " K"]) -> Float[Tensor, "*B K"]:
    """The request for orders by falling score, skipping what no longer fits; ties go to the first on the menu.

    Where the allowance waits, nothing is skipped: the first that does not fit is the end.
    """
    wanted = allowance.feasible & (scores > -torch.inf)
    ranked = torch.sort(scores.masked_fill(~wanted, -torch.inf), dim=-1, descending=True, stable=True).indices
    if bool((costs == costs[0]).all()):
        affordable = whole(allowance.amount / costs[0]).unsqueeze(-1)
        taken = wanted.gather(-1, ranked) & (torch.arange(len(costs), device=scores.device) < affordable)
    else:
        taken = _fill_one_by_one(ranked, wanted, allowance, costs)
    return torch.zeros_like(scores).scatter_(-1, ranked, taken.to(scores.dtype))


def _fill_one_by_one(
    ranked: Int[Tensor, "*B K"], wanted: Bool[Tensor, "*B K"], allowance: Allowance, costs: Float[Tensor, " K"]
) -> Bool[Tensor, "*B K"]:
    prices = costs[ranked].masked_fill(~wanted.gather(-1, ranked), torch.inf).movedim(-1, 0).cpu().numpy()
    left = (allowance.amount + slack(allowance.amount)).cpu().numpy().flatten()
    taken = np.empty(prices.shape, dtype=bool)
    rows = len(prices), left.size
    # in numpy: four times as fast as torch on so little at a time
    for price, fits in zip(prices.reshape(rows), taken.reshape(rows), strict=True):
        np.less_equal(price, left, out=fits)
        np.subtract(left, price, out=left, where=fits)
        if allowance.waits:
            left[~fits & (price < np.inf)] = -np.inf
    return torch.from_numpy(taken).movedim(0, -1).to(ranked.device)


def most_picks(allowance: Allowance, costs: Float[Tensor, " K"]) -> int:
    """S: the largest number of orders that any allowance can pay for."""
    if isinstance(allowance.count, int):
        return allowance.count
    if allowance.amount.numel() == 0:
        return 0
    richest = float(allowance.amount.max())
    return int((torch.sort(costs).values.cumsum(0) <= richest + slack(richest)).sum())


def draw_log_prob(
    scores: Float[Tensor, "*B K"], order: Int[Tensor, "*B S"], feasible: Bool[Tensor, "*B K"]
) -> Float[Tensor, "*B"]:
    """Log-probability of a sequence of draws without replacement from the softmax of the scores (Plackett-Luce).

    Differentiable in the scores: what a policy gradient needs. Both Gumbel selectors with exact budgets and equal costs draw
    from this distribution.
    """
    left = scores.masked_fill(~feasible, -torch.inf)
    total = scores.new_zeros(scores.shape[:-1])
    for pick in order.unbind(-1):
        drawn = pick >= 0
        index = pick.clamp_min(0).unsqueeze(-1)
        chosen = torch.log_softmax(left, -1).gather(-1, index).squeeze(-1)
        total = total + torch.where(drawn, chosen, 0.0)
        left = torch.where(drawn.unsqueeze(-1), left.scatter(-1, index, -torch.inf), left)
    return total


def gate_log_odds(scores: Float[Tensor, "*B K"], selection: Selection) -> Float[Tensor, "*B K"]:
    """How far the margins of the :class:`Gate` were above its threshold, without the noise, differentiable in the scores.

    With logistic noise, an order is asked for with the probability sigmoid of this, given the threshold; -inf for those that
    were not drawn (infeasible or mandatory ones).
    """
    assert selection.noise is not None, "a selection of the gate"
    assert selection.threshold is not None, "a selection of the gate"
    above = selection.ranking - selection.noise - selection.threshold.unsqueeze(-1)
    return above + scores - scores.detach()
