"""How verbs speak: facts and tables for people, one JSON document for machines, and two ways to end early."""

from __future__ import annotations

import json
import sys
import warnings
from typing import TYPE_CHECKING, Any

from whichwhen.errors import BudgetWarning, DataWarning

if TYPE_CHECKING:
    from rich.console import Console


class StoppedError(Exception):
    """The user pressed Ctrl-C; the message says how to go on."""


class MissedError(Exception):
    """A benchmark's limit was not kept, or a run of a grid failed."""


def print_facts(facts: dict[str, Any]) -> None:
    """Name and value on one line each, unbroken, so that paths can be copied."""
    width = max(len(name) for name in facts) + 2
    for name, value in facts.items():
        print(f"{name:<{width}}{_text(value)}")


def _text(value: Any) -> str:
    if isinstance(value, list):
        shown = ", ".join(str(item) for item in value[:12])
        return shown if len(value) <= 12 else f"{shown}, … ({len(value)})"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else str(value)


def console_on(stderr: bool = False) -> Console:
    """A console that takes text as it is."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False)


def show_warnings_plainly() -> None:
    """Let warnings about data and budgets be one line on stderr, without the line of code that gave them."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, DataWarning | BudgetWarning):
            print(f"warning: {message}", file=sys.stderr)
        else:
            usual(message, category, *place, **more)

    warnings.showwarning = show


def print_json(document: Any) -> None:
    """One document, as strict JSON."""
    print(json.dumps(document, indent=2, allow_nan=False))
