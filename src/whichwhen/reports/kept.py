"""What validation kept of a ``learned`` run, in words. Reads results and records alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def kept_rule(result: Mapping[str, Any]) -> str | None:
    """Title of the fixed rule that validation kept, ``round robin of 5``; None where there was no choice or the network won."""
    kept = [row for row in result.get("candidates") or () if row["kept"]]
    return str(kept[0]["title"]) if kept and kept[0]["acquirer"] != "learned-only" else None


def with_kept(name: str, *results: Mapping[str, Any]) -> str:
    """A policy's name, with the fixed rule where one was kept: ``learned (kept round robin of 5)``.

    Args:
        name: what the runs are called.
        results: of one run, or of several that are averaged.
    """
    rules = [rule for rule in map(kept_rule, results) if rule is not None]
    if not rules:
        return name
    if len(rules) == len(results) and len(set(rules)) == 1:
        return f"{name} (kept {rules[0]})"
    return f"{name} (kept a fixed rule in {len(rules)} of {len(results)} runs)"


def difference_to(other: Mapping[str, Any]) -> str:
    """By how much the kept candidate is ahead of another on test, ``+0.007 ± 0.006``."""
    return f"{other['kept_minus_this']:+.3f} ± {other['standard_error']:.3f}"


def not_kept(result: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The candidates that validation did not keep."""
    return [row for row in result.get("candidates") or () if not row["kept"]]
