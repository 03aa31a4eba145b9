"""UCR and UEA archives through aeon: from a local folder, from aeon's own wheel, or downloaded once into a cache.

A local folder holds ``NAME/NAME_TRAIN.ts`` and ``NAME/NAME_TEST.ts``, as aeon lays them out. It is given by a flag or
argument, or by the environment variable WHICHWHEN_DATA; with a folder given, nothing is ever downloaded.
"""

from __future__ import annotations

import difflib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whichwhen.errors import DataError, DownloadError

FOLDER_VARIABLE = "WHICHWHEN_DATA"
CACHE_VARIABLE = "WHICHWHEN_CACHE"
ORIGIN = "https://timeseriesclassification.com (through aeon, which fetches from zenodo.org/communities/tsml)"


@dataclass(frozen=True)
class RawPart:
    """One part (train or test) of an archive: series ``[T_i, F]`` and their labels as text."""

    series: list[np.ndarray]
    labels: np.ndarray


def load_archive(name: str, folder: Path | str | None = None) -> dict[str, RawPart]:
    """Both parts of an archive by its UCR/UEA name."""
    home = find_archive(name, folder)
    return {part: _read(home / name / f"{name}_{part.upper()}.ts") for part in ("train", "test")}


def find_archive(name: str, folder: Path | str | None = None) -> Path:
    """The folder that holds ``NAME/NAME_TRAIN.ts`` and its test file; downloads them where no folder is given."""
    given = folder or os.environ.get(FOLDER_VARIABLE)
    carried = carried_folder()
    if given:
        home = Path(given).expanduser()
        missing = _missing(home, name)
        if not missing:
            return home
        if not _missing(carried, name):
            return carried
        if name not in known_archives() and not (home / name).is_dir():
            raise _unknown(name)
        where = "--data-dir" if folder else FOLDER_VARIABLE
        raise DataError(
            f"no file {missing[0]} in the data folder {home} (from {where})",
            expected=f"{name}/{name}_TRAIN.ts and {name}/{name}_TEST.ts there",
            do=f"put them there, or leave out the data folder to download them from {ORIGIN}",
        )
    for home in (carried, cache_folder()):
        if not _missing(home, name):
            return home
    if name not in known_archives():
        raise _unknown(name)
    return _download(name)


def where(name: str, folder: Path | str | None = None) -> str:
    """Where an archive would come from, in a word or two."""
    if not name:
        return ""
    given = folder or os.environ.get(FOLDER_VARIABLE)
    if given and not _missing(Path(given).expanduser(), name):
        return "data folder"
    if not _missing(carried_folder(), name):
        return "aeon's wheel"
    if given:
        return "not in the data folder"
    return "cache" if not _missing(cache_folder(), name) else "download"


def in_data_folder(files: Sequence[str], folder: Path | str | None = None) -> bool:
    """Whether a data folder is given and holds all these files."""
    given = folder or os.environ.get(FOLDER_VARIABLE)
    return bool(given) and all((Path(str(given)).expanduser() / file).is_file() for file in files)


def carried_folder() -> Path:
    """Where aeon's wheel keeps the few data sets that it carries."""
    spec = importlib.util.find_spec("aeon")  # found, not imported: that takes seconds
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "datasets" / "data"


def cache_folder() -> Path:
    """Where downloads go: WHICHWHEN_CACHE, or whichwhen in the user's cache folder."""
    given = os.environ.get(CACHE_VARIABLE)
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whichwhen"


def known_archives() -> set[str]:
    """Names that aeon can download."""
    from aeon.datasets import tsc_datasets

    return set(tsc_datasets.tsc_zenodo) | {
        name
        for group in ("univariate_equal_length", "univariate_variable_length", "multivariate_equal_length")
        for name in getattr(tsc_datasets, group, ())
    }


def near_names(name: str, known: Sequence[str]) -> list[str]:
    """Known names that look like ``name``, whatever the case."""
    folded = {one.casefold(): one for one in known}
    return [folded[match] for match in difflib.get_close_matches(name.casefold(), list(folded), n=3, cutoff=0.6)]


def _unknown(name: str) -> DataError:
    near = near_names(name, sorted(known_archives()))
    hint = f"did you mean {' or '.join(f'ucr:{one}' for one in near)}?" if near else "`whichwhen data` lists what there is"
    return DataError(f"unknown archive {name!r}", expected="a name of the UCR or UEA archive", do=hint)


def _missing(home: Path, name: str) -> list[str]:
    return [f"{name}/{name}_{part}.ts" for part in ("TRAIN", "TEST") if not (home / name / f"{name}_{part}.ts").is_file()]


def _download(name: str) -> Path:
    """Fetch beside, then rename: a broken download leaves nothing behind."""
    from aeon.datasets import load_classification

    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as box:
            for part in ("train", "test"):
                load_classification(name, split=part, extract_path=box)
            if missing := _missing(Path(box), name):
                raise FileNotFoundError(missing[0])
            target = cache / name
            if target.exists():
                shutil.rmtree(target)
            (Path(box) / name).replace(target)
    except Exception as error:  # whatever urllib, zipfile or aeon raise: to the user it is one thing
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DownloadError(
            f"{name} is not here and could not be downloaded ({reason})",
            expected=f"a way to {ORIGIN}",
            do=f"get {name}_TRAIN.ts and {name}_TEST.ts elsewhere, put them into FOLDER/{name}/ and pass --data-dir FOLDER "
            f"or set {FOLDER_VARIABLE}",
        ) from error
    return cache


def _read(path: Path) -> RawPart:
    from aeon.datasets import load_from_ts_file

    try:
        series, labels = load_from_ts_file(str(path))
    except Exception as error:  # aeon raises OSError, ValueError, IndexError, … for malformed files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path} can't be read as a .ts file ({reason})", do="get the file again; it may be cut short"
        ) from error
    if len(series) == 0:
        raise DataError(f"{path} holds no series", expected="at least one", do="get the file again")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused with its place
        return RawPart([np.asarray(one, dtype=np.float32).T for one in series], np.asarray(labels).astype(str))
