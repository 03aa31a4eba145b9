"""Train on more series than fit into memory, and keep a trace of the memory.

    .venv/bin/python tools/try_streaming.py 1000000 --work /tmp/stays

Makes N synthetic stays (48 steps × 37 features, a fifth of the values missing; five features tell the label, a little at each
step), writes them chunk by chunk into a folder, trains a learned acquirer with a convolutional predictor for one epoch on it,
and writes results/streaming/N.json and N.png: memory against the number of series seen. The data is deleted afterwards.
"""

import argparse
import math
import multiprocessing
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from whichwhen import keyed
from whichwhen.data import SeriesSet, StoreWriter, load_dataset
from whichwhen.experiments.bench import describe_machine
from whichwhen.files import write_json
from whichwhen.menu import Feature
from whichwhen.model import make_model
from whichwhen.reports.figures import save_figure
from whichwhen.specs import DataSpec, RunSpec, TrainingSpec
from whichwhen.training.epochs import fit
from whichwhen.training.objectives import Objective, make_objective
from whichwhen.training.run import current_commit
from whichwhen.types import Hindsight, Rollout

ROOT = Path(__file__).resolve().parents[1]
STEPS, FEATURES, TELLING, SHIFT, MISSING = 48, 37, 5, 0.12, 0.2
CHUNK, HELD_OUT, POINTS, LIMIT = 5000, 20_000, 200, 2 << 30


def make_stays(first: int, count: int, source: str, seed: int = 0) -> SeriesSet:
    """Stays ``first`` to ``first + count - 1``: each is made from (seed, source, its number) alone."""
    values = np.empty((count, STEPS, FEATURES), dtype=np.float32)
    labels = np.empty(count, dtype=np.int64)
    ids = np.arange(first, first + count)
    for i, number in enumerate(ids.tolist()):
        rng = keyed.series_rng(seed, "stays", source, number)
        labels[i] = rng.random() < 0.5
        own = rng.standard_normal((STEPS, FEATURES), dtype=np.float32)
        own[:, :TELLING] += SHIFT if labels[i] else -SHIFT
        own[rng.random((STEPS, FEATURES), dtype=np.float32) < MISSING] = np.nan
        values[i] = own
    values *= np.arange(1, FEATURES + 1, dtype=np.float32)  # units of their own
    values += 10 * np.arange(FEATURES, dtype=np.float32)
    return SeriesSet(
        source=source,
        values=values.reshape(-1, FEATURES),
        offsets=np.arange(count + 1) * STEPS,
        labels=labels,
        ids=ids,
        groups=ids,
        features=tuple(Feature(f"x{k}") for k in range(FEATURES)),
        seed=seed,
    )


def write_stays(folder: Path, count: int) -> tuple[float, int]:
    """``count`` stays to train on, and some to choose and to test on. Returns CPU seconds and peak memory."""
    features = [Feature(f"x{k}") for k in range(FEATURES)]
    held = min(HELD_OUT, count)
    with StoreWriter(folder, features, ("0", "1")) as writer:
        for part, source, start, size in (
            ("train", "train", 0, count),
            ("validation", "train", count, held),
            ("test", "test", 0, held),
        ):
            for first in range(start, start + size, CHUNK):
                writer.add(part, make_stays(first, min(CHUNK, start + size - first), source))
    return time.process_time(), memory()["peak"]


class Counting(Objective):
    """An objective that counts the series that it has seen."""

    def __init__(self, objective: Objective) -> None:
        self.objective, self.seen = objective, 0
        self.branches = objective.branches

    def loss(self, record: Rollout, hindsight: Hindsight) -> torch.Tensor:
        """That of the other one."""
        self.seen += len(hindsight.labels)
        return self.objective.loss(record, hindsight)


def memory() -> dict[str, int]:
    """Bytes of this process: its own (anon), of files that are mapped (file), the most at any time (peak)."""
    names = {"RssAnon": "anon", "RssFile": "file", "VmHWM": "peak"}
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    return {names[words[0][:-1]]: int(words[1]) * 1024 for words in lines if words[0][:-1] in names}


class Trace(threading.Thread):
    """Looks at the memory each second."""

    def __init__(self, counting: Counting) -> None:
        super().__init__(daemon=True)
        self.counting, self.over = counting, threading.Event()
        self.points: list[dict[str, float]] = []
        self.began = time.monotonic()

    def look(self) -> None:
        """One more point."""
        found = memory()
        self.points.append(
            {"seconds": round(time.monotonic() - self.began, 1), "series": self.counting.seen}
            | {f"{name}_mb": round(found[name] / 1e6, 1) for name in ("anon", "file")}
        )

    def run(self) -> None:
        """Until it is over."""
        while not self.over.wait(1.0):
            self.look()


def try_streaming(count: int, work: Path) -> dict[str, Any]:
    """Write, train, and say what it took."""
    commit = current_commit()
    folder = work / f"stays-{count}.series"
    shutil.rmtree(folder, ignore_errors=True)
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # so that what it leaves in the heap is not here
        writing, peak_of_writing = pool.apply(write_stays, (folder, count))
    on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    print(f"{count} stays in {on_disk / 1e9:.2f} GB, {writing:.0f} CPU s; peak {peak_of_writing / 1e6:.0f} MB", flush=True)

    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = memory()
    spec = RunSpec(data=DataSpec(name=str(folder)), training=TrainingSpec(epochs=1, batch_size=256))
    data = load_dataset(spec.data, spec.seed)
    model = make_model(spec, data)
    counting = Counting(make_objective(spec, model.policy, priced=False))
    trace = Trace(counting)
    trace.look()
    trace.start()
    began = time.process_time()
    state = fit(model, data, objective=counting)
    training = time.process_time() - began
    trace.over.set()
    trace.join()
    trace.look()
    peak = memory()["peak"]
    above = peak - before["anon"] - before["file"]
    every = math.ceil(len(trace.points) / POINTS)
    public = spec.change(data__name=folder.name)
    return {
        "series": count,
        "steps": STEPS,
        "features": FEATURES,
        "held_out": min(HELD_OUT, count),
        "spec": public.model_dump(mode="json"),
        "commit": commit,
        "machine": describe_machine(True),
        "table_bytes": count * STEPS * FEATURES * 4,
        "bytes_on_disk": on_disk,
        "writing_cpu_seconds": round(writing, 1),
        "writing_peak_bytes": peak_of_writing,
        "training_cpu_seconds": round(training, 1),
        "before_opening_bytes": before["anon"] + before["file"],
        "peak_bytes": peak,
        "peak_above_start_bytes": above,
        "limit_bytes": LIMIT,
        "within_limit": above <= LIMIT,
        "epoch": state.history[-1],
        "trace": trace.points[:-1][::every] + trace.points[-1:],
    }


def draw(document: dict[str, Any]) -> Figure:
    """Memory above that of the process before it opened the folder, against series seen."""
    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    base = document["before_opening_bytes"] / 1e6
    training = [point for point in document["trace"] if point["series"] < document["series"]]
    axes.plot([p["series"] for p in training], [p["anon_mb"] + p["file_mb"] - base for p in training], color="0.2", lw=1.2)
    axes.axhline(LIMIT / 1e6, color="0.6", ls="--", lw=1)
    axes.annotate("limit", (0, LIMIT / 1e6), (2, 3), textcoords="offset points", fontsize=8, color="0.4")
    axes.axhline(document["table_bytes"] / 1e6, color="0.6", ls=":", lw=1)
    axes.annotate("the table", (0, document["table_bytes"] / 1e6), (2, 3), textcoords="offset points", fontsize=8, color="0.4")
    axes.set(xlabel="series seen", ylabel="memory above the start, MB", ylim=(0, None), xlim=(0, None))
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Read the command line, write record and figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("series", type=int, help="stays to train on")
    parser.add_argument("--work", type=Path, help="folder for the data (default: a temporary one); it is deleted afterwards")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "streaming", help="folder for record and figure")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        document = try_streaming(args.series, Path(work))
    args.out.mkdir(parents=True, exist_ok=True)
    write_json(args.out / f"{args.series}.json", document)
    save_figure(draw(document), args.out / f"{args.series}.png")
    above, seconds = document["peak_above_start_bytes"] / 1e6, document["training_cpu_seconds"]
    accuracy = document["epoch"]["validation_accuracy"]
    print(f"{args.series} stays: {above:.0f} MB above what was there before, {seconds:.0f} CPU s, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
