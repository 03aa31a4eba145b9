"""Run folders: what is in them, and reading them back with suspicion.

::

    spec.json            what the run is; a run can be started again from it
    weights.safetensors  the chosen epoch's weights, with the model's card (columns, classes, scaling, spec)
    history.jsonl        one line per epoch
    series.parquet       per test series: id, label, prediction, cost, length
    pattern.parquet      how often each order was requested at each step, by class of the test series, and whether it was real
    steps.parquet        where steps have labels: per step of each test series id, step, label, the probability of each class
    samples.parquet      the requests of a few test series; no measured values
    candidates/          what validation did not choose, where it chose between a network and a fixed rule; choice.json
    result.json          metrics, seed, commit, cpu_seconds; written last: a folder without it is not finished
    checkpoint.safetensors   only while the run is under way
    epochs/              weights of each epoch, where asked for
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import torch
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from whichwhen._version import __version__
from whichwhen.errors import RunFolderError
from whichwhen.files import write_atomically, write_json, write_text
from whichwhen.model import FORMAT, Card, Model, blank_model
from whichwhen.specs import RunSpec, parse_spec

_CHECKSUM = "sha256"
_NAME_IT = "pass the folder of a run"
_READERS = {"2": "use commit 620ff44 of whichwhen, the last that reads it"}
"""What reads run folders of earlier formats."""
_ANEW = "undo the change, or train into another folder"

SPEC, WEIGHTS, HISTORY, SERIES, PATTERN, SAMPLES, RESULT, CHECKPOINT, EPOCHS = (
    "spec.json",
    "weights.safetensors",
    "history.jsonl",
    "series.parquet",
    "pattern.parquet",
    "samples.parquet",
    "result.json",
    "checkpoint.safetensors",
    "epochs",
)
STEPS = "steps.parquet"
CANDIDATES, CHOICE = "candidates", "choice.json"

PATTERN_COLUMNS: dict[str, Any] = {
    "class": pl.String,
    "step": pl.Int64,
    "order": pl.String,
    "requested": pl.Int64,
    "going": pl.Int64,
    "real": pl.Boolean,
}
SAMPLES_COLUMNS: dict[str, Any] = {
    "id": pl.String,
    "class": pl.String,
    "prediction": pl.String,
    "step": pl.Int64,
    "orders": pl.List(pl.String),
}
SERIES_COLUMNS: dict[str, Any] = {
    "id": pl.String,
    "label": pl.String,
    "prediction": pl.String,
    "cost": pl.Float64,
    "length": pl.Int64,
}


class _Metrics(BaseModel):
    """What ``result.json`` says of a split, as far as readers rely on it."""

    accuracy: float
    cost_per_step: float
    real_fraction: float | None


class _Result(BaseModel):
    """What readers of ``result.json`` rely on; it may hold more."""

    spec_hash: str
    seed: int
    commit: str | None
    dataset: str
    acquirer: str
    budget: float | None
    validation: _Metrics
    test: _Metrics
    cpu_seconds: float


class Epoch(BaseModel):
    """What readers of ``history.jsonl`` rely on; a line may hold more. Where all series are learned from, none validate."""

    epoch: int
    loss: float
    accuracy: float
    validation_loss: float | None
    validation_accuracy: float | None
    best: bool
    cpu_seconds: float


def save_spec(folder: Path, spec: RunSpec) -> None:
    """``spec.json``, with the version of the writer."""
    write_json(folder / SPEC, {"format": FORMAT, "version": __version__, "spec": spec.model_dump(mode="json")})


def load_spec(path: Path) -> RunSpec:
    """The spec of a run folder, or of a spec file."""
    path = path / SPEC if path.is_dir() else path
    content = _read_json(path)
    if not isinstance(content, dict) or "spec" not in content:
        raise RunFolderError(f"{path} holds no spec", expected="a file as `whichwhen train` writes it")
    _check_format(content.get("format"), content.get("version"), path)
    return parse_spec(RunSpec, content["spec"], str(path))


def save_model(path: Path, model: Model, notes: Mapping[str, str] | None = None) -> None:
    """Weights and card in one file, with further texts by name. The same model gives the same bytes."""
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.tensors().items()}
    metadata = {"format": str(FORMAT), "version": __version__, "card": model.card.model_dump_json(), **(notes or {})}
    content = _in_order(save(tensors, {**metadata, _CHECKSUM: _checksum(tensors)}))
    write_atomically(path, lambda beside: beside.write_bytes(content))


def _in_order(content: bytes) -> bytes:
    """A safetensors file whose header is in the order of the alphabet; the library writes it in any order."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    total = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(tensor.numpy().tobytes())
    return total.hexdigest()


def _check_tensors(path: Path, tensors: Mapping[str, Tensor], checksum: str | None) -> None:
    """Weights are those that were written, and numbers."""
    if checksum is not None and _checksum(tensors) != checksum:
        raise RunFolderError(
            f"{path} is damaged: its weights are not those that were written", do="copy it again, or train anew"
        )
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
            raise RunFolderError(f"{path}: {name} holds NaN", expected="numbers", do="train anew")


def load_model(path: Path | str) -> Model:
    """A trained model from a run folder, or from a weights file alone."""
    path = Path(path)
    if path.is_dir() or not path.suffix:
        check_finished(path)
        model = load_model(path / WEIGHTS)
        spec = load_spec(path)
        if spec != model.card.spec:
            raise RunFolderError(
                f"{path / SPEC} is not the spec that the weights were trained with ({difference(spec, model.card.spec)})",
                expected="a folder as `whichwhen train` left it",
                do="undo the edit, or train anew with `whichwhen train --spec`",
            )
        return model
    try:
        with safe_open(str(path), "pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from None
    _check_format(metadata.get("format"), metadata.get("version"), path)
    _check_tensors(path, tensors, metadata.get(_CHECKSUM))
    try:
        model = blank_model(Card.model_validate_json(metadata["card"]))
        model.load_tensors(tensors)
    except (KeyError, ValidationError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise RunFolderError(
            f"{path} holds no whole model ({reason})", expected="a file from `whichwhen train`", do=_ANEW
        ) from None
    return model


def load_candidates(folder: Path | str) -> tuple[Model, ...]:
    """The model that a run kept, and those beside it that validation did not choose at the budget asked for."""
    folder = Path(folder)
    others = sorted((folder / CANDIDATES).glob("*.safetensors"))
    return (load_model(folder), *(load_model(path) for path in others))


def load_note(path: Path, name: str) -> str | None:
    """A further text of a weights file; None where it holds none of that name."""
    try:
        with safe_open(str(path), "pt") as file:
            return (file.metadata() or {}).get(name)
    except (OSError, SafetensorError) as error:
        raise _unreadable(path, error) from None


def load_result(folder: Path | str) -> dict[str, Any]:
    """``result.json`` of a finished run."""
    folder = Path(folder)
    check_finished(folder)
    path = folder / RESULT
    content = _read_json(path)
    if not isinstance(content, dict):
        raise RunFolderError(f"{path} holds no record", expected="a file from `whichwhen train`", do=_ANEW)
    _check_format(content.get("format"), content.get("version"), path)
    try:
        _Result.model_validate(content)
    except ValidationError as error:
        raise _misfit(path, error) from None
    return content


def write_history(folder: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """One record per epoch, or per round of the recipe."""
    write_text(folder / HISTORY, "".join(json.dumps(line) + "\n" for line in lines))


def load_history(folder: Path) -> list[dict[str, Any]]:
    """One record per epoch."""
    path = folder / HISTORY
    try:
        lines: list[Any] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if not lines:
        raise RunFolderError(f"{path} holds no epochs", expected="a file from `whichwhen train`", do=_ANEW)
    try:
        for line in lines:
            Epoch.model_validate(line)
    except ValidationError as error:
        raise _misfit(path, error) from None
    return lines


def load_pattern(folder: Path) -> pl.DataFrame:
    """How often each order was requested at each step: step, order, share, real; all orders of a step, step after step."""
    table = load_class_pattern(folder)
    together = table.group_by("step", "order", maintain_order=True).agg(
        (pl.col("requested").sum() / pl.col("going").sum()).alias("share"), pl.col("real").first()
    )
    return together.sort("step", maintain_order=True)


def load_class_pattern(folder: Path) -> pl.DataFrame:
    """The same by class: class, step, order, requested, going, real."""
    table = _read_parquet(folder / PATTERN, PATTERN_COLUMNS)
    rows = table["order"].n_unique() * table["step"].n_unique() * table["class"].n_unique()
    if not table.height or table.height != rows:
        raise RunFolderError(f"{folder / PATTERN} lacks rows", expected="every order at every step, for every class", do=_ANEW)
    return table


def load_samples(folder: Path) -> pl.DataFrame:
    """The requests of a few test series: id, class, prediction, step, orders."""
    return _read_parquet(folder / SAMPLES, SAMPLES_COLUMNS)


def load_series(folder: Path) -> pl.DataFrame:
    """Per test series: id, label, prediction, cost, length."""
    return _read_parquet(folder / SERIES, SERIES_COLUMNS)


def _read_parquet(path: Path, columns: Mapping[str, Any]) -> pl.DataFrame:
    try:
        return pl.read_parquet(path).select(pl.col(name).cast(kind) for name, kind in columns.items())
    except (OSError, pl.exceptions.PolarsError) as error:
        raise _unreadable(path, error) from None


def check_finished(folder: Path) -> None:
    """Raise :class:`RunFolderError` unless the folder holds a finished run."""
    if not folder.is_dir():
        raise RunFolderError(f"no run folder {folder}", expected="a folder that `whichwhen train --out` wrote", do=_NAME_IT)
    if not (folder / SPEC).is_file():
        raise RunFolderError(
            f"{folder} is not a run folder: it has no {SPEC}",
            expected="a folder that `whichwhen train --out` wrote",
            do=_NAME_IT,
        )
    if missing := missing_files(folder):
        raise RunFolderError(
            f"{folder} is half written: it has no {', '.join(missing)}",
            expected="a finished run",
            do=f"finish it with `whichwhen train --spec {folder / SPEC} --out {folder} --resume`",
        )


def missing_files(folder: Path) -> list[str]:
    """What a finished run has and this folder has not."""
    return [name for name in (SPEC, WEIGHTS, HISTORY, SERIES, PATTERN, SAMPLES, RESULT) if not (folder / name).is_file()]


def is_finished(folder: Path) -> bool:
    """Whether all files of a finished run are there."""
    return not missing_files(folder)


def difference(one: RunSpec, other: RunSpec) -> str:
    """The first fields in which two specs differ, in words."""
    found: list[str] = []
    a, b = one.model_dump(), other.model_dump()
    for part in a:
        left, right = a[part], b[part]
        if isinstance(left, dict):
            found += [f"{part}.{name}: {left[name]} and {right[name]}" for name in left if left[name] != right[name]]
        elif left != right:
            found.append(f"{part}: {left} and {right}")
    return "; ".join(found[:3]) + ("; …" if len(found) > 3 else "")


def _misfit(path: Path, error: ValidationError) -> RunFolderError:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return RunFolderError(f"{path} does not fit: {where}: {first['msg']}", expected="a file from `whichwhen train`", do=_ANEW)


def _unreadable(path: Path, error: Exception) -> RunFolderError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return RunFolderError(f"{path} can't be read ({reason})", expected="a file from `whichwhen train`", do=_ANEW)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunFolderError(
            f"{path} can't be read ({error.strerror})", expected="a file from `whichwhen train`", do=_ANEW
        ) from None
    except ValueError as error:
        raise RunFolderError(f"{path} is not JSON ({error})", expected="a file from `whichwhen train`", do=_ANEW) from None


def _check_format(found: Any, version: Any, path: Path) -> None:
    if str(found) != str(FORMAT):
        raise RunFolderError(
            f"{path} has format {found} (written by whichwhen {version or 'unknown'})",
            expected=f"format {FORMAT}, which whichwhen {__version__} reads",
            do=f"{_READERS.get(str(found), 'use the version that wrote it')}, or train anew",
        )
