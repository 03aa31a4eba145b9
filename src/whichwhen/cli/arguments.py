"""What each verb takes: one field = one flag = its help text. No torch here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import BaseModel, ConfigDict, Field

from whichwhen.presets import Preset
from whichwhen.specs import DataSpec, RunSpec


class _Args(BaseModel):
    model_config = ConfigDict(frozen=True)

    json_: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = Field(
        False, description="Print one JSON document instead of tables."
    )
    data_dir: Path | None = Field(
        None, description="Folder with NAME/NAME_TRAIN.ts of the archives; else the variable WHICHWHEN_DATA."
    )


class ComputeArgs(_Args):
    """For verbs that run a model."""

    device: str = Field("cpu", description="Where to compute: cpu, cuda, cuda:1, mps.")
    threads: int = Field(1, description="Of torch. The tensors are small: more threads mostly wait for each other.")


class DataArgs(_Args):
    """List the data sets, or describe one: sizes, lengths, features, classes.

    Without a name: what there is, and where it would come from.
    """

    data: Annotated[DataSpec, tyro.conf.arg(name="")] = DataSpec(name="")
    seed: int = Field(0, description="Of fakes and splits.")
    budget: float | None = Field(
        None, description="synthetic: the budget per step that optimum and chance are printed for (default: the task's own)."
    )
    plot: Path | None = Field(None, description="Draw samples of the training split into this file (.png, .pdf, .svg).")


class PackArgs(_Args):
    """Write a table of your own as a folder of series that stay on disk: for more data than memory.

    The table is read a part at a time. `whichwhen train FOLDER` and `whichwhen data FOLDER` take the folder.
    """

    data: Annotated[DataSpec, tyro.conf.arg(name="")] = DataSpec(name="")
    out: Path | None = Field(None, description="The folder to write (default: the table's name with .series).")


class TrainArgs(ComputeArgs):
    """Train acquirer and predictor together, choose on validation, evaluate once on test.

    Writes a run folder: spec.json, weights.safetensors, history.jsonl, series.parquet, pattern.parquet, result.json.
    """

    run: Annotated[RunSpec, tyro.conf.arg(name="")] = RunSpec()
    out: Path | None = Field(None, description="The run folder (default: runs/DATASET-ACQUIRER-SEED).")
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(
        False, description="Go on with an unfinished run in the folder."
    )
    preset: Preset = Field("default", description="Where the defaults come from; paper = the paper's own settings.")
    spec: Path | None = Field(None, description="Take the defaults from a spec.json instead.")
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(False, description="No progress.")


class EvaluateArgs(ComputeArgs):
    """Evaluate a finished run with hard selection: quality, cost, calibration; alarms and subgroups where the set has them."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = Field(description="The run folder.")
    split: str = Field("test", description="On which series: test, validation, train, or a test set by its name.")
    budget: float | None = Field(None, description="Another budget per step than the run was trained for.")
    mean_cost: float | None = Field(
        None, description="A mean cost per step instead; the price that it takes is found on validation."
    )
    price: float | None = Field(None, description="A price instead: ask for what is worth more than that times its cost.")
    total: float | None = Field(None, description="A budget for the whole series instead.")
    false_alarms: float | None = Field(
        None,
        description="With labels per step: share of event-free series that may have an alarm (default: 0.1); the threshold is "
        "chosen on validation.",
    )
    estimate: bool = Field(
        True, description="With values missing: what the scores would be if all requests had been answered (docs/missing.md)."
    )
    plot: Path | None = Field(None, description="Draw the reliability curve into this file (.png, .pdf, .svg).")


class PlotArgs(ComputeArgs):
    """Draw the acquisition patterns and training curves of runs, side by side."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = Field(description="Run folders.")
    out: Path | None = Field(None, description="Folder for pattern and curves (default: the first run's).")
    format: Literal["png", "pdf", "svg"] = Field("png", description="Of the figures.")
    test_curve: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(
        False, description="Add test accuracy per epoch; needs runs trained with --save-epochs."
    )


class DemoArgs(ComputeArgs):
    """Train static, round-robin, learned and complete acquirers on JapaneseVowels with fake features; table, figures, records.

    A second call shows what the first one trained; another --out trains anew.
    """

    fakes: Literal["zeros", "noise", "gp"] = Field("noise", description="Kind of the fake features.")
    n_fakes: int = Field(30, description="How many of them.")
    shift: bool = Field(False, description="Move the real features to other columns as time goes on.")
    budget: float = Field(1.0, description="Orders per step.")
    effort: Literal["quick", "normal", "thorough"] | float = Field("quick", description="Multiple of the training steps.")
    seed: int = Field(0, description="Of fakes, splits, weights and training noise.")
    out: Path = Field(Path("runs/demo"), description="Folder for runs, figures and records.")
    record: Path | None = Field(None, description="Write spec and result of each run to this JSON file, too.")
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(False, description="No progress.")


class GridArgs(_Args):
    """For verbs that run many specs."""

    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="WORD")] = Field(
        (), description="Part of the grid: data sets, fakes, plain or shifted, acquirers (m-forda noise gp learned)."
    )
    seeds: int | None = Field(None, description="Per setting (default: 4 and 5 as in the paper).")
    jobs: int = Field(1, description="Runs at once.")
    engine: Literal["joblib", "ray"] = Field("joblib", description="This machine, or a Ray cluster.")
    address: str | None = Field(None, description="ray: of the cluster (auto = the one here); else one is started.")
    out: Path = Field(Path("results/paper"), description="Folder for records, summary, tables and figures.")
    runs: Path = Field(Path("runs/paper"), description="Folder for the runs themselves.")
    quiet: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(False, description="No progress.")


class PaperArgs(GridArgs):
    """Run the paper's grid in the paper's settings, or what is left of it: tables, figures and a record per run.

    Finished runs are never run again; the same command goes on where it was stopped, in several processes if you like.
    """

    epochs: int | None = Field(None, description="Other than the paper's, for a trial.")


class AdaptiveArgs(GridArgs):
    """Run every objective on the synthetic tasks that need reacting or planning, against their exact optimum.

    As `whichwhen paper`: finished runs are never run again.
    """

    only: Annotated[tuple[str, ...], tyro.conf.arg(metavar="WORD")] = Field(
        (), description="Part of the grid: tasks (synthetic:pointer), acquirers, objectives."
    )
    seeds: int | None = Field(None, description="Per task and method (default: 5).")
    effort: Literal["quick", "normal", "thorough"] | float = Field("normal", description="Multiple of the training steps.")
    out: Path = Field(Path("results/adaptive"), description="Folder for records and summary.")
    runs: Path = Field(Path("runs/adaptive"), description="Folder for the runs themselves.")


class ReportArgs(_Args):
    """Write one HTML page of a grid, a demo or a run: tables, figures, a heat map of requests. It needs no network.

    Beside a grid's records, its tables (Markdown, LaTeX) and figures (PNG, PDF) are written anew, too.
    """

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")] = Field(
        description="Folder of `whichwhen paper`, `demo` or `train`."
    )
    out: Path | None = Field(None, description="The page (default: DIR/report.html).")
    values: Annotated[bool, tyro.conf.FlagCreatePairsOff] = Field(
        False, description="Show measured values and ids of single series. They may be somebody's data."
    )


class BenchArgs(BaseModel):
    """Measure what acquisition costs beside the bare predictor; exit code 1 where a limit is missed."""

    model_config = ConfigDict(frozen=True)

    json_: Annotated[bool, tyro.conf.arg(name="json"), tyro.conf.FlagCreatePairsOff] = Field(
        False, description="Print one JSON document instead of tables."
    )
    rounds: int = Field(9, description="Turns that each of the ways takes.")
    out: Path | None = Field(None, description="Write the JSON document to this file, too.")
