"""Training as the paper does it: epochs for one budget, both models together, and the choice of the epoch to keep."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from whichwhen import keyed
from whichwhen.acquirers import RandomMasks
from whichwhen.afterwards import walk_then_read
from whichwhen.allocator import keep_freed_memory
from whichwhen.budget import Unlimited
from whichwhen.data.rows import count_classes
from whichwhen.data.store import Dataset, SeriesSet
from whichwhen.errors import SpecError, TrainingError
from whichwhen.evaluation import Metrics, evaluate
from whichwhen.model import Model
from whichwhen.noise import Generator, NoisePool
from whichwhen.selection import HardTopK, make_selector
from whichwhen.specs import TrainingSpec
from whichwhen.training.checkpoints import TrainState, load_optimizer_tensors, optimizer_tensors
from whichwhen.training.class_weights import class_weights
from whichwhen.training.detached import roll_out_branching, roll_out_detached
from whichwhen.training.objectives import EndToEnd, Objective, make_objective
from whichwhen.types import Batch, Rollout


@dataclass(frozen=True)
class EpochRecord:
    """A line of ``history.jsonl``.

    Attributes:
        epoch: from 1.
        objective: what was minimised, over the training series.
        loss, accuracy: of the last prediction, over the training series as they were seen in training (noisy selection,
            dropout, weights that move).
        validation_loss, validation_accuracy: with hard selection, after the epoch.
        learning_rate: at the epoch's end, the predictor's.
        best: whether this epoch is the best so far; always, where a price is paid: loss and bill are not one number there.
        cpu_seconds: from the start of training to the end of this epoch.
        validation_auroc: where there are two classes.
    """

    epoch: int
    objective: float
    loss: float
    accuracy: float
    validation_loss: float
    validation_accuracy: float
    learning_rate: float
    best: bool
    cpu_seconds: float
    validation_auroc: float | None = None


def fit(
    model: Model,
    data: Dataset,
    *,
    objective: Objective | None = None,
    state: TrainState | None = None,
    device: torch.device | str = "cpu",
    on_epoch: Callable[[TrainState], None] = lambda state: None,
) -> TrainState:
    """Train a model in place until its epochs are over, and leave the best epoch's weights in it.

    Each epoch's randomness is drawn from (seed, epoch): with the ``state`` of an earlier sitting, training goes on to the
    same weights as without the break. The test split is not touched.

    Args:
        model: what to train; its card's spec says how.
        data: the training split to learn from, the validation split to choose by.
        objective: what to minimise; by default that of the spec.
        state: where an earlier sitting stopped.
        device: where to compute.
        on_epoch: called after each epoch, for checkpoints and progress.
    """
    keep_freed_memory()
    settings = model.card.spec.training
    if settings.choose_by == "auroc" and len(data.classes) > 2:
        raise SpecError("choose-by auroc for more than two classes", expected="two", do="use --choose-by accuracy or loss")
    priced = model.card.spec.budget.price is not None
    objective = objective or make_objective(model.card.spec, model.policy, priced)
    warm_up = warm_up_loop(model)
    epochs = settings.epochs or 0
    for module in model.modules().values():
        module.to(device)
    parameters = [p for module in model.modules().values() for p in module.parameters() if p.requires_grad]
    optimizer = make_optimizer(model)
    state = state or TrainState()
    state.rounds = epochs
    if state.history:
        model.load_tensors(state.weights)
        load_optimizer_tensors(optimizer, state.optimizer)
    spent_before = state.cpu_seconds
    started = time.process_time()

    even = not settings.level_gain or settings.class_weight == "balanced"  # balanced, a good model may be below a guess
    guess = 0.0 if even else largest_share(data.validation, len(data.classes))
    while len(state.history) < epochs and not _is_over(state, settings, guess):
        epoch = len(state.history) + 1
        warming = epoch <= settings.warm_up
        plays = warm_up if warming else training_loop(model, objective)
        minimises = EndToEnd(settings.step_loss) if warming else objective
        minimised, loss, accuracy = _run_epoch(model, plays, data, minimises, optimizer, parameters, epoch, device)
        scores = evaluate(model.policy, data.validation, device=device, loop=walk_then_read).metrics
        _check_finite(scores.loss, epoch)
        state.cpu_seconds = spent_before + time.process_time() - started
        record = EpochRecord(
            epoch=epoch,
            objective=minimised,
            loss=loss,
            accuracy=accuracy,
            validation_loss=scores.loss,
            validation_accuracy=scores.accuracy,
            learning_rate=optimizer.param_groups[-1]["lr"],
            best=priced or _better(scores, state, settings),
            cpu_seconds=round(state.cpu_seconds, 3),
            validation_auroc=scores.auroc,
        )
        state.history.append(asdict(record))
        state.weights = _copy(model.tensors())
        state.optimizer = _copy(optimizer_tensors(optimizer))
        if record.best:
            state.best, state.best_epoch = state.weights, epoch
        on_epoch(state)
    model.load_tensors(state.best)
    for module in model.modules().values():
        module.eval()
    return state


def make_optimizer(model: Model) -> torch.optim.Optimizer:
    """AdamW over all that learns."""
    settings = model.card.spec.training
    parameters = [p for module in model.modules().values() for p in module.parameters() if p.requires_grad]
    return torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)


def training_loop(model: Model, objective: Objective | None = None) -> Callable[[Batch, Generator], Rollout]:
    """The loop as training runs it: what learns selects with noise and a gradient, what doesn't as in evaluation."""
    spec, policy = model.card.spec, model.policy
    policy = policy.with_selector(make_selector(spec.selector) if policy.acquirer.learns else HardTopK())
    if objective is not None and objective.branches:
        return partial(roll_out_branching, policy)
    full = spec.training.gradient == "full" and policy.acquirer.learns
    return partial(walk_then_read if full else roll_out_detached, policy)


def warm_up_loop(model: Model) -> Callable[[Batch, Generator], Rollout]:
    """The loop before the acquirer takes part: random masks of any size, without a limit."""
    spec, policy = model.card.spec, model.policy
    masks = RandomMasks(len(policy.menu.orders), spec.seed)
    policy = replace(policy, acquirer=masks, budget=Unlimited(), selector=HardTopK())
    return partial(roll_out_detached, policy)


def gain_of_last_fifth(history: Sequence[Mapping[str, Any]]) -> float:
    """What the best validation accuracy gained over the last fifth of the epochs: whether a run has levelled off."""
    accuracies = [line["validation_accuracy"] for line in history if line["validation_accuracy"] is not None]
    before = max(1, len(accuracies) * 4 // 5)
    return max(accuracies) - max(accuracies[:before])


def largest_share(series: SeriesSet, n_classes: int) -> float:
    """Of the most frequent class: the accuracy of naming nothing else."""
    labels = series.labels if series.step_labels is None else series.step_labels
    return float(count_classes(labels, n_classes).max() / len(labels))


def learning_rate(settings: TrainingSpec, progress: float) -> float:
    """At a share ``progress`` of all gradient steps."""
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))


def _run_epoch(
    model: Model,
    run: Callable[[Batch, Generator], Rollout],
    data: Dataset,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    parameters: list[nn.Parameter],
    epoch: int,
    device: torch.device | str,
) -> tuple[float, float, float]:
    """One pass over the training series: means of the objective, the last prediction's loss and its accuracy."""
    spec = model.card.spec
    settings = spec.training
    draws = min(len(data.train.values) * len(model.policy.menu.orders), 1 << 22)
    noise = NoisePool(keyed.stream_seed(spec.seed, "noise", epoch), draws)
    totals = np.zeros(3)
    balance = class_weights(data.train, len(data.classes)).to(device) if settings.class_weight == "balanced" else None
    batches = list(_batches(len(data.train), settings.batch_size, keyed.stream_seed(spec.seed, "shuffle", epoch)))
    for module in model.modules().values():
        module.train()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keyed.stream_seed(spec.seed, "dropout", epoch))
        for i, batch in enumerate(batches):
            rows = batch[np.argsort(-data.train.lengths[batch], kind="stable")]  # as the loop wants them
            known = replace(data.train.hindsight(rows, device, salt=epoch), class_weights=balance)
            record = run(known.batch, noise)
            loss = objective.loss(record, known)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise TrainingError(f"the loss became {value} in epoch {epoch}", do="lower --learning-rate, or set --clip 1")
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            if settings.clip:
                nn.utils.clip_grad_norm_(parameters, settings.clip)
            rate = learning_rate(settings, (epoch - 1 + i / len(batches)) / (settings.epochs or epoch))
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            with torch.no_grad():
                final = record.final_logits
                right = (final.argmax(-1) == known.labels).float().mean()
                totals += len(rows) * np.array([value, float(F.cross_entropy(final, known.labels)), float(right)])
    means = totals / len(data.train)
    return float(means[0]), float(means[1]), float(means[2])


def _check_finite(loss: float, epoch: int) -> None:
    if not math.isfinite(loss):
        raise TrainingError(
            f"the loss became {loss} in epoch {epoch}",
            expected="a finite number",
            do="lower --learning-rate, or set --clip 1",
        )


def _batches(count: int, size: int, seed: int) -> Iterator[np.ndarray]:
    """All rows once, shuffled, in batches of nearly equal size."""
    rows = np.random.default_rng(seed).permutation(count)
    yield from np.array_split(rows, max(1, math.ceil(count / size)))


def _better(scores: Metrics, state: TrainState, settings: TrainingSpec) -> bool:
    """Whether an epoch beats the best so far; what the metric can't tell apart, the other one decides.

    An epoch of the warm-up gives way to the first one after it: its acquirer has not learned anything yet.
    """
    if state.best_epoch <= settings.warm_up <= len(state.history) or not state.best_epoch:
        return True
    best = state.history[state.best_epoch - 1]
    if settings.choose_by == "last":
        return True
    if settings.choose_by == "loss":
        return (scores.loss, -scores.accuracy) < (best["validation_loss"], -best["validation_accuracy"])
    if settings.choose_by == "auroc":
        if scores.auroc is None:  # a folder's parts are split by hash, and steps have labels of their own
            raise SpecError(
                "choose-by auroc with one class on validation",
                expected="two",
                do="use --choose-by loss, or another --validation",
            )
        return (-scores.auroc, scores.loss) < (-best["validation_auroc"], best["validation_loss"])
    return (-scores.accuracy, scores.loss) < (-best["validation_accuracy"], best["validation_loss"])


def _is_over(state: TrainState, settings: TrainingSpec, guess: float) -> bool:
    """Whether a run stops before its last epoch; ``guess`` is what naming the most frequent class would reach."""
    epochs = len(state.history)
    if not epochs or epochs < settings.min_epochs or epochs <= settings.warm_up:
        return False
    if settings.patience and epochs - state.best_epoch >= settings.patience:
        return True
    return epochs >= 5 and _has_begun(state, guess) and gain_of_last_fifth(state.history) < settings.level_gain


def _has_begun(state: TrainState, guess: float) -> bool:
    """Whether validation has left what it started from, and what a guess reaches: an LSTM can sit there for a hundred epochs.

    One of two classes, named throughout, may start below a guess and rise to it without having learned anything.
    """
    accuracies = [line["validation_accuracy"] for line in state.history]
    return max(accuracies) - max(accuracies[0], guess) >= min(0.05, (1 - guess) / 2)


def _copy(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}
