"""Small discrete tasks whose every probability is known: exact beliefs, exact conditional mutual information, exact draws.

A :class:`Chain` is a hidden state that determines the label and moves from step to step, and cells that depend on the state of
their step alone. A belief is a distribution over the hidden state before a step's cells are seen; it holds all that a history
of measured cells tells about the label and about cells to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Chain:
    """A hidden Markov chain over H states with F discrete cells at each of T steps.

    Attributes:
        prior: ``[H]``, distribution of the state at step 0.
        label: ``[H]`` int, the class of a series in this state; no move changes it.
        move: ``[H, H]``, row to column, from one step to the next.
        emit: ``[T, F, H, V]``, distribution of each cell's symbol in each state.
        levels: ``[F, V]``, the value that stands for each symbol; NaN where a feature has fewer symbols.
    """

    prior: np.ndarray
    label: np.ndarray
    move: np.ndarray
    emit: np.ndarray
    levels: np.ndarray

    @property
    def steps(self) -> int:
        """T."""
        return len(self.emit)

    @property
    def n_features(self) -> int:
        """F."""
        return len(self.levels)

    @cached_property
    def classes(self) -> np.ndarray:
        """``[H, C]``: 1 at the class of each state."""
        table: np.ndarray = np.eye(int(self.label.max()) + 1)[self.label]
        return table

    @cached_property
    def telling(self) -> np.ndarray:
        """``[T, F]`` bool: False where a cell has the same distribution in every state, and so tells nothing."""
        table: np.ndarray = np.ptp(self.emit, axis=2).max(-1) > 0
        return table

    @cached_property
    def still(self) -> bool:
        """Whether the state never moves."""
        return bool((self.move == np.eye(len(self.move))).all())

    @cached_property
    def _possible(self) -> list[list[np.ndarray]]:
        """Of each cell, ``[symbols that can come, H]``."""
        return [[cell[:, cell.any(0)].T for cell in step] for step in self.emit]

    def branch(self, belief: np.ndarray, t: int, cells: Sequence[int]) -> np.ndarray:
        """What measuring some cells of step t can bring.

        Args:
            belief: ``[..., H]``, not necessarily normalised.
            t: the step.
            cells: columns to measure.

        Returns:
            ``[..., O, H]``, the joint mass of state and outcome for every combination of the cells' possible symbols.
        """
        joint = belief[..., None, :]
        for cell in cells:
            joint = joint[..., None, :] * self._possible[t][cell]
            joint = joint.reshape(*joint.shape[:-3], -1, joint.shape[-1])
        return joint

    def information(self, belief: np.ndarray, t: int, cells: Sequence[int]) -> np.ndarray:
        """I(label; the cells of step t | what led to the belief) in nats: ``[...]`` for beliefs ``[..., H]``."""
        outcomes = self.branch(belief, t, cells) @ self.classes
        share = outcomes.sum(-1)
        left = _entropy(outcomes / np.where(share > 0, share, 1)[..., None])
        return np.asarray(np.maximum(_entropy(belief @ self.classes) - (share * left).sum(-1), 0.0))

    def information_of_each(self, belief: np.ndarray, t: int) -> np.ndarray:
        """``[..., F]`` nats: what each cell of step t, measured alone, tells about the label."""
        return np.stack([self.information(belief, t, (cell,)) for cell in range(self.n_features)], -1)

    def follow(self, symbols: np.ndarray, seen: np.ndarray) -> np.ndarray:
        """The beliefs along recorded series.

        Args:
            symbols: ``[N, T, F]`` int, as from :meth:`symbols`; only those that were seen matter.
            seen: ``[N, T, F]`` bool.

        Returns:
            ``[N, T + 1, H]``: before each step's cells, on which the request for that step is made, and after the last.
        """
        belief = np.broadcast_to(self.prior, (len(symbols), len(self.prior)))
        beliefs = [belief]
        for t in range(self.steps):
            for cell in range(self.n_features):
                known = self.emit[t, cell].T[np.where(seen[:, t, cell], symbols[:, t, cell], 0)]
                belief = belief * np.where(seen[:, t, cell, None], known, 1.0)
            belief = belief / belief.sum(-1, keepdims=True) @ self.move
            beliefs.append(belief)
        return np.stack(beliefs, 1)

    def symbols(self, values: np.ndarray) -> np.ndarray:
        """The symbols of unscaled values ``[..., F]``: the nearest level of each feature."""
        gap = np.abs(values[..., None] - self.levels)
        nearest: np.ndarray = np.nanargmin(gap, -1)
        return nearest

    def draw(self, luck: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Series from uniform numbers in [0, 1).

        Args:
            luck: ``[N, T, 1 + F]``, at each step one for the state and one for each cell.

        Returns:
            Labels ``[N]`` and values ``[N, T, F]``.
        """
        states = _pick(luck[:, 0, 0], self.prior)
        labels, values = self.label[states], []
        for t in range(self.steps):
            if t:
                states = _pick(luck[:, t, 0], self.move[states])
            symbols = _pick(luck[:, t, 1:], self.emit[t][:, states].swapaxes(0, 1))
            values.append(self.levels[np.arange(self.n_features), symbols])
        return labels, np.stack(values, 1)


def vote(sign: np.ndarray, right: np.ndarray | float) -> np.ndarray:
    """``[H, 2]``: a cell of -1 or +1 that equals ``sign`` (``[H]``) with chance ``right`` (``[H]`` or one number)."""
    up = np.where(sign > 0, right, 1 - np.asarray(right))
    return np.stack([1 - up, up], -1)


def evenly(count: int) -> np.ndarray:
    """``[count]`` levels from -1 to 1. The nearest one is the largest of as many linear functions of the value."""
    return np.linspace(-1, 1, count)


def _entropy(chances: np.ndarray) -> np.ndarray:
    """In nats, over the last axis."""
    return np.asarray(-(chances * np.log(np.where(chances > 0, chances, 1))).sum(-1))


def _pick(luck: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Places drawn from distributions ``[..., V]`` by uniform numbers ``[...]``; a place of chance 0 is never drawn."""
    reached = chances.cumsum(-1)
    place: np.ndarray = (luck[..., None] * reached[..., -1:] >= reached).sum(-1)
    return place
