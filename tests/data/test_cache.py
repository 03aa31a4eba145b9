import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from clinical_files import stay_text, write_2012
from support import contents
from whichwhen.data.cache import KEPT, cached_source, code_beside
from whichwhen.data.clinical import load_physionet2012, physionet2012
from whichwhen.data.store import SeriesSet, Source
from whichwhen.errors import DataError
from whichwhen.menu import Feature, Menu, Order


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def make_source(mark: float = 0.0, rich: bool = True) -> Source:
    features = (Feature("a", "mmHg", 0, 10), Feature("ä b"))
    values = [np.array([[mark, np.nan], [1, 2]], dtype=np.float32), np.array([[3, 4]] * 3, dtype=np.float32)]
    part = SeriesSet.from_list(values, np.array([0, 1]), features)
    if not rich:
        return Source(part, {"test": replace(part, source="test")}, ("0", "1"))
    rich_part = replace(
        part,
        step_labels=np.array([0, 0, 0, 1, 1]),
        weights=np.array([1, 2], dtype=np.float32),
        subgroups={"sex": np.array(["female", "unknown"])},
        seed=3,
    )
    menu = Menu(
        features, (Order("all", ("a", "ä b"), cost=2.5, turnaround=3, retest=2), Order("vital", ("a",), 0.0, free=True))
    )
    tests = {"b": replace(rich_part, source="b"), "c": replace(part, source="c")}
    return Source(rich_part, tests, ("no", "yes"), menu, np.ones((3, 2), dtype=bool), {"rows": 5})


def assert_same(one: object, other: object) -> None:
    """Equal to the last bit, through dataclasses and mappings."""
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert isinstance(other, np.ndarray)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    elif isinstance(one, Source | SeriesSet):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict):
        assert isinstance(other, dict)
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    else:
        assert one == other


class Loader:
    """A source file, a code file and a builder that counts its calls."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.file, self.code, self.home = folder / "source", folder / "code.py", home
        self.file.write_text("1")
        self.code.write_text("x = 1")
        self.calls = 0

    def build(self) -> Source:
        self.calls += 1
        return make_source(float(self.file.read_text()))

    def load(self, **settings: object) -> Source:
        return cached_source("own", self.build, [self.file], [self.code], settings, self.home)

    @property
    def kept(self) -> list[Path]:
        return sorted((self.home / "sources").glob("own-*.source"))


@pytest.fixture
def loader(tmp_path: Path, home: Path) -> Loader:
    return Loader(tmp_path, home)


@pytest.mark.parametrize("rich", [True, False])
def test_what_is_read_back_is_what_was_stored(rich: bool, home: Path, tmp_path: Path) -> None:
    def never() -> Source:
        raise AssertionError

    made = cached_source("own", lambda: make_source(rich=rich), [], folder=home)
    assert_same(cached_source("own", never, [], folder=home), made)
    assert_same(made, make_source(rich=rich))


def test_a_second_load_builds_nothing(loader: Loader) -> None:
    loader.load()
    loader.load()
    assert loader.calls == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda loader: loader.file.write_text("2"),
        lambda loader: loader.code.write_text("x = 2"),
        lambda loader: loader.file.write_text("1.0"),
    ],
    ids=["source", "code", "source, same value"],
)
def test_a_change_of_source_or_code_builds_anew(change: Callable[[Loader], object], loader: Loader) -> None:
    loader.load()
    change(loader)
    assert loader.load().train.values[0, 0] == float(loader.file.read_text())
    assert loader.calls == 2


def test_a_source_that_was_only_touched_is_not_built_anew(loader: Loader) -> None:
    loader.load()
    os.utime(loader.file, (1, 1))
    loader.load()
    assert loader.calls == 1


def test_settings_are_part_of_the_key(loader: Loader) -> None:
    loader.load(longest=3)
    loader.load(longest=4)
    loader.load(longest=3)
    assert loader.calls == 2


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_built_anew(share: float, loader: Loader) -> None:
    loader.load()
    (path,) = loader.kept
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert_same(loader.load(), make_source(1))
    assert loader.calls == 2
    assert len(path.read_bytes()) == len(content)


def test_a_changed_byte_never_gives_other_values(loader: Loader) -> None:
    loader.load()
    (path,) = loader.kept
    content = path.read_bytes()
    for at in range(0, len(content), 41):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        assert_same(loader.load(), make_source(1))


def test_a_file_of_another_key_under_this_name_is_not_taken(loader: Loader) -> None:
    loader.load()
    (first,) = loader.kept
    loader.file.write_text("2")
    loader.load()
    (second,) = set(loader.kept) - {first}
    second.write_bytes(first.read_bytes())
    assert loader.load().train.values[0, 0] == 2


def test_what_the_builder_raises_is_passed_on_and_nothing_is_written(home: Path) -> None:
    def fail() -> Source:
        raise DataError("cut short")

    with pytest.raises(DataError, match="cut short"):
        cached_source("own", fail, [], folder=home)
    assert not [name for name in contents(home) if name.endswith((".source", ".part"))]
    assert cached_source("own", make_source, [], folder=home)


def test_a_write_that_breaks_leaves_nothing_half_written(loader: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        whole(path, content[:10])
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(UserWarning, match="No space left"):
        assert_same(loader.load(), make_source(1))
    assert not [name for name in contents(loader.home) if name.endswith((".source", ".part"))]


def test_a_cache_that_cannot_be_made_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(UserWarning, match="can't be written"):
        assert_same(cached_source("own", make_source, [], folder=tmp_path / "file"), make_source())


def test_only_a_few_versions_are_kept(loader: Loader) -> None:
    for i in range(KEPT + 3):
        loader.file.write_text(str(i))
        loader.load()
    assert len(loader.kept) == KEPT


def test_the_code_of_a_loader_is_its_whole_package() -> None:
    names = [path.name for path in code_beside(physionet2012.__file__)]
    assert {"__init__.py", "menus.py", "physionet2012.py", "reading.py"} <= set(names)


BUILD = """
import sys, time
from pathlib import Path
from test_cache import make_source
from whichwhen.data.cache import cached_source
home = Path(sys.argv[1])
def build():
    with (home / "builds").open("a") as file:
        file.write("x")
    time.sleep(1.5)
    return make_source(7)
(home / f"ready{sys.argv[2]}").touch()
while len(list(home.glob("ready*"))) < 2:
    time.sleep(0.01)
print(cached_source("own", build, [], folder=home).train.values[0, 0])
"""


def test_two_processes_at_once_build_once_and_agree(home: Path) -> None:
    home.mkdir()
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parent), *sys.path])}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", BUILD, str(home), str(i)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for i in range(2)
    ]
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert out.decode().strip() == "7.0"
    assert (home / "builds").read_text() == "x"
    assert not [name for name in contents(home) if name.endswith(".part")]


def test_a_clinical_set_is_parsed_once_and_again_when_its_archive_changes(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHICHWHEN_CACHE", str(home))
    stays = {100001: stay_text(100001, [("01:00", "HR", "80")]), 100002: stay_text(100002)}
    folder = write_2012(tmp_path / "data", stays)
    calls: list[Path] = []
    read = physionet2012.read_physionet2012

    def counted(where: Path) -> Source:
        calls.append(where)
        return read(where)

    monkeypatch.setattr(physionet2012, "read_physionet2012", counted)
    first = load_physionet2012(folder)
    assert_same(load_physionet2012(folder), first)
    assert len(calls) == 1
    write_2012(tmp_path / "data", {**stays, 100001: stay_text(100001, [("01:00", "HR", "90")])})
    again = load_physionet2012(folder)
    assert len(calls) == 2
    assert np.nanmax(again.train.values[:, [feature.name for feature in again.train.features].index("HR")]) == 90
