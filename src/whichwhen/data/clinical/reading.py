"""Many small text files out of one .tar.gz, as one table; nothing is unpacked to disk."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NoReturn

import numpy as np
import polars as pl

from whichwhen.data.archives import FOLDER_VARIABLE
from whichwhen.errors import DataError

_AGAIN = "get the archive again; it may be cut short"


@dataclass(frozen=True)
class Table:
    """The rows of N files of an archive, end to end, in the order of the files' names.

    Attributes:
        path: the archive.
        members: ``[N]`` the files' paths inside it.
        rows: ``[N]`` rows of each, without the header.
        frame: ``[sum of rows]`` lines.
    """

    path: Path
    members: list[str]
    rows: np.ndarray
    frame: pl.DataFrame

    @property
    def stems(self) -> list[str]:
        """The files' names without folder and ending."""
        return [PurePosixPath(member).stem for member in self.members]

    @property
    def owner(self) -> np.ndarray:
        """Which file each line belongs to, ``[sum of rows]``."""
        return np.repeat(np.arange(len(self.rows)), self.rows)

    def refuse(self, line: int, reason: str, expected: str = "") -> NoReturn:
        """Raise :class:`DataError` about a line, by its file and row (the header is row 1)."""
        i = int(np.searchsorted(np.cumsum(self.rows), line, side="right"))
        row = line - int(self.rows[:i].sum()) + 2
        raise DataError(
            f"{self.path}: {self.members[i]}, row {row}: {reason}",
            expected=expected,
            do="get the archive again, or mend the row",
        )


def find_files(name: str, files: Sequence[str], origin: str, folder: Path | str | None = None) -> list[Path]:
    """The files of a data set in ``FOLDER/NAME``; the folder is an argument or WHICHWHEN_DATA."""
    given = folder or os.environ.get(FOLDER_VARIABLE)
    do = f"get them from {origin}, put them into FOLDER/{name}/ and pass --data-dir FOLDER or set {FOLDER_VARIABLE}"
    expected = f"{', '.join(files)} in FOLDER/{name}"
    if not given:
        raise DataError(f"no data folder for {name}", expected=expected, do=do)
    home = Path(given).expanduser()
    for file in files:
        if not (home / name / file).is_file():
            where = "--data-dir" if folder else FOLDER_VARIABLE
            raise DataError(f"no file {name}/{file} in the data folder {home} (from {where})", expected=expected, do=do)
    return [home / name / file for file in files]


def read_table(path: Path, ending: str, separator: str, columns: Sequence[str], text: Sequence[str] = ()) -> Table:
    """All files of a .tar.gz with this ending; each has the names of the columns as its header.

    Columns hold float32, those in ``text`` text, which may be missing (null). A line that does not fit is an error with its
    file and row.
    """
    contents = _members(path, ending)
    schema = {name: pl.String if name in text else pl.Float32 for name in columns}
    header = separator.join(columns).encode()
    bodies, rows = [], []
    for member, content in contents:
        head, _, body = content.replace(b"\r\n", b"\n").partition(b"\n")
        if head != header:
            raise DataError(
                f"{path}: {member}, row 1 is {head[:80].decode(errors='replace')!r}", expected=header.decode(), do=_AGAIN
            )
        if body and not body.endswith(b"\n"):
            body += b"\n"
        bodies.append(body)
        rows.append(body.count(b"\n"))
    table = Table(path, [member for member, _ in contents], np.array(rows), pl.DataFrame(schema=schema))
    if not sum(rows):
        return table
    try:
        frame = pl.read_csv(io.BytesIO(b"".join(bodies)), has_header=False, schema=schema, separator=separator, quote_char=None)
    except pl.exceptions.PolarsError as error:
        _find_bad_line(table, bodies, separator, columns, text)
        raise DataError(f"{path} can't be read ({str(error).splitlines()[0]})", do=_AGAIN) from None
    if len(frame) != sum(rows):
        _find_bad_line(table, bodies, separator, columns, text)
        raise DataError(f"{path} holds {sum(rows)} rows, of which {len(frame)} could be read", do=_AGAIN)
    for name in columns:
        if name not in text and frame[name].null_count():
            line = frame[name].is_null().arg_max() or 0
            table.refuse(line, f"nothing in column {name!r}", "a number")
    return Table(path, table.members, table.rows, frame)


def _members(path: Path, ending: str) -> list[tuple[str, bytes]]:
    """Name and content of each file with this ending, by name."""
    try:
        raw = gzip.decompress(path.read_bytes())
        with tarfile.open(fileobj=io.BytesIO(raw), mode="r:") as archive:
            found = [
                (member.name, raw[member.offset_data : member.offset_data + member.size])
                for member in archive
                if member.isfile() and member.name.endswith(ending) and not PurePosixPath(member.name).name.startswith(".")
            ]
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path} can't be read as a .tar.gz file ({reason})", do=_AGAIN) from error
    if not found:
        raise DataError(f"{path} holds no {ending} file", expected="one for each stay", do=_AGAIN)
    return sorted(found)


def _find_bad_line(
    table: Table, bodies: list[bytes], separator: str, columns: Sequence[str], text_columns: Sequence[str]
) -> None:
    """Refuse the first line with a wrong number of fields or text for a number; slow, so only for what can't be parsed."""
    line = 0
    for body in bodies:
        for text in body.decode(errors="replace").splitlines():
            fields = text.split(separator)
            if len(fields) != len(columns):
                table.refuse(line, f"{len(fields)} fields", f"{len(columns)}")
            for field, name in zip(fields, columns, strict=True):
                if name not in text_columns and not _is_number(field):
                    table.refuse(line, f"{field!r} in column {name!r}", "a number")
            line += 1


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
