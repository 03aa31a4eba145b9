"""Tables of one's own: from a data frame, Parquet or CSV, long or wide, to series on a regular grid. See docs/own-data.md."""

from whichwhen.data.frames.compare import check_new_table
from whichwhen.data.frames.files import check_digest, digest_files, is_table
from whichwhen.data.frames.load import OpenTable, describe_table, load_table, open_table
from whichwhen.data.frames.pack import pack_table
from whichwhen.data.frames.report import TableReport

__all__ = [
    "OpenTable",
    "TableReport",
    "check_digest",
    "check_new_table",
    "describe_table",
    "digest_files",
    "is_table",
    "load_table",
    "open_table",
    "pack_table",
]
