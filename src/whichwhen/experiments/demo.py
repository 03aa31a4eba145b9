"""The main job: acquirers side by side on real data that the installed packages carry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from whichwhen import artifacts
from whichwhen.data import load_dataset
from whichwhen.errors import RunFolderError
from whichwhen.files import write_json
from whichwhen.specs import AcquirerKind, RunSpec
from whichwhen.training import train
from whichwhen.training.checkpoints import TrainState

ACQUIRERS: tuple[AcquirerKind, ...] = ("static", "round-robin", "learned", "complete")


def demo_specs(base: RunSpec) -> dict[str, RunSpec]:
    """The same run with each acquirer."""
    return {kind: base.change(acquirer__kind=kind) for kind in ACQUIRERS}


def check_demo_folder(out: Path, specs: dict[str, RunSpec]) -> None:
    """Raise :class:`RunFolderError` unless the folder is new, empty, or holds this demo's runs."""
    if out.exists() and not out.is_dir():
        raise RunFolderError(f"{out} is a file", expected="a folder to write to", do="choose another --out")
    if out.is_dir() and any(out.iterdir()) and not any((out / name / artifacts.SPEC).is_file() for name in specs):
        raise RunFolderError(
            f"{out} holds something else than a demo", expected="a new or empty folder", do="choose another --out"
        )


def run_specs(
    specs: dict[str, RunSpec],
    out: Path,
    *,
    folder: Path | None = None,
    device: torch.device | str = "cpu",
    on_begin: Callable[[str, RunSpec], None] = lambda name, spec: None,
    on_epoch: Callable[[TrainState], None] = lambda state: None,
) -> dict[str, dict[str, Any]]:
    """Train each spec into ``out/NAME``, one after the other, and return the results by name.

    Finished runs of the same spec are read, unfinished ones gone on with. Runs on the same data load it once.
    """
    results: dict[str, dict[str, Any]] = {}
    loaded: dict[str, Any] = {}
    for name, spec in specs.items():
        on_begin(name, spec)
        key = f"{spec.data.model_dump_json()} {spec.seed}"
        if not artifacts.is_finished(out / name) and key not in loaded:
            loaded = {key: load_dataset(spec.data, spec.seed, folder)}
        results[name] = train(
            spec, out / name, data=loaded.get(key), folder=folder, device=device, resume=True, on_epoch=on_epoch
        )
    return results


def write_records(path: Path, specs: dict[str, RunSpec], results: dict[str, dict[str, Any]], command: str) -> None:
    """One small file with spec and result of each run, and the command that made them."""
    runs = [{"name": name, "spec": specs[name].model_dump(mode="json"), **result} for name, result in results.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"command": command, "runs": runs})
