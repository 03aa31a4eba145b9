"""From records to tables: ``summary.json``, a row per setting, acquirer and budget; ``differences.json``, paired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from experiments.suite.jobs import ARCHIVES, CURVE_AT, REAL, TASKS, Setting
from experiments.suite.records import Record, unpack
from whichwhen import keyed
from whichwhen.evaluation.bootstrap import interval
from whichwhen.evaluation.statistics import mean_and_std

DRAWS = 1000
"""Bootstrap samples."""
RULES = ("static", "round-robin", "static-by-time", "none")
_KINDS = (None, "per-step", "mean-cost")
_ACQUIRERS = (
    *("learned", "learned-only", "round-robin", "static", "static-by-time", "table", "random", "oracle"),
    *("complete", "none", "minirocket"),
)


class Key(NamedTuple):
    """What a row is about."""

    setting: Setting
    effort: str
    acquirer: str
    asked: float | None
    kind: str | None
    budget: float | None


@dataclass(frozen=True)
class Entry:
    """A policy of one seed at one budget: the evaluation, and the record of its run."""

    found: Mapping[str, Any]
    record: Record

    @property
    def right(self) -> np.ndarray | None:
        """Which test series were right, ``[N]`` bool; None where that was not kept."""
        return unpack(self.found["correct"], self.found["n"]) if "correct" in self.found else None


Cells = dict[Key, dict[int, Entry]]
"""Entries by seed, by what they are about."""


def setting_of(record: Mapping[str, Any]) -> Setting:
    """The setting of a record."""
    return Setting(record["dataset"], record["fakes"], record["shifted"])


def name_efforts(records: Sequence[Record]) -> list[Record]:
    """The records with the usual effort called normal: of a grid that tries things out, the most common one."""
    efforts = Counter(record["effort"] for record in records if record["acquirer"] != "minirocket")
    if not efforts or "normal" in efforts:
        return list(records)
    usual = efforts.most_common(1)[0][0]
    return [{**record, "effort": "normal"} if record["effort"] == usual else record for record in records]


def collect(records: Sequence[Record]) -> Cells:
    """All evaluations at budgets per step and mean costs, and those without a budget."""
    cells: Cells = {}
    for record in records:
        effort = str(record["effort"])
        for found in record["evaluations"]:
            if found["budget_kind"] not in _KINDS:
                continue  # at a price: each run has its own prices
            for row in found["rows"]:
                key = Key(setting_of(record), effort, row, record["asked"], found["budget_kind"], found["budget"])
                cells.setdefault(key, {})[record["seed"]] = Entry(found, record)
    return cells


# ---- summary.json -----------------------------------------------------------------------------------------------------------
def summarise(cells: Cells) -> list[dict[str, Any]]:
    """A row per setting, acquirer, budget asked for and budget: means over seeds."""
    return [_row(key, [entries[seed] for seed in sorted(entries)]) for key, entries in sorted(cells.items(), key=_rank)]


def _row(key: Key, entries: Sequence[Entry]) -> dict[str, Any]:
    first = entries[0]
    mean, std = mean_and_std([entry.found["accuracy"] for entry in entries])
    kept = Counter(entry.record["kept"] for entry in entries)
    return {
        "dataset": key.setting.dataset,
        "fakes": key.setting.fakes,
        "shifted": key.setting.shifted,
        "columns": first.record["columns"],
        "effort": key.effort,
        "acquirer": key.acquirer,
        "kept": ", ".join(name if len(kept) == 1 else f"{name} ×{n}" for name, n in kept.most_common()),
        "asked": key.asked,
        "budget_kind": key.kind,
        "budget": key.budget,
        "n_seeds": len(entries),
        "n_test": first.found["n"],
        "mean": mean,
        "std": std,
        "cost": _mean(entry.found["cost_per_step"] for entry in entries),
        "share_real": _mean(entry.found["real_fraction"] for entry in entries),
        "seconds": _mean(entry.record["cpu_seconds"] for entry in entries),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return round(float(np.mean(there)), 6) if there else None


def _rank(item: tuple[Key, Any]) -> tuple[Any, ...]:
    key = item[0]
    known = [*ARCHIVES, *(Setting(name, "none") for name in REAL), *TASKS]
    place = known.index(key.setting) if key.setting in known else len(known)
    kind = _KINDS.index(key.kind)
    return place, key.effort, _ACQUIRERS.index(key.acquirer), key.asked or 0.0, kind, key.budget or 0.0


# ---- differences.json -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Comparison:
    """One policy's accuracy minus another's, over the seeds that both have, and its bootstrap values.

    Attributes:
        what: the two, in words.
        setting: on what; None = a mean over data sets.
        asked, kind, budget: of the first one.
        value: mean over seeds and series.
        draws: ``[D]``.
        n_seeds, n_test: how many.
        rule: which rule the second one is, where validation chose it, by seed.
    """

    what: str
    setting: Setting | None
    asked: float | None
    kind: str | None
    budget: float | None
    value: float
    draws: np.ndarray = field(repr=False)
    n_seeds: int
    n_test: int
    rule: str | None = None

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of the 95 % interval."""
        return interval(self.draws)

    def to_dict(self) -> dict[str, Any]:
        """As in ``differences.json``."""
        low, high = self.interval
        return {
            "what": self.what,
            "dataset": "mean over sets" if self.setting is None else self.setting.dataset,
            "fakes": None if self.setting is None else self.setting.fakes,
            "shifted": None if self.setting is None else self.setting.shifted,
            "asked": self.asked,
            "budget_kind": self.kind,
            "budget": self.budget,
            "mean": round(self.value, 6),
            "low": round(low, 6),
            "high": round(high, 6),
            "n_seeds": self.n_seeds,
            "n_test": self.n_test,
            "rule": self.rule,
        }


def paired(what: str, key: Key, one: Mapping[int, Entry], other: Mapping[int, Entry] | None) -> Comparison | None:
    """One minus the other, paired over test series within seeds; None without a common seed.

    A bootstrap draw takes seeds and test series with replacement. An archive's test series are the same for all seeds, and so
    are those of a draw; a synthetic task has series of its own for each seed. With ``other`` None: the accuracy itself.
    """
    seeds = [seed for seed in sorted(one) if other is None or seed in other]
    gaps = []
    for seed in seeds:
        right, wrong = one[seed].right, None if other is None else other[seed].right
        if right is None or (other is not None and wrong is None):
            return None
        gaps.append(right.astype(float) - (0.0 if wrong is None else wrong))
    if not gaps:
        return None
    found = np.stack(gaps)
    draws = _draws(found, key.setting.dataset, shared=not key.setting.is_task)
    value = float(found.mean())
    return Comparison(what, key.setting, key.asked, key.kind, key.budget, value, draws, len(found), found.shape[1])


def _draws(gaps: np.ndarray, name: str, shared: bool) -> np.ndarray:
    """Bootstrap means of gaps ``[S, N]``; with the same name and shape it is the same draw."""
    n_seeds, n = gaps.shape
    rng = np.random.default_rng(keyed.stream_seed(0, "bootstrap of seeds", name, n_seeds))
    chosen = rng.integers(n_seeds, size=(DRAWS, n_seeds))
    if shared:
        means = _counts(name, n) @ gaps.T / n
        return np.asarray(np.take_along_axis(means, chosen, axis=1).mean(1))
    shares = np.stack([(gaps < 0).mean(1), (gaps == 0).mean(1), (gaps > 0).mean(1)], axis=1)
    counts = rng.multinomial(n, shares[chosen])
    means = (counts[..., 2] - counts[..., 0]) / n
    return np.asarray(means.mean(1))


@lru_cache(maxsize=8)
def _counts(name: str, n: int) -> np.ndarray:
    """How often each of n series occurs in each draw, ``[D, n]``."""
    rng = np.random.default_rng(keyed.stream_seed(0, "bootstrap of series", name))
    return rng.multinomial(n, np.full(n, 1 / n), size=DRAWS).astype(np.float32)


def best_rule(cells: Cells, setting: Setting, budget: float) -> tuple[dict[int, Entry], str]:
    """For each seed the fixed rule with the lowest validation loss, of those that have it; and which ones, in words."""
    keys = {
        rule: Key(setting, "normal", rule, *((None, None, None) if rule == "none" else (budget, "per-step", budget)))
        for rule in RULES
    }
    found: dict[int, Entry] = {}
    names: Counter[str] = Counter()
    for seed in sorted({seed for rule in ("static", "round-robin") for seed in cells.get(keys[rule], {})}):
        there = {rule: cells[key][seed] for rule, key in keys.items() if seed in cells.get(key, {})}
        best = min(there, key=lambda rule: there[rule].found["validation_loss"])
        found[seed] = there[best]
        names[best] += 1
    return found, ", ".join(f"{name} ×{count}" for name, count in names.most_common())


def compare(cells: Cells) -> list[Comparison]:
    """All comparisons that the records allow."""
    found: list[Comparison | None] = []
    for key, entries in sorted(cells.items(), key=_rank):
        if key.kind == "per-step" and key.asked is not None and key.acquirer in ("learned", "learned-only"):
            found += _of_learned(cells, key, entries)
        if key.acquirer == "complete" and key.effort == "normal":
            without = replace(key.setting, fakes="none", shifted=False)
            if key.setting.fakes != "none":
                found.append(
                    paired("complete - complete without fakes", key, entries, cells.get(key._replace(setting=without), {}))
                )
            elif key.setting.dataset in REAL:
                found += _to_minirocket(cells, key, entries)
    there = [one for one in found if one is not None]
    for what in dict.fromkeys(one.what for one in there):
        if (mean := mean_over_sets(what, [one for one in there if one.what == what])) is not None:
            there.append(mean)
    return there


def _of_learned(cells: Cells, key: Key, entries: Mapping[int, Entry]) -> list[Comparison | None]:
    """What learned and learned-only are compared with at a budget per step."""
    found: list[Comparison | None] = []

    def against(name: str, other: Mapping[int, Entry]) -> None:
        found.append(paired(f"{key.acquirer} - {name}", key, entries, other))

    if key.effort != "normal":
        normal = cells.get(key._replace(effort="normal"), {})
        if key.asked == key.budget:
            found.append(paired(f"{key.acquirer}: {key.effort} - normal", key, entries, normal))
        return found
    if key.asked != key.budget:
        own = cells.get(key._replace(asked=key.budget), {})
        found.append(paired(f"{key.acquirer}: one run - runs asked for each", key, entries, own))
        return found
    assert key.budget is not None
    for name in ("static", "round-robin", "oracle"):
        against(name, cells.get(key._replace(acquirer=name), {}))
    rule, names = best_rule(cells, key.setting, key.budget)
    against("best rule", rule)
    if found[-1] is not None:
        found[-1] = replace(found[-1], rule=names)
    complete = Key(key.setting, "normal", "complete", None, None, None)
    against("complete", cells.get(complete, {}))
    return found


def _to_minirocket(cells: Cells, key: Key, entries: Mapping[int, Entry]) -> list[Comparison | None]:
    """Complete on the real columns minus MiniRocket; m-FordA also minus MiniRocket on the series as FordA has them.

    There is one MiniRocket for all seeds.
    """
    found = []
    for dataset in (key.setting.dataset, *(["ucr:FordA"] if key.setting.dataset == "m-forda" else [])):
        reference = cells.get(Key(Setting(dataset, "none"), "normal", "minirocket", None, None, None), {})
        if reference:
            what = "complete - MiniRocket" if dataset != "ucr:FordA" else "complete - MiniRocket on FordA"
            found.append(paired(what, key, entries, dict.fromkeys(entries, reference[0])))
    return found


def mean_over_sets(what: str, parts: Sequence[Comparison]) -> Comparison | None:
    """The mean over archive sets of comparisons, budgets and variants averaged within each first; None where there are none."""
    groups: dict[str, list[Comparison]] = {}
    for part in parts:
        if part.setting is not None and not part.setting.is_task:
            groups.setdefault(part.setting.dataset, []).append(part)
    if not groups:
        return None
    value = float(np.mean([np.mean([part.value for part in group]) for group in groups.values()]))
    draws = np.mean([np.mean([part.draws for part in group], axis=0) for group in groups.values()], axis=0)
    seeds = min(part.n_seeds for group in groups.values() for part in group)
    return Comparison(what, None, None, None, None, value, draws, seeds, sum(group[0].n_test for group in groups.values()))


def curve(cells: Cells, setting: Setting, acquirer: str) -> dict[float, dict[int, Entry]]:
    """The mean costs of the curve of the runs asked for :data:`CURVE_AT`, in order."""
    return {
        key.budget: entries
        for key, entries in sorted(cells.items(), key=_rank)
        if key.setting == setting
        and (key.effort, key.acquirer, key.asked, key.kind) == ("normal", acquirer, CURVE_AT, "mean-cost")
        and key.budget is not None
    }
