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

AcquirerKind = Literal[
    "learned", "learned-only", "round-robin", "static", "static-by-time", "table", "random", "complete", "none", "oracle"
]
RULES: tuple[AcquirerKind, ...] = ("none", "static", "round-robin", "static-by-time")
"""Fixed rules, the simplest first: what a learned acquirer is compared with on validation."""
LEARNING: tuple[AcquirerKind, ...] = ("learned", "learned-only", "table")
"""Acquirers with weights of their own."""
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
RECIPE, EPOCHS = 5, 3
"""Part of every hash: what the recipe, or training in epochs, means by a spec; raised when that changes."""

_Columns = Annotated[tuple[str, ...] | None, tyro.conf.arg(metavar="COLUMN ...")]
_Column = Annotated[str | None, tyro.conf.arg(metavar="COLUMN")]
_File = Annotated[str | None, tyro.conf.arg(metavar="FILE")]


class TableSpec(Spec):
    """How to read a table of one's own: what its columns are, its grid of steps, its test part. See docs/own-data.md.

    With a digest, a hash holds the names of the files without their
    folders: it is then the same on each machine that has the same content.
    """

    model_config = ConfigDict(coerce_numbers_to_str=True)  # step=1 is as good as step="1"

    id: _Column = Field(None, description="own table: column that says which series a row belongs to.")
    time: _Column = Field(None, description="own table: column of times, numbers or dates.")
    label: _Column = Field(None, description="own table: column of the class.")
    layout: Literal["auto", "long", "wide"] = Field(
        "auto",
        description="own table: long = one measurement a row, wide = one step a row; auto = long where the columns of "
        "--feature and --value are there.",
    )
    feature: str = Field("feature", description="own table, long: column with the name of what was measured.")
    value: str = Field("value", description="own table, long: column with what was found.")
    labels: _File = Field(
        None,
        description="own table: a second table with one row a series: id, label, and what else belongs to a series.",
    )
    label_each_step: bool = Field(False, description="own table: the label changes within a series on purpose, one a step.")
    static: _Columns = Field(None, description="own table: columns that are the same in all rows of a series: known, free.")
    ignore: _Columns = Field(None, description="own table: columns or features to leave out.")
    group: _Column = Field(None, description="own table: column whose equal values (one patient) are never split.")
    weight: _Column = Field(None, description="own table: column of how much a series counts in training.")
    subgroups: _Columns = Field(None, description="own table: columns to report metrics by.")
    step: Annotated[str | None, tyro.conf.arg(metavar="WIDTH")] = Field(
        None,
        description="own table: width of a step: a number in the unit of --time, or 30s, 15m, 1h, 1d for dates; by default the "
        "largest one that all times are multiples of.",
    )
    test: _File = Field(None, description="own table: the table to test on.")
    test_share: float = Field(0.2, description="own table: share of the series to test on, where there is no --test.")
    menu: _File = Field(None, description="YAML or CSV file of what can be ordered and for how much.")
    digest: Annotated[str | None, tyro.conf.arg(metavar="SHA256")] = Field(
        None, description="own table: of its files' content; `train` fills it in, and it is checked."
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
    )
    hours: int = Field(1, description="physionet: hours that become one step; the last value in them counts.")
    longest: int | None = Field(None, description="physionet2019: hours to cut a stay after.")
    control: Literal["none", "mask-only", "time-only"] = Field(
        "none",
        description="physionet: hide all values and show only which were measured, or not even that: what results are held "
        "against.",
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
    """How much may be spent.

    One of ``mean_cost``, ``price`` and ``total``, or none of them; ``per_step`` is a cap at each step beside any of them, and
    what counts where none is given.
    """

    per_step: Annotated[float | None, tyro.conf.arg(name="budget")] = Field(
        None,
        description="What may be spent at each step at most. Without a menu every order costs 1, so this is a number of "
        "orders. By default what fits the menu: five orders, but at most a quarter of the menu.",
    )
    mean_cost: float | None = Field(
        None, description="What may be spent per step on average over the validation series, more at some steps than at others."
    )
    price: float | None = Field(
        None, description="Ask for an order when it is worth more than this times its cost, in nats of prediction loss."
    )
    total: float | None = Field(None, description="What may be spent over a whole series; never more.")
    bill: Literal["requested", "delivered"] = Field(
        "requested", description="Whether a request that the record can't answer is billed."
    )

    @property
    def kind(self) -> Literal["per-step", "mean-cost", "price", "total"]:
        """Which of them counts."""
        return next((name for name in _AMOUNTS if getattr(self, name.replace("-", "_")) is not None), "per-step")

    @property
    def amount(self) -> float | None:
        """Of that kind; None = per step, what fits the menu."""
        amount: float | None = getattr(self, self.kind.replace("-", "_"))
        return amount

    def at(
        self,
        per_step: float | None = None,
        mean_cost: float | None = None,
        price: float | None = None,
        total: float | None = None,
    ) -> BudgetSpec:
        """Another amount of some kind, billed in the same way."""
        return BudgetSpec(per_step=per_step, mean_cost=mean_cost, price=price, total=total, bill=self.bill)

    def __str__(self) -> str:
        if self.amount is None:
            return "the default budget per step"
        if self.kind == "per-step":
            return f"budget {self.amount:g} per step"
        words = f"mean cost {self.amount:g} per step" if self.kind == "mean-cost" else f"{self.kind} {self.amount:g}"
        return words if self.per_step is None else f"{words}, at most {self.per_step:g} per step"

    def check(self) -> None:  # noqa: D102 (inherited)
        given = [name for name in _AMOUNTS if getattr(self, name.replace("-", "_")) is not None]
        if len(given) > 1:
            raise SpecError(f"--{' and --'.join(given)} together", expected="one of them", do="leave the others out")
        for name in ("mean_cost", "price", "total", "per_step"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value > 0):
                flag = self._flag(name)
                do = f"change {flag}, or use --acquirer none for a policy that measures nothing"
                raise SpecError(f"{flag[2:]} is {value:g}", expected="a finite number above 0", do=do)
        if self.mean_cost is not None and self.per_step is not None and self.mean_cost > self.per_step:
            raise SpecError(
                f"a mean cost of {self.mean_cost:g} with at most {self.per_step:g} at each step",
                expected="a mean cost below the cap",
                do="raise --budget, or lower --mean-cost",
            )


_AMOUNTS: tuple[Literal["mean-cost", "price", "total"], ...] = ("mean-cost", "price", "total")


class AcquirerSpec(Spec):
    """Who decides what is measured next."""

    kind: Annotated[AcquirerKind, tyro.conf.arg(name="acquirer")] = Field(
        "learned",
        description="The mechanism. learned = the network, or the best fixed rule where validation finds it as good; "
        "learned-only = the network whatever validation says.",
    )
    hidden: Annotated[int, tyro.conf.arg(name="acquirer-hidden")] = Field(
        32, description="learned: units of the one hidden layer."
    )
    time_features: Annotated[int, tyro.conf.arg(name="acquirer-time-features")] = Field(
        8, description="learned: Fourier frequencies of the time step; 0 = the bare step number, as in the paper."
    )
    context: Annotated[bool, tyro.conf.arg(name="acquirer-context")] = Field(
        False, description="learned: read the predictor's inner state instead of its prediction."
    )
    value_features: Annotated[int, tyro.conf.arg(name="acquirer-value-features")] = Field(
        0, description="learned: Fourier frequencies of each value among the inputs; 0 = the bare value."
    )
    memory: Annotated[int, tyro.conf.arg(name="acquirer-memory")] = Field(
        0, description="learned: units of a recurrent memory (GRU) of what it has seen; 0 = none."
    )
    trees: int = Field(1000, description="epochs: trees of the random forest that static is ranked by, as in the paper.")
    segments: int = Field(10, description="static-by-time: equal parts of the time axis, each with its own choice.")

    def check(self) -> None:  # noqa: D102 (inherited)
        self._at_least(1, "hidden", "trees", "segments")
        self._at_least(0, "time_features", "value_features", "memory")


WIDTH = 32
"""Units per layer of a predictor at normal effort."""


class PredictorSpec(Spec):
    """Who reads what was measured."""

    kind: Annotated[PredictorKind, tyro.conf.arg(name="predictor")] = Field("conv", description="The architecture.")
    width: Annotated[int | None, tyro.conf.arg(name="width")] = Field(
        None, description="Units per layer; by default what goes with the effort: 24 at quick, 32 at normal, 40 at thorough."
    )
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
    )
    hinges: bool = Field(
        False,
        description="conv, lstm, gru: read of each value, besides, how far it is above and how far below the usual, and cut it "
        "off at 3 standard deviations: where too high and too low both mean something, as of laboratory tests.",
    )
    bins: int = Field(
        0,
        description="conv, lstm, gru: read each value, besides, by where it lies among so many parts of equal weight of the "
        "training values: where they have long tails, as laboratory tests do; 0 = not.",
    )
    now: Annotated[bool, tyro.conf.arg(name="predictor-now")] = Field(
        False,
        description="conv: read the present beside the mean over the steps so far: where the label changes from step to step.",
    )

    @property
    def units(self) -> int:
        """Units per layer, 32 unless something else is said."""
        return WIDTH if self.width is None else self.width

    def check(self) -> None:  # noqa: D102 (inherited)
        self._at_least(1, "layers", *(() if self.width is None else ("width",)))
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
    """How scores become requests in training. Evaluation has no noise."""

    kind: Annotated[Literal["gate", "sequential"], tyro.conf.arg(name="selector")] = Field(
        "gate",
        description="gate = ask for an order when its log worth exceeds the log of its price; sequential = the paper's "
        "Gumbel-Softmax draws, one after the other, for a budget per step.",
    )
    temperature: float = Field(1.0, description="sequential: of the relaxation that the gradient is taken from.")
    repeat: Literal["mask", "penalty"] = Field(
        "mask", description="sequential: how a second draw of an order is prevented; penalty = the paper's 100·m·|l|."
    )

    def check(self) -> None:  # noqa: D102 (inherited)
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise SpecError(f"temperature is {self.temperature}", expected="more than 0")


EFFORTS = {"quick": 1 / 3, "normal": 1.0, "thorough": 2.0}
"""Names of efforts: multiples of the number of training steps."""
ATTEMPTS = 3
"""Times that ``thorough`` trains."""


class TrainingSpec(Spec):
    """How acquirer and predictor learn: the recipe (see docs/gate.md), or the paper's epochs where ``epochs`` is given."""

    effort: Annotated[Literal["quick", "normal", "thorough"] | float, tyro.conf.arg(metavar="EFFORT")] = Field(
        "normal",
        description="quick, normal, thorough, or a number: a multiple of the recipe's training steps, with which the width of "
        "the predictor grows. thorough (2 and above) trains three times, once with another architecture; validation chooses.",
    )
    objective: Literal["end-to-end", "greedy-cmi", "value", "foresight"] = Field(
        "end-to-end",
        description="What the acquirer learns from: the prediction loss; the prediction right after a request; the drop of the "
        "loss per order, in nats; the prediction loss and a policy gradient.",
    )
    class_weight: Literal["none", "balanced"] = Field(
        "none", description="balanced: classes count the same in the loss, however rare they are."
    )
    step_loss: float = Field(0.3, description="Weight of the mean loss over the later half of the steps.")
    learning_rate: float = Field(5e-3, description="Of AdamW.")
    batch_size: int = Field(64, description="Series per gradient step.")
    epochs: int | None = Field(
        None,
        description="Train as the paper does, instead of by the recipe: so many passes over the training series, both models "
        "together, for this one budget, and keep the best epoch by --choose-by. The options below belong to it.",
    )
    choose_by: Literal["accuracy", "loss", "auroc", "last"] = Field(
        "accuracy", description="epochs: validation metric that picks the epoch to keep; or simply the last."
    )
    warm_up: int = Field(0, description="epochs: number of initial epochs that train only the predictor, on random requests.")
    weight_decay: float = Field(1e-4, description="epochs: of AdamW; 0 makes it Adam.")
    schedule: Literal["cosine", "constant"] = Field("cosine", description="epochs: of the learning rate.")
    clip: float = Field(1.0, description="epochs: largest norm of the gradient; 0 = no limit.")
    gradient: Literal["detached", "full"] = Field(
        "detached",
        description="epochs: full = the acquirer also learns from how a request changes its own later inputs, as in the paper.",
    )
    level_gain: float = Field(
        0.0,
        description="epochs: stop once the best validation accuracy gained less than this over the last fifth of the epochs; "
        "0 = never.",
    )
    min_epochs: int = Field(0, description="epochs: before level-gain or patience may stop a run.")
    patience: int = Field(0, description="epochs: stop after so many without a better one; 0 = never.")
    save_epochs: bool = Field(False, description="epochs: keep the weights of each epoch, for test curves.")

    @property
    def steps_factor(self) -> float:
        """Multiple of the recipe's training steps."""
        return EFFORTS[self.effort] if isinstance(self.effort, str) else float(self.effort)

    @property
    def attempts(self) -> int:
        """How many times the whole recipe is gone through; validation chooses among what comes out."""
        return ATTEMPTS if self.epochs is None and self.steps_factor >= EFFORTS["thorough"] else 1

    def check(self) -> None:  # noqa: D102 (inherited)
        if not (math.isfinite(self.steps_factor) and 0 < self.steps_factor <= 100):
            raise SpecError(
                f"effort is {self.effort}", expected="quick, normal, thorough or a number above 0", do="change --effort"
            )
        self._at_least(1, "batch_size")
        self._at_least(0, "weight_decay", "clip", "step_loss", "patience", "warm_up", "level_gain", "min_epochs")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise SpecError(f"learning-rate is {self.learning_rate}", expected="more than 0", do="change --learning-rate")
        if self.epochs is None:
            self._refuse_without_epochs()
            return
        self._at_least(1, "epochs")
        if self.effort != "normal":
            raise SpecError("effort and epochs together", expected="one of them", do="leave out --epochs")
        if self.warm_up >= self.epochs:
            raise SpecError(
                f"warm-up is {self.warm_up} of {self.epochs} epochs", expected="fewer than all", do="lower --warm-up"
            )

    def _refuse_without_epochs(self) -> None:
        """What belongs to the paper's epochs does nothing in the recipe."""
        fields = TrainingSpec.model_fields
        names = list(fields)
        for name in names[names.index("epochs") + 1 :]:
            if getattr(self, name) != fields[name].default:
                flag = self._flag(name)
                raise SpecError(f"{flag} without --epochs", expected="both or neither", do="add --epochs, or leave it out")


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
        kind = self.acquirer.kind
        if self.budget.kind == "price" and kind in ("random", "oracle"):
            raise SpecError(
                f"--price with acquirer {kind}, whose scores say nothing about worth",
                expected="learned, table or a fixed rule",
                do="use --mean-cost",
            )
        if self.selector.kind == "sequential" and self.budget.kind != "per-step" and kind in LEARNING:
            raise SpecError(
                f"--{self.budget.kind} with the paper's selector", expected="a budget per step", do="use --selector gate"
            )
        if self.selector.kind == "sequential" and self.training.epochs is None and kind in LEARNING:
            raise SpecError("the paper's selector without epochs", expected="both", do="add --epochs, or use --preset paper")
        if self.training.epochs is not None and self.budget.kind == "mean-cost":
            raise SpecError("--mean-cost with --epochs", expected="the recipe", do="leave out --epochs")

    def predictor_of(self, attempt: int = 0) -> PredictorSpec:
        """The predictor of an attempt, with its width: the last of several attempts has another architecture."""
        own, training = self.predictor, self.training
        factor = 1.0 if training.epochs is not None else training.steps_factor
        width = max(8, 8 * round(WIDTH / 8 * factor ** (1 / 3))) if own.width is None else own.width
        other: dict[str, Any] = {}
        if attempt and attempt == training.attempts - 1:
            other = {"kind": "gru", "layers": 2, "now": False} if own.kind == "conv" else {"kind": "conv"}
        return PredictorSpec.model_validate(own.model_dump() | {"width": width} | other)

    @property
    def hash(self) -> str:
        """A short name of what is off its default: equal specs have equal hashes."""
        content = self.model_dump(mode="json") | {"semantics": RECIPE if self.training.epochs is None else EPOCHS}
        for name in type(self).model_fields:
            part = getattr(self, name)
            if isinstance(part, Spec):
                for field, facts in type(part).model_fields.items():
                    if getattr(part, field) == facts.default:
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
