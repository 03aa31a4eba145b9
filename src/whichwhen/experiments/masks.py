"""Fully observed sets, and ways to lose part of them, for checks where the truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from whichwhen.data import load_dataset


@dataclass(frozen=True)
class Complete:
    """A fully observed set, half to learn from and half to judge on.

    Attributes:
        name: of the set.
        values: training and test, each ``[N, T, K]``, one order per feature.
        severity: training and test, each ``[N, T]``: a free channel that is always there.
        labels: training and test, each ``[N]``.
        per_step: requests per step.
    """

    name: str
    values: tuple[np.ndarray, np.ndarray]
    severity: tuple[np.ndarray, np.ndarray]
    labels: tuple[np.ndarray, np.ndarray]
    per_step: int = 2


Mask = Callable[[np.random.Generator, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Values and severity to (held ``[N, T, K]`` bool, the true probability ``[N, T, K]`` of that)."""


def make_wards(n: int = 4000, steps: int = 8, n_orders: int = 4, seed: int = 0) -> Complete:
    """Stays whose signals tell more about the label the sicker the patient is, so that who is measured matters."""
    rng = np.random.default_rng([seed, 11])
    values, severities, labels = [], [], []
    for _ in range(2):
        own, label = rng.standard_normal(n), rng.integers(0, 2, n)
        strength = 0.35 * np.exp(0.7 * own) * (2 * label - 1)
        signal = strength[:, None, None] * np.linspace(0.4, 1.6, n_orders)
        severities.append(own[:, None] + 0.5 * rng.standard_normal((n, steps)))
        values.append(signal + rng.standard_normal((n, steps, n_orders)))
        labels.append(label)
    return Complete("wards", (values[0], values[1]), (severities[0], severities[1]), (labels[0], labels[1]))


def load_vowels(steps: int = 7) -> Complete:
    """JapaneseVowels, the first steps; its first coefficient is the free channel, the others can be ordered."""
    data = load_dataset("japanese-vowels")
    train = np.concatenate([part.padded(steps=steps) for part in (data.train, data.validation)])
    labels = np.concatenate([data.train.labels, data.validation.labels])
    test = data.test.padded(steps=steps)
    return Complete(
        "japanese-vowels", (train[..., 1:], test[..., 1:]), (train[..., 0], test[..., 0]), (labels, data.test.labels)
    )


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def at_random(rng: np.random.Generator, values: np.ndarray, severity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each value held with probability .8."""
    chance = np.full(values.shape, 0.8)
    return rng.random(values.shape) < chance, chance


def by_clinician(rng: np.random.Generator, values: np.ndarray, severity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Held more often when the free channel reads high; each value by itself."""
    chance = np.broadcast_to(_sigmoid(1.8 + 1.2 * severity)[..., None], values.shape)
    return rng.random(values.shape) < chance, chance


def by_tube(rng: np.random.Generator, values: np.ndarray, severity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same rule, but one tube for all: a step's values are all held or none is."""
    chance = np.broadcast_to(_sigmoid(1.8 + 1.2 * severity)[..., None], values.shape)
    return np.broadcast_to(rng.random(severity.shape)[..., None] < chance, values.shape), chance


def by_unseen(rng: np.random.Generator, values: np.ndarray, severity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Held more often when the value itself is extreme: the clinician saw something that the record does not say."""
    chance = _sigmoid(0.3 + 1.5 * np.abs(values))
    return rng.random(values.shape) < chance, chance


MASKS: dict[str, Mask] = {"random": at_random, "clinician": by_clinician, "tube": by_tube, "unseen": by_unseen}
