"""Rows left out or replaced without touching the file they come from: the option `row_changes`.

A file of JSON lines, one for each changed row:

    {"file": "train.jsonl", "line": 17, "digest": "9f86d081884c7d65", "leave_out": true}
    {"file": "train.jsonl", "line": 23, "digest": "60303ae22b998861", "values": {"prompt": ...}}

`digest` is that of the row as it was when it was changed, so that a change never hits another row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer_core.data.types import Row
from trainer_core.errors import DataError

_KNOWN = {"file", "line", "digest", "leave_out", "values"}


@dataclass(frozen=True, slots=True)
class RowChange:
    """What becomes of one row: `values` in place of its own, or None to leave it out."""

    file: str
    line: int
    digest: str
    values: Mapping[str, Any] | None = None

    def as_json(self) -> str:
        """Its line in the file."""
        place = {"file": self.file, "line": self.line, "digest": self.digest}
        what = {"leave_out": True} if self.values is None else {"values": dict(self.values)}
        return json.dumps({**place, **what}, ensure_ascii=False)


def digest_of(values: Mapping[str, Any]) -> str:
    """A row's fingerprint: 16 hexadecimal digits."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def change_of(row: Row, values: Mapping[str, Any] | None) -> RowChange:
    """The change that puts `values` in the place of a row's, or leaves it out with None."""
    return RowChange(_last_name(row), row.source.line, digest_of(row.values), values)


def _last_name(row: Row) -> str:
    return row.source.file.replace("\\", "/").rsplit("/", 1)[-1]


@dataclass
class RowChanges:
    """All changes of a file, and how many rows each kind met so far.

    Attributes:
        left_out: rows that were left out.
        replaced: rows that got other values.
    """

    changes: dict[tuple[str, int], RowChange] = field(default_factory=dict)
    left_out: int = 0
    replaced: int = 0
    _met: set[tuple[str, int]] = field(default_factory=set)

    def apply(self, row: Row) -> Row | None:
        """The row as it is to be, or None if it is left out.

        Raises:
            DataError: a change was made for another row than the one that stands there now.
        """
        change = self.change_at(row)
        if change is None:
            return row
        if change.digest != digest_of(row.values):
            raise DataError(
                f"{row.source.file}:{row.source.line} is not the row that row_changes changes",
                "the file was changed since",
                "change the row again, or remove row_changes",
            )
        self._met.add((change.file, change.line))
        if change.values is None:
            self.left_out += 1
            return None
        self.replaced += 1
        return Row(row.source, dict(change.values))

    def change_at(self, row: Row) -> RowChange | None:
        """The change of the place where a row stands."""
        return self.changes.get((_last_name(row), row.source.line))

    @property
    def note(self) -> tuple[str, str, str] | None:
        """A warning (code, message, what to try) about what was changed, or None."""
        if not self.changes:
            return None
        missing = len(self.changes) - len(self._met)
        text = f"{self.left_out:,} rows are left out and {self.replaced:,} replaced by row_changes"
        if missing:
            text += f"; {missing:,} of its changes are for rows that are not there"
        return ("row_changes", text, "remove row_changes to use the file as it is")


def read_row_changes(path: str | None) -> RowChanges:
    """The changes in a file; none without one.

    Raises:
        DataError: the file cannot be read, or a line of it is no change.
    """
    if path is None:
        return RowChanges()
    file = Path(path).expanduser()
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        why = str(getattr(error, "strerror", None) or error)
        raise DataError(f"{path} cannot be read", why, "check the path of `row_changes`") from None
    found = [
        _change(line, f"{file.name}, line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    return RowChanges({(change.file, change.line): change for change in found})


def write_lines(changes: Iterable[RowChange]) -> str:
    """The content of a file with these changes, in the order of the rows."""
    ordered = sorted(changes, key=lambda change: (change.file, change.line))
    return "".join(change.as_json() + "\n" for change in ordered)


def _change(line: str, where: str) -> RowChange:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: not valid JSON", str(error), "remove the line") from None
    if not isinstance(entry, dict) or set(entry) - _KNOWN or not _complete(entry):
        raise DataError(
            f"{where}: not a change of a row",
            'it is written as {"file": ..., "line": ..., "digest": ..., "leave_out": true} or with '
            '"values"',
            "remove the line",
        )
    return RowChange(entry["file"], entry["line"], entry["digest"], entry.get("values"))


def _complete(entry: dict[str, Any]) -> bool:
    line = entry.get("line")
    placed = isinstance(entry.get("file"), str) and isinstance(entry.get("digest"), str)
    numbered = isinstance(line, int) and not isinstance(line, bool)
    replaced = isinstance(entry.get("values"), dict)
    return placed and numbered and replaced is not (entry.get("leave_out") is True)
