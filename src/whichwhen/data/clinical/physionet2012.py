"""PhysioNet/CinC Challenge 2012: death in hospital, from the first 48 hours in intensive care.

12,000 stays of three sets of 4,000; a stay is a text file of rows ``Time,Parameter,Value``. Train = set a; tests = sets b
and c. Citation: Silva et al., Computing in Cardiology 2012; ODC-By 1.0.
"""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl

from whichwhen.data.cache import cached_source, code_beside
from whichwhen.data.clinical.menus import make_clinical_menu
from whichwhen.data.clinical.patients import drop_implausible, name_age_bands, name_sexes
from whichwhen.data.clinical.reading import Table, find_files, read_table
from whichwhen.data.store import SeriesSet, Source
from whichwhen.errors import DataError
from whichwhen.menu import Feature

NAME = "physionet2012"
SETS = ("a", "b", "c")
FILES = (*(f"set-{one}.tar.gz" for one in SETS), *(f"Outcomes-{one}.txt" for one in SETS))
ORIGIN = "https://physionet.org/content/challenge-2012/1.0.0/"
STEPS = 48
CLASSES = ("survived", "died")
UNITS = ("coronary care", "cardiac surgery", "medical", "surgical")
"""Kinds of intensive care unit; ICUType counts them from 1."""

STATIC = (
    Feature("Age", "years", 0, 120),
    Feature("Gender", "1 = male", 0, 1),
    Feature("Height", "cm", 100, 250),
    Feature("WeightAdmission", "kg", 20, 300),
    *(Feature(f"ICU {unit}", "1 = yes", 0, 1) for unit in UNITS),
)
SERIES = (
    Feature("HR", "bpm", 10, 300),
    Feature("SysABP", "mmHg", 20, 300),
    Feature("DiasABP", "mmHg", 5, 200),
    Feature("MAP", "mmHg", 10, 250),
    Feature("NISysABP", "mmHg", 20, 300),
    Feature("NIDiasABP", "mmHg", 5, 200),
    Feature("NIMAP", "mmHg", 10, 250),
    Feature("RespRate", "1/min", 1, 80),
    Feature("Temp", "°C", 25, 45),
    Feature("GCS", "points", 3, 15),
    Feature("Urine", "mL", 0, 5000),
    Feature("FiO2", "fraction", 0.2, 1),
    Feature("MechVent", "1 = yes", 0, 1),
    Feature("Weight", "kg", 20, 300),
    Feature("pH", "", 6.5, 8),
    Feature("PaCO2", "mmHg", 5, 200),
    Feature("PaO2", "mmHg", 10, 700),
    Feature("SaO2", "%", 10, 100),
    Feature("Lactate", "mmol/L", 0, 40),
    Feature("Na", "mEq/L", 90, 200),
    Feature("K", "mEq/L", 1, 15),
    Feature("HCO3", "mmol/L", 2, 60),
    Feature("BUN", "mg/dL", 0, 300),
    Feature("Creatinine", "mg/dL", 0, 50),
    Feature("Glucose", "mg/dL", 5, 2000),
    Feature("Mg", "mmol/L", 0.1, 15),
    Feature("HCT", "%", 5, 75),
    Feature("WBC", "1000/µL", 0, 1000),
    Feature("Platelets", "1000/µL", 1, 3000),
    Feature("ALP", "IU/L", 1, 10000),
    Feature("ALT", "IU/L", 1, 50000),
    Feature("AST", "IU/L", 1, 50000),
    Feature("Bilirubin", "mg/dL", 0, 100),
    Feature("Albumin", "g/dL", 0.5, 7),
    Feature("Cholesterol", "mg/dL", 10, 1000),
    Feature("TroponinI", "µg/L", 0, 500),
    Feature("TroponinT", "µg/L", 0, 100),
)
FEATURES = STATIC + SERIES
FREE = {
    "descriptors": [feature.name for feature in STATIC],
    "bedside": [feature.name for feature in SERIES[: [feature.name for feature in SERIES].index("pH")]],
}
LABS = {
    "blood gas": ["pH", "PaCO2", "PaO2", "SaO2"],
    "lactate": ["Lactate"],
    "metabolic panel": ["Na", "K", "HCO3", "BUN", "Creatinine", "Glucose"],
    "magnesium": ["Mg"],
    "blood count": ["HCT", "WBC", "Platelets"],
    "hematocrit": ["HCT"],
    "liver panel": ["ALP", "ALT", "AST", "Bilirubin", "Albumin"],
    "cholesterol": ["Cholesterol"],
    "troponin I": ["TroponinI"],
    "troponin T": ["TroponinT"],
}
DESCRIPTORS = ("RecordID", "Age", "Gender", "Height", "ICUType", "Weight")
"""In the first minute of each file, once; Weight also occurs as a series."""
_SUMMED = "Urine"


def load_physionet2012(folder: Path | str | None = None) -> Source:
    """The three sets from ``FOLDER/physionet2012``, through the cache; see :func:`read_physionet2012`.

    Args:
        folder: the data folder; the environment variable WHICHWHEN_DATA if not given.
    """
    files = find_files(NAME, FILES, ORIGIN, folder)
    return cached_source(NAME, lambda: read_physionet2012(files[0].parent), files, code_beside(__file__))


def read_physionet2012(home: Path) -> Source:
    """The three sets from the folder that holds their files, without a cache.

    Each stay is 48 hourly steps. A row goes to the hour of its stamp; 48:00 belongs to the last hour. Within an hour the last
    plausible value counts (of rows with the same stamp, the one further down); Urine is an amount, so its rows of an hour are
    summed. Values outside a feature's range become NaN, -1 in a descriptor is missing, rows without a parameter name are
    dropped, and stays without any measurement stay, with their descriptors. How many of each: ``Source.notes``.
    """
    notes: Counter[str] = Counter()
    parts = {one: _read_set(home, one, notes) for one in SETS}
    return Source(
        train=parts["a"],
        tests={one: parts[one] for one in ("b", "c")},
        classes=CLASSES,
        menu=make_clinical_menu(FEATURES, FREE, LABS),
        notes=dict(notes),
    )


def _read_set(home: Path, one: str, notes: Counter[str]) -> SeriesSet:
    table = read_table(home / f"set-{one}.tar.gz", ".txt", ",", ("Time", "Parameter", "Value"), text=("Time", "Parameter"))
    ids = _record_ids(table)
    died = _read_outcomes(home / f"Outcomes-{one}.txt", ids, table.path)
    minute = _minutes(table)
    known = {name: k for k, name in enumerate((*DESCRIPTORS[:-1], *(feature.name for feature in SERIES)))}
    names = table.frame["Parameter"]
    code = names.replace_strict(known, default=-1, return_dtype=pl.Int64).to_numpy()
    unnamed = (names.is_null() | (names == "")).fill_null(value=True).to_numpy()
    if strange := np.flatnonzero((code < 0) & ~unnamed).tolist():
        table.refuse(strange[0], f"unknown parameter {names[strange[0]]!r}", "one of the challenge's 37, or a descriptor")
    value = table.frame["Value"].to_numpy()
    owner = table.owner

    is_weight = (code == known["Weight"]) & (minute == 0)
    first_weight = np.flatnonzero(is_weight)
    first_weight = first_weight[np.unique(owner[first_weight], return_index=True)[1]]
    described = np.full((len(ids), len(DESCRIPTORS)), np.nan, dtype=np.float32)
    static = (code >= 0) & (code < len(DESCRIPTORS) - 1)
    described[owner[static], code[static]] = value[static]
    described[owner[first_weight], DESCRIPTORS.index("Weight")] = value[first_weight]
    described[described == -1] = np.nan
    _check_record_ids(table, ids, described[:, 0])

    timed = ~static & ~unnamed
    timed[first_weight] = False
    column = code[timed] - (len(DESCRIPTORS) - 1)
    series, implausible = _grid(len(ids), owner[timed], minute[timed], column, value[timed])
    fixed = _static_columns(described)
    implausible += drop_implausible(fixed, *_range(STATIC))
    values = np.concatenate([np.repeat(fixed, STEPS, axis=0), series], axis=1)

    cells = (owner[timed].astype(np.int64) * (STEPS * 60 + 1) + minute[timed]) * len(SERIES) + column
    notes["rows"] += len(value)
    notes["rows without a parameter name, dropped"] += int(unnamed.sum())
    notes["rows that repeat a stamp and parameter, merged"] += len(cells) - pl.Series(cells).n_unique()
    notes["values outside their range, dropped"] += implausible
    notes["stays without a measurement, kept"] += len(ids) - len(np.unique(owner[timed]))
    unit = described[:, DESCRIPTORS.index("ICUType")]
    return SeriesSet(
        source="train" if one == "a" else one,
        values=values,
        offsets=np.arange(len(ids) + 1, dtype=np.int64) * STEPS,
        labels=died,
        ids=ids,
        groups=ids.copy(),
        features=FEATURES,
        subgroups={
            "unit": np.select([unit == i + 1 for i in range(len(UNITS))], UNITS, "unknown"),
            "sex": name_sexes(described[:, 2]),
            "age": name_age_bands(described[:, 1]),
        },
    )


def _grid(count: int, owner: np.ndarray, minute: np.ndarray, column: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, int]:
    """Rows onto ``[count · 48, 37]`` float32, and how many values were not plausible."""
    low, high = _range(SERIES)
    fits = (value >= low[column]) & (value <= high[column])
    implausible = int(np.count_nonzero(~fits))
    owner, minute, column, value = owner[fits], minute[fits], column[fits], value[fits]
    turns = np.argsort(owner * (STEPS * 60 + 1) + minute, kind="stable")  # in the archives the rows are in order already
    owner, minute, column, value = owner[turns], minute[turns], column[turns], value[turns]
    row = owner * STEPS + np.minimum(minute // 60, STEPS - 1)
    grid = np.full((count * STEPS, len(SERIES)), np.nan, dtype=np.float32)
    grid[row, column] = value  # the last of several wins
    amount = [feature.name for feature in SERIES].index(_SUMMED)
    of_amount = column == amount
    sums = np.bincount(row[of_amount], weights=value[of_amount], minlength=len(grid))
    grid[:, amount] = np.where(np.isnan(grid[:, amount]), np.nan, sums)
    return grid, implausible + drop_implausible(grid, low, high)


def _static_columns(described: np.ndarray) -> np.ndarray:
    """``[N, 8]`` from the descriptors: age, sex, height, weight, and one column for each kind of unit."""
    _, age, sex, height, unit, weight = described.T
    kinds = np.where(np.isnan(unit)[:, None], np.nan, unit[:, None] == np.arange(1, len(UNITS) + 1))
    return np.column_stack([age, sex, height, weight, kinds]).astype(np.float32)


def _range(features: tuple[Feature, ...]) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.array([(feature.low, feature.high) for feature in features], dtype=np.float32).T
    return low, high


def _record_ids(table: Table) -> np.ndarray:
    """``[N]`` from the files' names."""
    for stem, member in zip(table.stems, table.members, strict=True):
        if not stem.isdecimal():
            raise DataError(f"{table.path}: a file called {member}", expected="RecordID.txt", do="get the archive again")
    return np.array([int(stem) for stem in table.stems], dtype=np.int64)


def _check_record_ids(table: Table, ids: np.ndarray, said: np.ndarray) -> None:
    wrong = np.flatnonzero(~np.isnan(said) & (said != ids))
    if len(wrong):
        raise DataError(
            f"{table.path}: {table.members[wrong[0]]} says RecordID {said[wrong[0]]:g}",
            expected="the number in its name",
            do="get the archive again",
        )


def _minutes(table: Table) -> np.ndarray:
    """``[rows]`` minutes since admission from ``HH:MM``."""
    parts = table.frame["Time"].str.extract_groups(r"^(\d\d):([0-5]\d)$").struct.unnest().cast(pl.Int64)
    minute = parts.to_series(0) * 60 + parts.to_series(1)
    bad = (minute.is_null() | (minute > STEPS * 60)).fill_null(value=True)
    if bad.any():
        line = bad.arg_max() or 0
        table.refuse(line, f"time {table.frame['Time'][line]!r}", "hours and minutes from 00:00 to 48:00")
    return minute.to_numpy()


def _read_outcomes(path: Path, ids: np.ndarray, archive: Path) -> np.ndarray:
    """``[N]`` whether each stay ended in death; nothing else of the file is read, as the rest would give the answer away."""
    wanted = ("RecordID", "In-hospital_death")
    died: dict[int, int] = {}
    again = "get the file again"
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not text", do=again) from error
    reader = csv.DictReader(text.splitlines())
    if missing := [name for name in wanted if name not in (reader.fieldnames or ())]:
        raise DataError(f"{path} has no column {missing[0]!r}", expected=" and ".join(wanted), do=again)
    for row, line in enumerate(reader, start=2):
        record, outcome = (line[name] for name in wanted)
        if not (record and record.isdecimal() and outcome in ("0", "1")):
            raise DataError(
                f"{path}, row {row}: RecordID {record!r}, In-hospital_death {outcome!r}",
                expected="a number, and 0 or 1",
                do=again,
            )
        died[int(record)] = int(outcome)
    for record in ids.tolist():
        if record not in died:
            raise DataError(f"{path} has no row for record {record} of {archive}", expected="one for each stay", do=again)
    if extra := died.keys() - set(ids.tolist()):
        raise DataError(
            f"{archive} has no file for record {min(extra)} of {path.name} ({len(extra)} such records)",
            expected="one for each outcome",
            do="get the archive again; it may be cut short",
        )
    return np.array([died[record] for record in ids.tolist()], dtype=np.int64)
