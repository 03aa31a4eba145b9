"""Series in a folder that is larger than memory: written a chunk at a time, read a batch at a time.

``NAME.series/`` holds ``about.json`` and a folder for each part (``train``, ``validation``, one or more test sets) with one
plain file a column: the values of all series end to end, raw, and what belongs to whole series. It is written beside and
renamed when it is whole. What is in memory afterwards is some 32 bytes a series; values are read when a batch wants them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np

from whichwhen._version import __version__
from whichwhen.data.checks import check_series
from whichwhen.data.moments import Moments
from whichwhen.data.rows import StoredRows
from whichwhen.data.store import Dataset, Scaler, SeriesSet
from whichwhen.errors import DataError
from whichwhen.files import write_json
from whichwhen.menu import Feature, Menu, Order
from whichwhen.provenance import Provenance

FORMAT = 1
ABOUT = "about.json"
SUFFIX = ".series"
_KIND = "whichwhen series"
_TYPES = {
    "values": "<f4",
    "lengths": "<i4",
    "labels": "<i4",
    "ids": "<i8",
    "groups": "<i8",
    "step_labels": "<i4",
    "weights": "<f4",
    "names": "u1",
}
_SUBGROUP = "<i4"


class StoreWriter:
    """Writes series into a folder, chunk by chunk, in a ``with`` block; at its end the folder is there, whole, or not at all.

    ::

        with StoreWriter("stays.series", features, classes) as writer:
            for chunk in chunks:  # SeriesSet, raw values, NaN = not measured
                part = split_by_group(chunk.groups, validation=0.1, test=0.1)
                for name in ("train", "validation", "test"):
                    writer.add(name, chunk.take(np.flatnonzero(part == name)))

    Args:
        folder: where to; must not be there yet.
        features: the F columns.
        classes: names of the labels.
        menu: what can be ordered; None = each feature by itself, at cost 1.
        notes: what was met on the way, in words, and how often.
    """

    def __init__(
        self,
        folder: Path | str,
        features: Sequence[Feature],
        classes: Sequence[str],
        menu: Menu | None = None,
        notes: dict[str, int] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.features, self.classes, self.menu = tuple(features), tuple(classes), menu
        self.notes = notes or {}
        self._beside = self.folder.with_name(f".{self.folder.name}.{os.getpid()}.part")
        self._parts: dict[str, _PartWriter] = {}
        self._moments = Moments(len(self.features))

    def __enter__(self) -> StoreWriter:
        if self.folder.exists():
            raise DataError(f"{self.folder} is there already", expected="a new folder", do="delete it, or choose another name")
        if menu := self.menu:
            _check_features(menu.features, self.features, "the menu")
        shutil.rmtree(self._beside, ignore_errors=True)
        self._beside.mkdir(parents=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            for part in self._parts.values():
                part.close()
            shutil.rmtree(self._beside, ignore_errors=True)

    def add(self, part: str, series: SeriesSet) -> None:
        """Further series of a part: ``train``, ``validation``, or a test set by its name. An empty chunk is fine."""
        if not len(series):
            return
        _check_features(series.features, self.features, f"a chunk of {part}")
        check_series(series, self.classes, f"{self.folder.name}, {part}")
        if part not in self._parts:
            self._parts[part] = _PartWriter(self._beside / part, len(self.features), len(self.classes))
        values = self._parts[part].add(series)
        if part == "train":
            self._moments.add(values)

    def _finish(self) -> None:
        tests = [name for name in self._parts if name not in ("train", "validation")]
        lacking = [name for name in ("train", "validation") if name not in self._parts] + ([] if tests else ["test"])
        if lacking:
            raise DataError(f"no series in the {lacking[0]} part", expected="some in each", do="add more, or split otherwise")
        if len(unseen := np.flatnonzero(self._moments.count == 0)):
            raise DataError(
                f"feature {self.features[unseen[0]].name!r} is never observed in training ({len(unseen)} such columns)",
                expected="at least one value of each feature",
                do="leave the column out (--ignore for your own table)",
            )
        shared = np.intersect1d(self._parts["train"].groups(), self._parts["validation"].groups())
        if len(shared):
            raise DataError(
                f"group {shared[0]} is in the train and the validation part ({len(shared)} such groups)",
                expected="groups that are not split",
                do="choose parts by group, as split_by_group does",
            )
        scaler = self._moments.scaler()
        about = {
            "kind": _KIND,
            "format": FORMAT,
            "version": __version__,
            "features": [_plain(feature) for feature in self.features],
            "classes": list(self.classes),
            "orders": None if self.menu is None else [asdict(order) for order in self.menu.orders],
            "horizon": max(self._parts[name].longest for name in ("train", "validation")),
            "scaler": {"mean": scaler.mean.tolist(), "std": scaler.std.tolist()},
            "parts": {name: self._parts[name].finish() for name in ("train", "validation", *tests)},
            "notes": self.notes,
        }
        write_json(self._beside / ABOUT, about)
        self._beside.replace(self.folder)


class _PartWriter:
    """The files of one part, open for writing, and what is counted on the way."""

    def __init__(self, folder: Path, n_features: int, n_classes: int) -> None:
        folder.mkdir()
        self.folder, self.n_classes = folder, n_classes
        self.files: dict[str, IO[bytes]] = {}
        self.digests: dict[str, Any] = {}
        self.missing = np.zeros(n_features, dtype=np.int64)
        self.series = self.steps = self.longest = 0
        self.subgroups: dict[str, dict[str, int]] = {}

    def add(self, chunk: SeriesSet) -> np.ndarray:
        """Write a chunk, and return its values ``[R, F]``."""
        values = np.ascontiguousarray(chunk.values[:], dtype="<f4")
        columns: dict[str, np.ndarray | None] = {
            "values": values,
            "lengths": chunk.lengths,
            "labels": self._checked(chunk.labels),
            "ids": chunk.ids,
            "groups": chunk.groups,
            "step_labels": None if chunk.step_labels is None else self._checked(chunk.step_labels[:]),
            "weights": chunk.weights,
            "names": None if chunk.names is None else _as_bytes(chunk.names),
        }
        given = {name: column for name, column in columns.items() if column is not None}
        for place, (name, texts) in enumerate(chunk.subgroups.items()):
            codes = self.subgroups.setdefault(name, {})
            distinct, which = np.unique(texts.astype(str), return_inverse=True)
            given[f"subgroup{place}"] = np.array([codes.setdefault(text, len(codes)) for text in distinct.tolist()])[which]
        if self.series and (set(given) != set(self.files) or list(self.subgroups) != list(chunk.subgroups)):
            odd = sorted(set(given) ^ set(self.files)) or ["subgroups"]
            raise DataError(
                f"{odd[0]} in some chunks of the {self.folder.name} part and not in others", expected="the same in all of them"
            )
        for name, column in given.items():
            self._write(name, np.ascontiguousarray(column, dtype=_TYPES.get(name, _SUBGROUP)))
        self.series += len(chunk)
        self.steps += len(values)
        self.longest = max(self.longest, int(chunk.lengths.max()))
        self.missing += np.isnan(values).sum(axis=0)
        return values

    def groups(self) -> np.ndarray:
        """The groups that have been written."""
        return np.unique(np.fromfile(self.folder / "groups", dtype=_TYPES["groups"]))

    def finish(self) -> dict[str, Any]:
        """Put all on the disk, and say what there is."""
        for file in self.files.values():
            os.fsync(file.fileno())
        sizes = {name: file.tell() for name, file in self.files.items()}
        return {
            "series": self.series,
            "steps": self.steps,
            "longest": self.longest,
            "missing": self.missing.tolist(),
            "subgroups": {name: list(codes) for name, codes in self.subgroups.items()},
            "files": {name: {"bytes": size, "sha256": self.digests[name].hexdigest()} for name, size in sizes.items()},
        }

    def close(self) -> None:
        """Whatever became of it."""
        for file in self.files.values():
            file.close()

    def _write(self, name: str, column: np.ndarray) -> None:
        if name not in self.files:
            self.files[name] = (self.folder / name).open("wb", buffering=0)  # so that a full disk is met here, not on closing
            self.digests[name] = hashlib.sha256()
        content = memoryview(column.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
        try:
            _put(self.files[name], content)
        except OSError as error:
            raise DataError(
                f"{self.folder / name} can't be written ({error.strerror or error})",
                expected="room for all series",
                do="free some space, or write it elsewhere",
            ) from None
        self.digests[name].update(content)

    def _checked(self, labels: np.ndarray) -> np.ndarray:
        if labels.min() < 0 or labels.max() >= self.n_classes:
            strange = labels[(labels < 0) | (labels >= self.n_classes)][0]
            raise DataError(f"label {strange} in the {self.folder.name} part", expected=f"0 to {self.n_classes - 1}")
        return labels


def _as_bytes(names: np.ndarray) -> np.ndarray:
    """Texts in UTF-8, each with a zero byte behind it."""
    return np.frombuffer("".join(f"{name}\0" for name in names.tolist()).encode(), np.uint8)


def _names(path: Path) -> np.ndarray:
    return np.array(path.read_bytes().decode().split("\0")[:-1])


def _put(file: IO[bytes], content: memoryview) -> None:
    while len(content):
        content = content[file.write(content) :]


def is_store(name: Path | str) -> bool:
    """Whether a data set's name is a folder of series: by its ending, or by what is in it."""
    return str(name).rstrip("/").endswith(SUFFIX) or (Path(name) / ABOUT).is_file()


def open_store(folder: Path | str, seed: int = 0) -> Dataset:
    """The data set in a folder that :class:`StoreWriter` wrote. Values stay on disk and are scaled on reading.

    Args:
        folder: ``NAME.series``.
        seed: what the random keys start from.
    """
    folder = Path(folder)
    about = _read_about(folder)
    features = tuple(
        Feature(**{"low": -np.inf, "high": np.inf} | {name: fact for name, fact in one.items() if fact is not None})
        for one in about["features"]
    )
    orders = about["orders"]
    menu = orders and Menu(features, tuple(Order(**{**one, "features": tuple(one["features"])}) for one in orders))
    scaler = Scaler(np.array(about["scaler"]["mean"]), np.array(about["scaler"]["std"]))
    parts = {name: _open_part(folder / name, facts, features, scaler, seed) for name, facts in about["parts"].items()}
    return Dataset(
        name=str(folder),
        train=parts["train"],
        validation=parts["validation"],
        tests={name: part for name, part in parts.items() if name not in ("train", "validation")},
        classes=tuple(about["classes"]),
        provenance=Provenance.all_real(max(facts["longest"] for facts in about["parts"].values()), len(features)),
        horizon=about["horizon"],
        scaler=scaler,
        menu=menu,
        notes=about["notes"],
    )


def split_by_group(groups: np.ndarray, validation: float = 0.2, test: float = 0.2, salt: str = "") -> np.ndarray:
    """``train``, ``validation`` or ``test`` for each of N groups' names or numbers, ``[N]``, by a hash of it.

    The same group has the same part in each chunk, on each machine. Shares hold for many groups.
    """
    names, place = np.unique(groups.astype(str), return_inverse=True)
    chance = [int(hashlib.sha256((salt + name).encode()).hexdigest()[:16], 16) / 2**64 for name in names.tolist()]
    which = np.searchsorted([test, test + (1 - test) * validation], chance, side="right")
    parts: np.ndarray = np.array(["test", "validation", "train"])[which][place]
    return parts


def _open_part(folder: Path, facts: dict[str, Any], features: tuple[Feature, ...], scaler: Scaler, seed: int) -> SeriesSet:
    for name, file in facts["files"].items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != file["bytes"]:
            found = f"{path.stat().st_size} bytes" if path.is_file() else "not there"
            raise DataError(
                f"{path} is {found}", expected=f"{file['bytes']} bytes", do="write the folder anew, or copy it whole"
            )

    def column(name: str, kind: type = np.int64) -> np.ndarray:
        return np.fromfile(folder / name, dtype=_TYPES.get(name, _SUBGROUP)).astype(kind, copy=False)

    def rows(name: str, *width: int, **more: Any) -> Any:
        return StoredRows(folder / name, (facts["steps"], *width), np.dtype(_TYPES[name]), **more)

    return SeriesSet(
        source="train" if folder.name in ("train", "validation") else folder.name,
        values=rows("values", len(features), finish=scaler.apply, missing=np.array(facts["missing"])),
        offsets=np.concatenate([[0], np.cumsum(column("lengths"))]).astype(np.int64),
        labels=column("labels"),
        ids=column("ids"),
        groups=column("groups"),
        features=features,
        seed=seed,
        step_labels=rows("step_labels", finish=_whole) if "step_labels" in facts["files"] else None,
        weights=column("weights", np.float32) if "weights" in facts["files"] else None,
        names=_names(folder / "names") if "names" in facts["files"] else None,
        subgroups={
            name: np.array(texts)[column(f"subgroup{place}")] for place, (name, texts) in enumerate(facts["subgroups"].items())
        },
    )


def _read_about(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        raise DataError(f"no folder {folder}", expected="one that `whichwhen pack` wrote", do="check the path")
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        about = None
    if not isinstance(about, dict) or about.get("kind") != _KIND:
        raise DataError(f"{folder} holds no series", expected=f"a folder with its {ABOUT}", do="write it with `whichwhen pack`")
    if about.get("format") != FORMAT:
        raise DataError(
            f"{folder} is of format {about.get('format')}",
            expected=f"format {FORMAT}",
            do="write it anew, or use its whichwhen",
        )
    return about


def _check_features(found: tuple[Feature, ...], expected: tuple[Feature, ...], where: str) -> None:
    for one, other in zip([f.name for f in found] + [None], [f.name for f in expected] + [None], strict=False):
        if one != other:
            raise DataError(f"{where} has feature {one!r}", expected=f"{other!r}, as in the rest")


def _plain(feature: Feature) -> dict[str, Any]:
    return {name: None if isinstance(value, float) and np.isinf(value) else value for name, value in asdict(feature).items()}


def _whole(labels: np.ndarray) -> np.ndarray:
    return labels.astype(np.int64)
