"""Tells by name and first bytes how a file of rows is to be read, or why it cannot be."""

from __future__ import annotations

import re
from typing import Literal

from trainer_core.errors import DataError

FileKind = Literal["json", "table", "parquet"]

_PARQUET = b"PAR1"

_MAGIC = {
    b"PK\x03\x04": "zip archive inside another archive",
    b"ARROW1": "Arrow file",
    b"\x28\xb5\x2f\xfd": "zstd archive",
    b"\xfd7zXZ": "xz archive",
    b"BZh": "bzip2 archive",
    b"7z\xbc\xaf": "7z archive",
    b"SQLite format 3": "SQLite database",
    b"%PDF": "PDF",
    b"\x89HDF": "HDF5 file",
    b"\xd0\xcf\x11\xe0": "spreadsheet or document of an old Office",
}

_TABLE_NAME = re.compile(r"\.(csv|tsv)(\.gz)?\Z", re.IGNORECASE)
_JSON_NAME = re.compile(r"\.(jsonl?|ndjson)(\.gz)?\Z", re.IGNORECASE)


def file_kind(name: str, head: bytes, *, whole: bool) -> FileKind:
    """How a file is to be read.

    Args:
        name: the file, as the user knows it.
        head: its first bytes, unpacked and without a byte order mark.
        whole: these are all the bytes it has.

    Raises:
        DataError: the file is empty, of another kind, or in another encoding.
    """
    if not head.strip():
        if whole:
            raise DataError(f"{name} is empty", "", "put one JSON object on each line")
        return "json"
    if head.startswith(_PARQUET):
        return "parquet"
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            raise DataError(
                f"{name} is a {kind}, not JSON or a table",
                "",
                "export the rows as JSON lines, CSV or Parquet",
            )
    if _looks_like_utf16(head):
        raise DataError(
            f"{name} is encoded in UTF-16 without its byte order mark", "", "save it as UTF-8"
        )
    if b"\x00" in head:
        raise DataError(
            f"{name} is not a text file",
            "it contains NUL bytes",
            "give a file of JSON lines or CSV in UTF-8",
        )
    start = head.lstrip()
    if start.startswith((b'{"', b"[{", b"{ ")) or re.match(rb"[\[{]\s*[\[{\"\]}]", start):
        return "json"
    if _TABLE_NAME.search(name):
        return "table"
    if b"{" in head or b"[" in head:
        return "json"
    if not _JSON_NAME.search(name) and b"\n" in head:
        return "table"
    table = b"," in start.split(b"\n", 1)[0] or b"\t" in start.split(b"\n", 1)[0]
    raise DataError(
        f"{name} holds no JSON",
        "rows must be JSON objects",
        "if it is a table, let its name end in .csv or .tsv"
        if table
        else "save the rows as JSON lines or as a JSON array",
    )


def _looks_like_utf16(head: bytes) -> bool:
    """UTF-16 without a byte order mark: nearly every second byte of ASCII text is zero."""
    sample = head[:512]
    if len(sample) < 4:
        return False
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    return max(even, odd) > 0.8 * (len(sample) // 2)
