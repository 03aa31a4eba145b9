import json
import math
from pathlib import Path

import pytest

from support import contents
from whichwhen.files import write_atomically, write_json, write_text


def test_a_whole_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_text(path, "old")
    write_text(path, "new: é")
    assert contents(tmp_path) == {"a.txt": "new: é".encode()}


def fail_halfway(path: Path) -> None:
    path.write_text("half of")
    raise RuntimeError("disk full")


@pytest.mark.parametrize("old", [None, "old"])
def test_a_writer_that_fails_halfway_leaves_the_old_file_and_nothing_else(old: str | None, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    if old is not None:
        path.write_text(old)
    before = contents(tmp_path)
    with pytest.raises(RuntimeError, match="disk full"):
        write_atomically(path, fail_halfway)
    assert contents(tmp_path) == before


def test_a_writer_that_is_stopped_leaves_no_part_file(tmp_path: Path) -> None:
    def stop(path: Path) -> None:
        path.write_text("half of")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.txt", stop)
    assert contents(tmp_path) == {}


def test_the_old_file_is_whole_until_the_new_one_is(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def write(beside: Path) -> None:
        assert beside.parent == tmp_path
        beside.write_text("new")
        assert path.read_text() == "old"

    write_atomically(path, write)
    assert path.read_text() == "new"


def test_a_writer_that_writes_nothing_is_an_error_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(FileNotFoundError):
        write_atomically(path, lambda beside: None)
    assert contents(tmp_path) == {"a.txt": b"old"}


def test_json_round_trip(tmp_path: Path) -> None:
    content = {"a": [1, 2.5, None], "b": {"c": "é"}}
    write_json(tmp_path / "a.json", content)
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == content


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_json_refuses_what_most_readers_refuse(number: float, tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"loss": number})
    assert contents(tmp_path) == {"a.json": b"1\n"}
