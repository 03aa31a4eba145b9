"""Acquirers: one mechanism per file, all behind :class:`whichwhen.contracts.Acquirer`."""

from __future__ import annotations

import torch

from whichwhen.acquirers._inputs import ViewInput, Waiting
from whichwhen.acquirers.fixed import CompleteAcquirer, NoneAcquirer, RandomAcquirer, RandomMasks
from whichwhen.acquirers.learned import LearnedAcquirer, RecurrentAcquirer, WithOwnPredictor
from whichwhen.acquirers.oracle import OracleAcquirer
from whichwhen.acquirers.round_robin import RoundRobinAcquirer
from whichwhen.acquirers.static import StaticAcquirer
from whichwhen.acquirers.table import TableAcquirer
from whichwhen.contracts import Acquirer
from whichwhen.menu import Menu
from whichwhen.specs import AcquirerKind, AcquirerSpec

__all__ = [
    "CompleteAcquirer",
    "LearnedAcquirer",
    "NoneAcquirer",
    "OracleAcquirer",
    "RandomAcquirer",
    "RandomMasks",
    "RecurrentAcquirer",
    "RoundRobinAcquirer",
    "StaticAcquirer",
    "TableAcquirer",
    "WithOwnPredictor",
    "make_acquirer",
]


def prediction_size(n_classes: int) -> int:
    """Width of what :func:`read_prediction` makes of C classes."""
    return n_classes + 1 if n_classes else 0


def make_acquirer(
    kind: AcquirerKind,
    spec: AcquirerSpec,
    menu: Menu,
    horizon: int,
    longest: int,
    context_size: int,
    seed: int,
    gated: bool = True,
    n_classes: int = 0,
) -> Acquirer:
    """An acquirer with fresh weights, and before what it is fitted on or told.

    Args:
        kind: the mechanism.
        spec: its sizes.
        menu: what can be ordered.
        horizon: the longest training series.
        longest: the longest series at all, for the oracle's table.
        context_size: width of the predictor's context.
        seed: of random requests.
        gated: whether a learned acquirer's scores are log worths, or logits as in the paper.
        n_classes: C for one that reads the prediction where it does not read the predictor's context.
    """
    n_features, n_orders = len(menu.features), len(menu.orders)
    match kind:
        case "learned" | "learned-only":
            inputs = ViewInput(
                n_features,
                n_orders,
                horizon,
                spec.time_features,
                context_size=context_size if spec.context else prediction_size(n_classes),
                value_features=spec.value_features,
                delays=menu.delays,
            )
            waiting = Waiting(torch.from_numpy(menu.reveals).float()) if gated else None
            if spec.memory:
                return RecurrentAcquirer(inputs, spec.hidden, waiting, spec.memory)
            return LearnedAcquirer(inputs, spec.hidden, waiting)
        case "table":
            return TableAcquirer(n_orders, horizon, "log-worth" if gated else "logits")
        case "random":
            return RandomAcquirer(n_orders, seed)
        case "complete":
            return CompleteAcquirer(n_orders)
        case "none":
            return NoneAcquirer(n_orders)
        case "round-robin":
            return RoundRobinAcquirer(n_orders)
        case "static":
            return StaticAcquirer(n_orders, segments=1, horizon=horizon)
        case "static-by-time":
            return StaticAcquirer(n_orders, segments=min(spec.segments, horizon), horizon=horizon)
        case "oracle":
            return OracleAcquirer(n_orders, longest)
