"""Acquirers: one mechanism per file, all behind :class:`whichwhen.contracts.Acquirer`."""

from __future__ import annotations

import torch

from whichwhen.acquirers._inputs import Turns, ViewInput
from whichwhen.acquirers.fixed import CompleteAcquirer, NoneAcquirer, RandomAcquirer, RandomMasks
from whichwhen.acquirers.learned import LearnedAcquirer, RecurrentAcquirer
from whichwhen.acquirers.oracle import OracleAcquirer
from whichwhen.acquirers.reserve import WithReserve
from whichwhen.acquirers.static import StaticAcquirer
from whichwhen.acquirers.table import TableAcquirer
from whichwhen.contracts import Acquirer
from whichwhen.menu import Menu
from whichwhen.specs import AcquirerSpec

__all__ = [
    "CompleteAcquirer",
    "LearnedAcquirer",
    "NoneAcquirer",
    "OracleAcquirer",
    "RandomAcquirer",
    "RandomMasks",
    "RecurrentAcquirer",
    "StaticAcquirer",
    "TableAcquirer",
    "WithReserve",
    "make_acquirer",
]


def make_acquirer(
    spec: AcquirerSpec,
    menu: Menu,
    horizon: int,
    longest: int,
    context_size: int,
    seed: int,
) -> Acquirer:
    """The acquirer of a spec, with fresh weights, and before what it is fitted on or told.

    Args:
        spec: the mechanism and its sizes.
        menu: what can be ordered.
        horizon: the longest training series.
        longest: the longest series at all, for the oracle's table.
        context_size: width of the predictor's context.
        seed: of random requests.
    """
    n_features, n_orders = len(menu.features), len(menu.orders)
    match spec.kind:
        case "learned":
            inputs = ViewInput(
                n_features,
                n_orders,
                horizon,
                spec.time_features,
                context_size=context_size if spec.context else 0,
                budget=spec.budget,
                value_features=spec.value_features,
                delays=menu.delays,
                freshness=spec.freshness,
                values=spec.values,
            )
            turns = Turns(torch.from_numpy(menu.reveals).float()) if spec.turns else None
            if spec.memory:
                return RecurrentAcquirer(inputs, spec.hidden, turns, spec.memory)
            return LearnedAcquirer(inputs, spec.hidden, turns)
        case "table":
            return TableAcquirer(n_orders, horizon)
        case "random":
            return RandomAcquirer(n_orders, seed)
        case "complete":
            return CompleteAcquirer(n_orders)
        case "none":
            return NoneAcquirer(n_orders)
        case "static":
            return StaticAcquirer(n_orders, segments=1, horizon=horizon)
        case "static-by-time":
            return StaticAcquirer(n_orders, segments=min(spec.segments, horizon), horizon=horizon)
        case "oracle":
            return OracleAcquirer(n_orders, longest)
