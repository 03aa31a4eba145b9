"""The issue's table 'Must show', answered from the records: ``targets.json`` and what is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from experiments.suite.jobs import ARCHIVES, CAPS, CURVE_AT, REAL, Setting, mean_costs
from experiments.suite.records import Record
from experiments.suite.summary import Cells, Comparison, Key, curve, mean_over_sets, paired, setting_of

SMALL = 400
"""Test sets below are small, and have wider marks."""
BEFORE_SECONDS = 115.0
"""CPU seconds of preset best on m-FordA at 620ff44."""
LEVELS = (
    *(("m-forda", "noise", False, cap, mark) for cap, mark in ((5.0, 0.950), (2.0, 0.948), (1.0, 0.885))),
    *(("m-forda", fakes, True, 5.0, mark) for fakes, mark in (("zeros", 0.935), ("noise", 0.931), ("gp", 0.923))),
    *(("spoken-arabic-digits", "noise", False, cap, mark) for cap, mark in ((5.0, 0.993), (2.0, 0.986), (1.0, 0.970))),
    *(("japanese-vowels", "noise", False, cap, mark) for cap, mark in ((5.0, 0.957), (2.0, 0.945), (1.0, 0.925))),
    *(("ucr:NATOPS", "noise", False, cap, mark) for cap, mark in ((5.0, 0.89), (2.0, 0.91))),
    ("ucr:PenDigits", "noise", False, 1.0, 0.95),
)
"""Accuracies of learned that are asked for: data set, fakes, shifted, budget, at least."""


@dataclass(frozen=True)
class Target:
    """A row of the table.

    Attributes:
        what: in words.
        value: what was found; None = no records.
        mark: what is asked for, in words.
        met: whether it is reached; None = no records.
        low, high: 95 % interval of the value, where there is one.
        n_seeds: the fewest behind it.
        detail: where the value is from, and what else there is to say.
    """

    what: str
    value: float | None
    mark: str
    met: bool | None
    low: float | None = None
    high: float | None = None
    n_seeds: int | None = None
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As in ``targets.json``."""
        return asdict(self)


def find_targets(records: Sequence[Record], cells: Cells, found: Sequence[Comparison]) -> list[Target]:
    """Every row of the issue's table."""
    at_own = [one for one in found if one.asked == one.budget]
    noise = {setting for setting in ARCHIVES if _is_plain_noise(setting)}
    at_five = [one for one in at_own if one.budget == 5 and one.setting in ARCHIVES]
    archives = [one for one in at_own if one.setting in ARCHIVES]
    below = [one for one in archives if one.budget is not None and one.setting and one.budget < REAL[one.setting.dataset]]
    tasks = [one for one in at_own if one.setting is not None and one.setting.is_task]
    plain = [one for one in found if one.setting in noise]
    return [
        worst("learned - static, every archive set and budget", _named(archives, "learned - static"), -0.005, -0.02),
        worst("learned - best rule, every archive set and budget", _named(archives, "learned - best rule"), -0.005, -0.02),
        average("mean over sets, below the real columns: learned - static", _named(below, "learned - static"), 0.08),
        average("mean over sets, below the real columns: learned - best rule", _named(below, "learned - best rule"), 0.01),
        average("mean over sets, below: learned-only - best rule", _named(below, "learned-only - best rule"), 0.005),
        worst("learned - complete at 5", _named(at_five, "learned - complete"), -0.01, -0.03),
        worst("synthetic tasks: learned - best rule", _named(tasks, "learned - best rule"), -0.005, -0.02),
        Target("results/adaptive: reacting, planning", None, "not below today's", None, detail="see `whichwhen adaptive`"),
        *(level(cells, Setting(name, fakes, shifted), cap, mark) for name, fakes, shifted, cap, mark in LEVELS),  # type: ignore[arg-type]
        one_run(found),
        *cost_to_match(cells),
        cost_against_price(records),
        spent_on_test(records),
        spent_on_fakes(records),
        worst("complete with 30 noise columns - without", _named(plain, "complete - complete without fakes"), -0.01, -0.03),
        worst("complete on real columns - MiniRocket", [one for one in found if "- MiniRocket" in one.what], -0.02, -0.02),
        average("effort: quick - normal, mean over sets", _named(found, "learned: quick - normal"), -0.02),
        average("effort: thorough - normal, mean over sets", _named(found, "learned: thorough - normal"), 0.0),
        seconds(records, "normal", 5.0, 1.2),
        seconds(records, "quick", CURVE_AT, 0.4),
    ]


def _named(found: Sequence[Comparison], what: str) -> list[Comparison]:
    return [one for one in found if one.what == what and one.setting is not None]


def _is_plain_noise(setting: Setting) -> bool:
    return setting.fakes == "noise" and not setting.shifted


def _title(one: Comparison) -> str:
    assert one.setting is not None
    return one.setting.title + ("" if one.budget is None else f" at {one.budget:g}")


# ---- kinds of rows ----------------------------------------------------------------------------------------------------------
def worst(what: str, parts: Sequence[Comparison], large: float, small: float) -> Target:
    """Every comparison reaches its mark; the one that is farthest from it is shown."""
    if not (parts := [part for part in parts if part.setting is not None]):
        return Target(what, None, _at_least(large, small), None)

    def margin(part: Comparison) -> float:
        return part.value - (small if part.n_test < SMALL else large)

    shown = min(parts, key=margin)
    missed = sorted((part for part in parts if margin(part) < 0), key=margin)
    names = "; ".join(f"{_title(part)} {part.value:+.3f}" for part in missed[:6]) + ("; …" if len(missed) > 6 else "")
    detail = f"{_title(shown)}; {len(missed)} of {len(parts)} missed" + (f": {names}" if missed else "")
    low, high = shown.interval
    return Target(what, shown.value, _at_least(large, small), not missed, low, high, _fewest(parts), detail)


def average(what: str, parts: Sequence[Comparison], mark: float) -> Target:
    """The mean over data sets."""
    mean = mean_over_sets(what, parts)
    if mean is None:
        return Target(what, None, f"at least {mark:+g}", None)
    names = sorted({part.setting.short for part in parts if part.setting is not None})
    low, high = mean.interval
    return Target(what, mean.value, f"at least {mark:+g}", mean.value >= mark, low, high, _fewest(parts), ", ".join(names))


def level(cells: Cells, setting: Setting, cap: float, mark: float) -> Target:
    """The accuracy of learned at the budget asked for."""
    what, key = f"{setting.title} at {cap:g}", Key(setting, "normal", "learned", cap, "per-step", cap)
    found = paired(what, key, cells.get(key, {}), None)
    if found is None:
        return Target(what, None, f"at least {mark:.3f}", None)
    low, high = found.interval
    return Target(what, found.value, f"at least {mark:.3f}", found.value >= mark, low, high, found.n_seeds)


def _at_least(large: float, small: float) -> str:
    return f"at least {large:+g}" + ("" if large == small else f" (small test {small:+g})")


def _fewest(parts: Sequence[Comparison]) -> int:
    return min(part.n_seeds for part in parts)


# ---- single rows ------------------------------------------------------------------------------------------------------------
def one_run(found: Sequence[Comparison]) -> Target:
    """One run at the budgets of the others, without its own, where the difference is 0 by definition."""
    what = "one run at other caps - the runs asked for each, mean over sets"
    parts = _named(found, "learned: one run - runs asked for each")
    if not parts:
        return Target(what, None, "at least -0.01", None)
    target = average(what, parts, -0.01)
    by_asked = {asked: mean_over_sets("", [part for part in parts if part.asked == asked]) for asked in CAPS}
    detail = ", ".join(f"asked for {asked:g}: {mean.value:+.3f}" for asked, mean in by_asked.items() if mean is not None)
    return Target(**{**asdict(target), "detail": detail})


def cost_to_match(cells: Cells) -> list[Target]:
    """The smallest mean cost from which on all larger ones come near complete, as a share of the cost of everything."""
    shares: dict[str, dict[Setting, float]] = {
        name: {setting: share for setting in ARCHIVES if (share := match_share(cells, setting, name)) is not None}
        for name in ("learned", "round-robin")
    }
    whats = ("cost to match, mean over sets", "cost to match ÷ that of round robin")
    own, theirs = shares["learned"], shares["round-robin"]
    if not own:
        return [Target(whats[0], None, "at most 0.06", None), Target(whats[1], None, "at most 0.8", None)]
    value = _mean_over_sets(own)
    detail = ", ".join(f"{setting.title} {share:.3f}" for setting, share in own.items())
    first = Target(whats[0], value, "at most 0.06", value <= 0.06, detail=detail)
    if not (both := [setting for setting in own if setting in theirs]):
        return [first, Target(whats[1], None, "at most 0.8", None)]
    ratio = _mean_over_sets({s: own[s] for s in both}) / _mean_over_sets({s: theirs[s] for s in both})
    detail = ", ".join(f"{setting.title} {theirs[setting]:.3f}" for setting in both)
    return [first, Target(whats[1], ratio, "at most 0.8", ratio <= 0.8, detail=f"round robin: {detail}")]


def match_share(cells: Cells, setting: Setting, acquirer: str) -> float | None:
    """That share for one setting, by means over the seeds that complete has, too; None without records."""
    complete = cells.get(Key(setting, "normal", "complete", None, None, None), {})
    points, real = curve(cells, setting, acquirer), REAL[setting.dataset]
    costs = mean_costs(real)
    seeds = set(complete).intersection(*(points.get(cost, {}) for cost in costs))
    if not seeds:
        return None
    first = next(iter(complete.values()))
    allowed = 0.03 if first.found["n"] < SMALL else 0.01

    def accuracy(entries: Any) -> float:
        return float(np.mean([entries[seed].found["accuracy"] for seed in seeds]))

    goal, share = accuracy(complete) - allowed, 1.0
    for cost in reversed(costs):
        if accuracy(points[cost]) < goal - 1e-9:
            break
        share = cost / first.record["everything"]
    return share


def _mean_over_sets(values: dict[Setting, float]) -> float:
    groups: dict[str, list[float]] = {}
    for setting, value in values.items():
        groups.setdefault(setting.dataset, []).append(value)
    return float(np.mean([np.mean(group) for group in groups.values()]))


def _learned_runs(records: Sequence[Record]) -> list[Record]:
    """Runs of learned at normal effort on archive sets."""
    runs = [record for record in records if (record["acquirer"], record["effort"]) == ("learned", "normal")]
    return [record for record in runs if setting_of(record) in ARCHIVES]


def _of_network(record: Record, kind: str) -> list[dict[str, Any]]:
    """The network's evaluations at one kind of budget, smallest first."""
    found = [one for one in record["evaluations"] if one["budget_kind"] == kind and "learned-only" in one["rows"]]
    return sorted(found, key=lambda one: one["budget"])


def _place(record: Record, one: dict[str, Any]) -> str:
    """Which evaluation of which run."""
    budget = f"{one['budget_kind']} {one['budget']:.3g}"
    return f"{setting_of(record).title} asked for {record['asked']:g} at {budget}, seed {record['seed']}"


def cost_against_price(records: Sequence[Record]) -> Target:
    """By how much the network's cost rises from one of twelve prices to a higher one, at most."""
    what, rises = "cost against price: largest rise", {}
    for record in _learned_runs(records):
        costs = [one["cost_per_step"] for one in _of_network(record, "price")]
        if costs:
            rises[record["name"]] = largest_rise(costs)
    if not rises:
        return Target(what, None, "at most 2 %", None)
    name = max(rises, key=lambda name: rises[name])
    return Target(what, rises[name], "at most 2 %", rises[name] <= 0.02, detail=f"{name}; {len(rises)} runs")


def largest_rise(costs: Sequence[float]) -> float:
    """The largest rise above what a lower price cost, as a share of that."""
    lowest = np.minimum.accumulate(np.asarray(costs, dtype=float))[:-1]
    return max(0.0, float(np.max((np.asarray(costs)[1:] - lowest) / np.maximum(lowest, 1e-3)))) if len(costs) > 1 else 0.0


def spent_on_test(records: Sequence[Record]) -> Target:
    """The network's cost on test ÷ the mean cost asked for, where validation could reach it; the farthest from 1."""
    what = "spent on test ÷ mean cost asked for"
    ratios: dict[str, float] = {}
    for record in _learned_runs(records):
        for one in _of_network(record, "mean-cost"):
            if "out_of_reach" not in one:
                ratios[_place(record, one)] = one["cost_per_step"] / one["budget"]
    if not ratios:
        return Target(what, None, "0.9 to 1.1", None)
    name = max(ratios, key=lambda name: abs(ratios[name] - 1))
    missed = sum(not 0.9 <= ratio <= 1.1 for ratio in ratios.values())
    return Target(what, ratios[name], "0.9 to 1.1", not missed, detail=f"{name}; {missed} of {len(ratios)} missed")


def spent_on_fakes(records: Sequence[Record]) -> Target:
    """The network's requests of noise columns, at any price and below the number of real columns; the largest share."""
    what = "learned-only: share spent on the 30 noise columns"
    shares: dict[str, float] = {}
    others = 0.0
    for record in _learned_runs(records):
        setting = setting_of(record)
        for kind in ("per-step", "mean-cost", "price"):
            for one in _of_network(record, kind):
                if one["real_fraction"] is None or (kind != "price" and one["budget"] >= REAL[setting.dataset]):
                    continue
                if _is_plain_noise(setting):
                    shares[_place(record, one)] = 1 - one["real_fraction"]
                else:
                    others = max(others, 1 - one["real_fraction"])
    if not shares:
        return Target(what, None, "at most 3 %", None)
    name = max(shares, key=lambda name: shares[name])
    missed = sum(share > 0.03 for share in shares.values())
    detail = f"{name}; {missed} of {len(shares)} missed; other fakes and shifted: {others:.3f} at most"
    return Target(what, shares[name], "at most 3 %", not missed, detail=detail)


def seconds(records: Sequence[Record], effort: str, asked: float, most: float) -> Target:
    """CPU time of learned on m-FordA with noise as a share of what preset best took."""
    what = f"CPU time on m-FordA, {effort}, ÷ preset best at 620ff44"
    found = [
        record["cpu_seconds"]
        for record in records
        if setting_of(record) == Setting("m-forda")
        and (record["acquirer"], record["effort"], record["asked"]) == ("learned", effort, asked)
    ]
    if not found:
        return Target(what, None, f"at most {most:g}", None)
    value = float(np.mean(found)) / BEFORE_SECONDS
    detail = f"{np.mean(found):.0f} s against {BEFORE_SECONDS:.0f} s, as measured then"
    return Target(what, value, f"at most {most:g}", value <= most, n_seeds=len(found), detail=detail)


def render(targets: Sequence[Target]) -> str:
    """The table as text."""
    lines = []
    for target in targets:
        state = "no records" if target.met is None else "met" if target.met else "MISSED"
        value = "" if target.value is None else f"{target.value:+.3f}" if target.mark[-1:] != "%" else f"{target.value:.1%}"
        spread = "" if target.low is None else f"[{target.low:+.3f}, {target.high:+.3f}]"
        seeds = "" if target.n_seeds is None else f"{target.n_seeds} seed{'s' if target.n_seeds > 1 else ''}"
        found = f"{value:>7} {spread:16} {target.mark:36} {state:10} {seeds:7}"
        lines.append(f"{target.what[:66]:66} {found} {target.detail}".rstrip())
    return "\n".join(lines)
