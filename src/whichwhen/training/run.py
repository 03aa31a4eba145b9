"""A run from spec to result: the life of a run folder."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from filelock import FileLock, Timeout

from whichwhen import artifacts
from whichwhen._version import __version__
from whichwhen.budget import default_per_step
from whichwhen.data import Dataset, SeriesSet, load_dataset
from whichwhen.errors import RunFolderError, WhichwhenError
from whichwhen.evaluation import Evaluation, evaluate
from whichwhen.evaluation.prices import knows_prices, with_budget
from whichwhen.files import write_atomically, write_json
from whichwhen.menu import Menu
from whichwhen.model import FORMAT, Model, blank_model, make_model
from whichwhen.provenance import Provenance
from whichwhen.specs import RunSpec
from whichwhen.threads import torch_threads
from whichwhen.training.checkpoints import TrainState, load_checkpoint, save_checkpoint
from whichwhen.training.epochs import fit, gain_of_last_fifth
from whichwhen.training.recipe import fit_recipe
from whichwhen.training.trained import Candidate, Trained

SAMPLES_PER_CLASS = 3
"""Test series of each class whose requests a run keeps one by one."""


def train(
    spec: RunSpec,
    out: Path | str,
    *,
    data: Dataset | None = None,
    folder: Path | str | None = None,
    device: torch.device | str = "cpu",
    resume: bool = False,
    threads: int = 1,
    on_epoch: Callable[[TrainState], None] = lambda state: None,
) -> dict[str, Any]:
    """Train, choose on validation, evaluate once on test, and write the run folder. Returns its result.

    Args:
        spec: what to run.
        out: the run folder; made if it is not there.
        data: the spec's data set, if it is loaded already.
        folder: where archives lie; the environment variable WHICHWHEN_DATA if not given.
        device: where to compute.
        resume: go on with an unfinished run of the same spec; a finished one is returned as it is.
        threads: of torch, while this runs.
        on_epoch: called after each epoch, for progress.
    """
    with torch_threads(threads):
        return _train(spec, Path(out), data, folder, device, resume, on_epoch)


def _train(
    spec: RunSpec,
    out: Path,
    data: Dataset | None,
    folder: Path | str | None,
    device: torch.device | str,
    resume: bool,
    on_epoch: Callable[[TrainState], None],
) -> dict[str, Any]:
    _check_out(out, spec, resume)
    if artifacts.is_finished(out):
        result = artifacts.load_result(out)
        if result["spec_hash"] != spec.hash:
            raise RunFolderError(
                f"{out / artifacts.RESULT} is the result of another spec than {artifacts.SPEC} beside it",
                expected="a folder as `whichwhen train` left it",
                do="undo the edit, or choose another --out",
            )
        return result
    began = time.process_time()
    data = data or load_dataset(spec.data, spec.seed, folder)
    model = make_model(spec, data)
    with _alone_in(out):
        return _train_in(out, spec, model, data, time.process_time() - began, device, on_epoch)


def _train_in(
    out: Path,
    spec: RunSpec,
    model: Model,
    data: Dataset,
    before: float,
    device: torch.device | str,
    on_epoch: Callable[[TrainState], None],
) -> dict[str, Any]:
    """In a folder of one's own; ``before``: the CPU seconds of what came before training, data and forest."""
    checkpoint = out / artifacts.CHECKPOINT
    state = load_checkpoint(checkpoint, spec.hash) if checkpoint.is_file() else None
    if state is not None:
        attempt = state.facts.get("attempt", 0)
        _check_fits(checkpoint, state, blank_model(model.card.model_copy(update={"attempt": attempt})))
    elif (trained := _trained_before(out, spec)) is not None:  # only what follows the choice is missing
        return finish(out, trained, data, 0.0, device)
    if not (out / artifacts.SPEC).is_file():
        artifacts.save_spec(out, spec)

    def after_epoch(state: TrainState) -> None:
        if spec.training.save_epochs:
            (out / artifacts.EPOCHS).mkdir(exist_ok=True)
            artifacts.save_model(out / artifacts.EPOCHS / f"{len(state.history):04d}.safetensors", model)
        save_checkpoint(checkpoint, state, spec.hash)  # last of what can't be made again
        artifacts.write_history(out, state.history)
        on_epoch(state)

    try:
        trained = fit_model(model, data, state=state, device=device, on_epoch=after_epoch)
    except WhichwhenError:
        if not checkpoint.is_file():  # refused before anything was learned: nothing is left in the way of the next try
            (out / artifacts.SPEC).unlink()
        raise
    artifacts.write_history(out, trained.state.history)
    result = finish(out, trained, data, before, device)
    checkpoint.unlink(missing_ok=True)
    return result


@contextmanager
def _alone_in(out: Path) -> Iterator[None]:
    """No two processes write to one folder: the second is refused. A folder with nothing in it is not left behind."""
    out.mkdir(parents=True, exist_ok=True)
    lock = FileLock(out / "lock.part")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise RunFolderError(
            f"another process is training into {out}", expected="a folder of its own for each run", do="choose another --out"
        ) from None
    try:
        yield
    finally:
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
        with suppress(OSError):
            out.rmdir()


def fit_model(
    model: Model,
    data: Dataset,
    *,
    state: TrainState | None = None,
    device: torch.device | str = "cpu",
    on_epoch: Callable[[TrainState], None] = lambda state: None,
) -> Trained:
    """Train a model as its spec says, by the recipe or by the paper's epochs, and put it at the budget asked for."""
    if model.card.spec.training.epochs is None:
        return fit_recipe(model, data, state=state, device=device, on_epoch=on_epoch)
    state = fit(model, data, state=state, device=device, on_epoch=on_epoch)
    own = model.card.spec.budget
    if own.kind == "total" and knows_prices(model.card, model.policy):
        policy = with_budget(model, model.policy, own, data.validation, device)
        card = model.card.model_copy(update={"price": policy.budget.price})  # type: ignore[attr-defined]
        model = Model(card, policy)
    return Trained(model, state)


def finish(out: Path, trained: Trained, data: Dataset, before: float, device: torch.device | str) -> dict[str, Any]:
    """The choice is made: write the weights, touch the test set, write the rest, ``result.json`` last."""
    began = time.process_time()
    model, state = trained.model, trained.state
    spec = model.card.spec
    (out / artifacts.RESULT).unlink(missing_ok=True)  # as long as it is not there, the run is not finished
    if trained.candidates:
        (out / artifacts.CANDIDATES).mkdir(exist_ok=True)
        for candidate in trained.candidates:
            if not candidate.kept:
                artifacts.save_model(
                    out / artifacts.CANDIDATES / f"{candidate.model.card.acquirer}.safetensors", candidate.model
                )
        write_json(out / artifacts.CANDIDATES / artifacts.CHOICE, _choice(trained))
    artifacts.save_model(out / artifacts.WEIGHTS, model)
    validation = evaluate(model.on_validation(model.policy), data.validation, data.provenance, device=device)
    tests = {
        name: evaluate(model.policy, part, data.provenance, device=device, samples=SAMPLES_PER_CLASS)
        for name, part in data.tests.items()
    }
    test = next(iter(tests.values()))
    write_series(out / artifacts.SERIES, test, data.classes)
    write_pattern(out / artifacts.PATTERN, test, model.policy.menu, data.provenance, data.classes)
    write_samples(out / artifacts.SAMPLES, test, model.policy.menu, data.classes)
    if test.step_probabilities is not None:
        write_steps(out / artifacts.STEPS, test, data.test, data.classes)
    result = {
        "format": FORMAT,
        "version": __version__,
        "spec_hash": spec.hash,
        "seed": spec.seed,
        "commit": current_commit(),
        "dataset": spec.data.name,
        "acquirer": spec.acquirer.kind,
        "kept": model.card.acquirer,
        "budget_kind": None if spec.acquirer.kind in ("complete", "none") else spec.budget.kind,
        "budget": asked_amount(model),
        "price": model.card.price if knows_prices(model.card, model.policy) else None,
        "epochs": len(state.history),
        "best_epoch": state.best_epoch,
        "gain_of_last_fifth": gain_of_last_fifth(state.history),
        "validation": validation.metrics.to_dict(),
        "test": test.metrics.to_dict(),
        "tests": {name: found.metrics.to_dict() for name, found in tests.items()},
        "candidates": [_candidate_row(candidate, trained, data, test, device) for candidate in trained.candidates],
        "cpu_seconds": round(before + state.cpu_seconds + time.process_time() - began, 2),
    }
    write_json(out / artifacts.RESULT, result)
    return result


def asked_amount(model: Model) -> float | None:
    """The budget asked for; None where there is no limit, or nothing to spend."""
    spec = model.card.spec
    if spec.acquirer.kind in ("complete", "none"):
        return None
    return default_per_step(model.policy.menu) if spec.budget.amount is None else spec.budget.amount


def _choice(trained: Trained) -> dict[str, Any]:
    return {
        "losses": {candidate.model.card.acquirer: candidate.loss for candidate in trained.candidates},
        "screened": trained.screened,
    }


def _candidate_row(
    candidate: Candidate, trained: Trained, data: Dataset, kept: Evaluation, device: torch.device | str
) -> dict[str, Any]:
    """What a candidate gives on test, and the difference of the kept one to it, with a standard error over the series."""
    found = kept if candidate.kept else evaluate(candidate.model.policy, data.test, data.provenance, device=device)
    difference = (kept.labels == kept.predictions).astype(float) - (found.labels == found.predictions)
    return {
        "title": candidate.title,
        "acquirer": candidate.model.card.acquirer,
        "kept": candidate.kept,
        "validation_loss": candidate.loss,
        "test": found.metrics.to_dict(),
        "kept_minus_this": float(difference.mean()),
        "standard_error": float(difference.std() / max(1, len(difference)) ** 0.5),
    }


def write_series(path: Path, test: Evaluation, classes: tuple[str, ...]) -> None:
    """Per test series: id, label, prediction, cost, length."""
    table = pl.DataFrame(
        {
            "id": test.names.astype(str),
            "label": [classes[i] for i in test.labels],
            "prediction": [classes[i] for i in test.predictions],
            "cost": test.cost,
            "length": test.lengths,
        }
    )
    write_atomically(path, table.write_parquet)


def write_steps(path: Path, test: Evaluation, series: SeriesSet, classes: tuple[str, ...]) -> None:
    """Per step of each test series, where steps have labels: id, step, label, and the probability of each class."""
    assert test.step_probabilities is not None
    assert series.step_labels is not None
    columns = {f"p_{name}": test.step_probabilities[:, i] for i, name in enumerate(classes)}
    labels = np.array(classes)[series.step_labels[:]]
    table = pl.DataFrame(
        {"id": np.repeat(test.names.astype(str), test.lengths), "step": series.steps, "label": labels, **columns}
    )
    write_atomically(path, table.write_parquet)


def write_pattern(path: Path, test: Evaluation, menu: Menu, truth: Provenance, classes: tuple[str, ...]) -> None:
    """Per class, step and order: how many series have that step, how many of them requested it, and whether it was real."""
    n_classes, steps, n_orders = test.requested_by_class.shape
    real = truth.of_orders(menu.reveals)[:steps]
    table = pl.DataFrame(
        {
            "class": np.repeat(np.array(classes[:n_classes]), steps * n_orders),
            "step": np.tile(np.repeat(np.arange(steps), n_orders), n_classes),
            "order": np.tile(np.array(menu.names), n_classes * steps),
            "requested": test.requested_by_class.ravel().astype(np.int64),
            "going": np.repeat(test.going_by_class.ravel(), n_orders),
            "real": np.tile(real.ravel(), n_classes),
        }
    )
    write_atomically(path, table.write_parquet)


def write_samples(path: Path, test: Evaluation, menu: Menu, classes: tuple[str, ...]) -> None:
    """The requests of a few test series, one row each; no measured values."""
    names = np.array(menu.names)
    rows = [
        {
            "id": str(test.names[i]),
            "class": classes[test.labels[i]],
            "prediction": classes[test.predictions[i]],
            "step": t,
            "orders": names[asked].tolist(),
        }
        for i, requests in test.samples.items()
        for t, asked in enumerate(requests)
    ]
    write_atomically(path, pl.DataFrame(rows, schema=artifacts.SAMPLES_COLUMNS).write_parquet)


def current_commit() -> str | None:
    """The commit that this code is of, marked where files differ from it; None outside a checkout."""
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        top = Path(git("rev-parse", "--show-toplevel"))
        if here != top / "src" / "whichwhen" / "training":
            return None
        return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _check_out(out: Path, spec: RunSpec, resume: bool) -> None:
    """Nothing is ever overwritten: the folder is new, empty, or holds this very run."""
    if not out.exists():
        above = next(parent for parent in out.absolute().parents if parent.exists())
        if not above.is_dir():
            raise RunFolderError(f"{out} would lie below the file {above}", expected="a folder", do="choose another --out")
        return
    if not out.is_dir():
        raise RunFolderError(f"{out} is a file", expected="a folder to write to", do="choose another --out")
    if not (out / artifacts.SPEC).is_file():
        if any(not path.name.endswith(".part") for path in out.iterdir()):  # what a kill left half written is ours
            raise RunFolderError(
                f"{out} holds something else than a run", expected="a new or empty folder", do="choose another --out"
            )
        return
    there = artifacts.load_spec(out)
    if there != spec:
        raise RunFolderError(
            f"{out} holds another run ({artifacts.difference(spec, there)})",
            expected="a new or empty folder",
            do="choose another --out",
        )
    if not resume:
        finished = artifacts.is_finished(out)
        gain = "read its result" if finished else "go on with it"
        raise RunFolderError(
            f"{out} already holds this run, {'finished' if finished else 'unfinished'}",
            expected="a new or empty folder",
            do=f"pass --resume (resume=True in Python) to {gain}, or choose another --out",
        )


def _trained_before(out: Path, spec: RunSpec) -> Trained | None:
    """What was trained, where training was over and only results got lost."""
    if not ((out / artifacts.WEIGHTS).is_file() and (out / artifacts.HISTORY).is_file()):
        return None
    model, history = artifacts.load_model(out / artifacts.WEIGHTS), artifacts.load_history(out)
    if model.card.spec != spec:
        return None
    best = max(line["epoch"] for line in history if line["best"])
    state = TrainState(history=history, best_epoch=best, cpu_seconds=history[-1]["cpu_seconds"])
    folder = out / artifacts.CANDIDATES
    if not (folder / artifacts.CHOICE).is_file():
        return Trained(model, state)
    choice = json.loads((folder / artifacts.CHOICE).read_text())
    candidates = tuple(
        Candidate(
            model if kind == model.card.acquirer else artifacts.load_model(folder / f"{kind}.safetensors"),
            loss,
            kind == model.card.acquirer,
        )
        for kind, loss in choice["losses"].items()
    )
    return Trained(model, state, candidates, choice["screened"])


def _check_fits(path: Path, state: TrainState, model: Model) -> None:
    own = {name: tensor.shape for name, tensor in model.tensors().items()}
    for weights in (state.weights, state.best):
        if {name: tensor.shape for name, tensor in weights.items()} != own:
            raise RunFolderError(
                f"{path} holds other tensors than the model has",
                expected="a checkpoint as `whichwhen train` writes it",
                do="delete it to train anew, or choose another --out",
            )
