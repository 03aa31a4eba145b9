"""Put the numbers of benchmarks/results.json into README.md and docs/performance.md, between their markers."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def table(document: dict) -> str:
    """The numbers as Markdown."""
    rows = []
    for row in document["training"]:
        setting = row["setting"]
        limit = f"≤ {setting['limit']:g}" if setting["limit"] else "–"
        rows.append((f"training ÷ bare predictor: {setting['name']}", f"{row['ratio']:.2f}", limit))
        if "literal_to_fast" in row:
            rows.append((f"the paper's loop as written ÷ training: {setting['name']}", f"{row['literal_to_fast']:.1f}", "≥ 4"))
    evaluation = document["evaluation"]
    rows.append(("evaluation of 1320 series ÷ a plain pass of the predictor", f"{evaluation['ratio']:.2f}", "≤ 2.5"))
    for row in document["session"]:
        late = 1000 * row["late_cpu_seconds"]
        rows.append((f"one session step after 500 others, {row['predictor']}", f"{late:.2f} ms", "≤ 1 ms"))
    worst = max(row["ratio"] for row in document["memory"])
    rows.append(("peak memory of training ÷ bare, largest of five settings", f"{worst:.2f}", "≤ 2.5"))
    growth = document["growth"]["exponents"]
    steepest = max(growth, key=growth.__getitem__)
    rows.append((f"growth exponent of the step's cost, steepest ({steepest})", f"{growth[steepest]:.2f}", "≤ 1.1"))
    if streaming := document.get("streaming"):
        rows.append(("peak memory of training from disk, 10 000 series ÷ 2 500", f"{streaming['memory_ratio']:.2f}", "≤ 1.1"))
        rows.append(("an epoch from disk ÷ one from memory", f"{streaming['cpu_ratio']:.2f}", "≤ 1.25"))
    lines = ["| CPU time | measured | limit |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def main() -> None:
    """Fill both files."""
    document = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    machine = document["machine"]
    text = f"{table(document)}\n\n*{machine['cpu']}, one thread, torch {machine['torch']}; `make bench`.*"
    for name in ("README.md", "docs/performance.md"):
        path = ROOT / name
        content = path.read_text()
        filled = re.sub(r"(<!-- bench -->\n).*?(\n<!-- /bench -->)", rf"\g<1>{text}\g<2>", content, flags=re.DOTALL)
        path.write_text(filled)


if __name__ == "__main__":
    main()
