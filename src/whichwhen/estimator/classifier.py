"""A classifier that decides what is measured, in scikit-learn's style."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from whichwhen.data import Dataset, Scaler, SeriesSet
from whichwhen.data.splits import split_validation
from whichwhen.errors import InputError, ParameterError
from whichwhen.estimator import files, inputs, tables
from whichwhen.evaluation import Evaluation, evaluate
from whichwhen.menu import Feature, Menu
from whichwhen.model import Model, make_model
from whichwhen.provenance import Provenance
from whichwhen.session import Session
from whichwhen.specs import RunSpec, parse_spec
from whichwhen.threads import torch_threads
from whichwhen.training.run import fit_model

Init = TypeVar("Init", bound=Callable[..., None])


def _unchecked(init: Init) -> Init:
    """A constructor that stores whatever it gets, as scikit-learn wants it: fit checks, not the type checker of the tests."""
    init.__no_type_check__ = True  # type: ignore[attr-defined]
    return init


class Acquired(NamedTuple):
    """What a policy asked for.

    Attributes:
        requested: ``[series, orders, time]`` bool: what was measured at each step; False after the end of a series.
            Free orders are not requested.
        cost: ``[series]``, billed over the whole series.
    """

    requested: np.ndarray
    cost: np.ndarray


class AcquisitionClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Classifies time series from the measurements that it asks for, within a budget. Learns both: what to ask, what to say.

    X is ``(series, features, time)`` as in aeon, NaN = not measured; a list of arrays ``(features, time)`` of any lengths; a
    2-D array ``(series, time)`` of one feature; or, with ``table``, a data frame. At least 2 steps in each series.

    Args:
        budget: what may be spent at each step at most; with no menu every order costs 1, so this is a number of features.
            None = what fits the menu (five orders, at most a quarter of it), or, beside one of the next three, no cap.
        mean_cost: what may be spent per step on average, more at some steps than at others.
        price: ask for what is worth more than this times its cost, in nats of prediction loss.
        total: what may be spent over a whole series; never more.
        menu: what can be ordered and for how much; None = each feature by itself, at cost 1.
        acquirer: ``learned`` (the network, or a fixed rule where validation finds that as good), ``learned-only``,
            ``round-robin``, ``static``, ``static-by-time``, ``table``, ``random``, ``complete`` or ``none``.
        predictor: ``conv``, ``lstm``, ``gru`` or ``transformer``.
        width, layers: of the predictor; width None = what goes with the effort.
        objective: what the acquirer learns from: ``end-to-end``, ``greedy-cmi``, ``value`` or ``foresight``.
        effort: ``quick``, ``normal``, ``thorough`` or a number: a multiple of the training steps.
        batch_size, learning_rate: of training.
        validation: share of the series that is held out of training, to choose by.
        class_weight: None, ``balanced`` or a weight for each class, as in scikit-learn.
        table: for data frames: what the columns are, as fields of ``TableSpec``, say
            ``{"id": "stay", "time": "hour", "label": "died"}``.
        settings: further fields of the run's spec, as :meth:`RunSpec.change` takes them: ``{"acquirer__memory": 32}``.
        random_state: a seed, for the same model each time; None = another one each time.

    Attributes:
        classes_: the labels, sorted.
        n_features_in_: number of features; of a 2-D X, number of columns.
        feature_names_in_: their names, where the menu, the table or the columns of a frame say them.
        menu_: what can be ordered.
        history_: one record for each stretch of training.
        kept_: the acquirer that is used, as validation chose it: ``learned-only`` or a fixed rule, say ``round-robin``.
        model_: policy and card, as `ww.load_model` gives it.
    """

    @_unchecked
    def __init__(
        self,
        budget: float | None = None,
        *,
        mean_cost: float | None = None,
        price: float | None = None,
        total: float | None = None,
        menu: Menu | None = None,
        acquirer: str = "learned",
        predictor: str = "conv",
        width: int | None = None,
        layers: int = 4,
        objective: str = "end-to-end",
        effort: str | float = "normal",
        batch_size: int = 64,
        learning_rate: float = 5e-3,
        validation: float = 0.2,
        class_weight: str | Mapping[Any, float] | None = None,
        table: Any = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.budget = budget
        self.mean_cost = mean_cost
        self.price = price
        self.total = total
        self.menu = menu
        self.acquirer = acquirer
        self.predictor = predictor
        self.width = width
        self.layers = layers
        self.objective = objective
        self.effort = effort
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation = validation
        self.class_weight = class_weight
        self.table = table
        self.settings = settings
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def fit(
        self,
        X: Any,  # noqa: N803 (scikit-learn's name)
        y: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
    ) -> AcquisitionClassifier:
        """Learn what to ask and what to say.

        Args:
            X: the series; see the class.
            y: ``[series]`` labels; None with a data frame that holds them.
            groups: ``[series]``; series of one group are never on both sides of the validation split.
            sample_weight: ``[series]``, how much each counts in training; 0 = leave it out.
        """
        if hasattr(self, "model_"):
            del self.model_  # whose fit fails is not fitted
        self.table_step_: str | None = None
        with inputs.as_value_errors():
            names: tuple[str, ...] | None
            if tables.is_table(X, self.table):
                tables.refuse_labels_beside(y, groups, sample_weight)
                found = tables.read_table(X, self.table)
                series, names, menu = found.series, found.names, self.menu or found.menu
                y, groups, sample_weight = found.labels, found.groups, found.weights
                self.table_step_ = found.step
                inputs.name_features(self, len(names))
            else:
                series, names, menu = inputs.read_arrays(X, self, None), None, self.menu
            spec = self._spec()
            features = self._features(series[0].shape[1], names, menu)
            classes, labels = inputs.read_labels(y, len(series), self)
            weights = inputs.read_weights(sample_weight, self.class_weight, classes[labels])
            whole = inputs.make_set(series, features, labels, inputs.read_groups(groups, len(series)), weights, spec.seed)
            data = _split(_without_weightless(whole), classes, menu, spec)
            with torch_threads():
                trained = fit_model(make_model(spec, data), data)
            self.model_: Model = trained.model
        self.classes_: np.ndarray = classes
        self.history_: list[dict[str, Any]] = trained.state.history
        self.kept_: str = trained.model.card.acquirer
        self.menu_: Menu = trained.model.policy.menu
        if names is not None or (menu is not None and self.n_features_in_ == len(features)):
            inputs.name_features(self, self.n_features_in_, [feature.name for feature in features])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """``[series, classes]`` after the last step, from what the policy asked for."""
        return self._evaluate(X).probabilities

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """``[series]``: the most likely class after the last step, from what the policy asked for."""
        found = self._evaluate(X)
        chosen: np.ndarray = self.classes_[found.predictions]
        return chosen

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: N803
        """Accuracy; the labels of a data frame are in it. A label that no series of fit had is an error."""
        check_is_fitted(self)
        with inputs.as_value_errors():
            if y is None and tables.is_table(X, self.table):
                y = tables.read_table(X, self.table, step=self.table_step_).labels
            inputs.refuse_unseen(y, self.classes_)
        return float(super().score(X, y, sample_weight))

    def acquire(self, X: Any) -> Acquired:  # noqa: N803
        """What the policy asked for at each step, and the cost of it."""
        found = self._evaluate(X, keep=True)
        requested = np.zeros((len(found.lengths), len(self.menu_.orders), int(found.lengths.max())), dtype=bool)
        for i, asked in found.samples.items():
            requested[i, :, : len(asked)] = asked.T
        return Acquired(requested, found.cost)

    def session(self, key: int = 0) -> Session:
        """One series, live: it says what to measure, takes what was measured, by name, and says what next.

        Classes are named by their text there. ``key`` is what the requests of the random acquirer start from.
        """
        check_is_fitted(self)
        return self.model_.session(key)

    def save(self, path: Path | str) -> Path:
        """Weights, classes, names and parameters in one .safetensors file, without pickle. Returns its path."""
        check_is_fitted(self)
        return files.save(self, Path(path))

    @classmethod
    def load(cls, path: Path | str) -> AcquisitionClassifier:
        """A fitted classifier from such a file."""
        return files.load(cls, Path(path))

    def read_table(self, X: Any) -> tables.TableSeries:  # noqa: N803
        """The series of a data frame in the order in which they are predicted, with ids, labels, groups and weights.

        Rows of a table are steps, so that scikit-learn can't split it by series. It can split what this gives:
        ``found = clf.read_table(frame); cross_val_score(clf, found.X, found.labels)``.
        """
        with inputs.as_value_errors():
            return tables.read_table(X, self.table)

    def _spec(self) -> RunSpec:
        """The parameters as a spec; this is where they are checked."""
        if self.acquirer == "oracle":
            raise ParameterError("acquirer 'oracle'", expected="one that is not told which features are real")
        if self.menu is not None and not isinstance(self.menu, Menu):
            raise ParameterError(f"a menu of type {type(self.menu).__name__}", expected="a whichwhen.Menu, or None")
        state = self.random_state
        seed = int(state) if isinstance(state, int | np.integer) else int(check_random_state(state).randint(2**31 - 1))
        content: dict[str, Any] = {
            "data": {"name": "python", "validation": self.validation},
            "budget": {"per_step": self.budget, "mean_cost": self.mean_cost, "price": self.price, "total": self.total},
            "acquirer": {"kind": self.acquirer},
            "predictor": {"kind": self.predictor, "width": self.width, "layers": self.layers},
            "training": {
                "objective": self.objective,
                "effort": self.effort,
                "batch_size": self.batch_size,
                "learning_rate": self.learning_rate,
            },
            "seed": seed,
        }
        for path, value in (self.settings or {}).items():
            part, _, field = path.partition("__")
            if not (field and isinstance(content.get(part), dict)):
                raise ParameterError(
                    f"settings with {path!r}", expected="names such as 'acquirer__memory' or 'training__step_loss'"
                )
            content[part][field] = value
        return parse_spec(RunSpec, inputs.plain(content), type(self).__name__)

    def _features(self, count: int, names: tuple[str, ...] | None, menu: Menu | None) -> tuple[Feature, ...]:
        """The columns, as the menu has them where there is one."""
        if menu is None:
            return tuple(Feature(name) for name in names or [f"x{i}" for i in range(count)])
        own = tuple(feature.name for feature in menu.features)
        if len(own) != count or own != (names or own):
            found = "" if names is None else f" ({', '.join(names)})"
            raise InputError(
                f"X has {count} features{found} and the menu {len(own)} ({', '.join(own)})",
                expected="the same, in the same order",
                do="change the menu's features",
            )
        return menu.features

    def _evaluate(self, X: Any, keep: bool = False) -> Evaluation:  # noqa: N803
        """The policy on series, each to its end; with all requests, if they are kept."""
        check_is_fitted(self)
        model = self.model_
        with inputs.as_value_errors():
            names = model.card.features
            if tables.is_table(X, self.table):
                series = tables.read_table(X, self.table, names, self.table_step_).series
            else:
                series = inputs.read_arrays(X, self, len(names))
        found = inputs.make_set(series, self.menu_.features, seed=model.card.spec.seed)
        scaler = Scaler(np.array(model.card.mean), np.array(model.card.std))
        scaled = replace(found, values=scaler.apply(found.values))
        with torch_threads():
            return evaluate(model.policy, scaled, samples=len(scaled) if keep else 0)


def _without_weightless(series: SeriesSet) -> SeriesSet:
    return series if series.weights is None else series.take(np.flatnonzero(series.weights > 0))


def _split(whole: SeriesSet, classes: np.ndarray, menu: Menu | None, spec: RunSpec) -> Dataset:
    """Training and validation, scaled; no test set."""
    there = np.unique(whole.labels)
    if len(there) < len(classes) or len(classes) < 2:
        raise InputError(
            f"{len(there)} class{'es' * (len(there) != 1)} among the {len(whole)} series that count",
            expected=f"all {len(classes)} classes of y" if len(classes) > 1 else "at least 2 classes",
        )
    train, validation = split_validation(whole, spec.data.validation, spec.seed)
    inputs.refuse_never_measured(train)
    scaler = Scaler.fit(train.values)
    horizon = int(whole.lengths.max())
    return Dataset(
        name=spec.data.name,
        train=replace(train, values=scaler.apply(train.values)),
        validation=replace(validation, values=scaler.apply(validation.values)),
        tests={},
        classes=tuple(str(label) for label in classes.tolist()),
        provenance=Provenance.all_real(horizon, len(whole.features)),
        horizon=horizon,
        scaler=scaler,
        menu=menu,
    )
