"""Flags, values and verbs of earlier versions, and what to use instead."""

from __future__ import annotations

from collections.abc import Sequence

from whichwhen.errors import SpecError

_ONE_MODEL = "leave it out: one model serves every budget"
_ALWAYS = "leave it out: the waiting term is part of the learned acquirer"
_RECIPE = "leave it out: it is part of the recipe"
_UNUSED = "leave it out: nothing takes its place"
FLAGS = {
    "--pace": "leave it out: a total is spent at a price that is found on validation",
    "--advance": "leave it out: a total is spent at a price that is found on validation",
    "--cap": "use --budget beside --price",
    "--train-budgets": _ONE_MODEL,
    "--train-draw": _ONE_MODEL,
    "--acquirer-budget": _ONE_MODEL,
    "--acquirer-turns": _ALWAYS,
    "--acquirer-freshness": _ALWAYS,
    "--acquirer-prior": "leave it out: fixed rules are candidates of --acquirer learned",
    "--acquirer-values": "leave it out: values are always read",
    "--thrift": "use --mean-cost or --price",
    "--sharpen": _UNUSED,
    "--explore": _RECIPE,
    "--jitter": _RECIPE,
    "--stretch": _UNUSED,
    "--acquirer-rate": _RECIPE,
    "--time-gate": _UNUSED,
}
VALUES = {
    ("--preset", "best"): "leave it out: the default recipe takes its place",
    ("--selector", "top-k"): "use --selector gate",
}
OF_VERBS = {
    ("demo", "--epochs"): "use --effort",
    ("demo", "--trees"): "leave it out: the recipe has 200 trees",
    ("adaptive", "--epochs"): "use --effort",
    ("paper", "--preset"): "leave it out: all runs are in the paper's settings",
}
VERBS = {
    "ablations": "see docs/log.md for what was found",
    "assumptions": "see docs/log.md for what was found",
    "clinical": "use `whichwhen train physionet2012 --total AMOUNT`",
}


def refuse_removed(words: Sequence[str]) -> None:
    """Raise :class:`SpecError` where a command line holds something that is gone."""
    if words and words[0] in VERBS:
        raise SpecError(f"the verb {words[0]!r}, which was removed", do=VERBS[words[0]])
    for i, word in enumerate(words):
        flag, _, value = word.partition("=")
        flag = flag.replace("_", "-")
        plain = "--" + flag.removeprefix("--no-") if flag.startswith("--no-") else flag
        if plain in FLAGS:
            raise SpecError(f"{flag}, which was removed", do=FLAGS[plain])
        if (words[0], flag) in OF_VERBS:
            raise SpecError(f"{flag} of `whichwhen {words[0]}`, which was removed", do=OF_VERBS[words[0], flag])
        value = value or (words[i + 1] if i + 1 < len(words) else "")
        if (flag, value) in VALUES:
            raise SpecError(f"{flag} {value}, which was removed", do=VALUES[flag, value])
