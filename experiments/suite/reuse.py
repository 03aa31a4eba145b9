"""Work that several runs of the suite have in common is done once: warm-ups, fixed rules, and the forests that rank orders.

Nothing here changes what a run gives. Runs on the same data, seed, predictor and training have the same warm-up, and the fixed
rule that ``learned`` settles beside its network is, to the bit, the one that the rule's own run would train (both are tested).
What a run would have spent by itself is added to its record's ``cpu_seconds``.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from filelock import FileLock

from whichwhen import model as models
from whichwhen.data import Dataset
from whichwhen.files import write_atomically
from whichwhen.specs import RULES, RunSpec


@dataclass
class Saved:
    """CPU seconds that a run did not spend here, since its work was there already."""

    seconds: float = 0.0


# ---- forests ----------------------------------------------------------------------------------------------------------------
@contextmanager
def kept_forests(folder: Path, saved: Saved) -> Iterator[None]:
    """While this lasts, forests are kept in a folder, and taken from there where the same one was grown before."""
    grow = models.forest_importance  # type: ignore[attr-defined]

    def look_up(values: np.ndarray, labels: np.ndarray, *details: Any, **named: Any) -> np.ndarray:
        content = hashlib.sha256(repr((values.shape, details, sorted(named.items()))).encode())
        content.update(np.ascontiguousarray(values).tobytes())
        content.update(np.ascontiguousarray(labels).tobytes())
        path = folder / f"forest-{content.hexdigest()[:16]}.npz"
        with FileLock(path.with_suffix(".lock")):
            if path.is_file():
                with np.load(path) as there:
                    saved.seconds += float(there["seconds"])
                    return np.asarray(there["importance"])
            began = time.process_time()
            importance = grow(values, labels, *details, **named)
            seconds = time.process_time() - began

            def write(beside: Path) -> None:
                with beside.open("wb") as file:
                    np.savez(file, importance=importance, seconds=seconds)

            write_atomically(path, write)
            return importance

    with mock.patch.object(models, "forest_importance", look_up):
        yield


# ---- warm-ups ---------------------------------------------------------------------------------------------------------------
def warm_up_key(spec: RunSpec) -> str:
    """Equal for runs whose warm-up is the same."""
    parts = (spec.data, spec.predictor, spec.training)
    content = [part.model_dump(mode="json") for part in parts] + [spec.seed, spec.selector.kind]
    content[2].pop("objective")
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def start_from_warm_up(folder: Path, runs: Path, spec: RunSpec, data: Dataset) -> float:
    """Put the checkpoint of a warm-up into a run folder, if another run has done it. Returns the CPU seconds it took there."""
    from whichwhen import artifacts
    from whichwhen.training.checkpoints import load_checkpoint, save_checkpoint

    source = runs / f"warm-{warm_up_key(spec)}.safetensors"
    if folder.exists() or not source.is_file():
        return 0.0
    state = load_checkpoint(source, warm_up_key(spec))
    own = models.make_model(spec, data).tensors()
    warm = {name: tensor for name, tensor in state.weights.items() if name.startswith("predictor.")}
    state.weights = state.best = {**{name: tensor for name, tensor in own.items() if name.startswith("acquirer.")}, **warm}
    folder.mkdir(parents=True)
    artifacts.save_spec(folder, spec)
    save_checkpoint(folder / artifacts.CHECKPOINT, state, spec.hash)
    return state.cpu_seconds


def keep_warm_up(runs: Path, spec: RunSpec, n_series: int) -> Callable[[Any], None]:
    """To be called after each round: keeps the state in which a warm-up ends."""
    from whichwhen.training.checkpoints import save_checkpoint
    from whichwhen.training.recipe import steps_of

    path = runs / f"warm-{warm_up_key(spec)}.safetensors"

    def look(state: Any) -> None:
        last = state.history[-1]
        over = last["phase"] == "warm-up" and last["step"] == steps_of(spec.training, n_series)[0]
        if over and not state.facts["attempt"] and not path.is_file():
            save_checkpoint(path, state, warm_up_key(spec))

    return look


# ---- rules ------------------------------------------------------------------------------------------------------------------
def take_settled_rule(folder: Path, runs: Path, spec: RunSpec, data: Dataset) -> float:
    """Finish a fixed rule's run with the rule that ``learned`` settled at the same budget, if it did.

    Returns the CPU seconds that the rule's own run would have taken, 0 where there is nothing to take.
    """
    from whichwhen import artifacts
    from whichwhen.training.checkpoints import TrainState
    from whichwhen.training.recipe import attempts_of
    from whichwhen.training.run import finish
    from whichwhen.training.trained import Trained

    there = runs / spec.change(acquirer__kind="learned").hash
    alone = attempts_of(spec.training, len(data.train)) > 1  # whose attempts compete with each other
    if alone or folder.exists() or spec.acquirer.kind not in RULES or not artifacts.is_finished(there):
        return 0.0
    found = [one for one in artifacts.load_candidates(there) if one.card.acquirer == spec.acquirer.kind]
    if not found:
        return 0.0
    lines = artifacts.load_history(there)
    ends = {line["phase"]: line["cpu_seconds"] for line in lines}
    seconds = ends["warm-up"] + ends["rule"] - ends["settle"]
    history = [line for line in lines if line["phase"] in ("warm-up", "rule")]
    history = [{**line, "epoch": i, "phase": line["phase"].replace("rule", "settle")} for i, line in enumerate(history, 1)]
    card = found[0].card.model_copy(update={"spec": spec, "kept": None})
    state = TrainState(history=history, best_epoch=len(history), cpu_seconds=seconds)
    folder.mkdir(parents=True)
    artifacts.save_spec(folder, spec)
    artifacts.write_history(folder, history)
    finish(folder, Trained(replace(found[0], card=card), state), data, 0.0, "cpu")
    return seconds if math.isfinite(seconds) else 0.0
