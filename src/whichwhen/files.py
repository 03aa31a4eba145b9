"""Writing files so that a reader never sees half of one: beside, then rename."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a file beside ``path``, then put it in its place in one move."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write(beside)
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A whole text file at once."""
    write_atomically(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def write_json(path: Path, content: Any, indent: int | None = 2) -> None:
    """JSON, indented; a NaN is an error, as most readers refuse it."""
    write_text(path, json.dumps(content, indent=indent, allow_nan=False) + "\n")
