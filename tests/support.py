"""What the tests of data, folders and the command line share: where real data lies, small archives, a tiny task."""

import functools
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from whichwhen.data import archives
from whichwhen.data.synthetic import SignalTask

GIVEN = os.environ.get("WHICHWHEN_DATA")
"""As it was when the tests began; some of them change it."""

TINY = SignalTask(stride=0, about="tiny", first=1, n_features=4, steps=5, signal=1.5, n_train=40, n_test=20)
"""A task whose run takes half a second; put it into ``synthetic.TASKS`` as ``tiny``."""

TRAIN_TINY = (
    *("train", "synthetic:tiny", "--epochs", "2", "--batch-size", "16", "--budget", "1", "--quiet"),
    *("--width", "4", "--layers", "1", "--acquirer-hidden", "4"),
)
"""Words of a run on it, without --out."""


def data_folder(archive: str) -> Path:
    """The folder with a real archive; skips the test where it is not there."""
    folder = Path(GIVEN) if GIVEN else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (folder / archive / f"{archive}_TRAIN.ts").is_file():
        pytest.skip(f"no {archive} in WHICHWHEN_DATA or ../shared/data: this test reads the real archive")
    return folder


@functools.cache
def raw_archive(name: str) -> dict[str, archives.RawPart]:
    """A real archive, read once for all tests."""
    return archives.load_archive(name, data_folder(name))


def ts_rows(
    count: int = 12, n_features: int = 2, steps: int = 4, labels: Sequence[str] = ("a", "b"), seed: int = 0
) -> list[str]:
    """Lines of a .ts file: ``1,2,3:4,5,6:label``, labels in turn."""
    rng = random.Random(seed)
    return [
        ":".join(
            [*(",".join(f"{rng.gauss(0, 1):.4f}" for _ in range(steps)) for _ in range(n_features)), labels[i % len(labels)]]
        )
        for i in range(count)
    ]


def ts_text(rows: Sequence[str], labels: Sequence[str] = ("a", "b")) -> str:
    """A .ts file with a header that fits the first row, lengths left open."""
    n_features = len(rows[0].split(":")) - 1 if rows else 1
    shape = "@univariate true" if n_features == 1 else f"@univariate false\n@dimensions {n_features}"
    head = (
        f"@problemName Own\n@timeStamps false\n@missing false\n{shape}\n@equalLength false\n@classLabel true {' '.join(labels)}"
    )
    return "\n".join([head, "@data", *rows]) + "\n"


def write_archive(folder: Path, train: str, test: str, name: str = "Own") -> Path:
    """``NAME/NAME_TRAIN.ts`` and ``NAME/NAME_TEST.ts`` in a folder."""
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / f"{name}_TRAIN.ts").write_text(train)
    (folder / name / f"{name}_TEST.ts").write_text(test)
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file under a folder with its bytes, and every folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def run_whichwhen(*words: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """``python -m whichwhen`` as a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "whichwhen", *words],
        cwd=cwd,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
