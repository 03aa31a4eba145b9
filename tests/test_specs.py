import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from whichwhen.errors import SpecError
from whichwhen.presets import preset_spec
from whichwhen.specs import (
    AcquirerSpec,
    BudgetSpec,
    DataSpec,
    RunSpec,
    SelectorSpec,
    TrainingSpec,
    parse_spec,
)

specs = st.builds(
    RunSpec,
    data=st.builds(
        DataSpec,
        name=st.sampled_from(["m-forda", "ucr:A"]),
        m=st.integers(1, 500),
        fakes=st.sampled_from(["zeros", "gp"]),
        shift=st.booleans(),
    ),
    budget=st.one_of(
        st.builds(BudgetSpec, per_step=st.floats(1e-3, 1e6)),
        st.builds(BudgetSpec, total=st.floats(1e-3, 1e6), bill=st.sampled_from(["requested", "delivered"])),
    ),
    acquirer=st.builds(AcquirerSpec, kind=st.sampled_from(["learned", "static-by-time"]), hidden=st.integers(1, 99)),
    selector=st.builds(SelectorSpec, temperature=st.floats(1e-3, 10)),
    training=st.one_of(
        st.builds(TrainingSpec, learning_rate=st.floats(1e-9, 1), effort=st.one_of(st.just("quick"), st.floats(0.01, 9))),
        st.builds(TrainingSpec, epochs=st.integers(1, 99), save_epochs=st.booleans()),
    ),
    seed=st.integers(0, 2**62),
)


@settings(max_examples=50, deadline=None)
@given(specs)
def test_a_spec_survives_json(spec: RunSpec) -> None:
    again = parse_spec(RunSpec, json.loads(spec.model_dump_json()), "here")
    assert again == spec
    assert again.hash == spec.hash


@settings(max_examples=50, deadline=None)
@given(specs, specs)
def test_hashes_are_equal_where_specs_are(one: RunSpec, other: RunSpec) -> None:
    assert (one.hash == other.hash) == (one == other)


def test_every_field_is_part_of_the_hash() -> None:
    plain = RunSpec()
    changes = {
        "data__name": "m-forda",
        "data__m": 9,
        "data__fakes": "gp",
        "data__n_fakes": 9,
        "data__validation": 0.3,
        "budget__per_step": 9,
        "acquirer__kind": "table",
        "predictor__kind": "lstm",
        "selector__repeat": "penalty",
        "training__epochs": 9,
        "training__effort": "quick",
        "training__objective": "value",
        "budget__price": 0.1,
        "budget__mean_cost": 0.1,
        "budget__total": 0.1,
        "budget__bill": "delivered",
        "seed": 9,
    }
    hashes = {plain.change(**{path: value}).hash for path, value in changes.items()}
    assert len(hashes | {plain.hash}) == len(changes) + 1


def test_change_leaves_the_rest_and_the_original_alone() -> None:
    plain = RunSpec()
    changed = plain.change(training__epochs=3, seed=4)
    assert (changed.training.epochs, changed.seed) == (3, 4)
    assert changed.change(training__epochs=plain.training.epochs, seed=plain.seed) == plain
    assert plain == RunSpec()


def test_specs_are_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        RunSpec().seed = 3


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"budget__per_step": 0}, "budget is 0"),
        ({"budget__per_step": -2}, "budget is -2"),
        ({"budget__per_step": math.nan}, "budget is nan"),
        ({"budget__per_step": math.inf}, "budget is inf"),
        ({"data__m": 0}, "m is 0"),
        ({"data__n_fakes": 0}, "n-fakes is 0"),
        ({"data__validation": 0}, "validation is 0"),
        ({"data__validation": 1}, "validation is 1"),
        ({"data__validation": math.nan}, "validation is nan"),
        ({"data__shift": True}, "shift without fakes"),
        ({"acquirer__hidden": 0}, "hidden is 0"),
        ({"acquirer__trees": 0}, "trees is 0"),
        ({"acquirer__segments": 0}, "segments is 0"),
        ({"acquirer__time_features": -1}, "time-features is -1"),
        ({"predictor__width": 0}, "width is 0"),
        ({"predictor__layers": 0}, "layers is 0"),
        ({"predictor__head": -1}, "head is -1"),
        ({"predictor__dropout": 1}, "dropout is 1"),
        ({"predictor__dropout": -0.1}, "dropout is -0.1"),
        ({"selector__temperature": 0}, "temperature is 0"),
        ({"selector__temperature": math.inf}, "temperature is inf"),
        ({"training__epochs": 0}, "epochs is 0"),
        ({"training__batch_size": 0}, "batch-size is 0"),
        ({"training__learning_rate": 0}, "is 0"),
        ({"training__learning_rate": math.nan}, "is nan"),
        ({"training__epochs": 9, "training__weight_decay": -1}, "weight-decay is -1"),
        ({"training__epochs": 9, "training__clip": math.nan}, "clip is nan"),
        ({"training__step_loss": math.inf}, "step-loss is inf"),
        ({"training__epochs": 9, "training__patience": -1}, "patience is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"budget__total": 0}, "total is 0"),
        ({"budget__mean_cost": math.inf}, "mean-cost is inf"),
        ({"budget__price": -0.1}, "price is -0.1"),
        ({"budget__total": 9, "budget__price": 0.1}, "--price and --total together"),
        ({"budget__total": 9, "budget__mean_cost": 2}, "--mean-cost and --total together"),
        ({"budget__per_step": 2, "budget__mean_cost": 3}, "a mean cost of 3 with at most 2 at each step"),
        ({"budget__price": 0.1, "acquirer__kind": "random"}, "--price with acquirer random"),
        ({"budget__price": 0.1, "acquirer__kind": "oracle"}, "--price with acquirer oracle"),
        ({"budget__mean_cost": 2, "training__epochs": 9}, "--mean-cost with --epochs"),
        ({"selector__kind": "sequential"}, "the paper's selector without epochs"),
        ({"budget__total": 9, "selector__kind": "sequential", "training__epochs": 9}, "--total with the paper's selector"),
        ({"training__effort": 0}, "effort is 0"),
        ({"training__effort": 101}, "effort is 101"),
        ({"training__effort": math.nan}, "effort is nan"),
        ({"training__effort": "quick", "training__epochs": 9}, "effort and epochs together"),
        ({"training__warm_up": 3}, "--warm-up without --epochs"),
        ({"training__gradient": "full"}, "--gradient without --epochs"),
        ({"training__save_epochs": True}, "--save-epochs without --epochs"),
        ({"training__clip": 2.0}, "--clip without --epochs"),
        ({"training__weight_decay": 0.1}, "--weight-decay without --epochs"),
    ],
)
def test_values_out_of_range_are_refused_in_one_line(change: dict[str, object], word: str) -> None:
    with pytest.raises(SpecError, match=word) as caught:
        RunSpec().change(**change)
    assert "expected" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[]", ("the content",)),
        ('{"training": {"epoch": 3}}', ("training.epoch",)),
        ('{"training": {"epochs": "many"}}', ("training.epochs",)),
        ('{"acquirer": {"kind": "best"}}', ("acquirer.kind", "learned")),
        ('{"training": {"epochs": 0}}', ("epochs is 0",)),
    ],
)
def test_a_bad_spec_file_is_refused_by_its_name(content: str, words: tuple[str, ...]) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec(RunSpec, json.loads(content), "runs/a/spec.json")
    for word in ("runs/a/spec.json", *words):
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "hidden", "layers"), [("m-forda", 4, 2), ("spoken-arabic-digits", 8, 3)])
def test_the_papers_preset_has_the_papers_sizes(name: str, hidden: int, layers: int) -> None:
    spec = preset_spec("paper", name)
    assert spec.data.name == name
    assert spec.acquirer.hidden == hidden
    assert spec.acquirer.kind == "learned"
    assert (spec.predictor.kind, spec.predictor.width, spec.predictor.layers, spec.predictor.head) == ("lstm", 16, layers, 8)
    assert (spec.selector.kind, spec.selector.repeat) == ("sequential", "penalty")
    assert (spec.training.learning_rate, spec.training.batch_size, spec.training.weight_decay) == (1e-3, 1000, 0)
    assert spec.training.gradient == "full"
    assert (spec.budget.per_step, spec.data.n_fakes, spec.data.m, spec.acquirer.trees) == (5, 30, 10, 1000)


def test_efforts_have_names_and_numbers() -> None:
    factors = [TrainingSpec(effort=effort).steps_factor for effort in ("quick", "normal", "thorough", 0.5)]
    assert factors == pytest.approx([1 / 3, 1, 2, 0.5])


def test_a_budget_is_the_one_kind_that_is_given_and_a_cap_beside_it() -> None:
    assert (BudgetSpec().kind, BudgetSpec().amount) == ("per-step", None)
    for kind in ("mean_cost", "price", "total"):
        spec = BudgetSpec(**{kind: 0.5, "per_step": 3})
        assert (spec.kind, spec.amount, spec.per_step) == (kind.replace("_", "-"), 0.5, 3)
        assert "at most 3 per step" in str(spec)
    other = BudgetSpec(total=9, bill="delivered").at(mean_cost=2)
    assert (other.kind, other.amount, other.total, other.bill) == ("mean-cost", 2, None, "delivered")


def test_the_default_preset_is_the_default() -> None:
    assert preset_spec("default", "m-forda") == RunSpec(data=DataSpec(name="m-forda"))


def test_every_field_has_a_description() -> None:
    for part in RunSpec.model_fields.values():
        fields = getattr(part.annotation, "model_fields", {"": part})
        assert all(field.description for field in fields.values())


def test_specs_hold_nothing_of_the_machine() -> None:
    text = json.dumps(RunSpec().model_dump(mode="json"))
    assert "device" not in text
    assert "folder" not in text


def test_specs_errors_menu_and_files_do_not_import_torch() -> None:
    code = "import sys, whichwhen.specs, whichwhen.errors, whichwhen.menu, whichwhen.files; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
