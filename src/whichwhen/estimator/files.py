"""A fitted classifier in one safetensors file: the model's card and weights, and what scikit-learn adds to them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError

from whichwhen import artifacts
from whichwhen.errors import RunFolderError, SpecError
from whichwhen.menu import Feature, Menu, Order

_NOTE = "estimator"
_KINDS = "biufUO"
C = TypeVar("C")


class _Facts(BaseModel):
    """What the file holds beside card and weights."""

    model_config = ConfigDict(extra="forbid")

    parameters: dict[str, Any]
    classes: list[bool | int | float | str]
    dtype: str
    n_features_in: int
    feature_names_in: list[str] | None
    table_step: str | None
    history: list[dict[str, Any]]


def save(classifier: Any, path: Path) -> Path:
    """Write a fitted classifier; nothing is half written. A path without a suffix gets one."""
    path = _with_suffix(path)
    classes = classifier.classes_
    if classes.dtype.kind not in _KINDS or not all(isinstance(one, bool | int | float | str) for one in classes.tolist()):
        raise SpecError(f"labels of type {classes.dtype}", expected="numbers or text", do="fit on such labels to save it")
    parameters = classifier.get_params(deep=False)
    if parameters["menu"] is not None:
        parameters["menu"] = {
            "features": [dataclasses.asdict(feature) for feature in parameters["menu"].features],
            "orders": [dataclasses.asdict(order) for order in parameters["menu"].orders],
        }
    if parameters["random_state"] is not None:
        parameters["random_state"] = classifier.model_.card.spec.seed
    if isinstance(parameters["class_weight"], dict):
        parameters["class_weight"] = {"weights": [[label, one] for label, one in parameters["class_weight"].items()]}
    if isinstance(parameters["table"], BaseModel):
        parameters["table"] = parameters["table"].model_dump(mode="json", exclude_defaults=True)
    names = getattr(classifier, "feature_names_in_", None)
    facts = {
        "parameters": parameters,
        "classes": classes.tolist(),
        "dtype": classes.dtype.str if classes.dtype.kind != "O" else "object",
        "n_features_in": int(classifier.n_features_in_),
        "feature_names_in": None if names is None else names.tolist(),
        "table_step": getattr(classifier, "table_step_", None),
        "history": classifier.history_,
    }
    try:
        artifacts.save_model(path, classifier.model_, {_NOTE: json.dumps(facts, default=_plain)})
    except (OSError, SafetensorError) as error:
        raise RunFolderError(f"{path} can't be written ({error})", expected="a place to write to") from error
    return path


def load(kind: type[C], path: Path) -> C:
    """Read it back with suspicion: model first, then what belongs to it."""
    path = _with_suffix(path)
    model = artifacts.load_model(path)
    note = artifacts.load_note(path, _NOTE)
    if note is None:
        raise RunFolderError(
            f"{path} holds a model without a classifier around it",
            expected=f"a file from {kind.__name__}.save",
            do="read it with whichwhen.load_model",
        )
    try:
        facts = _Facts.model_validate_json(note)
        parameters = facts.parameters
        if parameters["menu"] is not None:
            parameters["menu"] = _menu(parameters["menu"])
        if isinstance(parameters["class_weight"], dict):
            parameters["class_weight"] = dict(parameters["class_weight"]["weights"])
        classes = np.array(facts.classes, dtype=np.dtype(facts.dtype))
        if len(classes) != len(model.card.classes) or classes.dtype.kind not in _KINDS:
            raise ValueError("its classes are not the model's")
        classifier: Any = kind(**parameters)
    except (ValidationError, KeyError, TypeError, ValueError, SpecError) as error:
        reason = str(error).splitlines()[0]
        raise RunFolderError(
            f"{path} holds no whole classifier ({reason})", expected=f"a file from {kind.__name__}.save"
        ) from None
    classifier.model_, classifier.menu_, classifier.classes_ = model, model.policy.menu, classes
    classifier.kept_ = model.card.acquirer
    classifier.n_features_in_, classifier.history_ = facts.n_features_in, facts.history
    if facts.feature_names_in is not None:
        classifier.feature_names_in_ = np.array(facts.feature_names_in, dtype=object)
    if facts.table_step is not None:
        classifier.table_step_ = facts.table_step
    fitted: C = classifier
    return fitted


def _with_suffix(path: Path) -> Path:
    return path if path.suffix else path.with_suffix(".safetensors")


def _menu(content: dict[str, Any]) -> Menu:
    orders = [Order(**{**order, "features": tuple(order["features"])}) for order in content["orders"]]
    return Menu(tuple(Feature(**feature) for feature in content["features"]), tuple(orders))


def _plain(value: Any) -> Any:
    """Numbers of numpy as numbers, tuples of them as lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | set):
        return list(value)
    raise TypeError(f"a {type(value).__name__} can't be saved")
