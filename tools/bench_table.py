"""Put the numbers of benchmarks/results.json into docs/performance.md, between its markers."""

from __future__ import annotations

import json
import re
from pathlib import Path

from whichwhen.experiments import bench

ROOT = Path(__file__).resolve().parent.parent


def table(document: dict) -> str:
    """The numbers as Markdown."""
    rows = []
    for row in document["training"]:
        setting = row["setting"]
        rows.append(_row(f"training ÷ bare predictor: {setting['name']}", row["ratio"], setting["limit"]))
        if "literal_to_fast" in row:
            name = f"the paper's loop as written ÷ training: {setting['name']}"
            rows.append(_row(name, row["literal_to_fast"], bench.LITERAL_LIMIT, at_least=True))
    evaluation = document["evaluation"]
    rows.append(_row("evaluation of 1320 series ÷ a plain pass of the predictor", evaluation["ratio"], bench.EVALUATION_LIMIT))
    for row in document["session"]:
        late = 1000 * row["late_cpu_seconds"]
        rows.append(
            _row(f"one session step after 500 others, {row['predictor']}", late, 1000 * bench.SESSION_LIMIT, unit=" ms")
        )
    worst = max(row["ratio"] for row in document["memory"])
    rows.append(_row("peak memory of training ÷ bare, largest of five settings", worst, bench.MEMORY_LIMIT))
    growth = document["growth"]["exponents"]
    steepest = max(growth, key=growth.__getitem__)
    rows.append(_row(f"growth exponent of the step's cost, steepest ({steepest})", growth[steepest], bench.EXPONENT_LIMIT))
    if streaming := document.get("streaming"):
        rows.append(
            _row(
                "peak memory of training from disk, 10 000 series ÷ 2 500",
                streaming["memory_ratio"],
                bench.STREAMING_MEMORY_LIMIT,
            )
        )
        rows.append(_row("an epoch from disk ÷ one from memory", streaming["cpu_ratio"], bench.STREAMING_CPU_LIMIT))
    return "\n".join(["| CPU time | measured | limit |", "| --- | --- | --- |", *rows])


def _row(name: str, measured: float, limit: float | None, *, at_least: bool = False, unit: str = "") -> str:
    """A line of the table; a limit that is missed is called so."""
    number = f"{measured:.2f}{unit}"
    if not limit:
        return f"| {name} | {number} | – |"
    missed = measured < limit if at_least else measured > limit
    return f"| {name} | {number}{', **missed**' if missed else ''} | {'≥' if at_least else '≤'} {limit:g}{unit} |"


def main() -> None:
    """Fill the page."""
    document = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    machine = document["machine"]
    text = f"{table(document)}\n\n*{machine['cpu']}, one thread, torch {machine['torch']}; `make bench`.*"
    path = ROOT / "docs" / "performance.md"
    content = path.read_text()
    filled = re.sub(r"(<!-- bench -->\n).*?(\n<!-- /bench -->)", rf"\g<1>{text}\g<2>", content, flags=re.DOTALL)
    path.write_text(filled)


if __name__ == "__main__":
    main()
