"""The same step as in training and evaluation, one observation at a time, with values that come from outside."""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from whichwhen import rollout as loop
from whichwhen.errors import SessionError
from whichwhen.files import write_atomically
from whichwhen.types import Reveal, flatten, unflatten

_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Outcome:
    """What a session says after a step.

    Attributes:
        time: the step that was observed, from 0.
        prediction: the most likely class so far.
        probabilities: per class.
        request: names of the orders to measure at the next step.
        cost: what this step's request cost.
        by_others: features that arrived at this step without having been asked for here: somebody else ordered them.
    """

    time: int
    prediction: str
    probabilities: dict[str, float]
    request: tuple[str, ...]
    cost: float
    by_others: tuple[str, ...] = ()


class Session:
    """One series, live. ``request`` says what to measure; ``observe`` takes what was measured and says what next.

    Args:
        policy: menu, budget and trained models, with a hard selector.
        classes: names of the classes.
        mean, std: how raw values are scaled, ``[F]``.
        fingerprint: of the model; a saved session is restored only onto the same one.
        key: what random requests start from, where the acquirer makes any.
    """

    def __init__(
        self,
        policy: loop.Policy,
        classes: Sequence[str],
        mean: np.ndarray,
        std: np.ndarray,
        fingerprint: str = "",
        key: int = 0,
    ) -> None:
        self.policy = policy
        self.classes = tuple(classes)
        self.fingerprint = fingerprint
        self._mean, self._std = mean, std
        self._columns = {feature.name: i for i, feature in enumerate(policy.menu.features)}
        self.time = 0
        self.total_cost = 0.0
        with loop.inference(policy):
            self._state = loop.begin(policy, torch.tensor([key]))

    @property
    def request(self) -> tuple[str, ...]:
        """Names of the orders to measure at the coming step, most wanted first."""
        selection, names = self._state.selection, self.policy.menu.names
        ranking = selection.ranking[0].tolist()
        taken = [k for k, asked in enumerate(selection.request[0].tolist()) if asked]
        return tuple(names[k] for k in sorted(taken, key=ranking.__getitem__, reverse=True))

    @property
    def due(self) -> tuple[str, ...]:
        """Names of the features that should arrive at the coming step: asked for now or earlier, or free."""
        age = self.policy.rules.due(self._state.selection, self._state.pending)[0].tolist()
        return tuple(name for name, column in self._columns.items() if age[column] >= 0)

    def observe(self, values: Mapping[str, float | None], ages: Mapping[str, int] | None = None) -> Outcome:
        """Take one step.

        A value's age follows from when its order was asked; of two orders for one feature, the one that was sampled last is
        taken to have brought it. What was not asked for here (somebody else ordered it) counts as
        sampled now, is read by predictor and acquirer like any other, costs nothing, and is named in ``Outcome.by_others``.

        Args:
            values: raw values by feature name (as the data set has them, for a model of shifted columns, which have no scaling
                of their own). It may hold less than was requested (a failed measurement; NaN and None
                count as not there) and more (a value that someone else ordered).
            ages: by feature name, how many steps ago a value was sampled, where that is something else.
        """
        reveal, by_others = self._reveal(values, ages or {})
        cost = float(self._state.cost)
        with loop.inference(self.policy):
            logits, self._state = loop.acquisition_step(self.policy, self._state, reveal)
        self.time += 1
        self.total_cost += cost
        shares = torch.softmax(logits[0].double(), 0).tolist()
        best = max(range(len(shares)), key=shares.__getitem__)
        by_class = dict(zip(self.classes, shares, strict=True))
        return Outcome(self.time - 1, self.classes[best], by_class, self.request, cost, by_others)

    def _reveal(self, values: Mapping[str, float | None], ages: Mapping[str, int]) -> tuple[Reveal, tuple[str, ...]]:
        scaled = np.zeros((1, len(self._columns)), dtype=np.float32)
        mask = np.zeros_like(scaled)
        if not isinstance(values, Mapping):
            raise SessionError(f"values of type {type(values).__name__}", expected="a mapping from feature names to numbers")
        for name, value in values.items():
            if name not in self._columns:
                near = difflib.get_close_matches(str(name), self._columns, n=1)
                raise SessionError(
                    f"a value for the unknown feature {name!r}",
                    expected=f"names of the model's {len(self._columns)} features",
                    do=f"did you mean {near[0]!r}?" if near else "see the model's features",
                )
            if value is None:
                continue
            try:
                number = float(value)
            except (TypeError, ValueError):
                number = math.inf
            if math.isnan(number):
                continue
            column = self._columns[name]
            scaled_number = (number - self._mean[column]) / self._std[column]
            if not abs(scaled_number) < _LARGEST:
                raise SessionError(
                    f"{value!r} for feature {name!r}", expected="a finite number, or NaN where nothing was measured"
                )
            scaled[0, column] = scaled_number
            mask[0, column] = 1.0
        arrived = torch.from_numpy(mask)
        due = self.policy.rules.due(self._state.selection, self._state.pending)
        others = ((due < 0) & (arrived > 0))[0].tolist()
        by_others = tuple(name for name, column in self._columns.items() if others[column]) if True in others else ()
        age = due.clamp(min=0) * arrived
        for name, steps in ages.items():
            if name not in self._columns or not mask[0, self._columns[name]]:
                raise SessionError(f"an age for {name!r}, of which there is no value", expected="ages of values that are given")
            if not (isinstance(steps, int) and 0 <= steps <= self.time):
                raise SessionError(
                    f"age {steps!r} of {name!r} at step {self.time}", expected=f"a whole number from 0 to {self.time}"
                )
            age[0, self._columns[name]] = steps
        reveal = Reveal(torch.from_numpy(scaled), arrived, age, torch.tensor([self.time]))
        return reveal, by_others

    def save(self, path: Path | str) -> None:
        """Write where the session stands. The model is not part of it."""
        facts = {"time": self.time, "total_cost": self.total_cost, "fingerprint": self.fingerprint}
        tensors = {name: tensor.contiguous().clone() for name, tensor in flatten(self._state).items()}
        metadata = {"session": json.dumps(facts)}
        try:
            write_atomically(Path(path), lambda beside: save_file(tensors, beside, metadata))
        except (OSError, SafetensorError) as error:
            raise SessionError(f"{path} can't be written ({error})", expected="a place to write to") from error

    def restore(self, path: Path | str) -> None:
        """Go on from where a saved session stood, to the same answers."""
        try:
            with safe_open(str(path), "pt") as file:
                facts = json.loads((file.metadata() or {})["session"])
                time, cost, fingerprint = int(facts["time"]), float(facts["total_cost"]), str(facts["fingerprint"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
            raise SessionError(f"{path} is not a saved session ({error})", expected="a file from Session.save") from error
        if fingerprint != self.fingerprint:
            raise SessionError(
                f"{path} belongs to model {fingerprint!r}, this is {self.fingerprint!r}",
                expected="a session of the same model",
            )
        try:
            self._check_state(tensors, time, cost)
        except ValueError as error:
            raise SessionError(
                f"{path} is no session of this model ({error})", expected="a file from Session.save, as it was written"
            ) from None
        state = unflatten(self._state, tensors)
        self._state, self.time, self.total_cost = state, time, cost

    def _check_state(self, tensors: Mapping[str, torch.Tensor], time: int, cost: float) -> None:
        """Raise ValueError unless these can be the tensors of this model's session after ``time`` steps.

        What a model keeps may grow with every step (an attention's past): a dimension that grows at the first step may be of
        any size that so many steps can lead to; all others must be as they are here.
        """
        if time < 0:
            raise ValueError(f"time {time}")
        if not (math.isfinite(cost) and cost >= 0):
            raise ValueError(f"a total cost of {cost}")
        with loop.inference(self.policy):
            fresh = loop.begin(self.policy, torch.tensor([0]))
            nothing = Reveal.nothing(1, len(self._columns))
            _, later = loop.acquisition_step(self.policy, fresh, replace(nothing, time=torch.tensor([0])))
        first, second = flatten(fresh), flatten(later)
        if odd := sorted(tensors.keys() ^ first.keys()):
            raise ValueError(f"{'no' if odd[0] in first else 'unknown'} tensor {odd[0]!r}")
        for name, own in first.items():
            found, growth = tensors[name], [b - a for a, b in zip(own.shape, second[name].shape, strict=True)]
            fits = found.dim() == own.dim() and all(
                size <= has <= size + time * more for has, size, more in zip(found.shape, own.shape, growth, strict=True)
            )
            if not fits or found.dtype != own.dtype:
                raise ValueError(
                    f"tensor {name!r} of shape {tuple(found.shape)} and type {found.dtype}, the model's is "
                    f"{tuple(second[name].shape if time else own.shape)} of {own.dtype}"
                )
