"""Reads a JSON array, or objects written one after the other, without holding the whole file.

Every element comes with the line it starts on. After a broken element the reader looks for the
start of the next one and goes on, so that one missing quote does not cost the rest of the file.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from trainer_core.data.types import Problem, Source

_SPACE = re.compile(r"[ \t\r\n]*")
_CHUNK = 1 << 20
_TRUSTED_TAIL = 64
_CUT_FILE = "the file ends in the middle of this row"


class JsonStream:
    """Iterator over `(Source, value)` and `Problem`.

    Args:
        name: the file, as the user knows it.
        file: open at its first character after any byte order mark.
        array: True for one array of elements, False for values separated by white space.
    """

    def __init__(self, name: str, file: BinaryIO, *, array: bool) -> None:
        self._name = name
        self._file = file
        self._array = array
        self._decode = codecs.getincrementaldecoder("utf-8")("strict").decode
        self._scan = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False
        self._broken_bytes: str | None = None

    def __iter__(self) -> Iterator[tuple[Source, Any] | Problem]:
        if self._array:
            self._skip_space()
            self._advance(self._at + 1)
        expect_comma = False
        while True:
            self._skip_space()
            if self._at >= len(self._text):
                yield from self._end_of_file()
                return
            here = self._text[self._at]
            if self._array and here == "]":
                self._advance(self._at + 1)
                yield from self._after_array()
                return
            if here == ",":
                if not self._array or not expect_comma:
                    yield self._problem("a stray comma stands here", "remove it")
                expect_comma = False
                self._advance(self._at + 1)
                continue
            if self._array and expect_comma:
                yield self._problem(
                    "a comma is missing before this row", "separate rows with commas"
                )
            expect_comma = True
            item = self._element()
            yield item
            if isinstance(item, Problem) and not self._resync():
                if item.what != _CUT_FILE:
                    yield self._problem(
                        "the rest of the file cannot be read", "mend the row above first"
                    )
                return

    def _element(self) -> tuple[Source, Any] | Problem:
        """The element at the position, which moves past it only if it is sound."""
        source = Source(self._name, self._line)
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except RecursionError as error:
                return json_problem(source, "", error)
            except ValueError as error:
                # A number or string may go on in the next chunk, so an error is final only well
                # before the end.
                position = getattr(error, "pos", self._at)
                if self._cannot_be_cut(position, error) or not self._more(double=True):
                    if self._ended and self._broken_bytes is None and _cut_short(self._text, error):
                        hint = "it may not have been saved or downloaded whole"
                        return Problem(self._name, source.line, _CUT_FILE, hint)
                    return json_problem(source, self._text, error, self._at)
                continue
            if end == len(self._text) and self._more():
                continue
            self._advance(end)
            return source, value

    def _cannot_be_cut(self, position: int, error: ValueError) -> bool:
        unterminated = "Unterminated string" in str(error)
        return self._ended or (not unterminated and position < len(self._text) - _TRUSTED_TAIL)

    def _resync(self) -> bool:
        """Move from a broken element to what follows it. False if that cannot be found."""
        while self._more():
            pass
        end = _balanced_end(self._text, self._at)
        if end is not None and self._follows(end):
            self._advance(end)
            return True
        line_start = self._text.rfind("\n", 0, self._at) + 1
        indent = self._text[line_start : self._at]
        if indent.strip():
            return False
        for match in re.finditer(rf"\n{re.escape(indent)}(?=\{{)", self._text[self._at :]):
            start = self._at + match.end()
            try:
                value, _ = self._scan(self._text, start)
            except (ValueError, RecursionError):
                continue
            # A message inside the broken row may stand at the same indentation as the rows.
            if isinstance(value, dict) and not {"role", "from"} & value.keys():
                self._text = (
                    self._text[:start] + "," + self._text[start:] if self._array else self._text
                )
                self._advance(start)
                return True
        return False

    def _follows(self, end: int) -> bool:
        """Whether something that may follow an element stands at `end`."""
        start = self._space_end(end)
        if start >= len(self._text):
            return True
        if not self._array:
            return self._text[start] == "{"
        if self._text[start] == "]":
            return True
        if self._text[start] != ",":
            return False
        start = self._space_end(start + 1)
        return start < len(self._text) and self._text[start] in "{]"

    def _end_of_file(self) -> Iterator[Problem]:
        if self._broken_bytes is not None:
            yield self._problem(self._broken_bytes, "save the file as UTF-8")
        elif self._array:
            yield self._problem(
                "the array is not closed",
                "the file may not have been saved or downloaded whole; end it with ]",
            )

    def _after_array(self) -> Iterator[Problem]:
        self._skip_space()
        if self._at < len(self._text):
            yield self._problem(
                "something follows the end of the array", "keep one array in the file"
            )

    def _problem(self, what: str, hint: str) -> Problem:
        return Problem(self._name, self._line, what, hint)

    def _skip_space(self) -> None:
        while True:
            self._advance(self._space_end(self._at))
            if self._at < len(self._text) or not self._more():
                return

    def _space_end(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return match.end() if match else at

    def _advance(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _more(self, *, double: bool = False) -> bool:
        """Read on, dropping what was consumed. False at the end of the file."""
        if self._ended:
            return False
        size = max(_CHUNK, len(self._text) - self._at) if double else _CHUNK
        raw = self._file.read(size)
        self._ended = not raw
        try:
            new = self._decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            new = error.object[: error.start].decode("utf-8")
            self._ended = True
            self._broken_bytes = (
                f"a byte (0x{error.object[error.start]:02x}) near here is not UTF-8"
            )
        self._text = self._text[self._at :] + new
        self._at = 0
        return bool(new) or not self._ended


def json_problem(source: Source, text: str, error: Exception, start: int = 0) -> Problem:
    """A broken row, with the parser's complaint in plain words and a hint.

    Args:
        source: where the row starts.
        text: the text that the error's position refers to.
        error: what `json` raised.
        start: where in `text` the row starts.
    """
    if isinstance(error, RecursionError):
        return Problem(source.file, source.line, "the row is nested too deeply", "flatten it")
    if not isinstance(error, json.JSONDecodeError):
        return Problem(
            source.file, source.line, "the row holds a number that is too long", "write it as text"
        )
    line = source.line + text.count("\n", start, error.pos)
    column = error.pos - max(
        text.rfind("\n", 0, error.pos), start - 1 if line == source.line else -1
    )
    place = f"column {column}" if line == source.line else f"line {line}, column {column}"
    what = f"not valid JSON at {place} ({error.msg[0].lower()}{error.msg[1:]})"
    rest = text[error.pos :].strip()
    if error.msg == "Extra data" and rest.startswith(","):
        hint = "remove the comma at the end of the line, or put all rows in [ ]"
    elif error.msg == "Extra data" and rest.startswith("{"):
        hint = "put each row on a line of its own"
    elif "Invalid control character" in error.msg:
        hint = r"write a line break inside a text as \n and a tab as \t"
    elif "double quotes" in error.msg and rest.startswith("'"):
        hint = 'use double quotes (") around names and texts'
    elif "double quotes" in error.msg and rest.startswith("}"):
        hint = "remove the comma before the closing brace"
    elif "escape" in error.msg:
        hint = r"write a backslash inside a text as \\"
    elif _cut_short(text, error):
        hint = "the row is cut short; write it whole, on one line"
    elif "delimiter" in error.msg:
        hint = (
            'look for a missing comma, or a quote (") inside a text, which must be written as \\"'
        )
    else:
        hint = "mend or remove the row"
    return Problem(source.file, source.line, what, hint)


def _cut_short(text: str, error: Exception) -> bool:
    position = getattr(error, "pos", 0)
    return "Unterminated string" in str(error) or not text[position:].strip()


def _balanced_end(text: str, at: int) -> int | None:
    """Where the bracket that opens at `at` closes, strings left out of account, or None."""
    depth = 0
    for match in re.compile(r'"(?:[^"\\]|\\.)*"|[\[{\]}]', re.DOTALL).finditer(text, at):
        token = match.group()
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
            if depth <= 0:
                return match.end()
    return None
