from pathlib import Path

from rich.console import Console

from whichwhen.experiments.paper import Cell, Job
from whichwhen.experiments.runner import GridState
from whichwhen.reports.progress import GridProgress
from whichwhen.specs import AcquirerKind, RunSpec


def test_a_grid_names_its_acquirers_in_full_in_a_narrow_terminal(tmp_path: Path) -> None:
    kinds: tuple[AcquirerKind, ...] = ("learned-only", "round-robin", "static-by-time")
    cell = Cell("spoken-arabic-digits", "noise", shifted=True)
    jobs = tuple(Job("paper", cell, RunSpec().change(acquirer__kind=kind)) for kind in kinds)
    console = Console(width=64, color_system=None)
    progress = GridProgress(console)
    progress.change(GridState(jobs, tmp_path, workers=1), None)
    with console.capture() as captured:
        console.print(progress.render())
    for kind in kinds:
        assert kind in captured.get()
