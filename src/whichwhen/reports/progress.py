"""What is under way: a bar for a run, a table for a grid; plain lines where there is no terminal."""

from __future__ import annotations

import math
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from whichwhen.experiments.paper import Job
from whichwhen.experiments.runner import GridState, Outcome
from whichwhen.reports.tables import longest_word
from whichwhen.training.checkpoints import TrainState


class TrainingProgress:
    """Shows runs one after the other. ``quiet`` shows nothing."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._bars = Progress(
            TextColumn("{task.description:<14}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[phase]:<8}"),
            TextColumn("{task.fields[numbers]}"),
            TextColumn("left"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=False),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._name = ""

    def __enter__(self) -> TrainingProgress:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bars.stop()

    def begin(self, name: str) -> None:
        """The next run."""
        self._name = name
        self._task = self._bars.add_task(name, total=None, phase="", numbers="getting ready")

    def epoch(self, state: TrainState) -> None:
        """After a line of the history."""
        last, rounds = state.history[-1], state.rounds
        phase = last.get("phase", "epochs")
        numbers = f"loss {last['loss']:.3f}"
        if (accuracy := last["validation_accuracy"]) is not None:
            numbers += f"  validation accuracy {accuracy:.3f}"
        if self._task is not None:
            self._bars.update(self._task, completed=last["epoch"], total=rounds, phase=phase, numbers=numbers)
        every = max(1, math.ceil((rounds or 1) / 5))
        if not self._quiet and not self._console.is_terminal and (last["epoch"] % every == 0 or last["epoch"] == rounds):
            self._console.print(f"{self._name:<14} {phase:<10} {last['epoch']:>3}/{rounds}  {numbers}", highlight=False)


class GridProgress:
    """A live table of what is done, running and to come, with the time left. ``quiet`` shows nothing."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._state: GridState | None = None
        self._live = Live(get_renderable=self.render, console=console, refresh_per_second=1, transient=True)
        self._shown = console.is_terminal and not quiet

    def __enter__(self) -> GridProgress:
        if self._shown:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._shown:
            self._live.stop()

    def change(self, state: GridState, outcome: Outcome | None) -> None:
        """At the start, and after each outcome."""
        self._state = state
        if self._quiet:
            return
        if outcome is None:
            self._console.print(f"{len(state.jobs)} runs, {state.found} of them finished before", highlight=False)
            return
        line = f"{len(state.done) + len(state.failed)}/{len(state.jobs)}  {outcome.job.name:<52} "
        if outcome.record is not None:
            record = outcome.record
            line += f"accuracy {record['test']['accuracy']:.3f}  {record['epochs']} {_unit(outcome.job)}s  "
            line += f"{record['cpu_seconds']:.0f} CPU s"
        else:
            line += "another process is at it" if outcome.state == "elsewhere" else f"failed: {outcome.error}"
        self._console.print(f"{line}  ({self._time_left()})", highlight=False, soft_wrap=True)

    def render(self) -> Group | Text:
        """The table as it is now."""
        state = self._state
        if state is None:
            return Text("getting ready")
        running = state.running()
        groups: dict[tuple[str, str], list[Job]] = {}
        for job in state.jobs:
            groups.setdefault((job.cell.name, job.acquirer), []).append(job)
        acquirer = Column("acquirer", min_width=longest_word("acquirer", *(name for _, name in groups)))
        table = Table("setting", acquirer, "done", "running", "to come", "test accuracy so far")
        for (cell, who), jobs in groups.items():
            done = [state.done[job.name] for job in jobs if job.name in state.done]
            now = [f"{_unit(job)} {running[job.name]}" for job in jobs if job.name in running]
            failed = sum(job.name in state.failed for job in jobs)
            if not (now or failed) and len(done) in (0, len(jobs)) and len(groups) > 12:
                continue  # a long grid: only what moves
            mean = sum(record["test"]["accuracy"] for record in done) / len(done) if done else None
            table.add_row(
                cell,
                who,
                f"{len(done)}/{len(jobs)}" + (f", {failed} failed" if failed else ""),
                ", ".join(now),
                str(len(jobs) - len(done) - len(now) - failed),
                "" if mean is None else f"{mean:.3f}",
            )
        total = f"{len(state.done)} of {len(state.jobs)} done, {len(running)} running, {len(state.failed)} failed; "
        return Group(table, Text(total + self._time_left()))

    def _time_left(self) -> str:
        seconds = self._state.seconds_left() if self._state else None
        if seconds is None:
            return "time left: not known yet"
        minutes = round(seconds / 60)
        return f"about {minutes // 60} h {minutes % 60:02d} min left" if minutes >= 60 else f"about {minutes} min left"


def _unit(job: Job) -> str:
    """What a line of a job's history is about."""
    return "round" if job.spec.training.epochs is None else "epoch"
