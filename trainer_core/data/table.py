"""Rows of a CSV or TSV file. The first line names the columns."""

from __future__ import annotations

import ast
import csv
import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

from trainer_core.column_names import SYNONYMS
from trainer_core.data.dialect import LONGEST_FIELD, Dialect, find_dialect
from trainer_core.data.json_stream import UTF8_HINT, not_utf8
from trainer_core.data.types import Problem, Row, Source
from trainer_core.data.unpack import HEAD
from trainer_core.errors import DataError

_LONGEST_RECORD = 64 << 20
_RESTARTS = 50
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
# What libraries write into a cell for a list of messages: JSON, or Python's own notation of it.
_MESSAGES = re.compile(r"\s*\[\s*\{\s*[\"'](role|from|content|value)[\"']\s*:")
_HINT = "put a text that holds quotes or line breaks in quotes, and double the quotes inside it"


def read_table(name: str, file: BinaryIO, head: bytes) -> Iterator[Row | Problem]:
    """The rows in order, with the line that each starts on.

    A cell that holds a list of messages, as JSON or in Python's notation, becomes that list.

    Args:
        name: the file, as the user knows it.
        file: UTF-8 text at its first character.
        head: its first bytes, from which the delimiter is found.

    Raises:
        DataError: the first line does not name the columns.
    """
    text = head.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")
    cut = len(head) >= HEAD and "\n" in text
    sample = text[: text.rindex("\n") + 1] if cut else text
    tabs = re.search(r"\.tsv(\.gz)?\Z", name, re.IGNORECASE) is not None
    dialect = find_dialect(sample, SYNONYMS, tabs=tabs)
    records = _records(name, file, dialect)
    header: list[str] | None = None
    for item in records:
        if isinstance(item, Problem):
            if header is None:
                raise DataError(f"{name}, line {item.line}: {item.what}", "", item.hint)
            yield item
            continue
        line, fields = item
        if header is None:
            header = _header(name, line, fields)
        elif wrong := _NOT_UTF8.search("".join(fields)):
            what = not_utf8(ord(wrong.group()) - 0xDC00)
            yield Problem(name, line, what, UTF8_HINT)
        elif len(fields) != len(header):
            what = f"the row has {len(fields)} fields and the first line {len(header)}"
            yield Problem(name, line, what, _width_hint(dialect))
        else:
            values = zip(header, map(_cell, fields), strict=True)
            yield Row(Source(name, line), {key: value for key, value in values if key})


def _records(
    name: str, file: BinaryIO, dialect: Dialect
) -> Iterator[tuple[int, list[str]] | Problem]:
    """Line and fields of each record. After a record without an end, it goes on one line below."""
    csv.field_size_limit(LONGEST_FIELD)
    fed = _Lines(file)
    restarts = 0
    while True:
        reader = csv.reader(fed, **dialect.options())  # type: ignore[arg-type]
        try:
            for fields in reader:
                if any(fields):
                    yield fed.start, fields
                fed.next_record()
            return
        except csv.Error as error:
            what = f"the quotes of the row are not in order ({error})"
        except _TooLong:
            what = f"a quoted text has no end within {_LONGEST_RECORD >> 20} MB"
        yield Problem(name, fed.start, what, _HINT)
        restarts += 1
        if restarts > _RESTARTS:
            yield Problem(name, fed.start, "the rest of the file cannot be read", "mend it above")
            return
        fed.back_to_second_line()


class _TooLong(Exception):
    pass


class _Lines(Iterator[str]):
    """Lines for `csv.reader`, of which those of the record in hand can be read again."""

    def __init__(self, file: BinaryIO) -> None:
        self._source: Iterator[str] = _decoded(file)
        self._held: list[str] = []
        self._size = 0
        self.start = 1

    def __next__(self) -> str:
        line = next(self._source)
        if not self._held and not line.strip("\r\n"):
            # An empty line between records; csv gives an empty record for it.
            self._held.append(line)
            return line
        self._held.append(line)
        self._size += len(line)
        if self._size > _LONGEST_RECORD:
            raise _TooLong
        return line

    def next_record(self) -> None:
        """The lines so far made a record."""
        self.start += len(self._held)
        self._held, self._size = [], 0

    def back_to_second_line(self) -> None:
        """Drop the first line of the record in hand, and hand out the others once more."""
        self._source = chain(self._held[1:], self._source)
        self.start += 1
        self._held, self._size = [], 0


def _decoded(file: BinaryIO) -> Iterator[str]:
    # A byte that is not UTF-8 becomes a lone surrogate, so that it spoils its own row only.
    # Lines end at \n, \r\n or, in files of old Macs, \r.
    for raw in iter(lambda: file.readline(_LONGEST_RECORD), b""):
        text = raw.decode("utf-8", "surrogateescape")
        if "\r" in text.rstrip("\r\n"):
            yield from re.findall(r"[^\r]*\r\n|[^\r]*[\r\n]|[^\r]+", text)
        else:
            yield text


def _header(name: str, line: int, fields: list[str]) -> list[str]:
    names = [field.strip() for field in fields]
    wrong = [field for field in names if len(field) > 100 or "\n" in field]
    twice = [field for field in names if field and names.count(field) > 1]
    if wrong or not any(names):
        raise DataError(
            f"{name}, line {line}: the first line does not name the columns",
            "it holds a long text" if wrong else "it is blank",
            "put a line such as prompt,completion above the rows",
        )
    if twice:
        raise DataError(f"{name}, line {line}: two columns are called {twice[0]}", "", "rename one")
    return names


def _width_hint(dialect: Dialect) -> str:
    named = {"\t": "tab", ",": "comma", ";": "semicolon"}.get(dialect.delimiter, dialect.delimiter)
    return f"put a text that holds a {named} or a line break in quotes"


def _cell(text: str) -> Any:
    if not _MESSAGES.match(text):
        return text
    for read in (json.loads, ast.literal_eval):
        try:
            value = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(value, list):
            return value
    return text
