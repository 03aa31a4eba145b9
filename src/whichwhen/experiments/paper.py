"""The paper's tables as a grid of runs, and the numbers that it reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from whichwhen.errors import SpecError
from whichwhen.presets import preset_spec
from whichwhen.specs import AcquirerKind, DataSpec, FakeKind, RunSpec


@dataclass(frozen=True)
class Cell:
    """One setting of the data: a column of the paper's tables."""

    dataset: str
    fakes: FakeKind
    shifted: bool = False

    @property
    def name(self) -> str:
        """As in file names and ``--only``."""
        return f"{self.dataset}-{self.fakes}" + ("-shifted" if self.shifted else "")


@dataclass(frozen=True)
class Job:
    """One run of a grid; ``preset`` says where its settings come from (``run`` = from elsewhere)."""

    preset: Literal["paper", "adaptive", "run"]
    cell: Cell
    spec: RunSpec
    variant: str = ""
    """Tells apart jobs that differ in something else than setting, acquirer and seed."""
    command: str = ""
    """What runs it, if not the preset's verb."""

    @property
    def acquirer(self) -> AcquirerKind:
        """Who decides."""
        return self.spec.acquirer.kind

    @property
    def name(self) -> str:
        """Unique within a grid, readable, the same for the same job."""
        words = (
            self.preset,
            self.cell.name.replace(":", "-"),
            self.acquirer,
            *([self.variant] if self.variant else []),
            self.spec.seed,
        )
        return "-".join(str(word) for word in words)


DIGITS, FORDA = "spoken-arabic-digits", "m-forda"
KINDS: tuple[FakeKind, ...] = ("zeros", "noise", "gp")
CELLS = (
    *(Cell(DIGITS, kind) for kind in KINDS),
    *(Cell(FORDA, kind) for kind in KINDS),
    Cell(FORDA, "zeros", shifted=True),
)
SEEDS = {DIGITS: 4, FORDA: 5}
"""As in the paper; its shifted table is one run, here it gets as many as the rest."""

ACQUIRERS: tuple[AcquirerKind, ...] = ("random", "learned", "complete", "static")

CURVES = (Cell(FORDA, "zeros"), Cell(FORDA, "noise"))
"""Whose training curves get a test line, for learned and complete with the first seed."""

PAPER_NUMBERS: dict[tuple[Cell, str], tuple[float, float | None]] = {
    **{
        (Cell(dataset, kind), acquirer): number
        for dataset, acquirer, numbers in (
            (DIGITS, "random", ((0.84, 0.06), (0.82, 0.05), (0.87, 0.02))),
            (DIGITS, "learned", ((0.87, 0.05), (0.90, 0.03), (0.91, 0.04))),
            (DIGITS, "complete", ((0.90, 0.06), (0.91, 0.03), (0.90, 0.03))),
            (FORDA, "random", ((0.76, 0.04), (0.74, 0.04), (0.73, 0.02))),
            (FORDA, "learned", ((0.86, 0.03), (0.86, 0.03), (0.84, 0.02))),
            (FORDA, "complete", ((0.93, 0.00), (0.84, 0.02), (0.80, 0.03))),
        )
        for kind, number in zip(KINDS, numbers, strict=True)
    },
    (Cell(FORDA, "zeros", True), "random"): (0.708, None),
    (Cell(FORDA, "zeros", True), "static"): (0.842, None),
    (Cell(FORDA, "zeros", True), "learned"): (0.740, None),
    (Cell(FORDA, "zeros", True), "complete"): (0.897, None),
}
"""Mean and standard deviation of test accuracy; the shifted table has no standard deviation."""


def paper_grid(*, seeds: int | None = None, only: Sequence[str] = (), epochs: int | None = None) -> tuple[Job, ...]:
    """The runs of the paper in its own settings.

    First seeds come first, so that a grid that is stopped early covers every cell; then the shorter runs.

    Args:
        seeds: how many per cell; as in the paper if not given.
        only: words to choose by, see :func:`choose`.
        epochs: fewer or more than the preset's, for a trial.
    """
    if seeds is not None and seeds < 1:
        raise SpecError(f"seeds is {seeds}", expected="at least 1")
    jobs = []
    for cell in CELLS:
        data = DataSpec(name=cell.dataset, fakes=cell.fakes, shift=cell.shifted)
        for acquirer in ACQUIRERS:
            base = preset_spec("paper", cell.dataset).change(data=data.model_dump(), acquirer__kind=acquirer)
            if epochs is not None:
                base = base.change(training__epochs=epochs)
            curve = cell in CURVES and acquirer in ("learned", "complete")
            for seed in range(SEEDS[cell.dataset] if seeds is None else seeds):
                jobs.append(Job("paper", cell, base.change(seed=seed, training__save_epochs=curve and seed == 0)))
    jobs.sort(key=lambda job: (job.spec.seed, job.cell.dataset == DIGITS))
    return choose(jobs, only)


def choose(jobs: Iterable[Job], only: Sequence[str]) -> tuple[Job, ...]:
    """The jobs that all words fit, where words about the same thing are alternatives.

    ``m-forda noise gp learned`` is: on m-FordA, with noise or GP fakes, the learned acquirer. ``plain`` and
    ``shifted`` tell the shifted set from the rest; a whole job's name is a word, too.
    """
    jobs = tuple(jobs)
    facts = {job: _facts(job) for job in jobs}
    known = [{facts[job][place] for job in jobs} for place in range(len(facts[jobs[0]]) if jobs else 0)]
    wanted: list[set[str]] = [set() for _ in known]
    for word in only:
        places = [place for place, words in enumerate(known) if word in words]
        if not places:
            names = [", ".join(sorted(words - {""})) for words in known[:-1] if any(words)]
            raise SpecError(f"--only {word}", expected=f"words of this grid: {'; '.join(names)}")
        for place in places:
            wanted[place].add(word)
    chosen = tuple(job for job in jobs if all(not words or facts[job][place] in words for place, words in enumerate(wanted)))
    if not chosen:
        raise SpecError(f"--only {' '.join(only)}", expected="words that at least one run fits", do="leave some out")
    return chosen


def _facts(job: Job) -> tuple[str, ...]:
    cell = job.cell
    return cell.dataset, cell.fakes, "shifted" if cell.shifted else "plain", job.acquirer, job.variant, job.name
