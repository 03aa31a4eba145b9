"""Data sets by name: from an archive or a task to three scaled splits with fakes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from whichwhen.data import archives, frames, on_disk, synthetic
from whichwhen.data.checks import check_observed, check_series
from whichwhen.data.clinical import mask_only, physionet2012, physionet2019, time_only
from whichwhen.data.fakes import add_fakes, provenance, shift
from whichwhen.data.regrid import widen_source
from whichwhen.data.splits import split_validation
from whichwhen.data.store import Dataset, Reference, Scaler, SeriesSet, Source
from whichwhen.data.tasks import Task
from whichwhen.errors import DataError, DataWarning, SpecError
from whichwhen.menu import Feature, Menu, Order
from whichwhen.menu_files import load_menu
from whichwhen.provenance import Provenance
from whichwhen.specs import DataSpec, parse_spec


@dataclass(frozen=True)
class Entry:
    """A line of ``whichwhen data``.

    Attributes:
        name, about: what the line says.
        archive: its name in the UCR or UEA archive.
        files: what has to lie in the data folder for it, where it is no such archive.
    """

    name: str
    about: str
    archive: str = ""
    files: tuple[str, ...] = ()

    def where(self, folder: Path | str | None = None) -> str:
        """Where it would come from, in a word or two."""
        if not self.files:
            return archives.where(self.archive, folder)
        return "data folder" if archives.in_data_folder(self.files, folder) else "not in the data folder"


CATALOG = (
    Entry("m-forda", "FordA, m samples of an engine's noise as the features of one step; 2 classes", "FordA"),
    Entry(
        "spoken-arabic-digits",
        "13 MFCC of spoken digits, lengths 4-93, new speakers in test; 10 classes",
        "SpokenArabicDigits",
    ),
    Entry("japanese-vowels", "12 LPC cepstra of a vowel, lengths 7-29; 9 speakers to tell apart", "JapaneseVowels"),
    *(Entry(f"synthetic:{name}", task.about) for name, task in synthetic.TASKS.items()),
    Entry(
        "physionet2012",
        "48 hours of intensive care, vital signs free, labs in panels at a price; in-hospital death; test sets b and c",
        files=tuple(f"physionet2012/{file}" for file in physionet2012.FILES),
    ),
    Entry(
        "physionet2019",
        "intensive care hour by hour, lengths 8-336, vital signs free, labs in panels at a price; sepsis, a label per hour",
        files=tuple(f"physionet2019/{file}" for file in physionet2019.FILES),
    ),
    Entry("FOLDER.series", "series of your own that stay on disk, written by `whichwhen pack`; see docs/streaming.md"),
    Entry("FILE", "a table of your own, .parquet or .csv, with --id, --time and --label; see docs/own-data.md"),
    Entry("ucr:NAME", "any classification set of the UCR and UEA archives, by its name there"),
)


def load_dataset(data: DataSpec | str, seed: int = 0, folder: Path | str | None = None, **fields: object) -> Dataset:
    """A data set by name or spec, split, scaled and with its fakes.

    Args:
        data: a :class:`DataSpec`, or a name with the spec's other fields as keywords.
        seed: of the validation split, the fakes and the random keys.
        folder: where archives lie; the environment variable WHICHWHEN_DATA if not given.
        **fields: ``fakes``, ``n_fakes``, ``shift``, ``m``, ``validation``; for one's own table ``id``, ``time``, ``label``, ….
    """
    spec = data if isinstance(data, DataSpec) else parse_spec(DataSpec, {"name": data, **fields}, "load_dataset")
    if spec.shift and task_of(spec):
        raise SpecError(f"shift on {spec.name}", do="shift archives only; synthetic:moving moves by itself")
    if on_disk.is_store(spec.name):
        return _open_store(spec, seed)
    source = _load_source(spec, seed, folder)
    return finish_dataset(source, spec, seed)


def finish_dataset(source: Source, spec: DataSpec, seed: int = 0) -> Dataset:
    """Split, scale and add what a spec asks for to series that are loaded already."""
    for part in (source.train, *source.tests.values()):
        check_series(part, source.classes, spec.name)
    n_real = len(source.train.features)
    n_fakes = 0 if spec.fakes == "none" else spec.n_fakes
    horizon = int(source.train.lengths.max())
    longest = max(horizon, *(int(part.lengths.max()) for part in source.tests.values()))

    train, validation = split_validation(source.train, spec.validation, seed)
    if spec.control != "time-only":
        check_observed(train, spec.name)
    scaler = Scaler.fit(train.values)
    finished: list[SeriesSet] = []
    for part in (train, validation, *source.tests.values()):
        scaled = replace(part, values=scaler.apply(part.values), seed=seed)
        with_fakes = add_fakes(scaled, spec.fakes, spec.n_fakes, seed)
        finished.append(shift(with_fakes, n_real, horizon) if spec.shift else with_fakes)
    if source.real is None:
        truth = provenance(n_real, n_fakes, spec.shift, longest, horizon)
    else:
        truth = Provenance(np.pad(source.real, ((0, 0), (0, n_fakes))))
    menu = _whole_menu(source, spec, finished[0].features)
    if menu is not None:
        finished = [replace(part, features=menu.features) for part in finished]
    return Dataset(
        name=spec.name,
        train=finished[0],
        validation=finished[1],
        tests=dict(zip(source.tests, finished[2:], strict=True)),
        classes=source.classes,
        provenance=truth,
        horizon=horizon,
        menu=menu,
        notes=source.notes,
        scaler=Scaler.identity(n_real + n_fakes) if spec.shift else scaler.extend(n_fakes),
    )


def _open_store(spec: DataSpec, seed: int) -> Dataset:
    """A folder of series as it was written; prices may change afterwards, parts and columns may not."""
    settled = DataSpec(name=spec.name, menu=spec.menu, digest=spec.digest, m=spec.m, n_fakes=spec.n_fakes)
    if spec != settled:
        changed = next(name for name in DataSpec.model_fields if getattr(spec, name) != getattr(settled, name))
        raise SpecError(
            f"--{changed.replace('_', '-')} for {spec.name}",
            expected="it where the folder is written: parts and columns are settled there",
            do="leave it out, or write the folder anew",
        )
    frames.check_digest(spec)
    data = on_disk.open_store(spec.name, seed)
    if spec.menu is None:
        return data
    free = [name for order in data.menu.orders if order.free for name in order.features] if data.menu else []
    menu = load_menu(spec.menu, data.features, free=free)
    parts = [replace(part, features=menu.features) for part in (data.train, data.validation, *data.tests.values())]
    tests = dict(zip(data.tests, parts[2:], strict=True))
    return replace(data, train=parts[0], validation=parts[1], tests=tests, menu=menu)


def reference(spec: DataSpec, budget: float) -> Reference | None:
    """Chance, optimum and what lies between where they are known exactly, else None."""
    task = task_of(spec)
    return task.reference(budget, 0 if spec.fakes == "none" else spec.n_fakes) if task else None


def task_of(spec: DataSpec) -> Task | None:
    """The synthetic task of a name, None for an archive."""
    kind, _, name = spec.name.partition(":")
    return synthetic.find_task(name) if kind == "synthetic" else None


def _whole_menu(source: Source, spec: DataSpec, features: tuple[Feature, ...]) -> Menu | None:
    """The file's menu, else the source's own with each fake as an order at cost 1."""
    if spec.menu is not None:
        free = [name for order in source.menu.orders if order.free for name in order.features] if source.menu else []
        return load_menu(spec.menu, features, free=free)
    if source.menu is None and spec.costs == "rising":
        n_real = len(source.train.features)
        prices = [1.0 + i if i < n_real else 1.0 for i in range(len(features))]
        orders = (Order(feature.name, (feature.name,), cost) for feature, cost in zip(features, prices, strict=True))
        return Menu(features, tuple(orders))
    if source.menu is None or len(features) == len(source.menu.features):
        return source.menu
    fakes = features[len(source.menu.features) :]
    return Menu((*source.menu.features, *fakes), (*source.menu.orders, *(Order(fake.name, (fake.name,)) for fake in fakes)))


def _load_source(spec: DataSpec, seed: int, folder: Path | str | None) -> Source:
    if frames.is_table(spec.name):
        frames.check_digest(spec)
        table = frames.open_table(spec.name, spec)
        for line in table.report.warnings:
            warnings.warn(line, DataWarning, stacklevel=4)
        return table.source
    if spec.given:
        raise SpecError(
            f"--{spec.given[0].replace('_', '-')} for {spec.name}",
            expected="it with a table of your own only",
            do="give the path of a .parquet or .csv file, or leave it out",
        )
    if spec.name == "m-forda":
        return _m_forda(spec.m, folder)
    if spec.name == "spoken-arabic-digits":
        return _archive("SpokenArabicDigits", folder, prefix="mfcc", groups=_speakers)
    if spec.name == "japanese-vowels":
        return _archive("JapaneseVowels", folder, prefix="lpc")
    if spec.name == physionet2012.NAME:
        return _as_asked(physionet2012.load_physionet2012(folder), spec)
    if spec.name == physionet2019.NAME:
        return _as_asked(physionet2019.load_physionet2019(folder, spec.longest), spec)
    kind, _, rest = spec.name.partition(":")
    if kind == "ucr" and rest:
        return _archive(rest, folder)
    if task := task_of(spec):
        return Source(
            task.make("train", task.n_train, seed),
            {"test": task.make("test", task.n_test, seed)},
            ("0", "1"),
            menu=task.own_menu,
            real=task.real,
        )
    known = [entry.name for entry in CATALOG]
    near = archives.near_names(spec.name, known)
    if not near and spec.name in archives.known_archives():
        near = [f"ucr:{spec.name}"]
    hint = f"did you mean {' or '.join(near)}?" if near else "`whichwhen data` lists what there is"
    raise DataError(f"unknown data set {spec.name!r}", expected=f"one of {', '.join(known)}", do=hint)


def _as_asked(source: Source, spec: DataSpec) -> Source:
    """A clinical set on wider steps, or as a control."""
    source = widen_source(source, spec.hours)
    if spec.control == "none":
        return source
    hide = mask_only if spec.control == "mask-only" else time_only
    return replace(source, train=hide(source.train), tests={name: hide(part) for name, part in source.tests.items()})


def _m_forda(m: int, folder: Path | str | None) -> Source:
    """M consecutive samples become one step of m features; a rest that does not fill a step is cut off at the end."""

    def reshape(series: np.ndarray) -> np.ndarray:
        steps = len(series) // m
        if steps < 2:
            raise DataError(
                f"m is {m} for series of {len(series)} samples", expected=f"1 to {len(series) // 2}", do="lower --m"
            )
        return series[: steps * m].reshape(steps, m)

    return _archive("FordA", folder, prefix="sample", transform=reshape)


def _archive(
    name: str,
    folder: Path | str | None,
    prefix: str = "x",
    groups: Callable[[np.ndarray], np.ndarray] | None = None,
    transform: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Source:
    raw = archives.load_archive(name, folder)
    classes = _sorted_classes(raw["train"].labels)
    if strange := set(raw["test"].labels.tolist()) - set(classes):
        raise DataError(
            f"{name}: label {min(strange)!r} in the test part, which no training series has",
            expected=f"one of {', '.join(classes)}",
            do="get the files again; one may be cut short",
        )
    widths = {source: {one.shape[1] for one in part.series} for source, part in raw.items()}
    if len(widths["train"] | widths["test"]) > 1:
        raise DataError(
            f"{name}: {_numbers(widths['train'])} features in the training part, {_numbers(widths['test'])} in the test part",
            expected="the same features in all series",
            do="get the files again",
        )
    position = {label: i for i, label in enumerate(classes)}
    sets = {}
    for source, part in raw.items():
        series = [transform(one) for one in part.series] if transform else part.series
        labels = np.array([position[label] for label in part.labels])
        features = [Feature(f"{prefix}{i}") for i in range(series[0].shape[1])]
        together = groups(labels) if groups and source == "train" else None
        sets[source] = SeriesSet.from_list(series, labels, features, source, together)
    return Source(sets["train"], {"test": sets["test"]}, classes)


def _numbers(found: set[int]) -> str:
    return " or ".join(str(number) for number in sorted(found))


def _sorted_classes(labels: np.ndarray) -> tuple[str, ...]:
    unique = sorted(set(labels.tolist()))
    try:
        return tuple(sorted(unique, key=float))
    except ValueError:
        return tuple(unique)


def _speakers(labels: np.ndarray) -> np.ndarray:
    """The speaker of each training series of SpokenArabicDigits.

    In UCI's order the file is sorted by digit, and within a digit ten consecutive rows are one speaker; the same speakers
    come in the same sequence for each digit. Test speakers are others, so validation must hold out whole speakers, too.
    """
    per_class = np.bincount(labels)
    in_order = bool((np.diff(labels) >= 0).all())
    if not in_order or len(set(per_class.tolist())) != 1 or per_class[0] % 10:
        raise DataError(
            "SpokenArabicDigits is not in UCI's order, so its speakers can't be told apart",
            expected="rows sorted by digit, ten of each speaker together",
            do="get the archive's own file again",
        )
    speaker: np.ndarray = np.arange(len(labels)) % per_class[0] // 10
    return speaker
