"""Early warning: how soon an event is noticed at a fixed rate of false alarms.

The rule is the simplest that a ward could run: **an alarm is raised at a step where the predicted probability lies above the
threshold**. The threshold is chosen on validation series, the delays are read on test series.

Shapes: N series, T steps; entries after the end of a series are never looked at. ``probabilities[i, t]`` is the prediction
made at step t; ``step_labels[i, t]`` is 1 where the event is to be announced. The onset of a series is its first positive
step; a series without one is event-free.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from whichwhen.errors import DataError, SpecError
from whichwhen.evaluation._inputs import check_probabilities

Per = Literal["series", "step"]


@dataclass(frozen=True)
class Detection:
    """What a threshold does on a set of series. Rates are shares from 0 to 1, delays are in steps; None = nothing to average.

    Attributes:
        threshold: alarms are probabilities above it.
        n_events, n_free: series with an onset, and without.
        n_positive_at_start: events whose first step is positive already: none of them can be announced early.
        false_alarm_rate: share of the event-free series with an alarm at any step.
        false_alarm_rate_per_step: share of the steps of event-free series with an alarm.
        detection_rate: share of the events with an alarm at any step, early ones included.
        early_rate: share of the events whose first alarm comes before the onset.
        mean_delay, median_delay: first alarm minus onset, over the events with an alarm; negative = early.
        detection_rate_from_onset: share of the events with an alarm at the onset or later, whatever came before.
        mean_delay_from_onset, median_delay_from_onset: first of those alarms minus onset, over the events that have one.
    """

    threshold: float
    n_events: int
    n_free: int
    n_positive_at_start: int
    false_alarm_rate: float | None
    false_alarm_rate_per_step: float | None
    detection_rate: float | None
    early_rate: float | None
    mean_delay: float | None
    median_delay: float | None
    detection_rate_from_onset: float | None
    mean_delay_from_onset: float | None
    median_delay_from_onset: float | None

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def pad_steps(flat: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """``[N, T]`` from ``[sum of lengths]``, as a set's labels per step are stored; 0 after the end of each series."""
    lengths = np.asarray(lengths)
    if len(flat) != lengths.sum():
        raise DataError(f"{len(flat)} steps for lengths that add up to {lengths.sum()}", expected="one entry per step")
    out = np.zeros((len(lengths), int(lengths.max(initial=0))), dtype=np.asarray(flat).dtype)
    out[np.arange(out.shape[1]) < lengths[:, None]] = flat
    return out


def alarm_threshold(
    probabilities: np.ndarray, step_labels: np.ndarray, lengths: np.ndarray, rate: float, per: Per = "series"
) -> float:
    """The lowest threshold whose share of false alarms is at most ``rate``; choose it on validation.

    Args:
        probabilities: ``[N, T]``.
        step_labels: ``[N, T]``, 0 or 1.
        lengths: ``[N]``.
        rate: from 0 up to, but not including, 1.
        per: what the rate is a share of: event-free ``series`` (with an alarm at any step; long series have more chances), or
            every ``step`` of event-free series. With ties the share may fall short of the rate; it never exceeds it.
    """
    if not 0 <= rate < 1:
        raise SpecError(f"false-alarm rate {rate}", expected="at least 0, below 1")
    predicted, positive, valid = _check(probabilities, step_labels, lengths)
    free = ~positive.any(1)
    if not free.any():
        raise DataError("no event-free series", expected="some to count false alarms on", do="choose on other series")
    candidates = np.where(valid, predicted, -np.inf)[free].max(1) if per == "series" else predicted[free][valid[free]]
    allowed = int(np.floor(rate * len(candidates) + 1e-9))
    return float(np.sort(candidates)[::-1][allowed])


def detect(probabilities: np.ndarray, step_labels: np.ndarray, lengths: np.ndarray, threshold: float) -> Detection:
    """Detections, delays and false alarms at a threshold; see :class:`Detection` for what each number means.

    Args:
        probabilities: ``[N, T]``.
        step_labels: ``[N, T]``, 0 or 1.
        lengths: ``[N]``.
        threshold: of :func:`alarm_threshold`, from other series than these.
    """
    predicted, positive, valid = _check(probabilities, step_labels, lengths)
    alarm = (predicted > threshold) & valid
    event = positive.any(1)
    onset = positive[event].argmax(1)
    raised, delay = _first(alarm[event], onset)
    from_onset = alarm[event] & (np.arange(alarm.shape[1]) >= onset[:, None])
    raised_later, delay_later = _first(from_onset, onset)
    return Detection(
        threshold=float(threshold),
        n_events=int(event.sum()),
        n_free=int((~event).sum()),
        n_positive_at_start=int((onset == 0).sum()),
        false_alarm_rate=_mean(alarm[~event].any(1)),
        false_alarm_rate_per_step=_mean(alarm[~event][valid[~event]]),
        detection_rate=_mean(raised),
        early_rate=float((delay < 0).sum() / len(onset)) if len(onset) else None,
        mean_delay=_mean(delay),
        median_delay=float(np.median(delay)) if len(delay) else None,
        detection_rate_from_onset=_mean(raised_later),
        mean_delay_from_onset=_mean(delay_later),
        median_delay_from_onset=float(np.median(delay_later)) if len(delay_later) else None,
    )


def _first(alarm: np.ndarray, onset: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each series has an alarm, and for those that do the first one minus the onset."""
    raised = np.asarray(alarm.any(1))
    return raised, (alarm.argmax(1) - onset)[raised]


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _check(
    probabilities: np.ndarray, step_labels: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, where the event is on, and which steps there are; all ``[N, T]``."""
    predicted, labels, lengths = np.asarray(probabilities, dtype=np.float64), np.asarray(step_labels), np.asarray(lengths)
    if predicted.ndim != 2 or labels.shape != predicted.shape or lengths.shape != predicted.shape[:1]:
        raise DataError(
            f"probabilities of shape {predicted.shape}, labels of shape {labels.shape}, lengths of shape {lengths.shape}",
            expected="[N, T], [N, T] and [N]",
            do="see pad_steps for steps that are stored end to end",
        )
    if not len(lengths):
        raise DataError("no series", expected="at least one")
    if lengths.min() < 1 or lengths.max() > predicted.shape[1]:
        raise DataError(f"lengths from {lengths.min()} to {lengths.max()}", expected=f"1 to {predicted.shape[1]} steps")
    valid = np.arange(predicted.shape[1]) < lengths[:, None]
    if not np.isfinite(predicted[valid]).all():
        row, step = np.argwhere(valid & ~np.isfinite(predicted))[0]
        raise DataError(f"probability {predicted[row, step]} in series {row}, step {step}", expected="numbers from 0 to 1")
    check_probabilities(np.where(valid, predicted, 0.0))
    if not np.isin(labels[valid], (0, 1)).all():
        row, step = np.argwhere(valid & ~np.isin(labels, (0, 1)))[0]
        raise DataError(f"label {labels[row, step]} in series {row}, step {step}", expected="0 or 1")
    return predicted, (labels == 1) & valid, valid
