"""What the suite runs: data sets, acquirers, budgets, seeds, and the quick and the full grid made of them."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from whichwhen.data import synthetic
from whichwhen.errors import SpecError
from whichwhen.specs import AcquirerKind, AcquirerSpec, BudgetSpec, DataSpec, FakeKind, RunSpec, TrainingSpec

Effort = Literal["quick", "normal", "thorough"] | float

CAPS = (1.0, 2.0, 5.0)
"""Budgets per step."""
MEANS = (0.5, 1.0, 2.0)
"""Mean costs."""
CURVE_AT = 2.0
"""The budget asked for of the runs that are also evaluated at a curve of mean costs and at prices."""
CURVE_POINTS, CURVE_LEAST, PRICES = 20, 0.05, 12
SEEDS, MORE_SEEDS = 3, 5
"""Of the acquirers that the targets compare; of learned on the two sets whose targets ask for more."""
REAL = {
    "m-forda": 10,
    "spoken-arabic-digits": 13,
    "japanese-vowels": 12,
    "ucr:BasicMotions": 6,
    "ucr:NATOPS": 24,
    "ucr:PenDigits": 2,
}
"""Archive sets, and how many real columns each has."""
MAIN: tuple[AcquirerKind, ...] = ("learned", "round-robin", "static", "complete")
"""Acquirers with :data:`SEEDS` seeds; the others have one."""
OTHERS: tuple[AcquirerKind, ...] = ("static-by-time", "table", "random", "oracle", "none")


@dataclass(frozen=True)
class Setting:
    """A data set with what is added to it."""

    dataset: str
    fakes: FakeKind = "noise"
    shifted: bool = False

    @property
    def is_task(self) -> bool:
        """Whether it is synthetic, with a budget of its own."""
        return self.dataset.startswith("synthetic:")

    @property
    def short(self) -> str:
        """The data set's name without the archive's."""
        return self.dataset.rpartition(":")[2]

    @property
    def title(self) -> str:
        """The whole setting in words."""
        added = "" if self.fakes == "none" else f" {self.fakes}"
        return f"{self.short}{' shifted' if self.shifted else ''}{added}"

    @property
    def data(self) -> DataSpec:
        """As a spec."""
        return DataSpec(name=self.dataset, fakes=self.fakes, shift=self.shifted)

    @property
    def caps(self) -> tuple[float, ...]:
        """Budgets per step that are asked for."""
        return (float(_task(self).budget),) if self.is_task else CAPS

    @property
    def has_oracle(self) -> bool:
        """Whether some columns are known to be real and others not to be."""
        return _task(self).real is not None if self.is_task else self.fakes != "none"


def _task(setting: Setting) -> Any:
    return synthetic.find_task(setting.short)


TASKS = tuple(Setting(f"synthetic:{name}", "none") for name in ("pointer", "planning", "triage", "exact", "bursts", "travel"))
_FAKES: tuple[FakeKind, ...] = ("noise", "zeros", "gp")
ARCHIVES = (
    *(Setting("m-forda", fakes, shifted) for shifted in (False, True) for fakes in _FAKES),
    *(Setting("spoken-arabic-digits", fakes) for fakes in _FAKES),
    *(Setting(name) for name in ("japanese-vowels", "ucr:BasicMotions", "ucr:NATOPS", "ucr:PenDigits")),
)
QUICK = (
    Setting("japanese-vowels"),
    Setting("ucr:NATOPS"),
    Setting("ucr:PenDigits"),
    Setting("m-forda"),
    Setting("m-forda", shifted=True),
)


@dataclass(frozen=True)
class Job:
    """One run of the suite, and the budgets that it is evaluated at beside its own.

    Attributes:
        setting: on what.
        spec: the run; None for the MiniRocket reference.
        caps, means: further budgets per step and mean costs.
        curve: also at mean costs evenly spaced in the log, up to the number of real columns.
        prices: the network also at prices over the range of training.
    """

    setting: Setting
    spec: RunSpec | None
    caps: tuple[float, ...] = ()
    means: tuple[float, ...] = ()
    curve: bool = False
    prices: bool = False

    @property
    def acquirer(self) -> str:
        """Who decides."""
        return "minirocket" if self.spec is None else self.spec.acquirer.kind

    @property
    def asked(self) -> float | None:
        """The budget per step asked for."""
        return None if self.spec is None else self.spec.budget.per_step

    @property
    def effort(self) -> Effort:
        """Of training."""
        return "normal" if self.spec is None else self.spec.training.effort

    @property
    def seed(self) -> int:
        """Of the run."""
        return 0 if self.spec is None else self.spec.seed

    @property
    def words(self) -> tuple[str, ...]:
        """What ``--only`` can name, one word per place."""
        return (
            self.setting.short,
            self.setting.fakes,
            "shifted" if self.setting.shifted else "plain",
            self.acquirer,
            "any" if self.asked is None else f"at-{self.asked:g}",
            self.effort if isinstance(self.effort, str) else f"effort-{self.effort:g}",
            f"seed-{self.seed}",
        )

    @property
    def name(self) -> str:
        """Unique in a grid."""
        return ".".join(word for word in self.words if word not in ("plain", "any", "normal"))

    @property
    def plan(self) -> dict[str, Any]:
        """What is evaluated; a record with another plan does not count."""
        return {"caps": list(self.caps), "means": list(self.means), "curve": self.curve, "prices": self.prices}

    @property
    def hash(self) -> str:
        """The spec's hash; of the setting for MiniRocket."""
        if self.spec is not None:
            return self.spec.hash
        return hashlib.sha256(json.dumps(["minirocket", self.setting.dataset]).encode()).hexdigest()[:16]


def make_job(
    setting: Setting, kind: AcquirerKind, asked: float | None, seed: int, effort: Effort = "normal", curve: bool = True
) -> Job:
    """A run of an acquirer, with the evaluations that belong to it.

    Args:
        setting: on what.
        kind: the acquirer.
        asked: budget per step; None where there is nothing to spend or no limit.
        seed: of the run.
        effort: of training.
        curve: whether mean costs and prices are wanted, where they make sense.
    """
    spec = RunSpec(
        data=setting.data,
        budget=BudgetSpec(per_step=asked),
        acquirer=AcquirerSpec(kind=kind),
        training=TrainingSpec(effort=effort),
        seed=seed,
    )
    curve = curve and asked == CURVE_AT and not setting.is_task
    if kind == "learned":
        wide = not setting.is_task
        return Job(setting, spec, setting.caps if wide else (), MEANS if wide else (), curve, curve)
    return Job(setting, spec, curve=curve and kind == "round-robin")


def quick_grid(seeds: int | None = None, effort: Effort = "normal") -> tuple[Job, ...]:
    """For deciding: five settings, one seed, at most an hour of CPU time."""
    jobs = []
    for seed in range(seeds or 1):
        for setting in QUICK:
            for kind in MAIN:
                jobs.append(make_job(setting, kind, None if kind == "complete" else CURVE_AT, seed, effort))
            if setting.dataset == "japanese-vowels":
                jobs.append(make_job(setting, "learned", 1.0, seed, effort))
    return tuple(jobs)


def full_grid(seeds: int | None = None, effort: Effort = "normal") -> tuple[Job, ...]:
    """All settings, acquirers and budgets; first seeds first.

    Args:
        seeds: of every acquirer; by default as many as the targets need, within 16 hours of CPU time.
        effort: of training.
    """
    jobs: list[Job] = []
    for setting in (*ARCHIVES, *TASKS):
        for kind in (*MAIN, *OTHERS):
            if kind == "oracle" and not setting.has_oracle:
                continue
            budgets: tuple[float | None, ...] = (None,) if kind in ("complete", "none") else setting.caps
            for seed in range(seeds or _seeds(setting, kind)):
                jobs += [make_job(setting, kind, asked, seed, effort) for asked in budgets]
    for name in REAL:
        real = Setting(name, "none")
        jobs += [make_job(real, "complete", None, seed, effort) for seed in range(seeds or SEEDS)]
        jobs.append(Job(real, None))
    jobs.append(Job(Setting("ucr:FordA", "none"), None))
    if effort == "normal":
        for other, count in (("quick", SEEDS), ("thorough", 1)):
            for setting in ARCHIVES:
                if setting.fakes == "noise" and not setting.shifted:
                    jobs += [
                        make_job(setting, "learned", CURVE_AT, seed, other, curve=False)  # type: ignore[arg-type]
                        for seed in range(seeds or count)
                    ]
    return tuple(sorted(jobs, key=_urgency))


def _urgency(job: Job) -> tuple[int, int, float]:
    """First seeds first; learned before the rules, which it settles beside its network; what has a curve before the rest."""
    return job.seed, 0 if job.acquirer == "learned" and job.effort == "normal" else 1, abs((job.asked or 0) - CURVE_AT)


def _seeds(setting: Setting, kind: AcquirerKind) -> int:
    if kind == "learned" and setting in (Setting("m-forda"), Setting("japanese-vowels")):
        return MORE_SEEDS
    return SEEDS if kind in MAIN else 1


def choose(jobs: Iterable[Job], only: Sequence[str]) -> tuple[Job, ...]:
    """The jobs that all words fit; words about the same thing (two data sets, say) are alternatives."""
    jobs = tuple(jobs)
    wanted: dict[int, set[str]] = {}
    for word in only:
        places = {place for job in jobs for place, own in enumerate((*job.words, job.name)) if own == word}
        if not places:
            known = sorted({own for job in jobs for own in job.words})
            raise SpecError(f"--only {word}", expected=f"words of this grid: {', '.join(known)}")
        wanted.setdefault(min(places), set()).add(word)
    return tuple(job for job in jobs if all((*job.words, job.name)[place] in words for place, words in wanted.items()))


# ---- what it will take ------------------------------------------------------------------------------------------------------
_SECONDS: dict[str, tuple[float, float, float]] = {}
"""CPU seconds by data set: training learned, training anything else, evaluating learned at the curve and the prices."""
_BASE = 5.0
"""CPU seconds that no effort changes: the forest, loading, evaluation."""
_MINIROCKET = 100.0


def expected_seconds(job: Job, known: Iterable[Mapping[str, Any]] = ()) -> float:
    """CPU seconds of a job: as of ``known`` records of its like, else by what such runs took when this was written."""
    like: list[float] = [
        record["cpu_seconds"] - record["saved_seconds"] + record["evaluation_seconds"]
        for record in known
        if (record["dataset"], record["acquirer"], record["effort"], record["plan"])
        == (job.setting.dataset, job.acquirer, job.effort, job.plan)
    ]
    if like:
        return sum(like) / len(like)
    if job.spec is None:
        return _MINIROCKET
    learned, other, evaluation = _SECONDS.get(job.setting.dataset, (120.0, 60.0, 30.0))
    training = learned if job.acquirer in ("learned", "table") else other
    return _BASE + training * job.spec.training.steps_factor + (evaluation if job.prices else 0.0)


def mean_costs(real: float) -> list[float]:
    """The mean costs of the curve: evenly spaced in the log, up to the number of real columns."""
    ratio = math.log(real / CURVE_LEAST) / (CURVE_POINTS - 1)
    return [float(f"{CURVE_LEAST * math.exp(ratio * i):.6g}") for i in range(CURVE_POINTS)]
