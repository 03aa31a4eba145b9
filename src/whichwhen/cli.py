"""The command line: verbs only. Torch is imported by the verbs that need it, never for ``--help``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import tyro
from pydantic import BaseModel, ConfigDict, Field

from whichwhen._version import __version__
from whichwhen.errors import SpecError, WhichwhenError
from whichwhen.specs import (
    PAPER_DATA,
    AcquirerSpec,
    BudgetSpec,
    DataSpec,
    Preset,
    RunSpec,
    TrainingSpec,
    preset_spec,
)

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from whichwhen.data import Dataset
    from whichwhen.experiments.paper import Job
    from whichwhen.experiments.runner import GridState


class _Args(BaseModel):
    model_config = ConfigDict(frozen=True)

    json_: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = Field(
        False, description="Print one JSON document instead of tables."
    )
    data_dir: Path | None = Field(
        None, description="Folder with NAME/NAME_TRAIN.ts of the archives; else the variable WHICHWHEN_DATA."
    )


class _ComputeArgs(_Args):
    device: str = Field("cpu", description="Where to compute: cpu, cuda, cuda:1, mps.")
    threads: int = Field(1, description="Of torch. The tensors are small: more threads mostly wait for each other.")


class DataArgs(_Args):
    """List the data sets, or describe one: sizes, lengths, features, classes.

    Without a name: what there is, and where it would come from.
    """

    data: Annotated[DataSpec, tyro.conf.arg(name="")] = DataSpec(name="")
    seed: int = Field(0, description="Of fakes and splits.")
    budget: float | None = Field(
        None, description="synthetic: the budget per step that optimum and chance are printed for (default: the task's own)."
    )
    plot: Path | None = Field(None, description="Draw samples of the training split into this file (.png, .pdf, .svg).")


class TrainArgs(_ComputeArgs):
    """Train acquirer and predictor together, choose the epoch on validation, evaluate once on test.

    Writes a run folder: spec.json, weights.safetensors, history.jsonl, series.parquet, pattern.parquet, result.json.
    """

    run: Annotated[RunSpec, tyro.conf.arg(name="")] = RunSpec()
    out: Path | None = Field(None, description="The run folder (default: runs/DATASET-ACQUIRER-SEED).")
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(
        False, description="Go on with an unfinished run in the folder."
    )
    preset: Preset = Field("default", description="Where the defaults come from; paper = the paper's own settings.")
    spec: Path | None = Field(None, description="Take the defaults from a spec.json instead.")
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(False, description="No progress.")


class EvaluateArgs(_ComputeArgs):
    """Evaluate a finished run with hard selection."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = Field(description="The run folder.")
    split: Literal["test", "validation", "train"] = Field("test", description="On which series.")
    budget: float | None = Field(None, description="Another budget per step than the run was trained with.")


class PlotArgs(_ComputeArgs):
    """Draw the acquisition patterns and training curves of runs, side by side."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = Field(description="Run folders.")
    out: Path | None = Field(None, description="Folder for pattern and curves (default: the first run's).")
    format: Literal["png", "pdf", "svg"] = Field("png", description="Of the figures.")
    test_curve: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(
        False, description="Add test accuracy per epoch; needs runs trained with --save-epochs."
    )


class DemoArgs(_ComputeArgs):
    """Train random, static, learned and complete acquirers on JapaneseVowels with fake features; table, figures, records.

    A second call shows what the first one trained; another --out trains anew.
    """

    fakes: Literal["zeros", "noise", "gp"] = Field("noise", description="Kind of the fake features.")
    n_fakes: int = Field(30, description="How many of them.")
    shift: bool = Field(False, description="Move the real features to other columns as time goes on.")
    budget: float = Field(5.0, description="Orders per step.")
    epochs: int = Field(40, description="Passes over the training split.")
    trees: int = Field(1000, description="Of the static acquirer's random forest.")
    seed: int = Field(0, description="Of fakes, splits, weights and training noise.")
    out: Path = Field(Path("runs/demo"), description="Folder for runs, figures and records.")
    record: Path | None = Field(None, description="Write spec and result of each run to this JSON file, too.")
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(False, description="No progress.")


class _GridArgs(_Args):
    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="WORD")] = Field(
        (), description="Part of the grid: data sets, fakes, plain or shifted, acquirers (m-forda noise gp learned)."
    )
    seeds: int | None = Field(None, description="Per setting (default: 4 and 5 as in the paper, 2 for reference acquirers).")
    epochs: int | None = Field(None, description="Other than the preset's, for a trial.")
    jobs: int = Field(1, description="Runs at once.")
    engine: Literal["joblib", "ray"] = Field("joblib", description="This machine, or a Ray cluster.")
    address: str | None = Field(None, description="ray: of the cluster (auto = the one here); else one is started.")
    out: Path = Field(Path("results/paper"), description="Folder for records, summary, tables and figures.")
    runs: Path = Field(Path("runs/paper"), description="Folder for the runs themselves.")
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(False, description="No progress.")


class PaperArgs(_GridArgs):
    """Run the paper's grid, or what is left of it: tables, figures and a record per run.

    Finished runs are never run again; the same command goes on where it was stopped, in several processes if you like.
    """

    preset: Literal["paper", "best"] = Field("paper", description="The paper's own settings, or the best that there are.")


class AdaptiveArgs(_GridArgs):
    """Run every objective on the synthetic tasks that need reacting or planning, against their exact optimum.

    As `whichwhen paper`: finished runs are never run again.
    """

    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="WORD")] = Field(
        (), description="Part of the grid: tasks (synthetic:pointer), acquirers, objectives."
    )
    seeds: int | None = Field(None, description="Per task and method (default: 5).")
    out: Path = Field(Path("results/adaptive"), description="Folder for records and summary.")
    runs: Path = Field(Path("runs/adaptive"), description="Folder for the runs themselves.")


class ReportArgs(_Args):
    """Write one HTML page of a grid, a demo or a run: tables, figures, a heat map of requests. It needs no network.

    Beside a grid's records, its tables (Markdown, LaTeX) and figures (PNG, PDF) are written anew, too.
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = Field(
        description="Folder of `whichwhen paper`, `demo` or `train`."
    )
    out: Path | None = Field(None, description="The page (default: DIR/report.html).")
    values: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(
        False, description="Show measured values and ids of single series. They may be somebody's data."
    )


class BenchArgs(BaseModel):
    """Measure what acquisition costs beside the bare predictor; exit code 1 where a limit is missed."""

    model_config = ConfigDict(frozen=True)

    json_: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = Field(
        False, description="Print one JSON document instead of tables."
    )
    rounds: int = Field(9, description="Turns that each of the ways takes.")
    out: Path | None = Field(None, description="Write the JSON document to this file, too.")


def run_data(args: DataArgs) -> None:
    """``whichwhen data``."""
    from rich.table import Table

    from whichwhen.data import archives, load_dataset, reference, task_of
    from whichwhen.data.catalog import CATALOG

    task = task_of(args.data)
    budget = args.budget if args.budget is not None else task.budget if task else 1.0
    RunSpec(data=args.data, budget=BudgetSpec(per_step=budget), seed=args.seed)  # raises what is out of range
    console = _console()
    if not args.data.name:
        if args.plot:
            raise SpecError(
                "--plot without a data set", expected="a name", do="try `whichwhen data japanese-vowels --plot f.png`"
            )
        rows = [
            {"name": entry.name, "about": entry.about, "from": archives.where(entry.archive, args.data_dir)}
            for entry in CATALOG
        ]
        if args.json_:
            return _print_json(rows)
        table = Table("name", "what it is", "from")
        for row in rows:
            table.add_row(*row.values())
        return console.print(table)
    if args.plot:
        from whichwhen.reports.figures import check_figure_path

        check_figure_path(args.plot)
    data = load_dataset(args.data, args.seed, args.data_dir)
    facts = _describe(data)
    known = reference(args.data, budget)
    if task and known:
        facts |= {"meant for a budget per step of": task.budget, "chance accuracy": round(known.chance, 4)}
        for name in ("random", "greedy", "blind", "optimum"):
            reached = getattr(known, name)
            facts[f"{name} accuracy at budget {budget:g}"] = "not known" if reached is None else round(reached, 4)
    if args.plot:
        from whichwhen.reports.figures import draw_samples, save_figure

        save_figure(draw_samples(data), args.plot)
        facts["plot"] = str(args.plot)
    if args.json_:
        return _print_json(facts)
    _print_facts(facts)


def run_train(args: TrainArgs) -> None:
    """``whichwhen train``."""
    spec = args.run
    name = spec.data.name.replace(":", "-")
    out = args.out or Path("runs") / f"{name}-{spec.acquirer.kind}-{spec.seed}"
    device = _prepare(args)
    from whichwhen.reports.progress import TrainingProgress
    from whichwhen.reports.tables import results_table
    from whichwhen.training import train

    console = _console()
    with TrainingProgress(_console(stderr=True), quiet=args.quiet or args.json_) as progress:
        progress.begin(spec.acquirer.kind, spec.training.epochs)
        try:
            result = train(spec, out, folder=args.data_dir, device=device, resume=args.resume, on_epoch=progress.epoch)
        except KeyboardInterrupt:
            raise _StoppedError(f"stopped; go on with the same command and --resume (run folder {out})") from None
    if args.json_:
        return _print_json(result)
    console.print(results_table({spec.acquirer.kind: result}, _title(spec, result)))
    print(f"run folder: {out}")


def run_evaluate(args: EvaluateArgs) -> None:
    """``whichwhen evaluate``."""
    from whichwhen.artifacts import load_model, load_result

    device = _prepare(args)
    result = load_result(args.run)
    model = load_model(args.run)
    from dataclasses import replace

    from whichwhen.budget import PerStep
    from whichwhen.data import load_dataset
    from whichwhen.evaluation import evaluate

    spec = model.card.spec
    policy = model.policy
    if args.budget is not None:
        budget = PerStep(args.budget)
        budget.check(policy.menu)
        policy = replace(policy, budget=budget)
    data = load_dataset(spec.data, spec.seed, args.data_dir)
    model.check_features([feature.name for feature in data.features])
    model.check_classes(data.classes)
    for module in model.modules().values():
        module.to(device)
    found = evaluate(policy, data.split(args.split), data.provenance, device=device).metrics.to_dict()
    document = {
        "run": str(args.run),
        "dataset": spec.data.name,
        "acquirer": spec.acquirer.kind,
        "seed": result["seed"],
        "split": args.split,
        "budget": result["budget"] if args.budget is None else args.budget,
        **found,
    }
    if args.json_:
        return _print_json(document)
    _print_facts(document)


def run_plot(args: PlotArgs) -> None:
    """``whichwhen plot``."""
    from whichwhen import artifacts
    from whichwhen.reports import figures

    if not args.runs:
        raise SpecError("no run folder", expected="one or more", do="try `whichwhen plot runs/a runs/b`")
    results = {folder: artifacts.load_result(folder) for folder in args.runs}
    titles = {folder: _run_title(folder, results) for folder in args.runs}
    patterns = {titles[folder]: artifacts.load_pattern(folder) for folder in args.runs}
    histories = {titles[folder]: artifacts.load_history(folder) for folder in args.runs}
    test: dict[str, list[float]] = {}
    if args.test_curve:
        from whichwhen.evaluation.curves import accuracy_on_test

        device = _prepare(args)
        test = {titles[folder]: accuracy_on_test(folder, args.data_dir, device) for folder in args.runs}
    out = args.out or args.runs[0]
    paths = [out / f"pattern.{args.format}", out / f"curves.{args.format}"]
    figures.save_figure(figures.draw_patterns(patterns), paths[0])
    figures.save_figure(figures.draw_curves(histories, test), paths[1])
    if args.json_:
        return _print_json({"figures": [str(path) for path in paths]})
    for path in paths:
        print(path)


def run_demo(args: DemoArgs) -> None:
    """``whichwhen demo``."""
    base = RunSpec(
        data=DataSpec(name="japanese-vowels", fakes=args.fakes, n_fakes=args.n_fakes, shift=args.shift),
        budget=BudgetSpec(per_step=args.budget),
        acquirer=AcquirerSpec(trees=args.trees),
        training=TrainingSpec(epochs=args.epochs, batch_size=32),
        seed=args.seed,
    )
    device = _prepare(args)
    from whichwhen import artifacts
    from whichwhen.experiments.demo import check_demo_folder, demo_specs, run_specs, write_records
    from whichwhen.reports import figures
    from whichwhen.reports.progress import TrainingProgress
    from whichwhen.reports.tables import results_table

    specs = demo_specs(base)
    check_demo_folder(args.out, specs)
    if all(artifacts.is_finished(args.out / name) for name in specs) and not (args.quiet or args.json_):
        print(f"{args.out} holds all four runs already: delete it, or pass another --out, to train anew", file=sys.stderr)
    with TrainingProgress(_console(stderr=True), quiet=args.quiet or args.json_) as progress:
        try:
            results = run_specs(
                specs,
                args.out,
                folder=args.data_dir,
                device=device,
                on_begin=lambda name, spec: progress.begin(name, spec.training.epochs),
                on_epoch=progress.epoch,
            )
        except KeyboardInterrupt:
            raise _StoppedError("stopped; the same command goes on from here") from None
    command = "whichwhen demo " + " ".join(
        f"--{name.replace('_', '-')} {getattr(args, name)}"
        for name in ("fakes", "n_fakes", "budget", "epochs", "trees", "seed")
    )
    command += " --shift" if args.shift else ""
    for path in filter(None, (args.out / "summary.json", args.record)):
        write_records(path, specs, results, command)
    folders = {name: args.out / name for name in specs}
    pattern, curves = args.out / "pattern.png", args.out / "curves.png"
    figures.save_figure(
        figures.draw_patterns({name: artifacts.load_pattern(folder) for name, folder in folders.items()}), pattern
    )
    figures.save_figure(
        figures.draw_curves({name: artifacts.load_history(folder) for name, folder in folders.items()}, {}), curves
    )
    if args.json_:
        return _print_json({name: {**result, "run": str(folders[name])} for name, result in results.items()})
    console = _console()
    console.print(results_table(results, _title(base, results["learned"])))
    print(f"figures: {pattern} and {curves}\nruns:    {args.out}")


def run_paper(args: PaperArgs) -> None:
    """``whichwhen paper``."""
    from whichwhen.experiments.paper import paper_grid

    _check_grid(args)
    jobs = paper_grid(args.preset, seeds=args.seeds, only=args.only, epochs=args.epochs)
    from whichwhen.reports.comparison import accuracy_tables, difference_table

    state = _run_grid(args, jobs)
    records = list(state.done.values())
    made = _write_report(args.out, args.data_dir, quiet=args.quiet or args.json_) if records else []
    if not args.json_:
        console = _console()
        for table in accuracy_tables(records) + ([difference_table(records, args.preset)] if records else []):
            console.print(table.rich())
    _end_grid(args, state, made)


def run_adaptive(args: AdaptiveArgs) -> None:
    """``whichwhen adaptive``."""
    from whichwhen.experiments.adaptive import SEEDS, adaptive_grid, summarise_adaptive

    _check_grid(args)
    jobs = adaptive_grid(SEEDS if args.seeds is None else args.seeds, args.only, args.epochs)
    from whichwhen.experiments.adaptive import write_exact
    from whichwhen.reports.comparison import adaptive_table

    state = _run_grid(args, jobs)
    made = write_exact(args.out, args.runs, [job for job in jobs if job.name in state.done])
    if not args.json_:
        _console().print(adaptive_table(summarise_adaptive(state.done.values())).rich())
    _end_grid(args, state, made)


def _check_grid(args: _GridArgs) -> None:
    if args.jobs < 1:
        raise SpecError(f"jobs is {args.jobs}", expected="at least 1")
    if args.seeds is not None and args.seeds < 1:
        raise SpecError(f"seeds is {args.seeds}", expected="at least 1")
    if args.address and args.engine != "ray":
        raise SpecError("--address without --engine ray", expected="both or neither", do="add --engine ray")


def _run_grid(args: _GridArgs, jobs: Sequence[Job]) -> GridState:
    from whichwhen.experiments.runner import Engine, JoblibEngine, RayEngine, run_grid
    from whichwhen.reports.progress import GridProgress

    engine: Engine = RayEngine(args.jobs, args.address) if args.engine == "ray" else JoblibEngine(args.jobs)
    with GridProgress(_console(stderr=True), quiet=args.quiet or args.json_) as progress:
        try:
            return run_grid(jobs, args.out, args.runs, engine=engine, folder=args.data_dir, on_change=progress.change)
        except KeyboardInterrupt:
            raise _StoppedError("stopped; the same command goes on from here") from None


def _end_grid(args: _GridArgs, state: GridState, made: Sequence[Path]) -> None:
    """What is said in the end: where things are, and what failed."""
    from whichwhen.experiments.records import summary_of

    if args.json_:
        _print_json(
            {
                "done": sorted(state.done),
                "failed": state.failed,
                "files": [str(path) for path in made],
                "summary": summary_of(list(state.done.values())),
            }
        )
    else:
        print(f"records, summary and what is made of them: {args.out}")
    if state.failed:
        raise _MissedError("\n".join(f"failed: {name}: {error}" for name, error in sorted(state.failed.items())))


def run_report(args: ReportArgs) -> None:
    """``whichwhen report``."""
    made = _write_report(args.folder, args.data_dir, args.out, args.values, quiet=args.json_)
    if args.json_:
        return _print_json({"files": [str(path) for path in made]})
    print(made[-1])


def _write_report(
    folder: Path, data_dir: Path | None, page: Path | None = None, values: bool = False, quiet: bool = False
) -> list[Path]:
    """Tables and figures of a grid beside its records, and the page; what is left out is said."""
    from whichwhen.experiments.records import RECORDS, SUMMARY, write_summary
    from whichwhen.reports.grid import load_any, write_figures, write_tables
    from whichwhen.reports.page import write_page

    records = load_any(folder)
    page = page or folder / "report.html"
    made: list[Path] = []
    if (folder / RECORDS).is_dir():
        write_summary(folder)
        made = [folder / SUMMARY, *write_tables(records, folder)]
        figures, missing = write_figures(records, folder, data_dir)
        made += figures
        for line in missing if not quiet else ():
            print(line, file=sys.stderr)
    title = "The paper, reproduced" if (folder / RECORDS).is_dir() else f"Runs in {folder.resolve().name}"
    write_page(records, page, title, values=values, data_dir=data_dir)
    return [*made, page]


def run_bench(args: BenchArgs) -> None:
    """``whichwhen bench``."""
    if args.rounds < 1:
        raise SpecError(f"rounds is {args.rounds}", expected="at least 1")
    import torch

    torch.set_num_threads(1)
    from whichwhen.experiments.bench import run_benchmarks
    from whichwhen.files import write_json
    from whichwhen.reports.tables import benchmark_table

    progress = _console(stderr=True)
    document = run_benchmarks(args.rounds, lambda line: None if args.json_ else progress.print(line, highlight=False))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.out, document)
    if args.json_:
        _print_json(document)
    else:
        _console().print(benchmark_table(document))
    if document["missed"]:
        raise _MissedError("\n".join(f"missed: {line}" for line in document["missed"]))


VERBS: dict[str, tuple[type[BaseModel], Callable[[Any], None]]] = {
    "data": (DataArgs, run_data),
    "train": (TrainArgs, run_train),
    "evaluate": (EvaluateArgs, run_evaluate),
    "plot": (PlotArgs, run_plot),
    "demo": (DemoArgs, run_demo),
    "paper": (PaperArgs, run_paper),
    "adaptive": (AdaptiveArgs, run_adaptive),
    "report": (ReportArgs, run_report),
    "bench": (BenchArgs, run_bench),
}


class _StoppedError(Exception):
    """The user pressed Ctrl-C; the message says how to go on."""


class _MissedError(Exception):
    """A benchmark's limit was not kept, or a run of a grid failed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point.

    Exit codes: 0 done, 1 a limit was missed or a run of a grid failed, 2 a user's mistake (said in one line), 130 Ctrl-C.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _run(words)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # who read our output has left; so do we
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0 if words else 2
    if words[0] == "--version":
        print(f"whichwhen {__version__}")
        return 0
    verb, rest = words[0], words[1:]
    try:
        if verb not in VERBS:
            raise SpecError(f"unknown verb {verb!r}", expected=f"one of {', '.join(VERBS)}", do="see `whichwhen --help`")
        arguments, run = VERBS[verb]
        default = _train_default(rest) if verb == "train" else tyro.MISSING_NONPROP
        run(tyro.cli(arguments, prog=f"whichwhen {verb}", args=rest, default=default))
    except WhichwhenError as error:
        return _fail(str(error), type(error).__name__, "--json" in rest)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f" {error.filename2 or error.filename}" if error.filename else ""
        message = f"{error.strerror or error}:{where}; expected a place that can be read and written; choose another"
        return _fail(message, "OSError", "--json" in rest)
    except _MissedError as missed:
        print(missed, file=sys.stderr)
        return 1
    except _StoppedError as stop:
        print(stop, file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0


def _fail(message: str, kind: str, as_json: bool) -> int:
    print(json.dumps({"error": kind, "message": message}) if as_json else f"error: {message}", file=sys.stderr)
    return 2


def _usage() -> str:
    lines = [
        "usage: whichwhen VERB [OPTIONS]",
        "",
        "Which features of a time series to measure, and when.",
        "",
    ]
    lines += [f"  {verb:<10}{(kind.__doc__ or '').splitlines()[0]}" for verb, (kind, _) in VERBS.items()]
    lines += ["", "`whichwhen VERB --help` shows a verb's options; `whichwhen --version` the version."]
    return "\n".join(lines)


def _train_default(words: list[str]) -> TrainArgs:
    """What the flags are changes to: a spec file, or a preset for the data set that was named."""

    def value(flag: str) -> str | None:
        for i, word in enumerate(words):
            if word == flag and i + 1 < len(words):
                return words[i + 1]
            if word.startswith(f"{flag}="):
                return word.partition("=")[2]
        return None

    path, preset = value("--spec"), value("--preset") or "default"
    if path is not None:
        if value("--preset"):
            raise SpecError("--spec and --preset together", expected="one of them", do="leave one out")
        from whichwhen.artifacts import load_spec

        return TrainArgs(run=load_spec(Path(path)), spec=Path(path))
    if preset not in get_args(Preset):
        raise SpecError(f"unknown preset {preset!r}", expected=f"one of {', '.join(get_args(Preset))}")
    named = next((word for word in words if word in PAPER_DATA), RunSpec().data.name)
    if preset != "default" and not {"-h", "--help"} & set(words):  # a value may look like a name: read the flags for real
        named = tyro.cli(TrainArgs, prog="whichwhen train", args=words).run.data.name
    return TrainArgs(run=preset_spec(preset, named), preset=preset)  # type: ignore[arg-type]


def _prepare(args: _ComputeArgs) -> Any:
    """Threads and device."""
    import torch

    if args.threads < 1:
        raise SpecError(f"threads is {args.threads}", expected="at least 1")
    torch.set_num_threads(args.threads)
    try:
        device = torch.device(args.device)
        float(torch.zeros(1, device=device))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise SpecError(f"device {args.device!r} can't be used ({reason})", do="use --device cpu") from None
    return device


def _describe(data: Dataset) -> dict[str, Any]:
    splits = {"train": data.train, "validation": data.validation, "test": data.test}
    return {
        "data set": data.name,
        **{f"{name} series": len(split) for name, split in splits.items()},
        **{f"{name} lengths": _range(split.lengths) for name, split in splits.items()},
        "features": len(data.features),
        "of them real at step 0": int(data.provenance.real[0].sum()),
        "names": [feature.name for feature in data.features],
        "classes": list(data.classes),
        "largest class, test": round(max((data.test.labels == c).mean() for c in range(len(data.classes))), 4),
    }


def _range(numbers: np.ndarray) -> str:
    low, high = numbers.min(), numbers.max()
    return str(low) if low == high else f"{low}-{high}"


def _title(spec: RunSpec, result: dict[str, Any]) -> str:
    fakes = "" if spec.data.fakes == "none" else f", {spec.data.n_fakes} fake features ({spec.data.fakes})"
    moved = ", shifted" if spec.data.shift else ""
    return f"{spec.data.name}{fakes}{moved}, budget {spec.budget.per_step:g} per step, seed {result['seed']}"


def _run_title(folder: Path, results: dict[Path, dict[str, Any]]) -> str:
    """The acquirer's name, with the folder's where that is not enough."""
    own = str(results[folder]["acquirer"])
    alike = [other for other, result in results.items() if result["acquirer"] == own]
    return own if len(alike) == 1 else f"{own} ({folder})"


def _print_facts(facts: dict[str, Any]) -> None:
    """Name and value on one line each, unbroken, so that paths can be copied."""
    width = max(len(name) for name in facts) + 2
    for name, value in facts.items():
        print(f"{name:<{width}}{_text(value)}")


def _text(value: Any) -> str:
    if isinstance(value, list):
        shown = ", ".join(str(item) for item in value[:12])
        return shown if len(value) <= 12 else f"{shown}, … ({len(value)})"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else str(value)


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False)


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, allow_nan=False))


if __name__ == "__main__":
    sys.exit(main())
