"""Series of any length in one array, and the data set made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from whichwhen import keyed
from whichwhen.data.rows import Table, has_missing, join_tables, missing_share, take_stretches
from whichwhen.errors import DataError
from whichwhen.menu import Feature, Menu
from whichwhen.provenance import Provenance
from whichwhen.types import Batch, Hindsight

_BLOCK = 4096


@dataclass(frozen=True)
class SeriesSet:
    """N labelled series over the same F features, stored end to end.

    Attributes:
        source: the part of the archive that the series come from (``train`` or ``test``); part of the random keys.
        values: ``[sum of lengths, F]`` float32; NaN = not observed. An array, or rows that stay on disk (:mod:`.rows`).
        offsets: ``[N + 1]``; series i is ``values[offsets[i]:offsets[i + 1]]``.
        labels: ``[N]`` int64, positions in the data set's classes.
        ids: ``[N]`` int64, places in the source; part of the random keys.
        groups: ``[N]`` int64; series of one group belong together (one speaker, one patient, exact copies).
        features: the F columns.
        seed: what the random keys start from.
        step_labels: ``[sum of lengths]`` int64, where every step has a label of its own (early event prediction); ``labels``
            then holds whether and which event the series has at all.
        weights: ``[N]`` float32, how much each series counts in training; None = all the same.
        subgroups: by name ``[N]`` text, for metrics per subgroup.
        names: ``[N]`` text, what the series are called where that is no number; None = by their ids.
    """

    source: str
    values: Table
    offsets: np.ndarray
    labels: np.ndarray
    ids: np.ndarray
    groups: np.ndarray
    features: tuple[Feature, ...]
    seed: int = 0
    step_labels: Table | None = None
    weights: np.ndarray | None = None
    subgroups: Mapping[str, np.ndarray] = field(default_factory=dict)
    names: np.ndarray | None = None

    @classmethod
    def from_list(
        cls,
        series: Sequence[np.ndarray],
        labels: np.ndarray,
        features: Sequence[Feature],
        source: str = "train",
        groups: np.ndarray | None = None,
        seed: int = 0,
    ) -> SeriesSet:
        """From arrays ``[T_i, F]``. Without groups, only exact copies belong together."""
        lengths = [len(one) for one in series]
        return cls(
            source=source,
            values=np.concatenate([np.asarray(one, dtype=np.float32) for one in series]),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            labels=np.asarray(labels, dtype=np.int64),
            ids=np.arange(len(series), dtype=np.int64),
            groups=copies(series) if groups is None else np.asarray(groups, dtype=np.int64),
            features=tuple(features),
            seed=seed,
        )

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def complete(self) -> bool:
        """Whether every value is observed."""
        return not has_missing(self.values)

    @cached_property
    def missing(self) -> np.ndarray:
        """Share of the steps at which each feature was not observed, ``[F]``."""
        return missing_share(self.values)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Number of steps of each series, ``[N]``."""
        lengths: np.ndarray = np.diff(self.offsets)
        return lengths

    @property
    def steps(self) -> np.ndarray:
        """The step of each row of ``values``, ``[sum of lengths]``."""
        rows: np.ndarray = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)
        return rows

    def series(self, i: int) -> np.ndarray:
        """Values of one series, ``[T_i, F]``."""
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def take(self, rows: np.ndarray) -> SeriesSet:
        """Some of the series; ids, and so fakes and random requests, stay with them."""
        offsets = np.concatenate([[0], np.cumsum(self.lengths[rows])]).astype(np.int64)
        starts = self.offsets[rows]
        return replace(
            self,
            values=take_stretches(self.values, starts, offsets),
            offsets=offsets,
            labels=self.labels[rows],
            ids=self.ids[rows],
            groups=self.groups[rows],
            step_labels=None if self.step_labels is None else take_stretches(self.step_labels, starts, offsets),
            weights=None if self.weights is None else self.weights[rows],
            subgroups={name: column[rows] for name, column in self.subgroups.items()},
            names=None if self.names is None else self.names[rows],
        )

    def joined(self, other: SeriesSet) -> SeriesSet:
        """These series and then others from the same source, to train on; names and subgroups are left behind."""
        assert (self.source, self.seed, self.features) == (other.source, other.seed, other.features)
        both = (self.step_labels, other.step_labels), (self.weights, other.weights)
        step_labels, weights = (None if one is None or more is None else (one, more) for one, more in both)
        return replace(
            self,
            values=join_tables(self.values, other.values),
            offsets=np.append(self.offsets, self.offsets[-1] + other.offsets[1:]),
            labels=np.append(self.labels, other.labels),
            ids=np.append(self.ids, other.ids),
            groups=np.append(self.groups, other.groups),
            step_labels=None if step_labels is None else join_tables(*step_labels),
            weights=None if weights is None else np.append(*weights),
            subgroups={},
            names=None,
        )

    def padded(self, rows: np.ndarray | None = None, steps: int | None = None, fill: float = np.nan) -> np.ndarray:
        """``[N, T, F]``, NaN (or ``fill``) after the end of each series; T is the longest of them unless given.

        In memory the steps are outermost: the loop reads one step of all series at a time.
        """
        rows = np.arange(len(self)) if rows is None else rows
        lengths = self.lengths[rows]
        steps = int(lengths.max()) if steps is None else steps
        at = np.arange(steps)[:, None]
        out = self.values[self.offsets[rows] + np.minimum(at, lengths - 1)]
        out[at >= lengths] = fill
        return out.swapaxes(0, 1)

    def hindsight(self, rows: np.ndarray, device: torch.device | str = "cpu", salt: int | None = None) -> Hindsight:
        """Some series as a batch with their labels. ``salt`` gives them other random keys (one per training epoch)."""
        lengths = self.lengths[rows]
        if self.complete:
            values = torch.from_numpy(self.padded(rows, fill=0.0))
            observed = torch.from_numpy(np.arange(values.shape[1]) < lengths[:, None]).unsqueeze(-1).expand_as(values)
        else:
            found = self.padded(rows)
            observed = torch.from_numpy(~np.isnan(found))
            values = torch.nan_to_num(torch.from_numpy(found), nan=0.0)
        keys = keyed.series_keys(self.seed, self.source, self.ids[rows])
        if salt is not None:
            keys = keyed.salt_keys(keys, salt)
        batch = Batch(
            values=values.to(device),
            observed=observed.to(device),
            lengths=torch.from_numpy(lengths).to(device),
            keys=torch.from_numpy(keys).to(device),
            complete=self.complete,
        )
        step_labels = None
        if self.step_labels is not None:
            at = np.arange(values.shape[1])
            lines = self.offsets[rows][:, None] + np.minimum(at, lengths[:, None] - 1)
            own = np.where(at < lengths[:, None], self.step_labels[lines], 0)
            step_labels = torch.from_numpy(own).to(device)
        weights = None if self.weights is None else torch.from_numpy(self.weights[rows]).to(device)
        return Hindsight(batch, torch.from_numpy(self.labels[rows]).to(device), step_labels, weights)


@dataclass(frozen=True)
class Source:
    """What every source of data comes down to before splits, scaling and fakes: raw values, NaN = not measured.

    Attributes:
        train: the series to learn and to choose models from.
        tests: one or more sets to report on; the first is the one that is meant where none is named.
        classes: names of the labels.
        menu: what can be ordered and for how much; None = each feature by itself, at cost 1.
        real: ``[T, F]`` bool, where it is known that only some columns matter.
        notes: what was met on reading (rows dropped, merged, …), in words, and how often.
    """

    train: SeriesSet
    tests: Mapping[str, SeriesSet]
    classes: tuple[str, ...]
    menu: Menu | None = None
    real: np.ndarray | None = None
    notes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Scaler:
    """Mean and standard deviation per feature, from the training split alone."""

    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def fit(cls, values: np.ndarray) -> Scaler:
        """From the observed ones of ``[rows, F]``; a feature that is constant or never observed keeps its spread."""
        seen = ~np.isnan(values).all(axis=0)
        values = values if seen.all() else np.where(seen, values, 0)
        mean = np.asarray(np.nanmean(values, axis=0, dtype=np.float64))
        with np.errstate(over="ignore"):
            std = np.nanstd(values, axis=0, dtype=np.float64)
        if not np.isfinite(std).all():  # squares of single precision end at 1e38
            std = np.array([np.nanstd(column.astype(np.float64)) for column in values.T])
        return cls(mean, np.where(std > 1e-12, std, 1.0))

    @classmethod
    def identity(cls, n_features: int) -> Scaler:
        """Changes nothing."""
        return cls(np.zeros(n_features), np.ones(n_features))

    def extend(self, count: int) -> Scaler:
        """The same with ``count`` further features that it leaves as they are."""
        return Scaler(np.append(self.mean, np.zeros(count)), np.append(self.std, np.ones(count)))

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Scaled values ``[..., F]``, float32; long tables in blocks, so that no large float64 table is made on the way."""
        if values.ndim < 2 or len(values) <= _BLOCK:
            return ((values - self.mean) / self.std).astype(np.float32)
        scaled = np.empty(values.shape, dtype=np.float32)
        for start in range(0, len(values), _BLOCK):
            scaled[start : start + _BLOCK] = (values[start : start + _BLOCK] - self.mean) / self.std
        return scaled


@dataclass(frozen=True)
class Reference:
    """What is known about a synthetic task in closed form or by enumeration, for one budget per step.

    Attributes:
        chance: accuracy without measuring.
        optimum: accuracy of the best acquisition with the best predictor.
        random: accuracy of random acquisition with the best predictor.
        blind: accuracy of the best acquisition that looks at time alone, with the best predictor; None where not known.
        greedy: accuracy of the best acquisition among those that always take what tells most about the label at the next
            step (ties in its favour), with the best predictor; None where not known.
    """

    chance: float
    optimum: float
    random: float
    blind: float | None = None
    greedy: float | None = None


@dataclass(frozen=True)
class Dataset:
    """Three splits over the same features, ready for the loop.

    Attributes:
        name: as on the command line.
        train, validation: from the archive's training part, grouped series never on both sides.
        tests: the archive's test part, or several by name; read once, after the model was chosen.
        classes: names of the labels.
        provenance: which columns are real; for metrics and the oracle only.
        horizon: the longest series of the archive's training part, the unit of time for models and shifts.
        scaler: how the columns were scaled; fakes, and all columns of a shifted set, count as they are.
        menu: what can be ordered; None = each feature by itself, at cost 1.
        notes: what was met on reading, in words, and how often.
    """

    name: str
    train: SeriesSet
    validation: SeriesSet
    tests: Mapping[str, SeriesSet]
    classes: tuple[str, ...]
    provenance: Provenance
    horizon: int
    scaler: Scaler
    menu: Menu | None = None
    notes: Mapping[str, int] = field(default_factory=dict)

    @property
    def test(self) -> SeriesSet:
        """The test set, or the first of several."""
        return next(iter(self.tests.values()))

    @property
    def longest(self) -> int:
        """Steps of the longest series of any split."""
        return len(self.provenance.real)

    @property
    def features(self) -> tuple[Feature, ...]:
        """The F columns."""
        return self.train.features

    def split(self, name: str) -> SeriesSet:
        """``train``, ``validation``, ``test`` (the first one), or a test set by its own name."""
        splits = {"train": self.train, "validation": self.validation, "test": self.test, **self.tests}
        if name not in splits:
            raise DataError(f"unknown split {name!r}", expected=f"one of {', '.join(splits)}")
        return splits[name]


def copies(series: Sequence[np.ndarray]) -> np.ndarray:
    """The place of the first one for series that are equal to the last bit, ``[N]``."""
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(np.ascontiguousarray(one).tobytes(), i) for i, one in enumerate(series)])
