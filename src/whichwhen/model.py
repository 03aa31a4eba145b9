"""A policy with what it is bound to: its spec, its columns, its classes and its scaling."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, model_validator
from torch import Tensor

from whichwhen import keyed
from whichwhen._version import __version__
from whichwhen.acquirers import (
    OracleAcquirer,
    RoundRobinAcquirer,
    StaticAcquirer,
    WithOwnPredictor,
    make_acquirer,
)
from whichwhen.acquirers.static import forest_importance, worth_per_cost
from whichwhen.budget import Budget, MeanCost, PerStep, Price, Total, Unlimited, check_mean_cost, default_per_step
from whichwhen.contracts import Predictor
from whichwhen.data.store import Dataset
from whichwhen.errors import FeatureError, SpecError
from whichwhen.menu import Feature, Menu, Order
from whichwhen.predictors import fit_bins, make_predictor
from whichwhen.rollout import Policy
from whichwhen.session import Session
from whichwhen.specs import AcquirerKind, RunSpec

FORMAT = 3
"""Of everything that is written to a run folder; raised when an older reader would misunderstand it."""
DEFAULT_PRICE = 1e-3
"""Nats per unit of cost, until a price was found."""
TREES = 200
"""Of the forest that ranks the orders for fixed rules."""
FOREST_CELLS = 1 << 29
"""Of the training series that the forest of the fixed rules is shown at most, 2 GB: of more series it gets a random sample."""
READS_PREDICTION = 1000
"""Training series from which on a learned acquirer reads the prediction. Of fewer a predictor is certain by heart, on new ones
it is not."""
BIN_CELLS = 1 << 26
"""Of the training series that the edges of bins are laid by at most, 256 MB."""


class Card(BaseModel):
    """What a model is bound to. Travels with the weights, in the same file.

    Attributes:
        format, version: of the writer.
        spec: what the model was trained with.
        features: names of the F columns, in order.
        units: their units.
        classes: names of the C classes, in the order of the logits.
        horizon: the longest training series.
        longest: the longest series at all, in the data that it was trained and tested on.
        mean, std: how raw values are scaled, per column.
        orders: what can be ordered; empty = each feature by itself, at cost 1.
        kept: the acquirer that validation chose, where the spec leaves the choice; None = the spec's own.
        prices: the lowest and the highest price of training, where there were prices.
        price: what goes with the budget, where it was found on validation.
        attempt: which one it was, where training made several.
        reads_prediction: whether the learned acquirer reads what the predictor says so far.
        refitted: whether the predictor was trained anew on training and validation series when all was chosen.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: int = FORMAT
    version: str = __version__
    spec: RunSpec
    features: tuple[str, ...]
    units: tuple[str, ...]
    classes: tuple[str, ...]
    horizon: int
    longest: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    orders: tuple[Order, ...] = ()
    kept: AcquirerKind | None = None
    prices: tuple[float, float] | None = None
    price: float | None = None
    attempt: int = 0
    reads_prediction: bool = False
    refitted: bool = False

    @property
    def acquirer(self) -> AcquirerKind:
        """Who really decides."""
        return self.kept or self.spec.acquirer.kind

    @model_validator(mode="after")
    def _check(self) -> Card:
        if not len(self.features) == len(self.units) == len(self.mean) == len(self.std):
            raise ValueError("features, units, mean and std are not of one length")
        return self

    @classmethod
    def of(cls, spec: RunSpec, data: Dataset) -> Card:
        """The card of a model for a data set."""
        return cls(
            spec=spec,
            features=tuple(feature.name for feature in data.features),
            units=tuple(feature.unit for feature in data.features),
            classes=data.classes,
            horizon=data.horizon,
            longest=data.longest,
            mean=tuple(float(number) for number in data.scaler.mean),
            std=tuple(float(number) for number in data.scaler.std),
            orders=() if data.menu is None else data.menu.orders,
            reads_prediction=spec.training.epochs is None and not spec.acquirer.context and len(data.train) >= READS_PREDICTION,
        )


@dataclass(frozen=True)
class Model:
    """A policy and its card.

    Attributes:
        card: what it is bound to.
        policy: who decides and predicts.
        held_out: where the predictor has learned from the validation series, too, the one before that has not: for all that is
            chosen on validation.
    """

    card: Card
    policy: Policy
    held_out: Predictor | None = None

    def on_validation(self, policy: Policy) -> Policy:
        """A policy of this model, at whatever budget, with a predictor that has not learned from the validation series."""
        return policy if self.held_out is None else replace(policy, predictor=self.held_out)

    @property
    def fingerprint(self) -> str:
        """A short name of spec, columns and weights."""
        content = hashlib.sha256(self.card.model_dump_json().encode())
        for name, tensor in sorted(self.tensors().items()):
            content.update(name.encode())
            content.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return content.hexdigest()[:16]

    def modules(self) -> dict[str, torch.nn.Module]:
        """What has weights."""
        modules = {"acquirer": self.policy.acquirer, "predictor": self.policy.predictor}
        return modules if self.held_out is None else {**modules, "held_out": self.held_out}

    def tensors(self) -> dict[str, Tensor]:
        """All weights and fitted tables by name, as they are now (not copies)."""
        return {
            f"{part}.{name}": tensor for part, module in self.modules().items() for name, tensor in module.state_dict().items()
        }

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Put weights in their places; every name and shape must fit, else RuntimeError."""
        if unknown := sorted(tensors.keys() - self.tensors().keys()):
            raise RuntimeError(f"unknown tensor {unknown[0]}")
        for part, module in self.modules().items():
            own = {name.removeprefix(f"{part}."): value for name, value in tensors.items() if name.startswith(f"{part}.")}
            module.load_state_dict(own)

    def check_features(self, names: Sequence[str]) -> None:
        """Raise :class:`FeatureError` unless these are the model's columns, in its order."""
        own = self.card.features
        if tuple(names) == own:
            return
        missing = [name for name in own if name not in set(names)]
        extra = [name for name in names if name not in set(own)]
        twice = sorted({name for name in names if list(names).count(name) > 1})
        if twice:
            got = f"columns with {_some(twice)} more than once"
        elif missing or extra:
            parts = [f"{what} {_some(part)}" for what, part in (("without", missing), ("with unknown", extra)) if part]
            got = f"columns {' and '.join(parts)}"
        else:
            place = next(i for i, (a, b) in enumerate(zip(names, own, strict=True)) if a != b)
            got = f"columns in another order ({names[place]!r} stands where {own[place]!r} should)"
        raise FeatureError(
            got, expected=f"the model's {len(own)} columns: {_some(own)}", do="pass the columns that it was trained on"
        )

    def check_classes(self, classes: Sequence[str]) -> None:
        """Raise :class:`FeatureError` unless these are the model's classes, in its order."""
        if tuple(classes) != self.card.classes:
            raise FeatureError(
                f"classes {_some(classes)}",
                expected=f"the model's {_some(self.card.classes)}",
                do="pass data with the classes that it was trained on",
            )

    def session(self, key: int = 0) -> Session:
        """A step-by-step session for one series."""
        return Session(
            self.policy,
            self.card.classes,
            np.array(self.card.mean),
            np.array(self.card.std),
            self.fingerprint,
            key,
        )


def make_budget(card: Card, menu: Menu, priced: bool) -> Budget:
    """The budget of a card: of its spec, with the prices that were found.

    Args:
        card: of the model.
        menu: what can be ordered.
        priced: whether the acquirer's scores answer to prices.
    """
    own, horizon = card.spec.budget, card.horizon
    if card.acquirer in ("complete", "none"):
        return Unlimited()
    cap = math.inf if own.per_step is None else own.per_step
    delivered = own.bill == "delivered"
    if own.total is not None:
        return Total(own.total, card.price if priced else None, None if priced else horizon, delivered, cap)
    if own.price is not None and priced:
        return Price(own.price, cap)
    if own.mean_cost is not None or own.price is not None:
        if priced:
            return Price(card.price or DEFAULT_PRICE, cap)
        return MeanCost(own.mean_cost if own.mean_cost is not None else card.price or min(filter(None, menu.prices)), cap)
    amount = default_per_step(menu) if own.per_step is None else own.per_step
    return PerStep(amount) if card.prices is None or not priced else Price(card.prices[0], amount)


def blank_model(card: Card) -> Model:
    """A model of the card's shape with fresh weights, drawn from the spec's seed and the attempt."""
    spec, kind = card.spec, card.acquirer
    features = [Feature(name, unit) for name, unit in zip(card.features, card.units, strict=True)]
    menu = Menu(tuple(features), card.orders) if card.orders else Menu.one_per_feature(features)
    by_recipe = spec.training.epochs is None
    shape = spec.predictor_of(card.attempt), len(features), len(card.classes), card.horizon
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keyed.stream_seed(spec.seed, "weights", *((card.attempt,) if card.attempt else ())))
        predictor = make_predictor(*shape)
        gated = spec.selector.kind == "gate"
        n_classes = len(card.classes) if card.reads_prediction else 0
        acquirer = make_acquirer(
            kind, spec.acquirer, menu, card.horizon, card.longest, predictor.context_size, spec.seed, gated, n_classes
        )
        if acquirer.learns and spec.training.objective == "value":
            acquirer.unit = "nats"
        if acquirer.reads_context and by_recipe:
            acquirer = WithOwnPredictor(acquirer, make_predictor(*shape), n_classes)
        held_out = make_predictor(*shape).eval() if card.refitted else None
    taught = by_recipe or spec.budget.price is not None or card.price is not None
    priced = acquirer.unit != "logits" and taught
    budget = make_budget(card, menu, priced)
    if kind not in ("none", "complete"):  # free channels alone are a menu for none, and complete has no limit
        budget.check(menu)
        if spec.budget.mean_cost is not None:
            check_mean_cost(spec.budget.mean_cost, menu)
    return Model(card, Policy(menu, budget, acquirer.eval(), predictor.eval()), held_out)


def make_model(spec: RunSpec, data: Dataset) -> Model:
    """An untrained model for a data set, with what comes before training: the fixed rules' forest, the oracle's truth."""
    for order in data.menu.orders if data.menu is not None else ():
        if order.turnaround > data.horizon:
            raise SpecError(
                f"order {order.name!r} takes {order.turnaround} steps, and the longest series has {data.horizon}",
                expected="a turnaround within a series",
                do="leave the order out, or change its turnaround",
            )
    model = blank_model(Card.of(spec, data))
    fit_inputs(model, data)
    fit_rule(model, data)
    return model


def fit_inputs(model: Model, data: Dataset) -> None:
    """Lay the edges of the predictor's bins, if it has any, by the training series."""
    spec = model.card.spec
    if spec.predictor.bins:
        fit_bins(model.policy.predictor, _some_rows(spec, data))


def fit_rule(model: Model, data: Dataset, importance: np.ndarray | None = None) -> None:
    """Give a fixed rule its ranking, and the oracle the truth; ``importance`` ``[T, F]`` if it is known already."""
    acquirer, menu = model.policy.acquirer, model.policy.menu
    if isinstance(acquirer, OracleAcquirer):
        acquirer.tell(data.provenance, menu.reveals)
    elif isinstance(acquirer, StaticAcquirer | RoundRobinAcquirer):
        importance = importance_of(model, data) if importance is None else importance
        if isinstance(acquirer, StaticAcquirer):
            acquirer.fit(importance, menu)
        else:
            acquirer.fit(torch.from_numpy(worth_per_cost(importance, menu).sum(0)))


def _some_rows(spec: RunSpec, data: Dataset) -> np.ndarray:
    """Scaled steps of training series, ``[rows, F]``: all, or those of a random sample of series."""
    cells = max(1, len(data.train.values) * len(data.features))
    series = _at_random(spec, data, max(1, BIN_CELLS * len(data.train) // cells))
    return data.train.take(series).values[:]


def _for_forest(spec: RunSpec, data: Dataset) -> np.ndarray:
    """The training series that a forest is shown: all, or as many as fit."""
    return _at_random(spec, data, max(1, FOREST_CELLS // (data.horizon * len(data.features))))


def _at_random(spec: RunSpec, data: Dataset, most: int) -> np.ndarray:
    """Training series, in order: all, or ``most`` of them at random."""
    rows = np.arange(len(data.train))
    return rows if len(rows) <= most else np.sort(np.random.default_rng(_forest_seed(spec)).permutation(rows)[:most])


def importance_of(model: Model, data: Dataset) -> np.ndarray:
    """``[T, F]``, of each feature at each step, by a forest; 0 for what arrives by itself, which no order needs to bring."""
    spec, rules = model.card.spec, model.policy.rules
    rows = _for_forest(spec, data)
    values = np.nan_to_num(data.train.padded(rows, steps=data.horizon))
    by_recipe = spec.training.epochs is None
    trees = TREES if by_recipe else spec.acquirer.trees
    labels = data.train.labels[rows]
    importance = forest_importance(values, labels, trees, _forest_seed(spec), jobs=1 if by_recipe else -1, extra=by_recipe)
    given = rules.given(1)
    return importance if given is None else importance * (given.cpu().numpy() == 0)


def _forest_seed(spec: RunSpec) -> int:
    return keyed.stream_seed(spec.seed, "forest") % 2**32


def _some(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, … ({len(names)} in all)"
