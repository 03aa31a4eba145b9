"""The command line of the suite."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from experiments.suite.jobs import Job, choose, expected_seconds, full_grid, quick_grid
from experiments.suite.records import finished, load_records
from experiments.suite.run import Outcome, run_jobs
from experiments.suite.summary import collect, compare, name_efforts, summarise
from experiments.suite.targets import find_targets, render
from whichwhen.errors import WhichwhenError
from whichwhen.files import write_json

SUMMARY, DIFFERENCES, TARGETS = "summary.json", "differences.json", "targets.json"


def main(words: Sequence[str]) -> int:
    """Run a grid, or go on with it, and write what the records say."""
    parser = argparse.ArgumentParser(prog="python -m experiments suite", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the small grid, for deciding: at most an hour of CPU time")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="jobs that all words fit: NATOPS learned at-2")
    parser.add_argument("--seeds", type=int, help="of every acquirer; by default what the targets need")
    parser.add_argument("--effort", type=float, help="of training, for trying the suite out; by default normal")
    parser.add_argument("--out", type=Path, default=Path("results/suite"), help="folder of records and tables")
    parser.add_argument("--runs", type=Path, default=Path("runs/suite"), help="folder of the runs")
    parser.add_argument("--dry-run", action="store_true", help="list the jobs and what they will take")
    parser.add_argument("--tables", action="store_true", help="run nothing, write the tables from the records that are there")
    given = parser.parse_args(words)
    try:
        if given.tables:
            print(write_tables(given.out))
            return 0
        grid = (quick_grid if given.quick else full_grid)(given.seeds, given.effort or "normal")
        return run_suite(choose(grid, given.only), given)
    except WhichwhenError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def run_suite(jobs: Sequence[Job], given: argparse.Namespace) -> int:
    """Run the jobs and write the tables; the exit code is 1 where a job failed."""
    left = [job for job in jobs if job.name not in finished(jobs, given.out)]
    known = load_records(given.out)
    hours = sum(expected_seconds(job, known) for job in left) / 3600
    print(f"{len(jobs)} jobs, {len(jobs) - len(left)} of them finished; the rest takes about {hours:.1f} CPU hours")
    if given.dry_run:
        seconds: dict[str, list[float]] = {}
        for job in left:
            effort = "" if job.effort == "normal" else f", {job.effort}"
            seconds.setdefault(f"{job.setting.title}: {job.acquirer}{effort}", []).append(expected_seconds(job, known))
        for title, parts in seconds.items():
            print(f"  {sum(parts) / 60:6.1f} min  {len(parts):3d} × {title}")
        return 0
    count = 0

    def tell(outcome: Outcome) -> None:
        nonlocal count
        count += 1
        print(f"[{count}/{len(left)}] {outcome.job.name}: {describe(outcome)}", flush=True)

    outcomes = run_jobs(left, given.out, given.runs, given.jobs, tell)
    print(write_tables(given.out))
    return 1 if any(outcome.state == "failed" for outcome in outcomes) else 0


def write_tables(out: Path) -> str:
    """Write summary, differences and targets from the records of a folder; returns the targets as text."""
    records = name_efforts(load_records(out))
    if not records:
        return f"no records in {out}"
    cells = collect(records)
    found = compare(cells)
    targets = find_targets(records, cells, found)
    write_json(out / SUMMARY, summarise(cells))
    write_json(out / DIFFERENCES, [one.to_dict() for one in found])
    write_json(out / TARGETS, [target.to_dict() for target in targets])
    commits = Counter(record["commit"] for record in records if record["commit"])
    text = render(targets)
    if len(commits) > 1:
        names = ", ".join(f"{commit[:15]} ({count})" for commit, count in commits.items())
        text += f"\nnote: records of {len(commits)} commits: {names}"
    return text


def describe(outcome: Outcome) -> str:
    """An outcome in one line."""
    if outcome.record is None:
        return f"FAILED, {outcome.error}"
    own = [row for row in outcome.record["evaluations"] if row["budget_kind"] in (None, "per-step")]
    found = ", ".join(
        f"{'+'.join(row['rows'])} {row['accuracy']:.3f}{'' if row['budget'] is None else ' at ' + format(row['budget'], 'g')}"
        for row in own
    )
    seconds = outcome.record["cpu_seconds"], outcome.record["evaluation_seconds"]
    return f"{found}; {seconds[0]:.0f} + {seconds[1]:.0f} CPU s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
