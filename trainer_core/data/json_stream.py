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
# A string never runs over a line break, so a missing quote spoils one line at most.
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[\[{\]}]')
_CHUNK = 1 << 20
_TRUSTED_TAIL = 64
_LONGEST_INDENT = 256
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
UTF8_HINT = "save the file as UTF-8"
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
        # A byte that is not UTF-8 becomes a lone surrogate, so that it spoils its own row only.
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._scan = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False

    def __iter__(self) -> Iterator[tuple[Source, Any] | Problem]:
        if self._array:
            self._skip_space()
            self._advance(self._at + 1)
        while True:
            # Missing and surplus commas leave no doubt about the rows, so they are let pass.
            self._skip_space(commas=self._array)
            if self._at >= len(self._text):
                if self._array:
                    hint = "the file may not have been saved or downloaded whole; end it with ]"
                    yield self._problem("the array is not closed", hint)
                return
            if self._array and self._text[self._at] == "]":
                self._advance(self._at + 1)
                self._skip_space()
                if self._at < len(self._text):
                    what = "something follows the end of the array"
                    yield self._problem(what, "keep one array in the file")
                return
            line = self._line
            item = self._element()
            if isinstance(item, Problem):
                yield item
                if not self._resync():
                    if item.what != _CUT_FILE:
                        what = "the rest of the file cannot be read"
                        yield self._problem(what, "mend the row above first")
                    return
            else:
                yield self._checked(Source(self._name, line), *item)

    def _checked(self, source: Source, value: Any, text: str) -> tuple[Source, Any] | Problem:
        wrong = _NOT_UTF8.search(text)
        if wrong is None:
            return source, value
        return Problem(self._name, source.line, not_utf8(ord(wrong.group()) - 0xDC00), UTF8_HINT)

    def _element(self) -> tuple[Any, str] | Problem:
        """The element at the position and its text; the position moves past a sound one only."""
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
                if not self._cannot_be_cut(position, error) and self._more(double=True):
                    continue
                if self._ended and _cut_short(self._text, error):
                    hint = "it may not have been saved or downloaded whole"
                    return Problem(self._name, source.line, _CUT_FILE, hint)
                return json_problem(source, self._text, error, self._at)
            if end == len(self._text) and self._more():
                continue
            text = self._text[self._at : end]
            self._advance(end)
            return value, text

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

    def _problem(self, what: str, hint: str) -> Problem:
        return Problem(self._name, self._line, what, hint)

    def _skip_space(self, *, commas: bool = False) -> None:
        while True:
            self._advance(self._space_end(self._at))
            if commas and self._text[self._at : self._at + 1] == ",":
                self._at += 1
            elif self._at < len(self._text) or not self._more():
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
        raw = self._file.read(max(_CHUNK, len(self._text) - self._at) if double else _CHUNK)
        self._ended = not raw
        # The start of the line in hand stays, because its indentation helps after a broken row.
        kept = max(self._text.rfind("\n", 0, self._at) + 1, self._at - _LONGEST_INDENT)
        self._text = self._text[kept:] + self._decode(raw, final=not raw)
        self._at -= kept
        return not self._ended or self._at < len(self._text)


def not_utf8(byte: int, place: str = "a byte") -> str:
    """What is wrong with a row that holds a byte which is not UTF-8."""
    return f"{place} (0x{byte:02x}) is not UTF-8"


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
        hint = r"close the text with a quote, or write a line break in it as \n and a tab as \t"
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
    for match in _TOKEN.finditer(text, at):
        token = match.group()
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
            if depth <= 0:
                return match.end()
    return None
