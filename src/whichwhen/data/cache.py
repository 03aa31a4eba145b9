"""Sources that take long to read, kept on disk in the form that the rest needs, and checked.

A cached source is a file in the folder ``sources`` of the cache: numpy's .npz (no pickle), after its own sha256. The name of
the file holds a digest of everything that it depends on: the content of the source files, the code that read them, and
settings. So it is found only when all of them are the same, and a change of any of them leads to another file. It is written
beside and renamed, under a lock: of two processes that want the same source, one reads the archive and the other one waits for
it. A damaged file is made again.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import filelock
import numpy as np

from whichwhen import menu as menu_module
from whichwhen.data import store
from whichwhen.data.archives import cache_folder
from whichwhen.data.store import SeriesSet, Source
from whichwhen.files import write_atomically
from whichwhen.menu import Feature, Menu, Order

FORMAT = 1
KEPT = 4
"""Files of one name that are kept: a few versions of code or source side by side."""
_ALWAYS = ("values", "offsets", "labels", "ids", "groups")
_SOMETIMES = ("step_labels", "weights")


def cached_source(
    name: str,
    build: Callable[[], Source],
    files: Iterable[Path],
    code: Iterable[Path] = (),
    settings: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> Source:
    """What ``build`` returns, from the cache where it holds that already.

    Args:
        name: of the source; part of the file's name.
        build: reads the source; whatever it raises is passed on, and nothing is written then.
        files: what it reads.
        code: source files of the code that does.
        settings: its arguments, as plain data.
        folder: the cache; WHICHWHEN_CACHE or the user's cache folder if not given.
    """
    key = _digest(name, files, code, settings or {})
    home = (folder or cache_folder()) / "sources"
    path = home / f"{name}-{key[:20]}.source"
    if (found := _read(path, key)) is not None:
        return found
    lock = filelock.FileLock(home / f"{name}.lock")
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        _warn(home, error)
        return build()
    try:
        if (found := _read(path, key)) is not None:  # another process has made it meanwhile
            return found
        made = build()
        try:
            write_atomically(path, lambda beside: _write(beside, made, key))
            _forget_old(home, name)
        except OSError as error:
            _warn(home, error)
        return made
    finally:
        lock.release()


def code_beside(file: str) -> list[Path]:
    """The source files of a module's own package, by name."""
    return sorted(Path(file).parent.glob("*.py"))


def _digest(name: str, files: Iterable[Path], code: Iterable[Path], settings: Mapping[str, Any]) -> str:
    own = [Path(str(module)) for module in (__file__, store.__file__, menu_module.__file__)]
    parts = [
        f"{FORMAT} {name}",
        json.dumps(dict(settings), sort_keys=True),
        *(f"{path.name} {_digest_file(path)}" for path in files),
        *(f"{path.name} {_digest_file(path)}" for path in (*code, *own)),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _warn(home: Path, error: OSError) -> None:
    warnings.warn(f"{home} can't be written ({error}), so this data set is read anew each time", stacklevel=3)


def _forget_old(home: Path, name: str) -> None:
    """Delete all but the newest few files of a name."""
    newest = sorted(home.glob(f"{name}-*.source"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest[KEPT:]:
        path.unlink(missing_ok=True)


def _write(path: Path, source: Source, key: str) -> None:
    parts = {"train": source.train, **{f"test {name}": part for name, part in source.tests.items()}}
    arrays: dict[str, np.ndarray] = {}
    for place, part in parts.items():
        arrays |= {f"{place}/{name}": getattr(part, name) for name in _ALWAYS}
        arrays |= {f"{place}/{name}": getattr(part, name) for name in _SOMETIMES if getattr(part, name) is not None}
        arrays |= {f"{place}/subgroup {name}": column for name, column in part.subgroups.items()}
    if source.real is not None:
        arrays["real"] = source.real
    about = {
        "key": key,
        "parts": [
            {
                "place": place,
                "source": part.source,
                "seed": part.seed,
                "features": [asdict(feature) for feature in part.features],
                "subgroups": list(part.subgroups),
            }
            for place, part in parts.items()
        ],
        "classes": source.classes,
        "menu": source.menu and [asdict(order) for order in source.menu.orders],
        "menu_features": source.menu and [asdict(feature) for feature in source.menu.features],
        "notes": dict(source.notes),
    }
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    packed = io.BytesIO()
    np.savez_compressed(packed, allow_pickle=False, **arrays)
    content = packed.getvalue()
    path.write_bytes(hashlib.sha256(content).digest() + content)


def _read(path: Path, key: str) -> Source | None:
    """The source in a file, None where there is none, it is damaged, or it is another one."""
    try:
        whole = memoryview(path.read_bytes())
    except OSError:
        return None
    digest, content = whole[:32], whole[32:]
    if hashlib.sha256(content).digest() != digest:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    about = json.loads(arrays["about"].tobytes())
    if about["key"] != key:
        return None
    sets = {one["place"]: _part(one, arrays) for one in about["parts"]}
    menu = about["menu"] and Menu(
        tuple(Feature(**one) for one in about["menu_features"]),
        tuple(Order(**{**one, "features": tuple(one["features"])}) for one in about["menu"]),
    )
    return Source(
        train=sets.pop("train"),
        tests={place.removeprefix("test "): part for place, part in sets.items()},
        classes=tuple(about["classes"]),
        menu=menu,
        real=arrays.get("real"),
        notes=about["notes"],
    )


def _part(one: dict[str, Any], arrays: dict[str, np.ndarray]) -> SeriesSet:
    place = one["place"]
    return SeriesSet(
        source=one["source"],
        seed=one["seed"],
        features=tuple(Feature(**feature) for feature in one["features"]),
        subgroups={name: arrays[f"{place}/subgroup {name}"] for name in one["subgroups"]},
        step_labels=arrays.get(f"{place}/step_labels"),
        weights=arrays.get(f"{place}/weights"),
        **{name: arrays[f"{place}/{name}"] for name in _ALWAYS},
    )
