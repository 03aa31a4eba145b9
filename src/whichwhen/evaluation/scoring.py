"""Roll a policy out over a set of series and keep what tables and figures need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from whichwhen.data.store import SeriesSet
from whichwhen.evaluation.metrics import Metrics, real_fraction
from whichwhen.evaluation.ranking import auprc, auroc
from whichwhen.provenance import Provenance
from whichwhen.rollout import Policy, inference, roll_out
from whichwhen.selection import HardTopK
from whichwhen.types import Batch, Hindsight, Rollout


@dataclass(frozen=True)
class Evaluation:
    """A policy on N series.

    Attributes:
        metrics: the numbers.
        ids: ``[N]``; names: ``[N]``, the same, or what the series are called.
        labels, predictions: ``[N]``, positions in the classes.
        cost: ``[N]``, billed over the whole series.
        delivered: ``[N]``, of it what the record could answer, in whole or in part.
        losses: ``[N]``, cross-entropy of each series: of its last prediction, or, where every step has a label, the mean.
        probabilities: ``[N, C]`` after the last step.
        step_probabilities: ``[sum of lengths, C]``, series after series, where every step has a label; else None.
        lengths: ``[N]``.
        requested_by_class: ``[C, T, K]``, how many series of each class requested each order at each step.
        going_by_class: ``[C, T]``, how many series of each class have that step.
        samples: all requests of a few series, by position in the N: ``[T_i, K]`` bool.
    """

    metrics: Metrics
    ids: np.ndarray
    names: np.ndarray
    labels: np.ndarray
    predictions: np.ndarray
    cost: np.ndarray
    delivered: np.ndarray
    losses: np.ndarray
    probabilities: np.ndarray
    step_probabilities: np.ndarray | None
    lengths: np.ndarray
    requested_by_class: np.ndarray
    going_by_class: np.ndarray
    samples: dict[int, np.ndarray]

    @property
    def requested(self) -> np.ndarray:
        """``[T, K]``, how many series requested each order at each step."""
        total: np.ndarray = self.requested_by_class.sum(0)
        return total

    @property
    def going(self) -> np.ndarray:
        """``[T]``, how many series have that step."""
        total: np.ndarray = self.going_by_class.sum(0)
        return total


def evaluate(
    policy: Policy,
    series: SeriesSet,
    truth: Provenance | None = None,
    batch_size: int = 512,
    device: torch.device | str = "cpu",
    samples: int = 0,
    loop: Callable[[Policy, Batch], Rollout] = roll_out,
) -> Evaluation:
    """Hard selection, no dropout, each series on its own: the outcome does not depend on the batch size.

    Args:
        policy: what to evaluate; its selector is set aside for the hard one.
        series: on what.
        truth: which columns are real, for ``real_fraction``; where all are, or nobody knows, there is none.
        batch_size: series at a time.
        device: where the models are.
        samples: of how many series of each class to keep all requests; the first ones are taken.
        loop: step by step, as a session goes; training, which looks at validation often, has a faster one.
    """
    policy = policy.with_selector(HardTopK())
    steps, n_orders = int(series.lengths.max()), len(policy.menu.orders)
    n_classes = int(series.labels.max()) + 1
    tally = _Tally(series, policy)
    requested = torch.zeros(n_classes, steps, n_orders, dtype=torch.float64)
    kept = {int(i) for c in range(n_classes) for i in np.flatnonzero(series.labels == c)[:samples]}
    requests: dict[int, np.ndarray] = {}
    by_length = np.argsort(-series.lengths, kind="stable")
    with inference(policy):
        for start in range(0, len(series), batch_size):
            rows = by_length[start : start + batch_size]
            known = series.hindsight(rows, device)
            record = loop(policy, known.batch)
            tally.add(rows, record, known)
            labels = known.labels[record.by_length].cpu()
            for t, step in enumerate(record.steps):
                asked = step.selection.request.cpu()
                requested[:, t].index_add_(0, labels[: len(asked)], asked.double())
            if kept.intersection(rows.tolist()):
                asked_by_series = record.padded(record.flat(lambda step: step.selection.request)).cpu().numpy() > 0
                for place, row in enumerate(rows.tolist()):
                    if row in kept:
                        requests[row] = asked_by_series[place, : series.lengths[row]].copy()
    real = None
    if truth is not None and not truth.real.all():
        real = real_fraction(requested.sum(0).numpy(), truth.of_orders(policy.menu.reveals))
    has_step = series.lengths[:, None] > np.arange(steps)
    return Evaluation(
        metrics=tally.metrics(real),
        ids=series.ids,
        names=series.ids if series.names is None else series.names,
        labels=series.labels,
        predictions=tally.probabilities.argmax(1),
        cost=tally.cost,
        delivered=tally.delivered,
        losses=tally.series_losses,
        probabilities=tally.probabilities,
        step_probabilities=tally.step_probabilities,
        lengths=series.lengths,
        requested_by_class=requested.numpy(),
        going_by_class=np.stack([has_step[series.labels == c].sum(0) for c in range(n_classes)]),
        samples={row: requests[row] for row in sorted(requests)},
    )


class _Tally:
    """What is added up while batches go by."""

    def __init__(self, series: SeriesSet, policy: Policy) -> None:
        self.series, self.rules = series, policy.rules
        n, each_step = len(series), series.step_labels is not None
        self.cost, self.delivered = np.zeros(n), np.zeros(n)
        self.probabilities = np.zeros((n, 0))
        self.step_probabilities: np.ndarray | None = np.zeros((len(series.values), 0)) if each_step else None
        self.losses = np.zeros(len(series.values) if each_step else n)
        self.asked = self.unanswered = 0.0

    def add(self, rows: np.ndarray, record: Rollout, known: Hindsight) -> None:
        """One batch."""
        shares = torch.softmax(record.final_logits.double(), -1).cpu().numpy()
        if not self.probabilities.shape[1]:
            self.probabilities = np.zeros((len(self.probabilities), shares.shape[1]))
            if self.step_probabilities is not None:
                self.step_probabilities = np.zeros((len(self.step_probabilities), shares.shape[1]))
        self.probabilities[rows] = shares
        if self.step_probabilities is None:
            self.losses[rows] = F.cross_entropy(record.final_logits.double(), known.labels, reduction="none").cpu().numpy()
        else:
            assert known.step_labels is not None
            series, time = record.series_by_row, record.time_by_row
            lines = self.series.offsets[rows[series.cpu().numpy()]] + time.cpu().numpy()
            logits = record.logits_by_row.double()
            self.step_probabilities[lines] = torch.softmax(logits, -1).cpu().numpy()
            self.losses[lines] = F.cross_entropy(logits, known.step_labels[series, time], reduction="none").cpu().numpy()
        self.cost[rows] = record.cost.sum(1, dtype=torch.float64).cpu().numpy()
        if known.batch.complete:
            self.delivered[rows] = self.cost[rows]
            self.asked += float(sum(step.selection.request.sum() for step in record.steps))
            return
        request = record.selections.request
        answered = request * self.rules.to(request.device).answerable(known.batch.observed)
        self.delivered[rows] = (answered.double() @ self.rules.costs.to(request.device).double()).sum(1).cpu().numpy()
        self.asked += float(request.sum())
        self.unanswered += float(request.sum() - answered.sum())

    @property
    def series_losses(self) -> np.ndarray:
        """``[N]``."""
        if self.step_probabilities is None:
            return self.losses
        offsets = self.series.offsets - self.series.offsets[0]
        return np.add.reduceat(self.losses, offsets[:-1]) / self.series.lengths

    def metrics(self, real: float | None) -> Metrics:
        """All batches together."""
        series = self.series
        each = self.step_probabilities is not None
        shares = self.step_probabilities if self.step_probabilities is not None else self.probabilities
        labels = series.step_labels[:] if each and series.step_labels is not None else series.labels
        two = shares.shape[1] == 2 and bool(np.isfinite(shares).all())
        return Metrics(
            accuracy=float((shares.argmax(1) == labels).mean()),
            loss=float(self.losses.mean()),
            cost_per_step=float(self.cost.sum() / series.lengths.sum()),
            real_fraction=real,
            n=len(series),
            auroc=auroc(shares, labels) if two else None,
            auprc=auprc(shares, labels) if two else None,
            requested_cost=float(self.cost.mean()),
            delivered_cost=float(self.delivered.mean()),
            unanswered=self.unanswered / self.asked if self.asked else 0.0,
        )
