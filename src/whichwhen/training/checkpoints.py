"""Where training stands after an epoch, in one file without pickle.

There is no random state in it: each epoch draws from (seed, epoch), so the number of finished epochs says it all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from whichwhen.artifacts import Epoch
from whichwhen.errors import RunFolderError
from whichwhen.files import write_atomically


@dataclass
class TrainState:
    """Where training stands.

    Attributes:
        history: one record per finished epoch.
        weights: the model's, after the last epoch.
        best: the model's, after the best epoch so far.
        best_epoch: which that was, from 1.
        optimizer: the optimiser's tensors by ``parameter.name``.
        cpu_seconds: spent so far, over all sittings.
        extra: further tensors that a sitting needs to go on.
        facts: the same in plain data.
        rounds: how many records there will be, if nothing stops it sooner; for progress.
    """

    history: list[dict[str, Any]] = field(default_factory=list)
    weights: dict[str, Tensor] = field(default_factory=dict)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_epoch: int = 0
    optimizer: dict[str, Tensor] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    extra: dict[str, Tensor] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    rounds: int | None = None


def save_checkpoint(path: Path, state: TrainState, spec_hash: str) -> None:
    """One file, written beside and renamed: a kill leaves the last whole one."""
    groups = {"weights": state.weights, "best": state.best, "optimizer": state.optimizer, "extra": state.extra}
    tensors = {
        f"{group}/{name}": tensor.detach().cpu().contiguous().clone()
        for group, content in groups.items()
        for name, tensor in content.items()
    }
    facts = {
        "spec_hash": spec_hash,
        "history": state.history,
        "best_epoch": state.best_epoch,
        "cpu_seconds": state.cpu_seconds,
        "facts": state.facts,
    }
    write_atomically(path, lambda beside: save_file(tensors, beside, {"state": json.dumps(facts)}))


def load_checkpoint(path: Path, spec_hash: str) -> TrainState:
    """The state of the last whole epoch."""
    try:
        with safe_open(str(path), "pt") as file:
            facts = json.loads((file.metadata() or {})["state"])
            owner, history = str(facts["spec_hash"]), list(facts["history"])
            more = dict(facts["facts"])
            best_epoch, cpu_seconds = int(facts["best_epoch"]), float(facts["cpu_seconds"])
            for line in history:
                Epoch.model_validate(line)
            if not 1 <= best_epoch <= len(history):
                raise ValueError(f"best epoch {best_epoch} of {len(history)}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise RunFolderError(
            f"{path} can't be read ({reason})",
            expected="a checkpoint as `whichwhen train` writes it",
            do="delete it to train anew, or choose another --out",
        ) from None
    if owner != spec_hash:
        raise RunFolderError(
            f"{path} belongs to another spec",
            expected="a checkpoint of the spec.json beside it",
            do="undo the edit of spec.json, or choose another --out",
        )
    groups: dict[str, dict[str, Tensor]] = {"weights": {}, "best": {}, "optimizer": {}, "extra": {}}
    for place, tensor in tensors.items():
        group, _, name = place.partition("/")
        groups.setdefault(group, {})[name] = tensor
    if len(groups) != 4 or not all(groups[name] for name in ("weights", "best", "optimizer")):
        raise RunFolderError(
            f"{path} lacks tensors, or holds others",
            expected="a checkpoint as `whichwhen train` writes it",
            do="delete it to train anew, or choose another --out",
        )
    return TrainState(
        history=history,
        best_epoch=best_epoch,
        cpu_seconds=cpu_seconds,
        facts=more,
        weights=groups["weights"],
        best=groups["best"],
        optimizer=groups["optimizer"],
        extra=groups["extra"],
    )


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as named tensors."""
    state: dict[int, dict[str, Tensor]] = optimizer.state_dict()["state"]
    return {f"{index}.{name}": tensor for index, entry in state.items() for name, tensor in entry.items()}


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put them back."""
    state: dict[int, dict[str, Tensor]] = {}
    for place, tensor in tensors.items():
        index, _, name = place.partition(".")
        state.setdefault(int(index), {})[name] = tensor
    content = optimizer.state_dict()
    content["state"] = state
    optimizer.load_state_dict(content)
