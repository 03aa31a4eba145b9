"""``python -m experiments NAME …``: hand the rest of the command line to an experiment."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

EXPERIMENTS = ("suite",)
"""Folders beside this file, each with a ``main`` in its ``__main__``."""


def main(words: Sequence[str]) -> int:
    """Run one experiment; returns the exit code."""
    if not words or words[0] not in EXPERIMENTS:
        print(f"usage: python -m experiments {{{','.join(EXPERIMENTS)}}} …", file=sys.stderr)
        return 0 if words[:1] in (["-h"], ["--help"]) else 2
    code: int = import_module(f"experiments.{words[0]}.__main__").main(words[1:])
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
