"""Verbs about many runs: paper, adaptive, report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from whichwhen.cli.arguments import AdaptiveArgs, GridArgs, PaperArgs, ReportArgs
from whichwhen.cli.output import MissedError, StoppedError, console_on, print_json
from whichwhen.errors import SpecError

if TYPE_CHECKING:
    from whichwhen.experiments.paper import Job
    from whichwhen.experiments.runner import GridState


def run_paper(args: PaperArgs) -> None:
    """``whichwhen paper``."""
    from whichwhen.experiments.paper import paper_grid

    _check_grid(args)
    jobs = paper_grid(seeds=args.seeds, only=args.only, epochs=args.epochs)
    from whichwhen.reports.comparison import accuracy_tables, difference_table

    state = _run_grid(args, jobs)
    records = list(state.done.values())
    made = _write_report(args.out, args.data_dir, quiet=args.quiet or args.json_) if records else []
    if not args.json_:
        console = console_on()
        for table in accuracy_tables(records) + ([difference_table(records, "paper")] if records else []):
            console.print(table.rich())
    _end_grid(args, state, made)


def run_adaptive(args: AdaptiveArgs) -> None:
    """``whichwhen adaptive``."""
    from whichwhen.experiments.adaptive import SEEDS, adaptive_grid, summarise_adaptive

    _check_grid(args)
    jobs = adaptive_grid(SEEDS if args.seeds is None else args.seeds, args.only, args.effort)
    from whichwhen.experiments.adaptive import write_exact
    from whichwhen.reports.comparison import adaptive_table

    state = _run_grid(args, jobs)
    made = write_exact(args.out, args.runs, [job for job in jobs if job.name in state.done])
    if not args.json_:
        console_on().print(adaptive_table(summarise_adaptive(state.done.values())).rich())
    _end_grid(args, state, made)


def _check_grid(args: GridArgs) -> None:
    if args.jobs < 1:
        raise SpecError(f"jobs is {args.jobs}", expected="at least 1")
    if args.seeds is not None and args.seeds < 1:
        raise SpecError(f"seeds is {args.seeds}", expected="at least 1")
    if args.address and args.engine != "ray":
        raise SpecError("--address without --engine ray", expected="both or neither", do="add --engine ray")


def _run_grid(args: GridArgs, jobs: Sequence[Job]) -> GridState:
    from whichwhen.experiments.runner import Engine, JoblibEngine, RayEngine, run_grid
    from whichwhen.reports.progress import GridProgress

    engine: Engine = RayEngine(args.jobs, args.address) if args.engine == "ray" else JoblibEngine(args.jobs)
    with GridProgress(console_on(stderr=True), quiet=args.quiet or args.json_) as progress:
        try:
            return run_grid(jobs, args.out, args.runs, engine=engine, folder=args.data_dir, on_change=progress.change)
        except KeyboardInterrupt:
            raise StoppedError("stopped; the same command goes on from here") from None


def _end_grid(args: GridArgs, state: GridState, made: Sequence[Path]) -> None:
    """What is said in the end: where things are, and what failed."""
    from whichwhen.experiments.records import summary_of

    if args.json_:
        print_json(
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
        raise MissedError("\n".join(f"failed: {name}: {error}" for name, error in sorted(state.failed.items())))


def run_report(args: ReportArgs) -> None:
    """``whichwhen report``."""
    made = _write_report(args.folder, args.data_dir, args.out, args.values, quiet=args.json_)
    if args.json_:
        return print_json({"files": [str(path) for path in made]})
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
    title = f"Runs in {folder.resolve().name}"
    if (folder / RECORDS).is_dir():
        adaptive = all(record["preset"] == "adaptive" for record in records)
        title = "Reacting and planning" if adaptive else "The paper, reproduced"
    write_page(records, page, title, values=values, data_dir=data_dir)
    return [*made, page]
