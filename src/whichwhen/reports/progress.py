"""A bar that shows epoch, loss, validation accuracy and time left; plain lines where there is no terminal."""

from __future__ import annotations

import math
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from whichwhen.training.checkpoints import TrainState


class TrainingProgress:
    """Shows runs one after the other. ``quiet`` shows nothing."""

    def __init__(self, console: Console, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._bars = Progress(
            TextColumn("{task.description:<14}"),
            BarColumn(bar_width=24),
            TextColumn("epoch {task.completed:>3.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[numbers]}"),
            TextColumn("left"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=False),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self._task: TaskID | None = None
        self._name, self._epochs = "", 0

    def __enter__(self) -> TrainingProgress:
        self._bars.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._bars.stop()

    def begin(self, name: str, epochs: int) -> None:
        """The next run."""
        self._name, self._epochs = name, epochs
        self._task = self._bars.add_task(name, total=epochs, numbers="getting ready")

    def epoch(self, state: TrainState) -> None:
        """After an epoch."""
        last = state.history[-1]
        numbers = f"loss {last['loss']:.3f}  validation accuracy {last['validation_accuracy']:.3f}"
        if self._task is not None:
            self._bars.update(self._task, completed=last["epoch"], numbers=numbers)
        every = max(1, math.ceil(self._epochs / 5))
        if not self._quiet and not self._console.is_terminal and (last["epoch"] % every == 0 or last["epoch"] == self._epochs):
            self._console.print(f"{self._name:<14} epoch {last['epoch']:>3}/{self._epochs}  {numbers}", highlight=False)
