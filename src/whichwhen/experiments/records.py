"""What is kept of a run for good: small enough to commit, whole enough for every table and figure.

::

    DIR/records/NAME.json   spec, seed, commit, metrics, history, which test series were right, request patterns
    DIR/summary.json        a row per setting and acquirer
    DIR/failed/NAME.json    what went wrong with a run
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from whichwhen import artifacts
from whichwhen.errors import RunFolderError, WhichwhenError
from whichwhen.evaluation.curves import accuracy_on_test
from whichwhen.evaluation.statistics import mean_and_std
from whichwhen.experiments.adaptive import summarise_adaptive
from whichwhen.experiments.paper import ACQUIRERS, CELLS, PAPER_NUMBERS, Cell, Job
from whichwhen.files import write_json
from whichwhen.specs import RunSpec

RECORDS, SUMMARY, FORMAT = "records", "summary.json", 1
POINTS = 60
"""Epochs of a history that are kept."""
LEVEL = 0.002
_NEEDED = (
    *("name", "command", "preset", "dataset", "fakes", "shifted", "budget", "acquirer", "seed", "commit", "spec_hash", "spec"),
    *("finished", "epochs", "best_epoch", "levelled", "test", "cpu_seconds", "history", "correct", "pattern", "samples"),
)
_METRICS = ("accuracy", "cost_per_step", "real_fraction", "n")


def record_path(out: Path, job: Job) -> Path:
    """Where a job's record lies."""
    return out / RECORDS / f"{job.name}.json"


def load_record(out: Path, job: Job) -> dict[str, Any] | None:
    """The record of this very job; None if there is none, or one of another spec of the same name."""
    path = record_path(out, job)
    if not path.is_file():
        return None
    record = read_record(path)
    return record if record["spec_hash"] == job.spec.hash else None


def read_record(path: Path) -> dict[str, Any]:
    """A record file, checked as far as readers rely on it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT:
            raise ValueError(f"format {record['format']}")
        missing = [key for key in _NEEDED if key not in record] + [key for key in _METRICS if key not in record["test"]]
        if missing:
            raise ValueError(f"it has no {missing[0]}")
        if RunSpec.model_validate(record["spec"]).hash != record["spec_hash"]:
            raise ValueError("its spec is not the one of its hash")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, WhichwhenError) as error:
        raise RunFolderError(
            f"{path} is not a record ({str(error).splitlines()[0]})",
            expected="a file as `whichwhen paper` writes it",
            do="delete it: the run folder, if it is still there, gives it again",
        ) from None
    return dict(record)


def load_records(out: Path) -> list[dict[str, Any]]:
    """All records of a folder that belong together, by name.

    Where the runs of a setting and acquirer were made with more than one spec (a preset that has changed since), those with the
    spec of the last one written count, and the others are left out.
    """
    if not (out / RECORDS).is_dir():
        raise RunFolderError(
            f"{out} has no {RECORDS}", expected="a folder that `whichwhen paper --out` wrote", do="pass that folder"
        )
    paths = sorted((out / RECORDS).glob("*.json"))
    if not paths:
        raise RunFolderError(f"{out} holds no records yet", expected="at least one finished run", do="let one finish first")
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for path in paths:
        record = read_record(path)
        groups.setdefault(key_of(record), []).append(record)
    kept: list[dict[str, Any]] = []
    for group in groups.values():
        newest = max(group, key=lambda record: record["finished"])
        kept += [record for record in group if _without_seed(record) == _without_seed(newest)]
    return sorted(kept, key=lambda record: record["name"])


def key_of(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a row of the summary is about: preset, dataset, fakes, shifted, budget, acquirer, variant."""
    names = ("preset", "dataset", "fakes", "shifted", "budget", "acquirer")
    return (*(record[name] for name in names), record.get("variant", ""))


def _without_seed(record: Mapping[str, Any]) -> RunSpec:
    """What must be the same for runs to be averaged; saving epochs changes nothing."""
    return RunSpec.model_validate(record["spec"]).change(seed=0, training__save_epochs=False)


def make_record(job: Job, run: Path, folder: Path | None = None) -> dict[str, Any]:
    """The record of a finished run folder."""
    result = artifacts.load_result(run)
    history = [line for line in artifacts.load_history(run) if line["validation_loss"] is not None]
    series = artifacts.load_series(run).sort(pl.col("id").str.len_chars(), "id")
    chosen = decimate(len(history))
    curves = {
        name: [round(float(history[i][name]), 5) for i in chosen]
        for name in ("loss", "accuracy", "validation_loss", "validation_accuracy")
    }
    if job.spec.training.save_epochs:  # the run is over, the choice is made: for a figure
        curves["test_accuracy"] = [round(value, 5) for value in accuracy_on_test(run, folder, epochs=chosen)]
    return {
        "format": FORMAT,
        "name": job.name,
        "command": _command(job),
        "preset": job.preset,
        "dataset": job.cell.dataset,
        "fakes": job.cell.fakes,
        "shifted": job.cell.shifted,
        "budget": result["budget"] if job.spec.budget.amount is None else job.spec.budget.amount,
        "budget_kind": job.spec.budget.kind,
        "acquirer": job.acquirer,
        "kept": result["kept"],
        "price": result["price"],
        "candidates": result["candidates"],
        "variant": job.variant,
        "seed": job.spec.seed,
        "commit": result["commit"],
        "version": result["version"],
        "spec_hash": job.spec.hash,
        "spec": job.spec.model_dump(mode="json"),
        "finished": (run / artifacts.RESULT).stat().st_mtime,
        "epochs": result["epochs"],
        "best_epoch": result["best_epoch"],
        "gain_of_last_fifth": result["gain_of_last_fifth"],
        "levelled": result["gain_of_last_fifth"] < LEVEL,
        "validation": result["validation"],
        "test": result["test"],
        "tests": result.get("tests", {"test": result["test"]}),
        "cpu_seconds": result["cpu_seconds"],
        "history": {"epoch": [history[i]["epoch"] for i in chosen], **curves},
        "correct": pack((series["label"] == series["prediction"]).to_numpy()),
        "pattern": _pattern(run),
        "samples": _samples(run),
    }


def _command(job: Job) -> str:
    """What makes this run again."""
    if job.command:
        return job.command
    return f"whichwhen {job.preset} --only {job.name}"


def decimate(count: int) -> list[int]:
    """At most :data:`POINTS` positions of ``count``, the first and the last among them."""
    return sorted({round(float(place)) for place in np.linspace(0, count - 1, min(count, POINTS))})


def _pattern(run: Path) -> dict[str, Any]:
    table = artifacts.load_class_pattern(run)
    classes = table["class"].unique(maintain_order=True).to_list()
    orders = table["order"].unique(maintain_order=True).to_list()
    shape = (len(classes), table["step"].n_unique(), len(orders))
    requested, going = (table[name].to_numpy().reshape(shape) for name in ("requested", "going"))
    share = np.divide(requested, going, out=np.zeros(shape), where=going > 0)
    return {
        "classes": classes,
        "orders": orders,
        "steps": shape[1],
        "going": going[:, :, 0].tolist(),
        "share": squeeze(np.round(share * 255).astype(np.uint8)),
        "real": squeeze(table["real"].to_numpy().reshape(shape)[0].astype(np.uint8)),
    }


def _samples(run: Path) -> list[dict[str, Any]]:
    found = []
    for (number, label, prediction), rows in artifacts.load_samples(run).group_by(
        "id", "class", "prediction", maintain_order=True
    ):
        requests = [list(orders) for orders in rows.sort("step")["orders"]]
        found.append({"id": number, "class": label, "prediction": prediction, "requests": requests})
    orders = artifacts.load_class_pattern(run)["order"].unique(maintain_order=True).to_list()
    place = {name: k for k, name in enumerate(orders)}
    for sample in found:
        asked = np.zeros((len(sample["requests"]), len(orders)), dtype=np.uint8)
        for t, names in enumerate(sample["requests"]):
            asked[t, [place[name] for name in names]] = 1
        sample["steps"] = len(asked)
        sample["requests"] = squeeze(asked)
    return found


def pattern_of(record: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares ``[C, T, K]``, series going on ``[C, T]`` and which orders were real ``[T, K]`` of a record."""
    pattern = record["pattern"]
    shape = (len(pattern["classes"]), pattern["steps"], len(pattern["orders"]))
    share = unsqueeze(pattern["share"]).reshape(shape) / 255
    return share, np.array(pattern["going"]), unsqueeze(pattern["real"]).reshape(shape[1:]).astype(bool)


def correct_of(record: Mapping[str, Any]) -> np.ndarray:
    """Whether each test series was classified rightly, by id, ``[N]`` bool."""
    return unpack(record["correct"], record["test"]["n"])


def squeeze(array: np.ndarray) -> str:
    """Bytes as text, compressed."""
    return base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()


def unsqueeze(text: str) -> np.ndarray:
    """The way back, flat."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)


def pack(flags: np.ndarray) -> str:
    """Bits as text."""
    return base64.b64encode(np.packbits(flags).tobytes()).decode()


def unpack(text: str, count: int) -> np.ndarray:
    """The way back."""
    return np.unpackbits(np.frombuffer(base64.b64decode(text), dtype=np.uint8), count=count).astype(bool)


def summarise(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row per preset, setting and acquirer: means over seeds, and the paper's own number beside them."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(key_of(record), []).append(record)
    rows = []
    for (preset, dataset, fakes, shifted, budget, acquirer, _), group in sorted(
        groups.items(), key=lambda item: _rank(item[0])
    ):
        mean, std = mean_and_std([record["test"]["accuracy"] for record in group])
        real = [record["test"]["real_fraction"] for record in group]
        known = PAPER_NUMBERS.get((Cell(dataset, fakes, shifted), acquirer), (None, None))
        rows.append(
            {
                "dataset": dataset,
                "fakes": fakes,
                "shifted": shifted,
                "budget": budget,
                "acquirer": acquirer,
                "preset": preset,
                "n_seeds": len(group),
                "mean": mean,
                "std": std,
                "cost_per_step": _mean([record["test"]["cost_per_step"] for record in group]),
                "real_fraction": _mean(real),
                "paper_mean": known[0],
                "paper_std": known[1],
                "levelled": sum(bool(record["levelled"]) for record in group),
                "cpu_seconds": _mean([record["cpu_seconds"] for record in group]),
            }
        )
    return rows


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return float(np.mean(there)) if there else None


def _rank(key: tuple[Any, ...]) -> tuple[Any, ...]:
    preset, dataset, fakes, shifted, budget, acquirer, variant = key
    cell = Cell(dataset, fakes, shifted)
    cells = CELLS.index(cell) if cell in CELLS else len(CELLS)
    place = ACQUIRERS.index(acquirer) if acquirer in ACQUIRERS else len(ACQUIRERS)
    return preset, cells, cell.name, budget is None, budget or 0.0, place, acquirer, variant


def summary_of(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows that a folder of such records gets."""
    presets = {record["preset"] for record in records}
    if len(presets) == 1 and (own := _SUMMARIES.get(presets.pop())) is not None:
        return own(records)
    return summarise(records)


_SUMMARIES: dict[str, Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]]] = {
    "adaptive": summarise_adaptive,
}
"""Grids whose rows are about something else than the paper's settings."""


def write_summary(out: Path) -> list[dict[str, Any]]:
    """``summary.json`` from the records that are there; nothing where there are none."""
    if not any((out / RECORDS).glob("*.json")):
        return []
    rows = summary_of(load_records(out))
    write_json(out / SUMMARY, rows)
    return rows
