"""Files of changed rows, as the option `row_changes` reads them.

A file is never changed once written: runs that were made with it stay what they were. It is called
by its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainer_core.data.row_changes import RowChange, change_of, read_row_changes, write_lines
from trainer_core.data.types import Row
from trainer_core.runfolder import write_atomically

Changes = dict[tuple[str, int], RowChange]


class RowEdits:
    """Makes a new file for every change.

    Args:
        folder: where the files go; made when it is needed.

    Every method takes the file in force, or None, and returns the new one, or None if nothing is
    changed any more.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def left_out(self, file: str | None, rows: Sequence[Row], *, wanted: bool) -> str | None:
        """Leave rows out, or take them in again.

        Raises:
            DataError: the file in force cannot be read.
            OSError: the new one cannot be written.
        """
        changes = read_row_changes(file).changes
        for row in rows:
            change = change_of(row, None)
            key = (change.file, change.line)
            if wanted:
                changes[key] = change
            elif key in changes and changes[key].values is None:
                del changes[key]
        return self._write(changes)

    def replaced(self, file: str | None, row: Row, values: Mapping[str, Any]) -> str | None:
        """Give a row other values; its own undo the change.

        Raises:
            DataError: the file in force cannot be read.
            OSError: the new one cannot be written.
        """
        if values == row.values:
            return self.restored(file, [row])
        changes = read_row_changes(file).changes
        change = change_of(row, values)
        changes[change.file, change.line] = change
        return self._write(changes)

    def restored(self, file: str | None, rows: Sequence[Row]) -> str | None:
        """Undo every change of these rows.

        Raises:
            DataError: the file in force cannot be read.
            OSError: the new one cannot be written.
        """
        changes = read_row_changes(file).changes
        for row in rows:
            change = change_of(row, None)
            changes.pop((change.file, change.line), None)
        return self._write(changes)

    def values_of(self, file: str | None, row: Row) -> Mapping[str, Any]:
        """A row's values with its change."""
        change = read_row_changes(file).change_at(row)
        return row.values if change is None or change.values is None else change.values

    def _write(self, changes: Changes) -> str | None:
        if not changes:
            return None
        text = write_lines(changes.values())
        path = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsonl"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
        return str(path)
