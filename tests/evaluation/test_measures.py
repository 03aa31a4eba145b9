import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import tiny_dataset, tiny_policy
from whichwhen.errors import SpecError
from whichwhen.evaluation import (
    Asked,
    alarm_threshold,
    apply_temperature,
    detect,
    evaluate,
    expected_calibration_error,
    fit_temperature,
    measure,
    pad_steps,
    subgroup_rows,
)
from whichwhen.menu import Feature, Menu, Order
from whichwhen.rollout import inference, roll_out

MENU = Menu(
    tuple(Feature(f"x{i}") for i in range(5)),
    (
        Order("vital", ("x0",), cost=0.0, free=True),
        Order("panel", ("x1", "x2"), cost=3.0),
        Order("x3", ("x3",)),
        Order("x4", ("x4",)),
    ),
)


def watched_dataset(missing=0.2, seed=0, n_train=60):
    """Two classes, a label for each step, subgroups, and values missing from all but the first column."""
    data, rng = tiny_dataset(n_train, n_classes=2, seed=seed), np.random.default_rng(seed)

    def more(part):
        onset = rng.integers(0, 4, len(part))
        labels = np.concatenate(
            [
                (np.arange(length) >= start) & bool(label)
                for length, start, label in zip(part.lengths, onset, part.labels, strict=True)
            ]
        ).astype(np.int64)
        values = part.values.copy()
        values[:, 1:][rng.random((len(values), 4)) < missing] = np.nan
        own = np.array([int(labels[a:b].max()) for a, b in zip(part.offsets[:-1], part.offsets[1:], strict=True)])
        ward = np.array(["north", "south", "east"])[np.arange(len(part)) % 3]
        return replace(part, values=values, labels=own, step_labels=labels, subgroups={"ward": ward})

    return replace(data, train=more(data.train), validation=more(data.validation), tests={"test": more(data.test)}, menu=MENU)


@pytest.fixture(scope="module")
def watched():
    return watched_dataset()


@pytest.fixture(scope="module")
def policy():
    return tiny_policy(menu=MENU, n_classes=2, budget=3)


def test_a_plain_set_has_metrics_and_calibration_and_nothing_else():
    data, policy = tiny_dataset(), tiny_policy()
    found = measure(policy, data)
    assert found.evaluation.metrics == evaluate(policy, data.test, data.provenance).metrics
    assert found.to_dict().keys() == {*found.evaluation.metrics.to_dict(), "calibration"}
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize("split", ["test", "validation", "train"])
def test_the_temperature_is_of_validation_and_the_errors_of_the_split(split):
    data, policy = tiny_dataset(), tiny_policy()
    own, chosen_on = evaluate(policy, data.split(split)), evaluate(policy, data.validation)
    temperature = fit_temperature(np.log(chosen_on.probabilities), data.validation.labels).temperature
    after = apply_temperature(np.log(own.probabilities), temperature)
    found = measure(policy, data, split).calibration
    assert found is not None
    assert found.temperature == pytest.approx(temperature)
    assert temperature > 1.1  # random weights are too sure: there is something to mend
    assert found.before.expected_error == pytest.approx(expected_calibration_error(own.probabilities, own.labels))
    assert found.after.expected_error == pytest.approx(expected_calibration_error(after, own.labels))
    assert sum(row["count"] for row in found.to_dict()["curve"]) == len(data.split(split))


def test_with_labels_per_step_calibration_is_over_steps_and_alarms_are_chosen_on_validation(watched, policy):
    found = measure(policy, watched, false_alarms=0.3)
    parts = {}
    for name, part in (("validation", watched.validation), ("test", watched.test)):
        shares = evaluate(policy, part).step_probabilities[:, 1]
        parts[name] = pad_steps(shares, part.lengths), pad_steps(part.step_labels, part.lengths), part.lengths
    threshold = alarm_threshold(*parts["validation"], 0.3)
    assert found.detection == detect(*parts["test"], threshold)
    assert found.to_dict()["detection"]["false_alarms"] == 0.3
    assert sum(row["count"] for row in found.to_dict()["calibration"]["curve"]) == watched.test.lengths.sum()


@settings(max_examples=10, deadline=None)
@given(rate=st.floats(0, 0.99))
def test_on_validation_itself_the_rate_of_false_alarms_is_kept(rate):
    found = measure(tiny_policy(menu=MENU, n_classes=2), WATCHED, "validation", false_alarms=rate, estimate=False)
    assert found.detection.false_alarm_rate <= rate + 1e-9


WATCHED = watched_dataset(seed=1, n_train=30)


def test_false_alarms_are_refused_where_no_step_has_a_label():
    with pytest.raises(SpecError, match=r"false alarms for tiny.*label for each step"):
        measure(tiny_policy(), tiny_dataset(), false_alarms=0.1)
    with pytest.raises(SpecError, match=r"1\.5.*below 1"):
        measure(tiny_policy(menu=MENU, n_classes=2), WATCHED, false_alarms=1.5)


def test_without_event_free_series_there_is_a_reason_instead_of_alarms(watched, policy):
    part = watched.validation
    sick = replace(part, step_labels=np.ones_like(part.step_labels), labels=np.ones_like(part.labels))
    found = measure(policy, replace(watched, validation=sick), estimate=False)
    assert found.detection is None
    assert "no event-free series" in found.to_dict()["refused"]["detection"]


def test_subgroups_are_over_steps_and_add_up(watched, policy):
    found = measure(policy, watched, estimate=False)
    assert [row.value for row in found.subgroups] == ["east", "north", "south"]
    assert sum(row.n for row in found.subgroups) == len(watched.test)
    assert sum(row.positives for row in found.subgroups) == watched.test.labels.sum()
    mean = sum(row.n * row.requested_cost for row in found.subgroups) / len(watched.test)
    assert mean == pytest.approx(found.evaluation.metrics.requested_cost)
    wards = watched.test.subgroups["ward"]
    steps = {ward: watched.test.lengths[wards == ward].sum() for ward in ("east", "north", "south")}
    accurate = sum(steps[row.value] * row.accuracy for row in found.subgroups)
    assert accurate / sum(steps.values()) == pytest.approx(found.evaluation.metrics.accuracy)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(3, 30), times=st.integers(1, 4), seed=st.integers(0, 99))
def test_rows_that_repeat_a_series_say_what_the_series_says(n, times, seed):
    rng = np.random.default_rng(seed)
    shares, labels, cost = rng.random(n), rng.integers(0, 2, n), rng.random(n)
    groups = {"g": rng.integers(0, 2, n).astype(str)}
    plain = subgroup_rows(groups, shares, labels, cost, cost, smallest=1)
    owner = rng.permutation(np.repeat(np.arange(n), times))
    again = subgroup_rows(groups, shares[owner], labels[owner], cost, cost, smallest=1, owner=owner)
    for one, other in zip(plain, again, strict=True):
        assert (one.n, one.positives, one.requested_cost) == (other.n, other.positives, other.requested_cost)
        assert one.accuracy == pytest.approx(other.accuracy)
        assert one.auroc == (None if other.auroc is None else pytest.approx(other.auroc))


def test_a_request_is_answered_when_the_record_holds_all_of_the_order(watched, policy):
    found = evaluate(policy, watched.test, samples=len(watched.test))
    asked = Asked.of(MENU, watched.test, found.samples)
    rows = np.arange(len(watched.test))
    batch = watched.test.hindsight(rows).batch
    with inference(policy):
        record = roll_out(policy, batch)
    assert (asked.requested == (record.selections.request > 0).numpy()).all()
    panel = asked.requested[..., 1]
    both = (batch.observed[..., 1] & batch.observed[..., 2]).numpy()
    assert (asked.answered[..., 1] == (panel & both)).all()
    assert 0 < asked.answered[..., 1].sum() < panel.sum()
    assert torch.equal(record.lengths, torch.from_numpy(asked.lengths))
    assert np.isfinite(asked.features).all()


def test_estimates_count_the_series_whose_requests_were_all_answered():
    data = watched_dataset(missing=0.05, n_train=120)
    data = replace(
        data,
        **{name: replace(getattr(data, name), step_labels=None) for name in ("train", "validation")},
        tests={"test": replace(data.test, step_labels=None)},
    )
    policy = tiny_policy(menu=MENU, n_classes=2, budget=3)
    found = measure(policy, data)
    assert found.estimates.keys() == {"accuracy", "loss", "auroc"}
    asked = Asked.of(MENU, data.test, evaluate(policy, data.test, samples=len(data.test)).samples)
    witness = asked.until[:, -1]
    assert 20 < witness.sum() < len(witness)
    right = found.evaluation.predictions == data.test.labels
    accuracy = found.estimates["accuracy"]
    assert accuracy["naive"].value == pytest.approx(found.evaluation.metrics.accuracy)
    assert accuracy["restricted"].value == pytest.approx(right[witness].mean())
    assert accuracy["ipw"].n_answered == witness.sum()
    assert 0 < accuracy["ipw"].effective_sample_size <= witness.sum()
    assert found.estimates["auroc"]["naive"].value == pytest.approx(found.evaluation.metrics.auroc)
    assert found.estimates["loss"]["naive"].value == pytest.approx(found.evaluation.metrics.loss)


def test_by_step_the_score_as_it_stands_is_the_metric(watched, policy):
    found = measure(policy, watched)
    for name in ("accuracy", "loss"):
        stands = found.estimates[name]["naive"]
        assert stands.value == pytest.approx(getattr(found.evaluation.metrics, name))
        assert stands.estimator == "naive"
    rows = found.to_dict()["estimates"]
    assert {row["score"] for row in rows} == {"accuracy", "loss"}
    json.dumps(rows, allow_nan=False)


def test_an_estimate_without_witnesses_is_refused_with_the_reason(policy):
    data = watched_dataset(missing=1.0)
    found = measure(policy, data)
    for one in (found.estimates["loss"]["restricted"], found.estimates["loss"]["ipw"]):
        assert one.value is None
        assert one.reason


def test_where_nothing_is_asked_nothing_is_estimated(watched):
    found = measure(tiny_policy("none", menu=MENU, n_classes=2), watched)
    assert not found.estimates
    assert found.refused == {"estimates": "nothing was requested"}
