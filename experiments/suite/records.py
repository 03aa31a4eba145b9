"""What is kept of each run: one line of JSON in ``records.jsonl``, small enough to commit.

A line holds name, command, spec, spec_hash, plan, commit, cpu_seconds, evaluation_seconds, kept, candidates, the data set's
facts, and ``evaluations``: for each budget the rows that it belongs to (learned, learned-only), accuracy, loss, cost and,
where differences are taken, which test series were right.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from experiments.suite.jobs import Job
from whichwhen.errors import WhichwhenError
from whichwhen.specs import RunSpec

RECORDS, FORMAT = "records.jsonl", 1
Record = dict[str, Any]


def pack(flags: np.ndarray) -> str:
    """Bits as text."""
    return base64.b64encode(np.packbits(flags).tobytes()).decode()


def unpack(text: str, count: int) -> np.ndarray:
    """The way back, ``[count]`` bool."""
    return np.unpackbits(np.frombuffer(base64.b64decode(text), dtype=np.uint8), count=count).astype(bool)


def append_record(out: Path, record: Mapping[str, Any]) -> None:
    """Add a line under a lock. Half a line, left by a process that was killed, is closed first and ignored by readers."""
    out.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    with FileLock(out / f".{RECORDS}.lock"):
        path = out / RECORDS
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as file:
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    line = b"\n" + line
        with path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())


def load_records(out: Path) -> list[Record]:
    """The last record of each name, without those of specs that have another meaning by now."""
    path = out / RECORDS
    if not path.is_file():
        return []
    found: dict[str, Record] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # half a line of a process that was killed
        if isinstance(record, dict) and record.get("format") == FORMAT and _is_current(record):
            found.pop(record["name"], None)
            found[record["name"]] = record
    return list(found.values())


def _is_current(record: Record) -> bool:
    if record["spec"] is None:
        return True
    try:
        return bool(RunSpec.model_validate(record["spec"]).hash == record["spec_hash"])
    except (ValueError, WhichwhenError):
        return False


def finished(jobs: Iterable[Job], out: Path) -> dict[str, Record]:
    """The records of the jobs that need not be run, by name."""
    there = {record["name"]: record for record in load_records(out)}
    return {
        job.name: there[job.name]
        for job in jobs
        if job.name in there and there[job.name]["spec_hash"] == job.hash and there[job.name]["plan"] == job.plan
    }
