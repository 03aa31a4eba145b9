"""Grids of runs on a data set of a few series, that processes of their own can read: an archive in a folder.

Called as a script by test_runner.py and test_ray.py: runs such a grid, and prints its outcome as JSON.
"""

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

from builders import tiny_spec
from support import ts_rows, ts_text, write_archive
from whichwhen.experiments.paper import Cell, Job
from whichwhen.experiments.runner import JoblibEngine, RayEngine, run_grid


def write_data(folder: Path) -> Path:
    """The archive that the jobs read; returns its folder."""
    return write_archive(folder, ts_text(ts_rows(24)), ts_text(ts_rows(11, seed=1)))


def small_job(
    acquirer: str = "random", seed: int = 0, *, fakes: str = "noise", name: str = "ucr:Own", **changes: object
) -> Job:
    """A job whose run takes a moment; ``changes`` as in ``RunSpec.change``."""
    own = {"data__name": name, "data__fakes": fakes, "data__n_fakes": 2, "acquirer__kind": acquirer, "seed": seed}
    return Job("paper", Cell(name.replace("ucr:", "").lower(), fakes), tiny_spec(**own, **{"training__epochs": 2, **changes}))


def small_jobs(count: int, epochs: int) -> list[Job]:
    """Jobs that differ in their seed; long enough to be caught in the act where there are many epochs."""
    return [small_job("learned", seed, training__epochs=epochs) for seed in range(count)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", default="joblib")
    parser.add_argument("--address")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    engine = RayEngine(args.workers, args.address) if args.engine == "ray" else JoblibEngine(args.workers)
    told: list[str] = []
    state = run_grid(
        small_jobs(args.count, args.epochs),
        args.folder / "out",
        args.folder / "runs",
        engine=engine,
        folder=args.folder / "data",
        on_change=lambda state, outcome: told.append(f"{outcome.job.name} {outcome.state}") if outcome else None,
    )
    outcome = {"done": sorted(state.done), "failed": state.failed, "elsewhere": sorted(state.elsewhere), "told": told}
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
