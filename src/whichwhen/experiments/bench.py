"""What acquisition costs: ratios to the bare predictor, measured side by side in one process, in CPU seconds.

``bare`` is the same predictor on all features, ``fast`` is a step of the recipe's joint phase, ``literal`` the paper's loop as
its text reads; each is forward, backward and optimiser step, with the same threads and allocator settings. They take
turns, so that whatever else the machine does hits all of them, and the ratio is the median over the turns.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from whichwhen._version import __version__
from whichwhen.acquirers import WithOwnPredictor, make_acquirer
from whichwhen.allocator import keep_freed_memory
from whichwhen.budget import Price, RandomPrice, caps_up_to
from whichwhen.contracts import Acquirer
from whichwhen.data import Dataset, SeriesSet, StoreWriter, open_store
from whichwhen.experiments.literal import literal_logits
from whichwhen.menu import Feature, Menu
from whichwhen.model import make_model
from whichwhen.noise import NoisePool
from whichwhen.predictors import ConvPredictor, LSTMPredictor
from whichwhen.rollout import Policy, inference, roll_out
from whichwhen.selection import Gate
from whichwhen.session import Session
from whichwhen.specs import AcquirerSpec, RunSpec
from whichwhen.training.detached import roll_out_replayed
from whichwhen.training.epochs import fit
from whichwhen.training.objectives import EndToEnd, Priced
from whichwhen.types import Batch, Hindsight, Reveal

Work = Callable[[], object]


@dataclass(frozen=True)
class Setting:
    """One size to measure at. ``limit``: the largest ratio of fast to bare that counts as kept; None = only reported."""

    name: str
    predictor: str = "lstm"
    batch: int = 1000
    steps: int = 50
    features: int = 40
    budget: int = 5
    classes: int = 2
    layers: int = 2
    hidden: int = 4
    varied: bool = False
    context: bool = False
    limit: float | None = None


_DIGITS: dict[str, Any] = {"steps": 93, "features": 43, "classes": 10, "hidden": 8, "varied": True}
SETTINGS = (
    Setting("paper", limit=2.0),
    Setting("digits", layers=3, limit=2.0, **_DIGITS),
    Setting("paper, convolutional", "conv", layers=4, hidden=32, limit=2.0),
    Setting("digits, convolutional", "conv", layers=4, limit=2.0, **(_DIGITS | {"hidden": 32})),
    Setting("paper, reads context", context=True, limit=3.0),
    Setting("paper, convolutional, reads context", "conv", layers=4, hidden=32, context=True, limit=3.0),
    Setting("wide", features=200, budget=20, limit=3.0),
    Setting("long", batch=200, steps=500),
)
PRICES = 1e-5, 1e-1
"""Between which prices are drawn, in nats per order."""
LITERAL_LIMIT, EVALUATION_LIMIT, MEMORY_LIMIT, EXPONENT_LIMIT, SESSION_LIMIT = 4.0, 2.5, 2.5, 1.1, 1e-3
STREAMING_MEMORY_LIMIT, STREAMING_CPU_LIMIT = 1.1, 1.25


@dataclass(frozen=True)
class Bench:
    """A policy as it is used, and a batch of a setting's size, with the three ways to train on it."""

    setting: Setting
    policy: Policy
    known: Hindsight

    @classmethod
    def of(cls, setting: Setting) -> Bench:
        """Random data and fresh weights."""
        rng = np.random.default_rng(0)
        size, steps, width = setting.batch, setting.steps, setting.features
        lengths = np.full(size, steps)
        if setting.varied:  # as in SpokenArabicDigits: 4 to 93, 40 on average
            lengths = np.clip(rng.normal(40, 10, size), 4, steps).astype(np.int64)
            lengths[0] = steps
            lengths = np.sort(lengths)[::-1].copy()  # the longest first, as training has them
        observed = torch.from_numpy(np.arange(steps) < lengths[:, None]).unsqueeze(-1).expand(size, steps, width)
        # the steps outermost in memory, as SeriesSet.hindsight makes it
        values = torch.from_numpy(rng.standard_normal((steps, size, width), dtype=np.float32)).transpose(0, 1) * observed
        batch = Batch(values, observed, torch.from_numpy(lengths), torch.arange(size), complete=True)
        labels = torch.from_numpy(rng.integers(setting.classes, size=size))
        menu = Menu.one_per_feature(Feature(f"x{i}") for i in range(width))
        torch.manual_seed(0)
        predictor = (
            LSTMPredictor(width, setting.classes, steps, 16, setting.layers, 8)
            if setting.predictor == "lstm"
            else ConvPredictor(width, setting.classes, steps, 32, setting.layers)
        )
        acquirer = _acquirer(setting, menu, predictor.context_size)
        if setting.context:
            acquirer = WithOwnPredictor(acquirer, copy.deepcopy(predictor))
        policy = Policy(menu, Price(PRICES[0], setting.budget), acquirer, predictor)
        return cls(setting, policy, Hindsight(batch, labels))

    def everything(self) -> tuple[Reveal, tuple[int, ...], Tensor]:
        """All features of all series, packed; how many series take part in each step; the last row of each series."""
        batch = self.known.batch
        by_length = torch.sort(batch.lengths, descending=True, stable=True).indices
        sizes = (batch.lengths.unsqueeze(1) > torch.arange(batch.steps)).sum(0).tolist()
        values = torch.cat([batch.values[by_length[:n], t] for t, n in enumerate(sizes)])
        when = torch.repeat_interleave(torch.tensor(sizes))
        reveal = Reveal(values, torch.ones_like(values), torch.zeros(()).expand_as(values), when)
        starts = torch.tensor([0, *sizes]).cumsum(0)
        last = starts[batch.lengths - 1] + torch.argsort(by_length)
        return reveal, tuple(sizes), last

    def bare(self) -> Work:
        """One training step of the predictor alone, on everything."""
        reveal, sizes, last = self.everything()
        predictor = self.policy.predictor

        def loss() -> Tensor:
            return F.cross_entropy(predictor.packed(reveal, sizes)[0][last], self.known.labels)

        return _training_step(loss, list(predictor.parameters()))

    def fast(self) -> Work:
        """One training step of acquirer and predictor, as this project does it."""
        menu, acquirer = self.policy.menu, self.policy.acquirer
        budget = RandomPrice(*PRICES, caps_up_to(2 * self.setting.budget, menu), menu)
        policy = replace(self.policy, budget=budget, selector=Gate())
        pool, objective = NoisePool(0, 1 << 22), Priced(EndToEnd(0.3), policy.rules)

        def loss() -> Tensor:
            if isinstance(acquirer, WithOwnPredictor):
                acquirer.follow(policy.predictor)
            return objective.loss(roll_out_replayed(policy, self.known.batch, pool), self.known)

        return _training_step(loss, _parameters(policy))

    def literal(self) -> Work:
        """One training step of acquirer and predictor, as the paper's text reads."""
        own = _acquirer(self.setting, self.policy.menu, self.policy.predictor.context_size, gated=False)
        policy = replace(self.policy, acquirer=own)

        def loss() -> Tensor:
            return F.cross_entropy(literal_logits(policy, self.known.batch, self.setting.budget), self.known.labels)

        return _training_step(loss, _parameters(policy))


def _acquirer(setting: Setting, menu: Menu, context_size: int, gated: bool = True) -> Acquirer:
    """A learned acquirer of a setting's size; without the gate its scores are the paper's logits."""
    times = 0 if setting.predictor == "lstm" else 8
    reads = AcquirerSpec(kind="learned-only", hidden=setting.hidden, time_features=times, context=setting.context)
    return make_acquirer(reads.kind, reads, menu, setting.steps, setting.steps, context_size, 0, gated)


def _parameters(policy: Policy) -> list[torch.nn.Parameter]:
    """What learns."""
    return [p for model in (policy.acquirer, policy.predictor) for p in model.parameters() if p.requires_grad]


def run_benchmarks(rounds: int = 9, tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """All measurements, with what was missed under ``missed``."""
    # first, in a heap that no training has shaped: a session runs in a process of its own
    session = [_measure_session(kind) for kind in ("lstm", "conv")]
    kept = keep_freed_memory()
    rows: list[dict[str, Any]] = []
    for setting in SETTINGS:
        bench = Bench.of(setting)
        works = {"bare": bench.bare(), "fast": bench.fast()}
        if setting.name == "paper":
            works["literal"] = bench.literal()
        times = take_turns(list(works.values()), rounds)
        bare, fast, *literal = times
        row: dict[str, Any] = {
            "setting": asdict(setting),
            "bare_cpu_seconds": float(np.median(bare)),
            "fast_cpu_seconds": float(np.median(fast)),
            "ratio": float(np.median(fast / bare)),
        }
        if literal:
            row["literal_cpu_seconds"] = float(np.median(literal[0]))
            row["literal_to_fast"] = float(np.median(literal[0] / fast))
        rows.append(row)
        tell(f"{setting.name}: fast is {row['ratio']:.2f} × bare")
    document: dict[str, Any] = {
        "machine": describe_machine(kept),
        "rounds": rounds,
        "training": rows,
        "evaluation": _measure_evaluation(rounds),
        "session": session,
        "memory": [_measure_memory(setting) for setting in SETTINGS if setting.limit and not setting.context],
        "growth": _measure_growth(max(3, rounds // 2)),
        "streaming": _measure_streaming(max(3, rounds // 2)),
    }
    document["missed"] = find_missed(document)
    return document


def find_missed(document: dict[str, Any]) -> list[str]:
    """Which of the limits were not kept, in words."""
    missed: list[str] = []

    def at_most(what: str, value: float, limit: float) -> None:
        if not value <= limit:
            missed.append(f"{what}: {value:.3g}, expected at most {limit:g}")

    for row in document["training"]:
        setting = row["setting"]
        if setting["limit"] is not None:
            at_most(f"fast to bare, {setting['name']}", row["ratio"], setting["limit"])
        if "literal_to_fast" in row and not row["literal_to_fast"] >= LITERAL_LIMIT:
            missed.append(f"literal to fast: {row['literal_to_fast']:.3g}, expected at least {LITERAL_LIMIT:g}")
    at_most("evaluation to a plain predictor pass", document["evaluation"]["ratio"], EVALUATION_LIMIT)
    for row in document["session"]:
        for when in ("early", "late"):
            at_most(f"{row['predictor']} session step, {when}, CPU s", row[f"{when}_cpu_seconds"], SESSION_LIMIT)
    for row in document["memory"]:
        at_most(f"peak memory to bare, {row['setting']}", row["ratio"], MEMORY_LIMIT)
    for name, exponent in document["growth"]["exponents"].items():
        at_most(f"growth of the step's cost with {name}", exponent, EXPONENT_LIMIT)
    streaming = document["streaming"]
    at_most("peak memory of training from disk, 4 N series to N", streaming["memory_ratio"], STREAMING_MEMORY_LIMIT)
    at_most("CPU time of an epoch from disk to one from memory", streaming["cpu_ratio"], STREAMING_CPU_LIMIT)
    return missed


def take_turns(works: Sequence[Work], rounds: int) -> np.ndarray:
    """CPU seconds ``[works, rounds]``, after two rounds to warm up."""
    times = np.zeros((len(works), rounds + 2))
    for turn in range(rounds + 2):
        for i, work in enumerate(works):
            started = time.process_time()
            work()
            times[i, turn] = time.process_time() - started
    return times[:, 2:]


def describe_machine(allocator_kept: bool) -> dict[str, Any]:
    """What the numbers were measured on."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "freed memory kept": allocator_kept,
        "whichwhen": __version__,
    }


def _training_step(loss: Callable[[], Tensor], parameters: list[torch.nn.Parameter]) -> Work:
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)

    def work() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return work


def _measure_evaluation(rounds: int) -> dict[str, Any]:
    """The m-FordA test set's size: the loop with hard selection against one pass of the predictor over everything."""
    bench = Bench.of(Setting("evaluation", "conv", batch=1320, layers=4, hidden=32))
    policy = bench.policy
    reveal, sizes, _ = bench.everything()

    def plain() -> None:
        with inference(policy):
            policy.predictor.packed(reveal, sizes)

    def loop() -> None:
        with inference(policy):
            _ = roll_out(policy, bench.known.batch).final_logits

    plain_times, loop_times = take_turns([plain, loop], rounds)
    return {
        "series": 1320,
        "plain_cpu_seconds": float(np.median(plain_times)),
        "loop_cpu_seconds": float(np.median(loop_times)),
        "ratio": float(np.median(loop_times / plain_times)),
        "series_per_cpu_second": float(1320 / np.median(loop_times)),
    }


def _measure_session(kind: str) -> dict[str, Any]:
    """One series, 40 features: the step's CPU time at the median, at the start and after hundreds of steps."""
    bench = Bench.of(Setting("session", kind, batch=1, layers=4 if kind == "conv" else 2, hidden=32))
    policy = bench.policy
    for model in (policy.acquirer, policy.predictor):
        model.eval()
    session = Session(policy, ["a", "b"], np.zeros(40), np.ones(40))
    values = {f"x{i}": float(i) / 40 for i in range(40)}
    times = []
    for _ in range(600):
        asked = {name: values[name] for name in session.request}
        started = time.process_time()
        session.observe(asked)
        times.append(time.process_time() - started)
    return {
        "predictor": kind,
        "early_cpu_seconds": float(np.median(times[20:120])),
        "late_cpu_seconds": float(np.median(times[500:600])),
    }


def _measure_memory(setting: Setting) -> dict[str, Any]:
    """Peak memory of three training steps above what was there before, each time in a process of its own; median of three."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        peaks = {way: float(np.median([pool.apply(_peak_bytes, (setting, way)) for _ in range(3)])) for way in ("bare", "fast")}
    return {
        "setting": setting.name,
        **{f"{way}_bytes": peak for way, peak in peaks.items()},
        "ratio": peaks["fast"] / peaks["bare"],
    }


def _peak_bytes(setting: Setting, way: str) -> int:
    torch.set_num_threads(1)
    keep_freed_memory()
    bench = Bench.of(setting)
    work = bench.bare() if way == "bare" else bench.fast()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _status("VmRSS")
    for _ in range(3):
        work()
    return _status("VmHWM") - before


def _measure_streaming(rounds: int) -> dict[str, Any]:
    """Epochs over series in a folder: peak memory with N and 4 N of them, CPU time beside the same series in memory."""
    few, many = 2500, 10_000  # from some 2400 on, the pool of noise has its full size
    with tempfile.TemporaryDirectory() as work:
        folders = {count: _write_stays(Path(work) / f"{count}.series", count) for count in (600, few, many)}
        with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
            peaks = {count: pool.apply(_peak_of_epoch, (folders[count],)) for count in (few, many)}
        stored = open_store(folders[600])
        inside = replace(stored, train=replace(stored.train, values=stored.train.values[:]))
        disk, memory = take_turns([partial(_run_epoch, stored), partial(_run_epoch, inside)], rounds)
    return {
        "series": [few, many],
        "peak_bytes": [peaks[few], peaks[many]],
        "memory_ratio": peaks[many] / peaks[few],
        "disk_cpu_seconds": float(np.median(disk)),
        "memory_cpu_seconds": float(np.median(memory)),
        "cpu_ratio": float(np.median(disk / memory)),
    }


def _write_stays(folder: Path, count: int) -> Path:
    """48 steps of 37 features with holes, two classes."""
    rng = np.random.default_rng(0)
    features = [Feature(f"x{i}") for i in range(37)]
    with StoreWriter(folder, features, ("0", "1")) as writer:
        for part, first, size in (("train", 0, count), ("validation", count, 50), ("test", 0, 50)):
            for start in range(0, size, 500):
                values = rng.standard_normal((min(500, size - start), 48, 37), dtype=np.float32)
                values[values > 1] = np.nan
                chunk = SeriesSet.from_list(list(values), np.arange(len(values)) % 2, features, part)
                writer.add(part, replace(chunk, ids=chunk.ids + first + start, groups=chunk.ids + first + start))
    return folder


def _run_epoch(data: Dataset) -> None:
    spec = RunSpec().change(training__epochs=1, training__batch_size=128, predictor__width=16, predictor__layers=2)
    fit(make_model(spec, data), data)


def _peak_of_epoch(folder: Path) -> int:
    torch.set_num_threads(1)
    keep_freed_memory()
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = _status("VmRSS")
    _run_epoch(open_store(folder))
    return _status("VmHWM") - before


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"no {name} in /proc/self/status")


def _measure_growth(rounds: int) -> dict[str, Any]:
    """How the step's cost grows with batch, steps and orders: exponents fitted over a factor of 16."""
    base = Setting("growth", batch=500, steps=25, features=40)
    points = {"batch": (125, 500, 2000), "steps": (12, 48, 192), "features": (25, 100, 400)}
    exponents, seconds = {}, {}
    for name, sizes in points.items():
        works = [Bench.of(replace(base, **{name: size})).fast() for size in sizes]  # type: ignore[arg-type]
        cost = np.median(take_turns(works, rounds), axis=1)
        exponents[name] = float(np.polyfit(np.log(sizes), np.log(cost), 1)[0])
        seconds[name] = {str(size): float(value) for size, value in zip(sizes, cost, strict=True)}
    return {"exponents": exponents, "cpu_seconds": seconds}
