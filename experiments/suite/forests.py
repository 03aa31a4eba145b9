"""Keep the random forests that rank orders: many runs of the suite have the same training series and need the same one."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from filelock import FileLock

from whichwhen import model
from whichwhen.files import write_atomically


@dataclass
class Saved:
    """CPU seconds that were not spent, since the forest was there: a run by itself would have spent them."""

    seconds: float = 0.0


@contextmanager
def kept_forests(folder: Path) -> Iterator[Saved]:
    """While this lasts, forests are kept in a folder, and taken from there where the same one was grown before."""
    grow, saved = model.forest_importance, Saved()  # type: ignore[attr-defined]

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

    with mock.patch.object(model, "forest_importance", look_up):
        yield saved
