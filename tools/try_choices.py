"""What the other choice gives: the demo's learned acquirer with one setting changed at a time, three seeds each.

    .venv/bin/python tools/try_choices.py

Writes a record per run under results/choices/VARIANT/ and the table in docs/choices.md between its markers. Finished runs
are not run again.
"""

import re
from pathlib import Path

from whichwhen.experiments.paper import Cell, Job
from whichwhen.experiments.records import load_records, summarise
from whichwhen.experiments.runner import JoblibEngine, run_grid
from whichwhen.specs import DataSpec, RunSpec, TrainingSpec

ROOT = Path(__file__).resolve().parents[1]
BASE = RunSpec(data=DataSpec(fakes="noise"), training=TrainingSpec(epochs=40, batch_size=32))
VARIANTS: dict[str, dict[str, object]] = {
    "as it is: one-shot top-k, detached gradient, temperature 1": {},
    "the paper's draws one after the other, budgets exact": {"selector__kind": "sequential"},
    "the paper's draws with its penalty": {"selector__kind": "sequential", "selector__repeat": "penalty"},
    "temperature 0.3": {"selector__temperature": 0.3},
    "temperature 3": {"selector__temperature": 3.0},
    "full gradient": {"training__gradient": "full"},
    "full gradient, the paper's draws with its penalty": {
        "training__gradient": "full",
        "selector__kind": "sequential",
        "selector__repeat": "penalty",
    },
    "the bare time step instead of sines": {"acquirer__time_features": 0},
    "loss of the last step alone": {"training__step_loss": 0.0},
    "10 of the 40 epochs as warm-up on random masks": {"training__warm_up": 10},
    "the acquirer reads the predictor's state": {"acquirer__context": True},
}
SEEDS = 3


def main() -> None:
    """Run what is missing, print and write the table."""
    lines = ["| change | test accuracy, 3 seeds | real requests |", "| --- | ---: | ---: |"]
    for title, changes in VARIANTS.items():
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60]
        out = ROOT / "results" / "choices" / slug
        specs = [BASE.change(**changes, seed=seed) for seed in range(SEEDS)]
        jobs = [Job("run", Cell("japanese-vowels", "noise"), spec, command="python tools/try_choices.py") for spec in specs]
        state = run_grid(jobs, out, ROOT / "runs" / "choices", engine=JoblibEngine(1))
        if state.failed:
            raise SystemExit(f"failed: {state.failed}")
        (row,) = summarise(load_records(out))
        lines.append(f"| {title} | {row['mean']:.3f} ± {row['std']:.3f} | {100 * row['real_fraction']:.0f} % |")
        print(lines[-1], flush=True)
    page = ROOT / "docs" / "choices.md"
    text = page.read_text(encoding="utf-8")
    table = "\n".join(lines)
    page.write_text(
        re.sub(r"(<!-- choices -->\n).*?(\n<!-- /choices -->)", rf"\1{table}\2", text, flags=re.S), encoding="utf-8"
    )


if __name__ == "__main__":
    main()
