"""One HTML page without any network: tables, figures, and a heat map of requests to hover over."""

from __future__ import annotations

import base64
import html
import io
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whichwhen._version import __version__
from whichwhen.data import load_dataset
from whichwhen.experiments.records import unsqueeze
from whichwhen.files import write_text
from whichwhen.reports.comparison import PRESETS, TextTable, all_tables, budget_words, cell_label, policy_name
from whichwhen.reports.grid import data_figures, first_seeds, record_figures
from whichwhen.reports.kept import with_kept
from whichwhen.reports.tables import candidates_line
from whichwhen.specs import DataSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_page(
    records: Sequence[Mapping[str, Any]], path: Path, title: str, *, values: bool = False, data_dir: Path | None = None
) -> None:
    """Write the page.

    Args:
        records: what to show.
        path: the file.
        title: of the page.
        values: show measured values of single series, and their ids. They may be somebody's data: off unless asked for.
        data_dir: where archives lie; needed for values only.
    """
    figures = record_figures(records)
    if values:
        figures |= data_figures(records, data_dir)
    several = len(set(filter(None, map(budget_words, records)))) > 1
    patterns = [_pattern(record, several, values, data_dir) for record in first_seeds(records)]
    template = (files("whichwhen.reports") / "page.html").read_text(encoding="utf-8")
    parts = {
        "TITLE": html.escape(title),
        "VERSION": __version__,
        "TABLES": "\n".join(_table(table) for table in all_tables(records)),
        "FIGURES": "\n".join(["<h2>Figures</h2>", *(_figure(*named) for named in figures.items())]) if figures else "",
        "RUNS": str(len(records)),
        "COMMITS": html.escape(", ".join(sorted({str(record["commit"] or "unknown")[:12] for record in records}))),
        "COMMANDS": "\n".join(sorted({_command(record) for record in records})),
        "DATA": json.dumps(patterns, allow_nan=False).replace("</", "<\\/"),
    }
    for name, text in parts.items():
        template = template.replace(f"{{{{{name}}}}}", text)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, template)


def _pattern(record: Mapping[str, Any], several: bool, values: bool, data_dir: Path | None) -> dict[str, Any]:
    """What the heat map of a record needs; where there are several budgets, the acquirer's name has its own."""
    pattern, test = record["pattern"], record["test"]
    samples, seen = [], dict.fromkeys(pattern["classes"], 0)
    revealed = _values(record, data_dir) if values else {}
    for sample in record["samples"]:
        seen[sample["class"]] += 1
        name = f"id {sample['id']}" if values else f"sample {seen[sample['class']]}"
        entry = {key: sample[key] for key in ("class", "prediction", "steps", "requests")} | {"name": name}
        if values:
            entry["values"] = revealed[str(sample["id"])]
        samples.append(entry)
    return {
        "preset": PRESETS.get(record["preset"], record["preset"]),
        "setting": cell_label(record["dataset"], record["fakes"], record["shifted"]),
        "acquirer": ", ".join(filter(None, (with_kept(policy_name(record), record), budget_words(record) if several else ""))),
        "kind": record["acquirer"],
        "budget": budget_words(record),
        "kept": candidates_line(record) if record.get("candidates") else "",
        "seed": record["seed"],
        "accuracy": test["accuracy"],
        "cost": test["cost_per_step"],
        "realShare": test["real_fraction"],
        **{key: pattern[key] for key in ("classes", "orders", "steps", "going", "share", "real")},
        "samples": samples,
    }


def _values(record: Mapping[str, Any], data_dir: Path | None) -> dict[str, list[list[float | None]]]:
    """The values that the requests of the sampled series brought, ``[T][K]``; None where nothing was asked for."""
    data = load_dataset(DataSpec.model_validate(record["spec"]["data"]), record["seed"], data_dir)
    names = data.test.ids if data.test.names is None else data.test.names
    place = {str(name): i for i, name in enumerate(names)}
    found: dict[str, list[list[float | None]]] = {}
    for sample in record["samples"]:
        series = data.test.series(place[str(sample["id"])])
        asked = unsqueeze(sample["requests"]).reshape(sample["steps"], -1).astype(bool)
        found[str(sample["id"])] = [
            [round(float(value), 3) if wanted and np.isfinite(value) else None for value, wanted in zip(*row, strict=True)]
            for row in zip(series, asked, strict=True)
        ]
    return found


def _command(record: Mapping[str, Any]) -> str:
    return html.escape(record["command"])


def _table(table: TextTable) -> str:
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.header)
    body = "\n".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
    note = f"<p class=note>{html.escape(table.note)}</p>" if table.note else ""
    content = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<h3>{html.escape(table.title)}</h3><div class=wide>{content}</div>{note}"


def _figure(name: str, figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    image = base64.b64encode(buffer.getvalue()).decode()
    label = html.escape(name.replace("-", " "))
    return f'<figure><img alt="{label}" src="data:image/png;base64,{image}"><figcaption>{label}</figcaption></figure>'
