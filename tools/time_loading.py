"""What it takes to load the clinical sets, the first time and after: CPU seconds, each in a process of its own.

    WHICHWHEN_DATA=FOLDER .venv/bin/python tools/time_loading.py

Writes results/clinical/loading.json. The user's cache is left alone: the first load goes into an empty one.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOAD = """
import sys, time
from whichwhen.data import load_dataset
began = time.process_time()
data = load_dataset(sys.argv[1])
print(time.process_time() - began, len(data.train) + len(data.validation) + sum(map(len, data.tests.values())))
"""
LIMITS = {"first": 60.0, "after": 2.0}
TRIES = 3


def load(name: str, cache: str) -> tuple[float, int]:
    """CPU seconds of loading, imports left out, and the number of stays."""
    words = [sys.executable, "-c", LOAD, name]
    done = subprocess.run(words, env={**os.environ, "WHICHWHEN_CACHE": cache}, capture_output=True, text=True, check=True)
    seconds, count = done.stdout.split()
    return float(seconds), int(count)


def main() -> None:
    """Time both sets, print and write."""
    rows = []
    for name in ("physionet2012", "physionet2019"):
        with tempfile.TemporaryDirectory() as cache:
            first, count = load(name, cache)
            after = sorted(load(name, cache)[0] for _ in range(TRIES))[TRIES // 2]
        rows.append({"dataset": name, "stays": count, "first": round(first, 2), "after": round(after, 2), "limits": LIMITS})
        print(rows[-1], flush=True)
    document = {"command": "python tools/time_loading.py", "machine": platform.machine(), "cpu_seconds": rows}
    (ROOT / "results" / "clinical" / "loading.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    missed = [row["dataset"] for row in rows if any(row[when] > limit for when, limit in LIMITS.items())]
    if missed:
        raise SystemExit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
