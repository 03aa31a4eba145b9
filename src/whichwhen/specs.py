"""What a run is made of, as plain data. No torch here: the command line reads these for ``--help`` in well under a second.

One field = one flag = its help text = one line of the docs. :class:`RunSpec` is what ``spec.json`` holds and what a run can
be started again from. Field names are the flags of ``whichwhen train``; the machine's own matters (device, data folder, out
folder) are not part of a spec.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeVar

import tyro
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from whichwhen.errors import SpecError

AcquirerKind = Literal["learned", "random", "static", "static-by-time", "table", "complete", "none", "oracle"]
PredictorKind = Literal["conv", "lstm", "gru", "transformer"]
FakeKind = Literal["none", "zeros", "noise", "gp"]


class Spec(BaseModel):
    """Base of all specs: immutable, no unknown fields, range errors in the project's own words."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")

    @model_validator(mode="after")
    def _check(self) -> Spec:
        self.check()
        return self

    def check(self) -> None:
        """Raise :class:`SpecError` where a field is out of range."""

    def _at_least(self, least: float, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= least):
                flag = self._flag(name)
                raise SpecError(f"{flag[2:]} is {value}", expected=f"at least {least:g}", do=f"change {flag}")

    @classmethod
    def _flag(cls, name: str) -> str:
        """What a field is called on the command line."""
        named = [found for part in cls.model_fields[name].metadata if (found := getattr(part, "name", None))]
        return f"--{named[0] if named else name.replace('_', '-')}"


S = TypeVar("S", bound=Spec)
_LATER: dict[str, Any] = {"later": True}
"""Marks a field that came after runs had been recorded: at its default it stays out of the hash, so that they keep theirs."""


_Columns = Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="COLUMN ...")]
_Column = Annotated[str | None, tyro.conf.arg(metavar="COLUMN")]
_File = Annotated[str | None, tyro.conf.arg(metavar="FILE")]


class TableSpec(Spec):
    """How to read a table of one's own: what its columns are, its grid of steps, its test part. See docs/own-data.md.

    All fields are left out of hashes at their defaults. With a digest, a hash holds the names of the files without their
    folders: it is then the same on each machine that has the same content.
    """

    model_config = ConfigDict(coerce_numbers_to_str=True)  # step=1 is as good as step="1"

    id: _Column = Field(
        None, description="own table: column that says which series a row belongs to.", json_schema_extra=_LATER
    )
    time: _Column = Field(None, description="own table: column of times, numbers or dates.", json_schema_extra=_LATER)
    label: _Column = Field(None, description="own table: column of the class.", json_schema_extra=_LATER)
    layout: Literal["auto", "long", "wide"] = Field(
        "auto",
        description="own table: long = one measurement a row, wide = one step a row; auto = long where the columns of "
        "--feature and --value are there.",
        json_schema_extra=_LATER,
    )
    feature: str = Field(
        "feature", description="own table, long: column with the name of what was measured.", json_schema_extra=_LATER
    )
    value: str = Field("value", description="own table, long: column with what was found.", json_schema_extra=_LATER)
    labels: _File = Field(
        None,
        description="own table: a second table with one row a series: id, label, and what else belongs to a series.",
        json_schema_extra=_LATER,
    )
    label_each_step: bool = Field(
        False, description="own table: the label changes within a series on purpose, one a step.", json_schema_extra=_LATER
    )
    static: _Columns = Field(
        None, description="own table: columns that are the same in all rows of a series: known, free.", json_schema_extra=_LATER
    )
    ignore: _Columns = Field(None, description="own table: columns or features to leave out.", json_schema_extra=_LATER)
    group: _Column = Field(
        None, description="own table: column whose equal values (one patient) are never split.", json_schema_extra=_LATER
    )
    weight: _Column = Field(
        None, description="own table: column of how much a series counts in training.", json_schema_extra=_LATER
    )
    subgroups: _Columns = Field(None, description="own table: columns to report metrics by.", json_schema_extra=_LATER)
    step: Annotated[str | None, tyro.conf.arg(metavar="WIDTH")] = Field(
        None,
        description="own table: width of a step: a number in the unit of --time, or 30s, 15m, 1h, 1d for dates; by default the "
        "largest one that all times are multiples of.",
        json_schema_extra=_LATER,
    )
    test: _File = Field(None, description="own table: the table to test on.", json_schema_extra=_LATER)
    test_share: float = Field(
        0.2, description="own table: share of the series to test on, where there is no --test.", json_schema_extra=_LATER
    )
    menu: _File = Field(None, description="YAML or CSV file of what can be ordered and for how much.", json_schema_extra=_LATER)
    digest: Annotated[str | None, tyro.conf.arg(metavar="SHA256")] = Field(
        None, description="own table: of its files' content; `train` fills it in, and it is checked.", json_schema_extra=_LATER
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Columns that hold names of series and of groups."""
        return tuple(dict.fromkeys(name for name in (self.id, self.group) if name))

    def check(self) -> None:  # noqa: D102 (inherited)
        if not 0 < self.test_share < 1:
            raise SpecError(f"test-share is {self.test_share}", expected="a share between 0 and 1, say 0.2")
        if self.label_each_step and self.labels:
            raise SpecError(
                "--labels and --label-each-step together", expected="one of them", do="put the labels into the table itself"
            )
        _refuse_two_roles(self)

    @property
    def given(self) -> tuple[str, ...]:
        """Names of the fields about a table that are not at their defaults."""
        fields = TableSpec.model_fields
        return tuple(name for name in fields if name != "menu" and getattr(self, name) != fields[name].default)


def _refuse_two_roles(spec: TableSpec) -> None:
    """One column can't be two things. A series' own group or subgroup may be known to the model, too."""
    roles: dict[str, str] = {}
    single = [("id", spec.id), ("time", spec.time), ("label", spec.label), ("weight", spec.weight)]
    if spec.layout == "long":
        single += [("feature", spec.feature), ("value", spec.value)]
    several = [(role, name) for role in ("static", "ignore") for name in getattr(spec, role) or ()]
    for role, name in [*single, *several]:
        if name is None:
            continue
        if name in roles:
            raise SpecError(
                f"column {name!r} is --{roles[name]} and --{role}", expected="another column for each", do=f"change --{role}"
            )
        roles[name] = role
    for role, name in [("group", spec.group), *(("subgroups", name) for name in spec.subgroups or ())]:
        if name and roles.get(name) in ("time", "label", "weight", "ignore", "feature", "value"):
            raise SpecError(f"column {name!r} is --{roles[name]} and --{role}", do=f"change --{role}")


class DataSpec(TableSpec):
    """Which series, and what is added to them."""

    name: Annotated[str, tyro.conf.arg(metavar="DATASET"), tyro.conf.Positional] = Field(
        "japanese-vowels",
        description="m-forda, spoken-arabic-digits, japanese-vowels, physionet2012, physionet2019, ucr:NAME, synthetic:TASK, "
        "your own table's file, or a folder that `whichwhen pack` wrote.",
    )
    m: int = Field(10, description="m-forda: consecutive samples that become the features of one step.")
    fakes: FakeKind = Field("none", description="Features without information to add.")
    n_fakes: int = Field(30, description="How many of them.")
    shift: bool = Field(False, description="Move the real features to other columns as time goes on.")
    validation: float = Field(0.2, description="Share of the training part that is held out for model choice.")
    costs: Literal["equal", "rising"] = Field(
        "equal",
        description="Without a menu: every feature costs 1, or the real ones 1, 2, 3, … in their order and fakes 1.",
        json_schema_extra=_LATER,
    )
    hours: int = Field(
        1, description="physionet: hours that become one step; the last value in them counts.", json_schema_extra=_LATER
    )
    longest: int | None = Field(None, description="physionet2019: hours to cut a stay after.", json_schema_extra=_LATER)
    control: Literal["none", "mask-only", "time-only"] = Field(
        "none",
        description="physionet: hide all values and show only which were measured, or not even that: what results are held "
        "against.",
        json_schema_extra=_LATER,
    )

    def check(self) -> None:  # noqa: D102 (inherited)
        super().check()
        self._at_least(1, "m", "n_fakes", "hours")
        if self.longest is not None:
            self._at_least(2, "longest")
        for name, usual in (("hours", 1), ("longest", None), ("control", "none")):
            if getattr(self, name) != usual and not self.name.startswith("physionet"):
                raise SpecError(f"--{name} with {self.name}", expected="physionet2012 or physionet2019", do="leave it out")
        if self.costs == "rising" and (self.shift or self.menu is not None):
            raise SpecError("rising costs with shifted features or a menu", expected="neither", do="leave out --costs")
        if not 0 < self.validation < 1:
            raise SpecError(f"validation is {self.validation}", expected="a share between 0 and 1, say 0.2")
        if self.shift and self.fakes == "none":
            raise SpecError("shift without fakes", expected="fake features to shift among", do="add --fakes noise")


class BudgetSpec(Spec):
    """How much may be spent."""

    per_step: Annotated[float, tyro.conf.arg(name="budget")] = Field(
        5.0, description="What may be spent at each step; every order costs 1, so this is a number of orders."
    )

    total: float | None = Field(
        None, description="What may be spent over a whole series, instead of at each step.", json_schema_extra=_LATER
    )
    pace: Literal["even", "saving", "open", "price"] = Field(
        "even",
        description="total: it becomes available evenly over the steps, and buys the best that it can pay for, or is saved for "
        "the best that there is; or is open from the first step on; or is spent on what is worth a price that is learned on "
        "validation. (--objective value: in training; then at a price.)",
        json_schema_extra=_LATER,
    )
    advance: float = Field(
        0.0,
        description="total, even or saving: so much of it is available from the first step on.",
        json_schema_extra=_LATER,
    )
    price: float | None = Field(
        None,
        description="Buy what is worth more than this times its cost, instead of a budget. (--objective value, random and "
        "static: train with --budget, then `evaluate --price`.)",
        json_schema_extra=_LATER,
    )
    cap: float | None = Field(None, description="price: what may be spent at each step at most.", json_schema_extra=_LATER)
    bill: Literal["requested", "delivered"] = Field(
        "requested",
        description="total: whether a request that the record can't answer counts.",
        json_schema_extra=_LATER,
    )
    train_range: Annotated[tuple[float, float] | None, tyro.conf.arg(name="train-budgets", metavar="LOW HIGH")] = Field(
        None,
        description="Draw each series' budget (total, price) anew in each epoch of training, from LOW to HIGH: one model for "
        "all of them.",
        json_schema_extra=_LATER,
    )

    train_draw: Literal["log", "even"] = Field(
        "log",
        description="train-budgets: draw their logarithm evenly, so that small ones, where each request counts, come up more "
        "often; or all budgets per step alike.",
        json_schema_extra=_LATER,
    )

    @property
    def kind(self) -> Literal["per-step", "total", "price"]:
        """Which of them counts."""
        return "price" if self.price is not None else "total" if self.total is not None else "per-step"

    @property
    def priced(self) -> bool:
        """Whether orders have to be worth a price."""
        return self.kind == "price" or (self.kind == "total" and self.pace == "price")

    def at(self, per_step: float | None = None, total: float | None = None, price: float | None = None) -> BudgetSpec:
        """Another amount, per step, in total or at a price, under the same rules: pace, bill and advance, or cap."""
        rules: dict[str, Any] = {}
        if total is not None:
            rules = {"pace": self.pace, "bill": self.bill, "advance": min(self.advance, total)}
        elif price is not None:
            rules = {"cap": self.cap}
        return BudgetSpec(per_step=self.per_step if per_step is None else per_step, total=total, price=price, **rules)

    def check(self) -> None:  # noqa: D102 (inherited)
        if self.cap is not None and self.price is None:
            raise SpecError(f"cap {self.cap:g} without a price", expected="both or neither", do="use --budget")
        for name, usual in (("pace", "even"), ("bill", "requested"), ("advance", 0)):
            if self.total is None and getattr(self, name) != usual:
                raise SpecError(f"{name} {getattr(self, name)} without a total", expected="both or neither", do="add --total")
        if not (math.isfinite(self.advance) and self.advance >= 0):
            raise SpecError(f"advance is {self.advance:g}", expected="0 or more", do="change --advance")
        if self.total is not None and self.advance > self.total:
            raise SpecError(
                f"advance {self.advance:g} of a total of {self.total:g}", expected="less than the total", do="use --pace open"
            )
        if self.advance and self.pace not in ("even", "saving"):
            raise SpecError(
                f"advance {self.advance:g} with pace {self.pace}",
                expected="a total that becomes available step by step",
                do="use --pace even or saving, or leave out --advance",
            )
        if self.price is not None and self.total is not None:
            raise SpecError(f"total {self.total:g} and price {self.price:g}", expected="one of them")
        for name in ("total", "price", "cap"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise SpecError(f"{name} is {value:g}", expected="more than 0", do=f"change --{name}")
        if self.train_draw == "even" and self.kind != "per-step":
            raise SpecError(
                "train-draw even with a total or a price", expected="a budget per step", do="leave out --train-draw"
            )
        if self.train_range is not None:
            low, high = self.train_range
            least = 1 if self.kind == "per-step" else 0
            if not (least <= low <= high and low > 0 and math.isfinite(high)):
                words = "from 1" if least else "above 0"
                raise SpecError(f"train-budgets is {low:g} {high:g}", expected=f"two numbers {words}, the lower one first")
        if not (math.isfinite(self.per_step) and self.per_step > 0):
            raise SpecError(
                f"budget is {self.per_step:g}",
                expected="more than 0",
                do="use --acquirer none for a policy that measures nothing",
            )


class AcquirerSpec(Spec):
    """Who decides what is measured next."""

    kind: Annotated[AcquirerKind, tyro.conf.arg(name="acquirer")] = Field("learned", description="The mechanism.")
    hidden: Annotated[int, tyro.conf.arg(name="acquirer-hidden")] = Field(
        32, description="learned: units of the one hidden layer."
    )
    time_features: Annotated[int, tyro.conf.arg(name="acquirer-time-features")] = Field(
        8, description="learned: Fourier frequencies of the time step; 0 = the bare step number, as in the paper."
    )
    context: Annotated[bool, tyro.conf.arg(name="acquirer-context")] = Field(
        False, description="learned: read the predictor's state, too."
    )
    budget: Annotated[bool, tyro.conf.arg(name="acquirer-budget")] = Field(
        False, description="learned: read how much may be spent, too.", json_schema_extra=_LATER
    )
    value_features: Annotated[int, tyro.conf.arg(name="acquirer-value-features")] = Field(
        0,
        description="learned: Fourier frequencies of each value among the inputs; 0 = the bare value.",
        json_schema_extra=_LATER,
    )
    memory: Annotated[int, tyro.conf.arg(name="acquirer-memory")] = Field(
        0, description="learned: units of a recurrent memory (GRU) of what it has seen; 0 = none.", json_schema_extra=_LATER
    )
    freshness: Annotated[bool, tyro.conf.arg(name="acquirer-freshness")] = Field(
        False,
        description="learned: read how long ago each feature was last sampled, too, so that it can take turns.",
        json_schema_extra=_LATER,
    )
    turns: Annotated[bool, tyro.conf.arg(name="acquirer-turns")] = Field(
        False,
        description="learned: add to the score of each order how long it is since what it reveals was last asked for, with a "
        "weight of its own: where a few of many slow features can be had at a step.",
        json_schema_extra=_LATER,
    )
    values: Annotated[bool, tyro.conf.arg(name="acquirer-values")] = Field(
        True,
        description="learned: read the values that were measured, not only which and when; without them it can't react to "
        "what it sees, nor be misled by values of a kind that training did not have.",
        json_schema_extra=_LATER,
    )
    prior: Annotated[bool, tyro.conf.arg(name="acquirer-prior")] = Field(
        False,
        description="learned, table: start from a random forest's ranking, as static has it, per unit of what an order is "
        "expected to cost: where there is little to learn from.",
        json_schema_extra=_LATER,
    )
    trees: int = Field(1000, description="static, static-by-time, and acquirer-prior: trees of the random forest.")
    segments: int = Field(10, description="static-by-time: equal parts of the time axis, each with its own choice.")

    def check(self) -> None:  # noqa: D102 (inherited)
        self._at_least(1, "hidden", "trees", "segments")
        self._at_least(0, "time_features", "value_features", "memory")
        if self.value_features and not self.values:
            raise SpecError("waves of values that are not read", expected="--acquirer-value-features 0, or --acquirer-values")
        if self.context and not self.values:
            raise SpecError(
                "context, in which the values are, without values",
                expected="--no-acquirer-context, or --acquirer-values",
            )


class PredictorSpec(Spec):
    """Who reads what was measured."""

    kind: Annotated[PredictorKind, tyro.conf.arg(name="predictor")] = Field("conv", description="The architecture.")
    width: Annotated[int, tyro.conf.arg(name="width")] = Field(32, description="Units per layer.")
    layers: Annotated[int, tyro.conf.arg(name="layers")] = Field(4, description="Layers, or residual blocks.")
    head: Annotated[int, tyro.conf.arg(name="head")] = Field(
        0, description="lstm, gru: units of the linear layer before the logits; 0 = none."
    )
    dropout: Annotated[float, tyro.conf.arg(name="dropout")] = Field(0.1, description="Share of units dropped.")
    time_features: Annotated[int, tyro.conf.arg(name="predictor-time-features")] = Field(
        8, description="Fourier frequencies of the time step among the inputs; 0 = no time."
    )
    carry: bool = Field(
        False,
        description="Show the last known value of each feature and how fresh it is, too: for series with few measurements.",
        json_schema_extra=_LATER,
    )
    hinges: bool = Field(
        False,
        description="conv, lstm, gru: read of each value, besides, how far it is above and how far below the usual, and cut it "
        "off at 3 standard deviations: where too high and too low both mean something, as of laboratory tests.",
        json_schema_extra=_LATER,
    )
    time_gate: Annotated[bool, tyro.conf.arg(name="time-gate")] = Field(
        False,
        description="conv: let each column count for more or less as time goes on.",
        json_schema_extra=_LATER,
    )
    bins: int = Field(
        0,
        description="conv, lstm, gru: read each value, besides, by where it lies among so many parts of equal weight of the "
        "training values: where they have long tails, as laboratory tests do; 0 = not.",
        json_schema_extra=_LATER,
    )
    now: Annotated[bool, tyro.conf.arg(name="predictor-now")] = Field(
        False,
        description="conv: read the present beside the mean over the steps so far: where the label changes from step to step.",
        json_schema_extra=_LATER,
    )

    def check(self) -> None:  # noqa: D102 (inherited)
        self._at_least(1, "width", "layers")
        self._at_least(0, "head", "time_features", "bins")
        if not 0 <= self.dropout < 1:
            raise SpecError(f"dropout is {self.dropout}", expected="a share from 0 to below 1")
        if self.hinges and self.kind == "transformer":
            raise SpecError("hinges in a transformer", expected="conv, lstm or gru", do="use --no-hinges")
        if self.bins and self.kind == "transformer":
            raise SpecError("bins in a transformer", expected="conv, lstm or gru", do="use --bins 0")
        if self.now and self.kind != "conv":
            raise SpecError(
                f"predictor-now for {self.kind}", expected="conv: the others read the present anyway", do="leave it out"
            )


class SelectorSpec(Spec):
    """How scores become requests in training. Evaluation always takes the highest scores."""

    kind: Annotated[Literal["top-k", "sequential"], tyro.conf.arg(name="selector")] = Field(
        "top-k", description="One Gumbel perturbation and the top k of it, or the paper's draws one after the other."
    )
    temperature: float = Field(1.0, description="Of the relaxation that the gradient is taken from.")
    repeat: Literal["mask", "penalty"] = Field(
        "mask", description="sequential: how a second draw of an order is kept away; penalty = the paper's 100·m·|l|."
    )

    def check(self) -> None:  # noqa: D102 (inherited)
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise SpecError(f"temperature is {self.temperature}", expected="more than 0")


class TrainingSpec(Spec):
    """How acquirer and predictor learn."""

    epochs: int = Field(60, description="Passes over the training split.")
    batch_size: int = Field(256, description="Series per gradient step.")
    learning_rate: float = Field(5e-3, description="Of AdamW.")
    acquirer_rate: float = Field(
        1.0, description="The acquirer's learning rate, as a multiple of the predictor's.", json_schema_extra=_LATER
    )
    weight_decay: float = Field(1e-4, description="Of AdamW; 0 makes it Adam.")
    schedule: Literal["cosine", "constant"] = Field("cosine", description="Of the learning rate.")
    clip: float = Field(1.0, description="Largest norm of the gradient; 0 = no limit.")
    gradient: Literal["detached", "full"] = Field(
        "detached",
        description="full = the acquirer also learns from how a request changes its own later inputs, as in the paper; "
        "detached = not, which is far steadier.",
    )
    objective: Literal["end-to-end", "greedy-cmi", "value", "foresight"] = Field(
        "end-to-end",
        description="What the acquirer learns from: the prediction loss; the prediction right after a request; the drop of the "
        "loss per order, in nats; the prediction loss and a policy gradient that credits requests with what came of them.",
        json_schema_extra=_LATER,
    )
    sharpen: float = Field(
        1.0,
        description="Multiply the scores by more and more in training, by this much in the last epoch: the draws become as "
        "certain as they are in evaluation (a falling temperature); 1 = never.",
        json_schema_extra=_LATER,
    )
    explore: float = Field(
        0.0,
        description="learned, table: share of the series that ask at random in an epoch of training, so that the predictor "
        "does not forget what the acquirer no longer asks for.",
        json_schema_extra=_LATER,
    )
    thrift: float = Field(
        0.0,
        description="learned, table, where costs differ, or how often the record has an answer: bill requests in training "
        "at so many times what a unit of money brings in the mean: what costs much has to bring much; 0 = not, 1 = in full.",
        json_schema_extra=_LATER,
    )
    jitter: float = Field(
        0.0,
        description="Move each feature of a series up or down, anew in each epoch, by a random amount with this standard "
        "deviation (of scaled values): for test series from other people or devices than those of training.",
        json_schema_extra=_LATER,
    )
    stretch: float = Field(
        0.0,
        description="Make each series faster or slower, anew in each epoch, by a random factor of at most e to this, none "
        "longer than the longest of its batch: for test series with another pace than those of training.",
        json_schema_extra=_LATER,
    )
    step_loss: float = Field(0.3, description="Weight of the loss of the later half's steps beside the last step's.")
    class_weight: Literal["none", "balanced"] = Field(
        "none",
        description="balanced: classes count the same in the loss, however rare they are.",
        json_schema_extra=_LATER,
    )
    choose_by: Literal["accuracy", "loss", "auroc", "last"] = Field(
        "accuracy", description="Validation metric, with hard selection, that picks the epoch to keep; or simply the last."
    )
    warm_up: int = Field(
        0, description="Of the epochs, so many at the start for the predictor alone, on random masks of any size."
    )
    level_gain: float = Field(
        0.0,
        description="Stop once validation has levelled off: the best accuracy gained less than this over the last fifth of "
        "the epochs so far, after it had risen above a guess at all (by .05); 0 = never.",
    )
    min_epochs: int = Field(0, description="Epochs before levelling off or lost patience may stop a run.")
    patience: int = Field(0, description="Stop after so many epochs without a better one; 0 = never.")
    save_epochs: bool = Field(False, description="Keep the weights of each epoch, for test curves drawn afterwards.")

    def check(self) -> None:  # noqa: D102 (inherited)
        self._at_least(1, "epochs", "batch_size", "sharpen")
        self._at_least(
            0, "weight_decay", "clip", "step_loss", "jitter", "patience", "warm_up", "level_gain", "min_epochs", "thrift"
        )
        if not 0 <= self.stretch <= 1:
            raise SpecError(f"stretch is {self.stretch}", expected="from 0 to 1", do="change --stretch")
        if self.warm_up >= self.epochs:
            raise SpecError(
                f"warm-up is {self.warm_up} of {self.epochs} epochs", expected="fewer than all", do="lower --warm-up"
            )
        if not 0 <= self.explore < 1:
            raise SpecError(f"explore is {self.explore}", expected="a share from 0 to below 1", do="change --explore")
        for name in ("learning_rate", "acquirer_rate"):
            if not (math.isfinite(rate := getattr(self, name)) and rate > 0):
                flag = self._flag(name)
                raise SpecError(f"{flag[2:]} is {rate}", expected="more than 0", do=f"change {flag}")


_Flat = tyro.conf.arg(name="")


class RunSpec(Spec):
    """A whole run: data, budget, models, training and the seed that all randomness starts from."""

    data: Annotated[DataSpec, _Flat] = DataSpec()
    budget: Annotated[BudgetSpec, _Flat] = BudgetSpec()
    acquirer: Annotated[AcquirerSpec, _Flat] = AcquirerSpec()
    predictor: Annotated[PredictorSpec, _Flat] = PredictorSpec()
    selector: Annotated[SelectorSpec, _Flat] = SelectorSpec()
    training: Annotated[TrainingSpec, _Flat] = TrainingSpec()
    seed: int = Field(0, description="Of fakes, splits, weights and training noise.")

    def check(self) -> None:  # noqa: D102 (inherited)
        self._at_least(0, "seed")
        if self.budget.priced and self.acquirer.kind in ("random", "static", "static-by-time", "oracle"):
            price = "--price" if self.budget.kind == "price" else "--pace price"
            instead = "a budget, and the price in `whichwhen evaluate RUN --price`" if price == "--price" else "another pace"
            raise SpecError(
                f"{price} with acquirer {self.acquirer.kind}, whose scores say nothing about worth",
                expected="learned or table",
                do=f"train it with {instead}",
            )
        if self.budget.pace == "saving":
            if self.selector.kind == "sequential":
                raise SpecError("pace saving with the paper's selector", expected="top-k", do="use --selector top-k")
            if self.training.objective == "foresight":  # it would have to know how likely it was to wait
                raise SpecError("pace saving with foresight", expected="another pace or objective", do="use --pace even")
        self._check_money()
        if self.training.stretch and self.data.shift:
            raise SpecError(
                f"stretch {self.training.stretch:g} with shifted features",
                expected="one of them: at another pace, features would move at other times than in the test series",
                do="use --stretch 0",
            )

    def _check_money(self) -> None:
        """Refuse thrift and prior where they would do nothing, or mean nothing."""
        for flag, given in (("thrift", self.training.thrift), ("acquirer-prior", self.acquirer.prior)):
            if given and self.acquirer.kind not in ("learned", "table"):
                raise SpecError(
                    f"{flag} with acquirer {self.acquirer.kind}", expected="learned or table", do=f"leave out --{flag}"
                )
            if given and self.budget.priced:
                raise SpecError(f"{flag} with a price", expected="a budget per step or in total", do=f"leave out --{flag}")
        if self.training.thrift and (self.training.objective != "end-to-end" or self.training.gradient == "full"):
            full = self.training.objective == "end-to-end"
            raise SpecError(
                f"thrift with {'the full gradient' if full else f'objective {self.training.objective}'}",
                expected="end-to-end with the detached gradient",
                do="leave out --thrift",
            )
        if self.acquirer.prior and self.training.objective == "value":
            raise SpecError(
                "acquirer-prior with scores in nats",
                expected="another objective: a forest knows ranks, not drops of the loss",
                do="leave out --acquirer-prior",
            )

    @property
    def hash(self) -> str:
        """A short name of the content: equal specs have equal hashes, those of earlier versions too."""
        content = self.model_dump(mode="json")
        for name in type(self).model_fields:
            part = getattr(self, name)
            if isinstance(part, Spec):
                for field, facts in type(part).model_fields.items():
                    if facts.json_schema_extra == _LATER and getattr(part, field) == facts.default:
                        del content[name][field]
        if self.data.digest:
            files = {"name", "labels", "test", "menu"} & set(content["data"])
            content["data"] |= {field: PurePath(content["data"][field]).name for field in files}
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def change(self, **changes: Any) -> RunSpec:
        """The same spec with other fields, given as ``part__field=value`` or ``seed=value``."""
        content = self.model_dump()
        for path, value in changes.items():
            *parents, leaf = path.split("__")
            target = content
            for parent in parents:
                target = target[parent]
            target[leaf] = value
        return RunSpec.model_validate(content)


def parse_spec(kind: type[S], content: object, source: str) -> S:
    """A spec from plain data; ``source`` names it in the error."""
    try:
        return kind.model_validate(content)
    except SpecError as error:
        raise SpecError(f"{source}: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SpecError(
            f"{source}: {where or 'the content'}: {first['msg']}",
            expected=f"a {kind.__name__} as `whichwhen train` writes it",
            do="undo the edit",
        ) from None
