"""Rows out of files: JSON lines, JSON arrays, and JSON objects one after the other.

A row keeps the file and the line it starts on. What cannot be read becomes a `Problem` with its
line and the rest of the file is still read; only a file that cannot be read at all is a
`DataError`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from trainer_core.data.file_kind import BOM, refuse_foreign_file
from trainer_core.data.json_stream import UTF8_HINT, JsonStream, json_problem, not_utf8
from trainer_core.data.types import Problem, Source
from trainer_core.errors import DataError

TRAIN_NAMES = ("train.jsonl", "train.json")
VALID_NAMES = ("valid.jsonl", "valid.json")


@dataclass(frozen=True, slots=True)
class Row:
    """A JSON object and where it stood."""

    source: Source
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DataFiles:
    """The files that `data` names. `valid` is None if the folder has none."""

    train: Path
    valid: Path | None = None


def find_files(data: Path) -> DataFiles:
    """The training file and the optional validation file behind a path.

    Args:
        data: a file, or a folder with train.jsonl and an optional valid.jsonl (or .json).

    Raises:
        DataError: there is nothing there, or the folder has no training file.
    """
    try:
        if data.is_dir():
            names = {path.name for path in data.iterdir()}
        elif data.exists():
            return DataFiles(data)
        else:
            raise DataError(f"no file or folder at {data}", "", "check the path of `data`")
    except (OSError, ValueError) as error:
        raise DataError(
            f"{data} cannot be opened", _reason(error), "check the path of `data`"
        ) from None
    train = next((name for name in TRAIN_NAMES if name in names), None)
    if train is None:
        held = ", ".join(sorted(names)[:5]) or "nothing"
        raise DataError(
            f"the folder {data} has no train.jsonl",
            f"it holds {held}",
            "name the training file train.jsonl, or give the path of the file itself",
        )
    valid = next((name for name in VALID_NAMES if name in names), None)
    return DataFiles(data / train, data / valid if valid else None)


def read_rows_of(path: Path) -> Iterator[Row | Problem]:
    """The rows of a file in order, with a `Problem` for each one that cannot be read. Streams.

    Raises:
        DataError: the file is missing, not text in UTF-8, of another kind, or empty.
    """
    name = str(path)
    count = 0
    try:
        with path.open("rb") as file:
            head = file.read(65536)
            refuse_foreign_file(name, head)
            file.seek(len(BOM) if head.startswith(BOM) else 0)
            for item in _items(name, file, head.removeprefix(BOM)):
                count += 1
                yield item
    except OSError as error:
        raise DataError(
            f"{name} cannot be read", _reason(error), "check the path of `data`"
        ) from None
    if count == 0:
        raise DataError(f"{name} has no rows", "", "put one JSON object on each line")


def _items(name: str, file: BinaryIO, head: bytes) -> Iterator[Row | Problem]:
    start = head.lstrip()
    if start.startswith(b"["):
        return _stream(name, file, array=True)
    first_line = start.split(b"\n", 1)[0].strip()
    if start.startswith(b"{") and first_line == b"{":
        return _stream(name, file, array=False)
    return _lines(name, file)


def _lines(name: str, file: BinaryIO) -> Iterator[Row | Problem]:
    for number, raw in enumerate(file, start=1):
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
