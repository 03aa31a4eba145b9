"""Roll a policy out over a set of series and keep what tables and figures need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from whichwhen.data.store import SeriesSet
from whichwhen.evaluation.metrics import Metrics, real_fraction
from whichwhen.provenance import Provenance
from whichwhen.rollout import Policy, inference, roll_out
from whichwhen.selection import HardTopK


@dataclass(frozen=True)
class Evaluation:
    """A policy on N series.

    Attributes:
        metrics: the numbers.
        ids, labels, predictions: ``[N]``; positions in the classes.
        cost: ``[N]``, billed over the whole series.
        lengths: ``[N]``.
        requested_by_class: ``[C, T, K]``, how many series of each class requested each order at each step.
        going_by_class: ``[C, T]``, how many series of each class have that step.
        samples: all requests of a few series, by position in the N: ``[T_i, K]`` bool.
    """

    metrics: Metrics
    ids: np.ndarray
    labels: np.ndarray
    predictions: np.ndarray
    cost: np.ndarray
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
) -> Evaluation:
    """Hard selection, no dropout, each series on its own: the outcome does not depend on the batch size.

    Args:
        policy: what to evaluate; its selector is set aside for the hard one.
        series: on what.
        truth: which columns are real, for ``real_fraction``.
        batch_size: series at a time.
        device: where the models are.
        samples: of how many series of each class to keep all requests; the first ones are taken.
    """
    policy = policy.with_selector(HardTopK())
    steps, n_orders = int(series.lengths.max()), len(policy.menu.orders)
    predictions = np.zeros(len(series), dtype=np.int64)
    losses = np.zeros(len(series))
    cost = np.zeros(len(series))
    n_classes = int(series.labels.max()) + 1
    requested = torch.zeros(n_classes, steps, n_orders, dtype=torch.float64)
    kept = {int(i) for c in range(n_classes) for i in np.flatnonzero(series.labels == c)[:samples]}
    requests: dict[int, np.ndarray] = {}
    by_length = np.argsort(-series.lengths, kind="stable")
    with inference(policy):
        for start in range(0, len(series), batch_size):
            rows = by_length[start : start + batch_size]
            known = series.hindsight(rows, device)
            record = roll_out(policy, known.batch)
            logits = record.final_logits
            predictions[rows] = logits.argmax(-1).cpu().numpy()
            losses[rows] = F.cross_entropy(logits.double(), known.labels, reduction="none").cpu().numpy()
            cost[rows] = record.cost.sum(1, dtype=torch.float64).cpu().numpy()
            labels = known.labels[record.by_length].cpu()
            for t, step in enumerate(record.steps):
                asked = step.selection.request.cpu()
                requested[:, t].index_add_(0, labels[: len(asked)], asked.double())
            places = {int(row): place for place, row in enumerate(rows[record.by_length.cpu().numpy()]) if int(row) in kept}
            for row, place in places.items():
                own = [step.selection.request[place] > 0 for step in record.steps[: series.lengths[row]]]
                requests[row] = torch.stack(own).cpu().numpy()
    real = None
    if truth is not None:
        real = real_fraction(requested.sum(0).numpy(), truth.of_orders(policy.menu.reveals))
    metrics = Metrics(
        accuracy=float((predictions == series.labels).mean()),
        loss=float(losses.mean()),
        cost_per_step=float(cost.sum() / series.lengths.sum()),
        real_fraction=real,
        n=len(series),
    )
    has_step = series.lengths[:, None] > np.arange(steps)
    going = np.stack([has_step[series.labels == c].sum(0) for c in range(n_classes)])
    ordered = {row: requests[row] for row in sorted(requests)}
    return Evaluation(metrics, series.ids, series.labels, predictions, cost, series.lengths, requested.numpy(), going, ordered)
