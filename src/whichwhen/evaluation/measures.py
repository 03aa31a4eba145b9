"""All that can be said of a policy on a split, in one call: calibration, alarms, subgroups, and what unanswered requests hide.

Whatever is fitted (temperature, threshold) is fitted on validation and read on the split; propensities are fitted on training
series. What does not apply to a set is None or empty; what applies but can't be said is in ``refused``, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from whichwhen.data.store import Dataset, SeriesSet
from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation.alarms import Detection, alarm_threshold, detect, pad_steps
from whichwhen.evaluation.calibration import Reliability, apply_temperature, fit_temperature, reliability_curve
from whichwhen.evaluation.complete import Estimates, estimate_complete
from whichwhen.evaluation.scoring import Evaluation, evaluate
from whichwhen.evaluation.subgroups import SubgroupRow, subgroup_rows
from whichwhen.model import Model
from whichwhen.rollout import Policy

FALSE_ALARMS = 0.1
"""Share of event-free series with an alarm, where nothing else is asked for."""
_SMALLEST = 1e-300  # of a probability whose logarithm is taken


@dataclass(frozen=True)
class Calibration:
    """Predicted against observed before and after one temperature for all logits.

    Attributes:
        temperature: fitted on validation; above 1 = the model was too sure.
        before, after: the reliability curves on the split; ``expected_error`` is the expected calibration error.
    """

    temperature: float
    before: Reliability
    after: Reliability

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "expected_calibration_error": self.before.expected_error,
            "temperature": self.temperature,
            "expected_calibration_error_after": self.after.expected_error,
            "curve": self.before.rows(),
            "curve_after": self.after.rows(),
        }


@dataclass(frozen=True)
class Measures:
    """A policy on a split.

    Attributes:
        split: its name.
        evaluation: the rollout; ``evaluation.metrics`` are the numbers of ``result.json``.
        calibration: over series, or over all steps where each has its own label.
        false_alarms: the rate that the threshold was chosen for.
        detection: where each step has a label and there are two classes; else None.
        subgroups: one row for each value of each column; empty where the set has none.
        estimates: by score, what it would have been if the record had held all that was asked for; empty for complete
            records and where nothing was asked.
        refused: by the name of a part why it can't be given.
    """

    split: str
    evaluation: Evaluation
    calibration: Calibration | None
    false_alarms: float | None
    detection: Detection | None
    subgroups: tuple[SubgroupRow, ...]
    estimates: Mapping[str, Estimates]
    refused: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: the metrics, and a key for each part that there is."""
        parts: dict[str, Any] = {}
        if self.calibration is not None:
            parts["calibration"] = self.calibration.to_dict()
        if self.detection is not None:
            parts["detection"] = {"false_alarms": self.false_alarms, **self.detection.to_dict()}
        if self.subgroups:
            parts["subgroups"] = [row.to_dict() for row in self.subgroups]
        if self.estimates:
            parts["estimates"] = [
                {"score": score, **one.to_dict()} for score, found in self.estimates.items() for one in found.values()
            ]
        if self.refused:
            parts["refused"] = dict(self.refused)
        return {**self.evaluation.metrics.to_dict(), **parts}


def measure(
    model: Model | Policy,
    data: Dataset,
    split: str = "test",
    *,
    false_alarms: float | None = None,
    bins: int = 10,
    estimate: bool = True,
    device: torch.device | str = "cpu",
) -> Measures:
    """Evaluate a policy on a split and measure what the set allows.

    Args:
        model: what to measure.
        data: its data set.
        split: ``train``, ``validation``, ``test`` or a test set by name. On validation itself, where temperature and threshold
            are chosen, calibration and alarms look better than they are.
        false_alarms: share of event-free series that may have an alarm; None = 0.1 where alarms apply.
        bins: of the reliability curve.
        estimate: where values are missing, estimate what the scores would be if the record held all that was asked for. It
            rolls the policy out on training series, too, and fits a regression on them.
        device: where the models are.
    """
    policy = model.policy if isinstance(model, Model) else model
    unseen = model.on_validation(policy) if isinstance(model, Model) else policy
    series = data.split(split)
    alarms = series.step_labels is not None and len(data.classes) == 2
    if false_alarms is not None and not alarms:
        raise SpecError(
            f"a rate of false alarms for {data.name}",
            expected="a set with a label for each step and two classes",
            do="leave it out",
        )
    rate = FALSE_ALARMS if false_alarms is None else false_alarms
    if not 0 <= rate < 1:
        raise SpecError(f"false-alarm rate {rate}", expected="at least 0, below 1")
    estimate = estimate and not series.complete
    keep = len(series) if estimate else 0
    if series is data.validation:
        policy = unseen
    found = evaluate(policy, series, data.provenance, device=device, samples=keep)
    chosen_on = found if series is data.validation else evaluate(unseen, data.validation, device=device)
    refused: dict[str, str] = {}
    calibration = detection = None
    estimates: Mapping[str, Estimates] = {}
    try:
        calibration = _calibrate(chosen_on, data.validation, found, series, bins)
    except DataError as error:
        refused["calibration"] = str(error)
    if alarms:
        try:
            threshold = alarm_threshold(*_alarm_inputs(chosen_on, data.validation), rate)
            detection = detect(*_alarm_inputs(found, series), threshold)
        except DataError as error:
            refused["detection"] = str(error)
    if estimate:
        if found.metrics.requested_cost > 0:
            estimates = estimate_complete(policy, data.train, series, found, device)
        else:
            refused["estimates"] = "nothing was requested"
    return Measures(
        split=split,
        evaluation=found,
        calibration=calibration,
        false_alarms=rate if alarms else None,
        detection=detection,
        subgroups=tuple(_by_subgroup(found, series)),
        estimates=estimates,
        refused=refused,
    )


def labelled_rows(found: Evaluation, series: SeriesSet) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels: of the steps where each has its own, else of the series."""
    if found.step_probabilities is not None and series.step_labels is not None:
        return found.step_probabilities, series.step_labels[:]
    return found.probabilities, series.labels


def _calibrate(chosen_on: Evaluation, validation: SeriesSet, found: Evaluation, series: SeriesSet, bins: int) -> Calibration:
    shares, labels = labelled_rows(found, series)
    own, own_labels = labelled_rows(chosen_on, validation)
    temperature = fit_temperature(_logits(own), own_labels).temperature
    after = apply_temperature(_logits(shares), temperature)
    return Calibration(temperature, reliability_curve(shares, labels, bins), reliability_curve(after, labels, bins))


def _logits(probabilities: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(probabilities, _SMALLEST)))


def _alarm_inputs(found: Evaluation, series: SeriesSet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert found.step_probabilities is not None
    assert series.step_labels is not None
    lengths = series.lengths
    return pad_steps(found.step_probabilities[:, 1], lengths), pad_steps(series.step_labels[:], lengths), lengths


def _by_subgroup(found: Evaluation, series: SeriesSet) -> list[SubgroupRow]:
    if not series.subgroups:
        return []
    shares, labels = labelled_rows(found, series)
    owner = None if len(shares) == len(series) else np.repeat(np.arange(len(series)), series.lengths)
    return subgroup_rows(series.subgroups, shares, labels, found.cost, found.delivered, owner=owner)
