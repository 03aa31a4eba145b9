"""PhysioNet/CinC Challenge 2019: early warning of sepsis, hour by hour, on training set B.

20,000 stays; a stay is a ``.psv`` file with a row per hour: 40 variables and SepsisLabel, which is 1 from six hours before the
onset of sepsis on. The label is moved ahead in the files already and is taken as it stands. Citation: Reyna et al.,
Critical Care Medicine 2020; CC BY 4.0.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from whichwhen.data.cache import cached_source, code_beside
from whichwhen.data.clinical.menus import make_clinical_menu
from whichwhen.data.clinical.patients import drop_implausible, name_age_bands, name_sexes
from whichwhen.data.clinical.reading import Table, find_files, read_table
from whichwhen.data.store import SeriesSet, Source
from whichwhen.errors import DataError, SpecError
from whichwhen.menu import Feature

NAME = "physionet2019"
FILES = ("training_setB.tar.gz",)
ORIGIN = "https://physionet.org/content/challenge-2019/1.0.0/"
CLASSES = ("no sepsis", "sepsis")
TEST_SHARE = 0.2

FEATURES = (
    Feature("HR", "bpm", 10, 300),
    Feature("O2Sat", "%", 10, 100),
    Feature("Temp", "°C", 25, 45),
    Feature("SBP", "mmHg", 20, 300),
    Feature("MAP", "mmHg", 10, 250),
    Feature("DBP", "mmHg", 5, 200),
    Feature("Resp", "1/min", 1, 80),
    Feature("EtCO2", "mmHg", 5, 150),
    Feature("BaseExcess", "mmol/L", -40, 40),
    Feature("HCO3", "mmol/L", 2, 60),
    Feature("FiO2", "fraction", 0.2, 1),
    Feature("pH", "", 6.5, 8),
    Feature("PaCO2", "mmHg", 5, 200),
    Feature("SaO2", "%", 10, 100),
    Feature("AST", "IU/L", 1, 50000),
    Feature("BUN", "mg/dL", 0, 300),
    Feature("Alkalinephos", "IU/L", 1, 10000),
    Feature("Calcium", "mg/dL", 0.5, 30),
    Feature("Chloride", "mmol/L", 60, 160),
    Feature("Creatinine", "mg/dL", 0, 50),
    Feature("Bilirubin_direct", "mg/dL", 0, 60),
    Feature("Glucose", "mg/dL", 5, 2000),
    Feature("Lactate", "mmol/L", 0, 40),
    Feature("Magnesium", "mg/dL", 0.1, 15),
    Feature("Phosphate", "mg/dL", 0.1, 20),
    Feature("Potassium", "mmol/L", 1, 15),
    Feature("Bilirubin_total", "mg/dL", 0, 100),
    Feature("TroponinI", "ng/mL", 0, 1000),
    Feature("Hct", "%", 5, 75),
    Feature("Hgb", "g/dL", 1, 30),
    Feature("PTT", "s", 10, 300),
    Feature("WBC", "1000/µL", 0, 1000),
    Feature("Fibrinogen", "mg/dL", 10, 2000),
    Feature("Platelets", "1000/µL", 1, 3000),
    Feature("Age", "years", 0, 120),
    Feature("Gender", "1 = male", 0, 1),
    Feature("Unit1", "1 = medical", 0, 1),
    Feature("Unit2", "1 = surgical", 0, 1),
    Feature("HospAdmTime", "h", -20000, 100),
)
"""All variables but ICULOS: that is the hour itself, which the models have as their step. Nothing here is relative to how
long a record is, as positive hours are its last ones."""

FREE = {
    "descriptors": ["Age", "Gender", "Unit1", "Unit2", "HospAdmTime"],
    "vital signs": ["HR", "O2Sat", "Temp", "SBP", "MAP", "DBP", "Resp", "EtCO2"],
}
LABS = {
    "blood gas": ["pH", "PaCO2", "SaO2", "FiO2", "BaseExcess", "HCO3", "Chloride"],
    "lactate": ["Lactate"],
    "metabolic panel": ["Potassium", "Chloride", "HCO3", "BUN", "Creatinine", "Glucose", "Calcium"],
    "glucose": ["Glucose"],
    "magnesium": ["Magnesium"],
    "phosphate": ["Phosphate"],
    "blood count": ["Hct", "Hgb", "WBC", "Platelets"],
    "liver panel": ["AST", "Alkalinephos", "Bilirubin_total"],
    "bilirubin direct": ["Bilirubin_direct"],
    "troponin I": ["TroponinI"],
    "PTT": ["PTT"],
    "fibrinogen": ["Fibrinogen"],
}
_COLUMNS = (*(feature.name for feature in FEATURES), "ICULOS", "SepsisLabel")


def load_physionet2019(folder: Path | str | None = None, longest: int | None = None) -> Source:
    """Training set B from ``FOLDER/physionet2019``, through the cache; see :func:`read_physionet2019`.

    Args:
        folder: the data folder; the environment variable WHICHWHEN_DATA if not given.
        longest: cut stays after so many hours; None = keep all (8 to 336).
    """
    files = find_files(NAME, FILES, ORIGIN, folder)
    source = cached_source(NAME, lambda: read_physionet2019(files[0].parent), files, code_beside(__file__))
    return source if longest is None else cut_stays(source, longest)


def read_physionet2019(home: Path) -> Source:
    """Training set B from the folder that holds its archive, without a cache.

    A step is a row of the file, so an hour. ``step_labels`` is SepsisLabel as it stands (already six hours ahead), ``labels``
    whether a stay has a positive hour at all. A patient belongs to the test set when the hash of the file's name falls into
    the first fifth. Values outside a feature's range become NaN; how many: ``Source.notes``.
    """
    table = read_table(home / FILES[0], ".psv", "|", _COLUMNS)
    ids = _patients(table)
    if (table.rows < 1).any():
        empty = table.members[int(np.argmin(table.rows))]
        raise DataError(f"{table.path}: {empty} has no rows", expected="one for each hour", do="get the archive again")
    positive = _positive(table)
    values = table.frame.select(feature.name for feature in FEATURES).to_numpy(order="c")
    low, high = (np.array([getattr(feature, side) for feature in FEATURES], dtype=np.float32) for side in ("low", "high"))
    implausible = drop_implausible(values, low, high)
    offsets = np.concatenate([[0], np.cumsum(table.rows)]).astype(np.int64)
    first = {name: values[offsets[:-1], i] for i, name in enumerate(_COLUMNS) if name in FREE["descriptors"]}
    series = SeriesSet(
        source="train",
        values=values,
        offsets=offsets,
        labels=np.maximum.reduceat(positive, offsets[:-1]),
        ids=ids,
        groups=ids.copy(),
        features=FEATURES,
        step_labels=positive,
        subgroups={
            "onset": _name_onsets(positive, offsets),
            "unit": np.select([first["Unit1"] == 1, first["Unit2"] == 1], ["medical", "surgical"], "unknown"),
            "sex": name_sexes(first["Gender"]),
            "age": name_age_bands(first["Age"]),
        },
    )
    held = np.array([in_test(stem) for stem in table.stems])
    train, test = (series.take(np.flatnonzero(side)) for side in (~held, held))
    return Source(
        train=train,
        tests={"test": replace(test, source="test")},
        classes=CLASSES,
        menu=make_clinical_menu(FEATURES, FREE, LABS),
        notes={"rows": len(values), "values outside their range, dropped": implausible},
    )


def in_test(patient: str) -> bool:
    """Whether a patient (``p100001``) is held out: by the hash of the name, so the same everywhere and for ever."""
    return int.from_bytes(hashlib.sha256(patient.encode()).digest()[:8], "big") < TEST_SHARE * 2**64


def cut_stays(source: Source, longest: int) -> Source:
    """The first ``longest`` hours of each stay; labels and onset are those of the hours that are left."""
    if longest < 2:
        raise SpecError(f"longest is {longest}", expected="at least 2 hours", do="leave it out to keep all of them")
    return replace(
        source,
        train=_cut(source.train, longest),
        tests={name: _cut(part, longest) for name, part in source.tests.items()},
    )


def _cut(series: SeriesSet, longest: int) -> SeriesSet:
    kept = series.steps < longest
    offsets = np.concatenate([[0], np.cumsum(np.minimum(series.lengths, longest))]).astype(np.int64)
    assert series.step_labels is not None
    positive = series.step_labels[kept]
    return replace(
        series,
        values=series.values[kept],
        offsets=offsets,
        step_labels=positive,
        labels=np.maximum.reduceat(positive, offsets[:-1]),
        subgroups={**series.subgroups, "onset": _name_onsets(positive, offsets)},
    )


def _name_onsets(positive: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """``[N]`` text: when the label of each stay turns positive."""
    at_once = positive[offsets[:-1]] == 1
    ever = np.maximum.reduceat(positive, offsets[:-1]) == 1
    return np.select([at_once, ever], ["from the first row", "later"], "never")


def _patients(table: Table) -> np.ndarray:
    """``[N]`` numbers from the files' names, p100001.psv and so on."""
    for stem, member in zip(table.stems, table.members, strict=True):
        if not (stem[:1] == "p" and stem[1:].isdecimal()):
            raise DataError(f"{table.path}: a file called {member}", expected="p and a number", do="get the archive again")
    return np.array([int(stem[1:]) for stem in table.stems], dtype=np.int64)


def _positive(table: Table) -> np.ndarray:
    """``[rows]`` SepsisLabel as 0 and 1."""
    label = table.frame["SepsisLabel"].to_numpy()
    if strange := np.flatnonzero((label != 0) & (label != 1)).tolist():
        table.refuse(strange[0], f"SepsisLabel {label[strange[0]]:g}", "0 or 1")
    return label.astype(np.int64)
