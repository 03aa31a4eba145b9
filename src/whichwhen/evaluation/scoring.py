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
        requested: ``[T, K]``, how many series requested each order at each step.
        going: ``[T]``, how many series have that step.
    """

    metrics: Metrics
    ids: np.ndarray
    labels: np.ndarray
    predictions: np.ndarray
    cost: np.ndarray
    lengths: np.ndarray
    requested: np.ndarray
    going: np.ndarray


def evaluate(
    policy: Policy,
    series: SeriesSet,
    truth: Provenance | None = None,
    batch_size: int = 512,
    device: torch.device | str = "cpu",
) -> Evaluation:
    """Hard selection, no dropout, each series on its own: the outcome does not depend on the batch size.

    Args:
        policy: what to evaluate; its selector is set aside for the hard one.
        series: on what.
        truth: which columns are real, for ``real_fraction``.
        batch_size: series at a time.
        device: where the models are.
    """
    policy = policy.with_selector(HardTopK())
    steps, n_orders = int(series.lengths.max()), len(policy.menu.orders)
    predictions = np.zeros(len(series), dtype=np.int64)
    losses = np.zeros(len(series))
    cost = np.zeros(len(series))
    requested = np.zeros((steps, n_orders))
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
            requested[: record.valid.shape[1]] += record.selections.request.sum(0).double().cpu().numpy()
    real = None
    if truth is not None:
        real = real_fraction(requested, truth.of_orders(policy.menu.reveals))
    metrics = Metrics(
        accuracy=float((predictions == series.labels).mean()),
        loss=float(losses.mean()),
        cost_per_step=float(cost.sum() / series.lengths.sum()),
        real_fraction=real,
        n=len(series),
    )
    going = (series.lengths[:, None] > np.arange(steps)).sum(0)
    return Evaluation(metrics, series.ids, series.labels, predictions, cost, series.lengths, requested, going)
