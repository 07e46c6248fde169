"""The table of runs: a model for Qt's views."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.reading.runs import RunRecord
from app.viewmodels.wording import number

NAME, BEGAN, METHOD, MODEL, DATA, STEPS, BEST, STATE = range(8)
_TITLES = ("Run", "Began", "Method", "Model", "Data", "Steps", "Best val.", "")
STATES = {
    "running": "running",
    "done": "done",
    "stopped": "stopped",
    "early_stop": "stopped early",
    "failed": "failed",
    "interrupted": "interrupted",
}

Index = QModelIndex | QPersistentModelIndex


class RunTable(QAbstractTableModel):
    """Runs, the newest first, that a search lets through."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._all: Sequence[RunRecord] = []
        self._shown: list[RunRecord] = []
        self._words = ""

    def show(self, records: Sequence[RunRecord], words: str) -> None:
        """Show these runs. Where only facts changed, lines stay where they are."""
        shown = [record for record in records if record.mentions(words)]
        same = [r.folder for r in shown] == [r.folder for r in self._shown]
        self._all, self._words = records, words
        if same:
            changed = shown != self._shown
            self._shown = shown
            if changed:
                self.dataChanged.emit(self.index(0, 0), self.index(len(shown) - 1, STATE))
            return
        self.beginResetModel()
        self._shown = shown
        self.endResetModel()

    def record_at(self, place: int) -> RunRecord | None:
        """The run in a line of the table."""
        return self._shown[place] if 0 <= place < len(self._shown) else None

    def place_of(self, folder: Path) -> int | None:
        """The line of a run, if it is shown."""
        return next((i for i, record in enumerate(self._shown) if record.folder == folder), None)

    def rowCount(self, parent: Index | None = None) -> int:
        """Called by Qt."""
        return 0 if parent is not None and parent.isValid() else len(self._shown)

    def columnCount(self, parent: Index | None = None) -> int:
        """Called by Qt."""
        return 0 if parent is not None and parent.isValid() else len(_TITLES)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Called by Qt."""
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return _TITLES[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Called by Qt."""
        record = self.record_at(index.row())
        if record is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return _text(record, index.column())
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() in (STEPS, BEST):
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.ToolTipRole:
            tags = f"\nTags: {', '.join(record.notes.tags)}" if record.notes.tags else ""
            return f"{record.folder}{tags}" + (f"\n{record.failure}" if record.failure else "")
        if role == Qt.ItemDataRole.UserRole:
            return record.state
        return None


def _text(record: RunRecord, column: int) -> str:
    match column:
        case 0:
            tags = "".join(f"  #{tag}" for tag in record.notes.tags)
            return record.title + tags
        case 1:
            began = datetime.fromtimestamp(record.began)
            year = "" if began.year == datetime.now().year else f" {began.year}"
            return f"{began.day} {began:%b}{year}, {began:%H:%M}"
        case 2:
            return record.method.upper()
        case 3:
            return record.model
        case 4:
            return record.data
        case 5:
            return f"{record.steps:,}"
        case 6:
            return "" if record.best_loss is None else number(record.best_loss)
        case _:
            return STATES.get(record.state, record.state)
