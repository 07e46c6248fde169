"""Rows out of files: JSON lines, JSON arrays, JSON objects one after the other, tables, Parquet.

A row keeps the file and the line it starts on. What cannot be read becomes a `Problem` with its
line and the rest of the file is still read; only a file that cannot be read at all is a
`DataError`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from trainer_core.data.file_kind import file_kind
from trainer_core.data.files import DataFile
from trainer_core.data.json_stream import UTF8_HINT, JsonStream, json_problem, not_utf8
from trainer_core.data.parquet import read_parquet
from trainer_core.data.table import read_table
from trainer_core.data.types import Problem, Row, Source
from trainer_core.data.unpack import BOM, HEAD, open_bytes, open_text
from trainer_core.errors import DataError

_LONGEST_LINE = 256 << 20


def read_rows_of(file: DataFile | Path) -> Iterator[Row | Problem]:
    """The rows of a file in order, with a `Problem` for each one that cannot be read. Streams.

    Raises:
        DataError: the file is missing, empty, of a kind that cannot be read, or its archive is
            damaged.
    """
    file = DataFile(file) if isinstance(file, Path) else file
    name = file.name
    count = 0
    try:
        for item in _items(file):
            count += 1
            yield item
    except OSError as error:
        raise DataError(
            f"{name} cannot be read", _reason(error), "check the path of `data`"
        ) from None
    if count == 0:
        raise DataError(f"{name} has no rows", "", "put one JSON object on each line")


def _items(file: DataFile) -> Iterator[Row | Problem]:
    with open_text(file) as opened:
        head = opened.read(HEAD)
    kind = file_kind(file.name, head, whole=len(head) < HEAD)
    if kind == "parquet":
        with open_bytes(file) as opened:
            yield from read_parquet(file, opened)
        return
    with open_text(file) as opened:
        if kind == "table":
            yield from read_table(file.name, opened, head)
        else:
            yield from _json(file.name, opened, head)


def _json(name: str, file: BinaryIO, head: bytes) -> Iterator[Row | Problem]:
    start = head.lstrip()
    if start.startswith(b"["):
        return _stream(name, file, array=True)
    first_line = start.split(b"\n", 1)[0].strip()
    if start.startswith(b"{") and first_line == b"{":
        return _stream(name, file, array=False)
    return _lines(name, file)


def _lines(name: str, file: BinaryIO) -> Iterator[Row | Problem]:
    lines = iter(lambda: file.readline(_LONGEST_LINE), b"")
    for number, raw in enumerate(lines, start=1):
        if len(raw) == _LONGEST_LINE:
            raise DataError(
                f"{name}, line {number}: the line has no end within {_LONGEST_LINE >> 20} MB",
                "",
                "write each row on a line of its own",
            )
        raw = raw.removeprefix(BOM).strip()
        if not raw:
            continue
        source = Source(name, number)
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            place = f"byte {error.start + 1} of the line"
            yield Problem(name, number, not_utf8(raw[error.start], place), UTF8_HINT)
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            yield json_problem(source, text, error)
            continue
        yield _row(source, value)


def _stream(name: str, file: BinaryIO, *, array: bool) -> Iterator[Row | Problem]:
    for item in JsonStream(name, file, array=array):
        yield item if isinstance(item, Problem) else _row(*item)


def _row(source: Source, value: Any) -> Row | Problem:
    if isinstance(value, dict):
        return Row(source, value)
    kinds = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
    kind = kinds.get(type(value), "a number")
    return Problem(
        source.file,
        source.line,
        f"the row is {kind}, not a JSON object",
        'write each row as {"prompt": ..., "completion": ...} or another known shape',
    )


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
