import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import contents, ts_rows, ts_text, write_archive
from whichwhen.data import archives
from whichwhen.errors import DataError, DownloadError

TRAIN, TEST = ts_text(ts_rows(seed=1)), ts_text(ts_rows(seed=2))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no data folder, no network."""
    folder = tmp_path / "cache"
    monkeypatch.delenv("WHICHWHEN_DATA", raising=False)
    monkeypatch.setenv("WHICHWHEN_CACHE", str(folder))

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("Network is unreachable")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return folder


def fake_download(monkeypatch: pytest.MonkeyPatch, parts: tuple[str, ...] = ("TRAIN", "TEST")) -> list[str]:
    """Let aeon's loader write some of the files, then fail if they are not all; returns the list of its calls."""
    calls: list[str] = []

    def load(name: str, split: str, extract_path: str) -> None:
        calls.append(split)
        home = Path(extract_path) / name
        home.mkdir(exist_ok=True)
        for part in parts:
            (home / f"{name}_{part}.ts").write_text(TRAIN if part == "TRAIN" else TEST)
        if len(parts) < 2:
            raise OSError("Connection reset by peer\nmore words")

    monkeypatch.setattr("aeon.datasets.load_classification", load)
    return calls


# where archives come from


def test_carried_archives_need_neither_folder_nor_network(cache: Path) -> None:
    raw = archives.load_archive("JapaneseVowels")
    assert [len(raw[part].series) for part in ("train", "test")] == [270, 370]
    lengths = [len(one) for part in raw.values() for one in part.series]
    assert (min(lengths), max(lengths)) == (7, 29)
    assert {one.shape[1] for part in raw.values() for one in part.series} == {12}
    assert sorted(set(raw["train"].labels)) == [str(i) for i in range(1, 10)]
    assert not cache.exists()


def test_values_are_those_of_the_file_with_time_first(tmp_path: Path) -> None:
    folder = write_archive(tmp_path, ts_text(["1,2,3:4,5,6:b", "7,8:9,10:a"]), TEST)
    raw = archives.load_archive("Own", folder)["train"]
    assert [one.tolist() for one in raw.series] == [[[1, 4], [2, 5], [3, 6]], [[7, 9], [8, 10]]]
    assert raw.labels.tolist() == ["b", "a"]
    assert raw.series[0].dtype == np.float32


def test_the_data_folder_comes_before_the_carried_archives(tmp_path: Path) -> None:
    folder = write_archive(tmp_path, TRAIN, TEST, "JapaneseVowels")
    assert len(archives.load_archive("JapaneseVowels", folder)["train"].series) == 12


def test_carried_archives_are_found_beside_a_data_folder(tmp_path: Path) -> None:
    assert len(archives.load_archive("JapaneseVowels", tmp_path)["train"].series) == 270


def test_the_variable_names_the_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHICHWHEN_DATA", str(write_archive(tmp_path / "a", TRAIN, TEST)))
    assert len(archives.load_archive("Own")["test"].series) == 12


def test_the_argument_beats_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHICHWHEN_DATA", str(write_archive(tmp_path / "a", TRAIN, TEST)))
    folder = write_archive(tmp_path / "b", ts_text(ts_rows(5)), TEST)
    assert len(archives.load_archive("Own", folder)["train"].series) == 5


def test_a_home_sign_in_the_folder_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write_archive(tmp_path / "archives", TRAIN, TEST)
    assert len(archives.load_archive("Own", "~/archives")["train"].series) == 12


@pytest.mark.parametrize("part", ["TRAIN", "TEST"])
def test_a_missing_file_is_named_with_its_origin_and_never_downloaded(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = fake_download(monkeypatch)
    folder = write_archive(tmp_path / "data", TRAIN, TEST, "FordA")
    (folder / "FordA" / f"FordA_{part}.ts").unlink()
    before = contents(folder)
    with pytest.raises(DataError) as caught:
        archives.load_archive("FordA", folder)
    message = str(caught.value)
    for words in (f"no file FordA/FordA_{part}.ts", str(folder), "--data-dir", "timeseriesclassification.com"):
        assert words in message
    assert not calls
    assert contents(folder) == before


def test_the_message_says_that_the_folder_came_from_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHICHWHEN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="from WHICHWHEN_DATA"):
        archives.load_archive("FordA")


# downloads


def test_without_network_it_says_what_to_do(cache: Path) -> None:
    with pytest.raises(DownloadError) as caught:
        archives.load_archive("FordA")
    message = str(caught.value)
    assert "\n" not in message
    for words in ("FordA is not here", "timeseriesclassification.com", "FordA_TRAIN.ts", "FordA_TEST.ts", "WHICHWHEN_DATA"):
        assert words in message
    assert contents(cache) == {}


def test_a_download_that_breaks_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_download(monkeypatch, parts=("TRAIN",))
    with pytest.raises(DownloadError, match=r"\(Connection reset by peer\)"):
        archives.load_archive("FordA")
    assert contents(cache) == {}
    fake_download(monkeypatch)
    assert len(archives.load_archive("FordA")["train"].series) == 12


def test_a_download_without_its_files_is_an_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aeon.datasets.load_classification", lambda *_, **__: None)
    with pytest.raises(DownloadError, match=r"FordA_TRAIN\.ts"):
        archives.load_archive("FordA")
    assert contents(cache) == {}


def test_a_download_happens_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_download(monkeypatch)
    first = archives.load_archive("FordA")
    assert calls == ["train", "test"]
    again = archives.load_archive("FordA")
    assert calls == ["train", "test"]
    assert [one.tolist() for one in first["test"].series] == [one.tolist() for one in again["test"].series]
    assert sorted(contents(cache)) == ["FordA", "FordA/FordA_TEST.ts", "FordA/FordA_TRAIN.ts"]


def test_half_an_archive_in_the_cache_is_fetched_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_archive(cache, "cut off", TEST, "FordA")
    (cache / "FordA" / "FordA_TEST.ts").unlink()
    fake_download(monkeypatch)
    assert len(archives.load_archive("FordA")["train"].series) == 12


def test_the_cache_folder_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert archives.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("WHICHWHEN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert archives.cache_folder() == tmp_path / "xdg" / "whichwhen"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert archives.cache_folder() == tmp_path / ".cache" / "whichwhen"


# names


def test_near_names_whatever_the_case() -> None:
    assert archives.near_names("japanesevowels", ["FordA", "JapaneseVowels"]) == ["JapaneseVowels"]
    assert archives.near_names("zzz", ["FordA"]) == []


def test_an_unknown_archive_is_not_looked_for_on_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake_download(monkeypatch)
    with pytest.raises(DataError, match=r"unknown archive 'ForDA'.*ucr:FordA"):
        archives.load_archive("ForDA")
    assert not calls


@pytest.mark.parametrize("name", ["FordA", "SpokenArabicDigits", "JapaneseVowels", "BasicMotions", "PickupGestureWiimoteZ"])
def test_names_of_the_archives_are_known(name: str) -> None:
    assert name in archives.known_archives()


def test_where_an_archive_would_come_from(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert archives.where("JapaneseVowels") == "aeon's wheel"
    assert archives.where("FordA") == "download"
    assert archives.where("FordA", tmp_path) == "not in the data folder"
    assert archives.where("") == ""
    assert archives.where("FordA", write_archive(tmp_path / "data", TRAIN, TEST, "FordA")) == "data folder"
    write_archive(cache, TRAIN, TEST, "FordA")
    assert archives.where("FordA") == "cache"


# files that are not what they should be

GOOD_ROWS = ts_rows()
SHORT_CUT = ts_text(GOOD_ROWS)[: -len(GOOD_ROWS[-1]) // 2]


@pytest.mark.parametrize(
    "content",
    [SHORT_CUT, "", "@problemName Own\n@data\n", "\x00\x01binary", ts_text(["1,2,x:3,4,5:a"]), ts_text(["1,2,3:4,5:a"])],
    ids=["cut in a row", "empty", "no header", "binary", "text for a number", "ragged"],
)
@pytest.mark.parametrize("part", ["train", "test"])
def test_a_malformed_file_is_named(content: str, part: str, tmp_path: Path) -> None:
    files = {"train": TRAIN, "test": TEST, part: content}
    folder = write_archive(tmp_path, files["train"], files["test"])
    with pytest.raises(DataError, match=rf"Own_{part.upper()}\.ts") as caught:
        archives.load_archive("Own", folder)
    assert "\n" not in str(caught.value)


def test_a_file_without_series_is_named(tmp_path: Path) -> None:
    folder = write_archive(tmp_path, ts_text([]), TEST)
    with pytest.raises(DataError, match=r"Own_TRAIN\.ts"):
        archives.load_archive("Own", folder)
