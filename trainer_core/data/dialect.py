"""How a table of text separates and quotes its fields, found by trying every usual way."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

_DELIMITERS = (",", "\t", ";", "|")
_RECORDS = 200
# A field may hold a whole document; csv's own limit of 128 KiB is too small for that.
LONGEST_FIELD = 1 << 28


@dataclass(frozen=True, slots=True)
class Dialect:
    """How fields are separated and quoted.

    Attributes:
        delimiter: one character.
        quote: the quotation mark, or None if marks are plain text.
        escape: a backslash stands before a mark inside a field, instead of the mark being doubled.
    """

    delimiter: str
    quote: str | None = '"'
    escape: bool = False

    def options(self) -> dict[str, object]:
        """Arguments of `csv.reader`."""
        if self.quote is None:
            return {"delimiter": self.delimiter, "quoting": csv.QUOTE_NONE, "strict": True}
        return {
            "delimiter": self.delimiter,
            "quotechar": self.quote,
            "doublequote": not self.escape,
            "escapechar": "\\" if self.escape else None,
            "strict": True,
        }


def find_dialect(text: str, known: Sequence[str], *, tabs: bool = False) -> Dialect:
    """The dialect in which the beginning of a file reads best.

    Best is the one with the most records as wide as the header; then the one whose header holds the
    most known names; then the one with the most columns.

    Args:
        text: the beginning of the file, whole lines only.
        known: names that columns are likely to have.
        tabs: the file's name says that tabs separate.
    """
    csv.field_size_limit(LONGEST_FIELD)
    candidates = [
        Dialect(delimiter, *how)
        for how in (('"', False), ('"', True), ("'", False), (None, False))
        for delimiter in (("\t",) if tabs and "\t" in text.split("\n", 1)[0] else _DELIMITERS)
    ]
    return max(candidates, key=lambda dialect: _score(text, dialect, known))


def _score(text: str, dialect: Dialect, known: Sequence[str]) -> tuple[float, ...]:
    if dialect.quote and dialect.quote not in text:
        return (-1.0,)  # the same as without quotes, and that comes later
    if dialect.escape and f"\\{dialect.quote}" not in text:
        return (-1.0,)
    records: list[list[str]] = []
    ended = True
    try:
        reader = csv.reader(io.StringIO(text, newline=""), **dialect.options())  # type: ignore[arg-type]
        for record in reader:
            if record:
                records.append(record)
            if len(records) >= _RECORDS:
                break
    except csv.Error:
        ended = False  # or the sample ends inside a field, which costs every dialect alike
    if not records:
        return (-1.0,)
    width = len(records[0])
    fitting = sum(len(record) == width for record in records)
    names = {_plain(name) for name in records[0]}
    # Marks left around fields by a dialect that does not know them.
    marks = sum(
        len(field) > 1 and field[0] == field[-1] and field[0] in "\"'"
        for record in records[:20]
        for field in record
    )
    share = fitting / len(records)
    recognised = len(names & {_plain(name) for name in known})
    return (
        float(recognised > 0),
        share if width > 1 else share * 0.5,
        float(recognised),
        -float(marks),
        float(ended),
        float(fitting),
        float(width),
    )


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
