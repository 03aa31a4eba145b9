"""Tables from files: Parquet, and CSV with commas, semicolons or tabs."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl

from whichwhen.data.on_disk import ABOUT
from whichwhen.errors import DataError
from whichwhen.specs import DataSpec

SUFFIXES = (".parquet", ".pq", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None")
"""What counts as not there in CSV."""

_WHOLE = r"^(0|-?[1-9][0-9]{0,17})(\.0*)?$"

Frame = pl.DataFrame | pl.LazyFrame | Path | str
"""What is taken for a table."""


def is_table(name: str) -> bool:
    """Whether a data set's name is a file of one's own: by its ending, or a path of a file that is there."""
    return name.lower().endswith(SUFFIXES) or (("/" in name or "." in name) and Path(name).is_file())


def read_frame(table: Frame, names: Collection[str] = ()) -> tuple[pl.DataFrame, str]:
    """The whole table, and a name for messages. In files, columns of ``names`` are texts until they are all whole numbers."""
    if isinstance(table, pl.DataFrame):
        return _checked(table, "the table"), "the table"
    if isinstance(table, pl.LazyFrame):
        return _checked(table.collect(), "the table"), "the table"
    path = Path(table)
    with _reading(path):
        frame = pl.read_parquet(path) if _is_parquet(path) else _read_csv(path, names)
    texts = [name for name in names if name in frame.columns and frame[name].dtype == pl.String]
    whole = [name for name in texts if frame.select(is_whole(name).all()).item()]
    return _checked(frame.with_columns(as_whole(name) for name in whole), str(path)), str(path)


def is_whole(name: str) -> pl.Expr:
    """Whether a text is a number as numbers are written: 1001 or 1001.0, but not 001001, which is somebody else, nor 1E3."""
    return pl.col(name).str.contains(_WHOLE) | pl.col(name).is_null()


def as_whole(name: str) -> pl.Expr:
    """The numbers of such texts."""
    return pl.col(name).str.replace(r"\.0*$", "").cast(pl.Int64)


class LazyTable:
    """A table that is read a part at a time, and its name for messages. What is packed (.gz) is unpacked in memory.

    Attributes:
        lazy: the table.
        names: columns whose texts may be whole numbers, as in :func:`read_frame`.
    """

    def __init__(self, table: Frame, names: Collection[str] = ()) -> None:
        self.names = () if isinstance(table, pl.DataFrame | pl.LazyFrame) else names
        self.where = "the table" if isinstance(table, pl.DataFrame | pl.LazyFrame) else str(table)
        if isinstance(table, pl.DataFrame | pl.LazyFrame):
            self.lazy = table.lazy()
            return
        path = Path(table)
        with _reading(path):
            if _is_parquet(path):
                self.lazy = pl.scan_parquet(path)
                return
            with path.open("rb") as file:
                head = file.readline()
            if head[:2] == b"\x1f\x8b":
                self.lazy = _read_csv(path, names).lazy()
                return
            if not head.strip():
                raise DataError(f"{path} is empty", expected="a header and at least one row")
            _check_head(path, head)
            self.lazy = pl.scan_csv(path, separator=_separator(head), **_csv_options(names))

    def collect(self, lazy: pl.LazyFrame) -> pl.DataFrame:
        """What a query on it gives."""
        with _reading(Path(self.where), there=True):
            return lazy.collect()


@contextmanager
def _reading(path: Path, there: bool = False) -> Iterator[None]:
    """Errors of a file in the project's words."""
    if not there and not path.is_file():
        raise DataError(f"no file {path}", expected="a Parquet or CSV table", do="check the path")
    try:
        yield
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        if isinstance(error, pl.exceptions.ComputeError) and not _is_parquet(path):
            _say_which_row(path)
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"{path} can't be read ({reason})", expected="a whole Parquet or CSV file", do="write it again; it may be cut short"
        ) from None


def _say_which_row(path: Path) -> None:
    """Raise for the first row of a CSV file that is not UTF-8, or has more fields than the header; rows count from 1."""
    with path.open("rb") as file:
        head = file.readline()
        separator = _separator(head)
        for row, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                raise _not_utf8(path, f"row {row}", line) from None
            found, wanted = (len(next(csv.reader([part], delimiter=separator))) for part in (text, head.decode("utf-8")))
            if found > wanted and text.count('"') % 2 == 0:
                raise DataError(
                    f"{path}, row {row}: {found} fields, and the header has {wanted}",
                    expected="as many in each row",
                    do="mend the row; a field with a separator in it needs quotes",
                )


def _check_head(path: Path, head: bytes) -> None:
    """Raise where the first line shows that a file is no CSV in UTF-8, or names a column twice."""
    kinds = {b"PK\x03\x04": "an Excel or zip file", b"\xd0\xcf\x11\xe0": "an Excel file"}
    for start, kind in kinds.items():
        if head.startswith(start):
            raise DataError(f"{path} is {kind}", expected="a Parquet or CSV file", do="save the sheet as CSV (UTF-8)")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(
            f"{path} is in UTF-16",
            expected="text in UTF-8",
            do=f"save it as UTF-8, say with `iconv -f utf16 -t utf8 {path.name}`",
        )
    try:
        names = next(csv.reader([head.decode("utf-8-sig").strip()], delimiter=_separator(head)), [])
    except UnicodeDecodeError:
        raise _not_utf8(path, "header", head) from None
    twice = [name for name in dict.fromkeys(names) if name and names.count(name) > 1]
    if twice:
        raise DataError(f"{path}: {names.count(twice[0])} columns are called {twice[0]!r}", do="rename or drop one of them")


def _not_utf8(path: Path, place: str, line: bytes) -> DataError:
    return DataError(
        f"{path}, {place}: not UTF-8 ({line.decode('latin-1').strip()[:60]!r} if it is Latin-1)",
        expected="text in UTF-8",
        do=f"save it as UTF-8, say with `iconv -f latin1 -t utf8 {path.name}`",
    )


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1" or path.suffix.lower() in (".parquet", ".pq")


def digest_files(spec: DataSpec) -> str:
    """SHA-256 of the content of all files that a spec of a table names, 16 hex digits; a folder's stands in its about.json."""
    total = hashlib.sha256()
    for name in filter(None, (spec.name, spec.labels, spec.test, spec.menu)):
        path = Path(name) / ABOUT if Path(name).is_dir() else Path(name)
        if not path.is_file():
            raise DataError(f"no file {path}", do="check the path")
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()[:16]


def check_digest(spec: DataSpec) -> None:
    """Raise where the files are not those that the spec was made with."""
    if spec.digest and (found := digest_files(spec)) != spec.digest:
        raise DataError(
            f"{spec.name}, or a file that goes with it, has changed (digest {found})",
            expected=f"digest {spec.digest}, as when the run was made",
            do="put the old files back, or train anew",
        )


def _csv_options(names: Collection[str]) -> dict[str, Any]:
    """What is missing, and columns whose zeros in front count."""
    texts = dict.fromkeys(names, pl.String)
    return {"infer_schema_length": None, "null_values": list(MISSING), "schema_overrides": texts}


def _read_csv(path: Path, names: Collection[str]) -> pl.DataFrame:
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        import gzip

        try:
            content = gzip.decompress(content)
        except (EOFError, gzip.BadGzipFile) as error:
            raise OSError(str(error)) from None
    if not content.strip():
        raise DataError(f"{path} is empty", expected="a header and at least one row")
    head = content.split(b"\n", 1)[0]
    _check_head(path, head)
    separator = _separator(head)
    return pl.read_csv(io.BytesIO(content), separator=separator, **_csv_options(names))


def _separator(head: bytes) -> str:
    return max((",", ";", "\t"), key=lambda one: head.count(one.encode()))


def _checked(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    if frame.height == 0 or frame.width == 0:
        raise DataError(f"{name} has no rows", expected="at least one")
    return frame
