"""The command line: verbs only. Torch is imported by the verbs that need it, never for ``--help``."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import tyro
from pydantic import BaseModel

from whichwhen._version import __version__
from whichwhen.cli.arguments import (
    AdaptiveArgs,
    BenchArgs,
    DataArgs,
    DemoArgs,
    EvaluateArgs,
    PackArgs,
    PaperArgs,
    PlotArgs,
    ReportArgs,
    TrainArgs,
)
from whichwhen.cli.grids import run_adaptive, run_paper, run_report
from whichwhen.cli.output import MissedError, StoppedError, show_warnings_plainly
from whichwhen.cli.removed import refuse_removed
from whichwhen.cli.runs import run_bench, run_data, run_demo, run_evaluate, run_pack, run_plot, run_train
from whichwhen.errors import SpecError, WhichwhenError
from whichwhen.presets import PAPER_DATA, Preset, preset_spec
from whichwhen.specs import RunSpec

VERBS: dict[str, tuple[type[BaseModel], Callable[[Any], None]]] = {
    "data": (DataArgs, run_data),
    "pack": (PackArgs, run_pack),
    "train": (TrainArgs, run_train),
    "evaluate": (EvaluateArgs, run_evaluate),
    "plot": (PlotArgs, run_plot),
    "demo": (DemoArgs, run_demo),
    "paper": (PaperArgs, run_paper),
    "adaptive": (AdaptiveArgs, run_adaptive),
    "report": (ReportArgs, run_report),
    "bench": (BenchArgs, run_bench),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point.

    Exit codes: 0 done, 1 a limit was missed or a run of a grid failed, 2 a user's mistake (said in one line), 130 Ctrl-C.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            with warnings.catch_warnings():
                show_warnings_plainly()
                return _run(words)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # who read our output has left; so do we
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_usage())
        return 0 if words else 2
    if words[0] == "--version":
        print(f"whichwhen {__version__}")
        return 0
    verb, rest = words[0], words[1:]
    try:
        refuse_removed(words)
        if verb not in VERBS:
            raise SpecError(f"unknown verb {verb!r}", expected=f"one of {', '.join(VERBS)}", do="see `whichwhen --help`")
        _refuse_repeated(rest)
        arguments, run = VERBS[verb]
        default = _train_default(rest) if verb == "train" else tyro.MISSING_NONPROP
        run(tyro.cli(arguments, prog=f"whichwhen {verb}", args=rest, default=default))
    except WhichwhenError as error:
        return _fail(str(error), type(error).__name__, "--json" in rest)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f" {error.filename2 or error.filename}" if error.filename else ""
        message = f"{error.strerror or error}:{where}; expected a place that can be read and written; choose another"
        return _fail(message, "OSError", "--json" in rest)
    except MissedError as missed:
        print(missed, file=sys.stderr)
        return 1
    except StoppedError as stop:
        print(stop, file=sys.stderr)
        return 130
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0


_ONCE = {"--labels", "--test", "--menu", "--static", "--ignore", "--subgroups", "--only"}
"""Options whose values might be thought to add up; of others the last value counts, as in any shell script."""


def _refuse_repeated(words: list[str]) -> None:
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    for flag in sorted(_ONCE & set(flags)):
        if flags.count(flag) > 1:
            raise SpecError(f"{flag} is given {flags.count(flag)} times", expected="it once", do="put all values behind one")


def _fail(message: str, kind: str, as_json: bool) -> int:
    print(json.dumps({"error": kind, "message": message}) if as_json else f"error: {message}", file=sys.stderr)
    return 2


def _usage() -> str:
    lines = [
        "usage: whichwhen VERB [OPTIONS]",
        "",
        "Which features of a time series to measure, and when.",
        "",
    ]
    lines += [f"  {verb:<10}{(kind.__doc__ or '').splitlines()[0]}" for verb, (kind, _) in VERBS.items()]
    lines += ["", "`whichwhen VERB --help` shows a verb's options; `whichwhen --version` the version."]
    return "\n".join(lines)


def _train_default(words: list[str]) -> TrainArgs:
    """What the flags are changes to: a spec file, or a preset for the data set that was named."""

    def value(flag: str) -> str | None:
        for i, word in enumerate(words):
            if word == flag and i + 1 < len(words):
                return words[i + 1]
            if word.startswith(f"{flag}="):
                return word.partition("=")[2]
        return None

    path, preset = value("--spec"), value("--preset") or "default"
    if path is not None:
        if value("--preset"):
            raise SpecError("--spec and --preset together", expected="one of them", do="leave one out")
        from whichwhen.artifacts import load_spec

        return TrainArgs(run=load_spec(Path(path)), spec=Path(path))
    if preset not in get_args(Preset):
        raise SpecError(f"unknown preset {preset!r}", expected=f"one of {', '.join(get_args(Preset))}")
    named = next((word for word in words if word in PAPER_DATA), RunSpec().data.name)
    if preset == "default" or {"-h", "--help"} & set(words):
        return TrainArgs(run=preset_spec(preset, named), preset=preset)  # type: ignore[arg-type]
    guess = TrainArgs(run=preset_spec(preset, named), preset=preset)  # type: ignore[arg-type]
    meant = tyro.cli(TrainArgs, prog="whichwhen train", args=words, default=guess).run  # a value may look like a name
    return TrainArgs(run=preset_spec(preset, meant.data.name), preset=preset)  # type: ignore[arg-type]
