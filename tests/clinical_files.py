"""Small archives in the exact form in which PhysioNet ships the two clinical sets, and where the real ones lie."""

import functools
import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from support import GIVEN
from whichwhen.data.clinical import physionet2012, physionet2019
from whichwhen.data.store import Source

READERS = {"physionet2012": physionet2012, "physionet2019": physionet2019}
Row = tuple[str, str, str]
"""Time, parameter, value."""


def clinical_folder(name: str) -> Path:
    """The data folder with a real clinical set; skips the test where it is not there."""
    folder = Path(GIVEN) if GIVEN else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not all((folder / name / file).is_file() for file in READERS[name].FILES):
        pytest.skip(f"no {name} in WHICHWHEN_DATA or ../shared/data: this test reads the real archive")
    return folder


@functools.cache
def real_source(name: str) -> Source:
    """A real clinical set, read once for all tests, without a cache."""
    home = clinical_folder(name) / name
    return physionet2012.read_physionet2012(home) if name == "physionet2012" else physionet2019.read_physionet2019(home)


def write_tar(path: Path, files: Mapping[str, str]) -> None:
    """A .tar.gz of a folder with text files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        top = tarfile.TarInfo(path.name.removesuffix(".tar.gz"))
        top.type = tarfile.DIRTYPE
        archive.addfile(top)
        for name, text in files.items():
            member = tarfile.TarInfo(f"{top.name}/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


def stay_text(record: int, rows: Sequence[Row] = (), **described: str) -> str:
    """A stay of 2012: the descriptors, then its rows."""
    descriptors = {"RecordID": str(record), "Age": "54", "Gender": "0", "Height": "-1", "ICUType": "4", "Weight": "-1"}
    head = [("00:00", name, value) for name, value in (descriptors | described).items()]
    return "\n".join(["Time,Parameter,Value", *(",".join(row) for row in (*head, *rows))]) + "\n"


def write_2012(
    folder: Path, stays: Mapping[int, str], outcomes: Mapping[int, int] | None = None, other: Mapping[int, str] | None = None
) -> Path:
    """``physionet2012`` in a folder, its three sets: a with the stays, b and c with two of their own (or ``other`` for b)."""
    home = folder / "physionet2012"
    sets = {
        "a": stays,
        "b": other or {200001: stay_text(200001), 200002: stay_text(200002)},
        "c": {300001: stay_text(300001), 300002: stay_text(300002)},
    }
    for one, content in sets.items():
        write_tar(home / f"set-{one}.tar.gz", {f"{record}.txt": text for record, text in content.items()})
        died = outcomes if one == "a" and outcomes is not None else {record: i % 2 for i, record in enumerate(content)}
        lines = [f"{record},6,1,5,-1,{outcome}" for record, outcome in died.items()]
        header = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death"
        (home / f"Outcomes-{one}.txt").write_text("\n".join([header, *lines]) + "\n")
    return folder


HEADER_2019 = [*(feature.name for feature in physionet2019.FEATURES), "ICULOS", "SepsisLabel"]


def hours_text(labels: Sequence[int], first: int = 1, **columns: Sequence[str] | str) -> str:
    """A stay of 2019: a row for each label; columns that are not given are NaN, one value stands for all hours."""
    described = {"Age": "60", "Gender": "1", "Unit1": "NaN", "Unit2": "NaN", "HospAdmTime": "-4.5"}
    given = {**described, **columns}
    lines = ["|".join(HEADER_2019)]
    for hour, label in enumerate(labels):
        cells = {name: value if isinstance(value, str) else value[hour] for name, value in given.items()}
        cells |= {"ICULOS": str(first + hour), "SepsisLabel": str(label)}
        lines.append("|".join(cells.get(name, "NaN") for name in HEADER_2019))
    return "\n".join(lines) + "\n"


def write_2019(folder: Path, stays: Mapping[str, str]) -> Path:
    """``physionet2019`` in a folder, from stays by the patient's name (``p100001``)."""
    write_tar(folder / "physionet2019" / "training_setB.tar.gz", {f"{name}.psv": text for name, text in stays.items()})
    return folder
