"""The table of rows: a model for Qt's views that shows the rows that pass a filter and a search."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.viewmodels.data_rows import DataRow, RowFilter

NUMBER, STATE, PROMPT, ANSWER, REJECTED, TOKENS = range(6)
_TITLES = ("Row", "", "Prompt", "Answer", "Rejected", "Tokens")
_PREVIEW = 200

Index = QModelIndex | QPersistentModelIndex


class RowTable(QAbstractTableModel):
    """Rows as they come. Order is that of the files.

    Attributes:
        pairs: whether there is a column for rejected answers.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.pairs = False
        self._rows: Sequence[DataRow] = []
        self._shown: list[int] = []
        self._seen = 0
        self._filter = RowFilter.ALL
        self._found: Collection[int] | None = None

    def show(
        self, rows: Sequence[DataRow], wanted: RowFilter, found: Collection[int] | None
    ) -> None:
        """Show other rows, or the same through another filter.

        Args:
            rows: all rows; may grow, see `grow`.
            wanted: the filter.
            found: numbers that a search left over, or None without a search.
        """
        self.beginResetModel()
        self._rows, self._filter, self._found = rows, wanted, found
        self._seen = len(rows)
        self._shown = [row.number for row in rows if self._passes(row)]
        self.endResetModel()

    def grow(self) -> None:
        """Show the rows that came at the end since."""
        more = [row.number for row in self._rows[self._seen :] if self._passes(row)]
        self._seen = len(self._rows)
        if more:
            first = len(self._shown)
            self.beginInsertRows(QModelIndex(), first, first + len(more) - 1)
            self._shown += more
            self.endInsertRows()

    def touch(self) -> None:
        """Show what has become known of the rows on show."""
        if self._shown:
            last = self.index(len(self._shown) - 1, TOKENS)
            self.dataChanged.emit(self.index(0, STATE), last)

    def row_at(self, place: int) -> DataRow | None:
        """The row in a line of the table."""
        return self._rows[self._shown[place]] if 0 <= place < len(self._shown) else None

    def place_of(self, number: int) -> int | None:
        """The line in which a row stands, if it is shown."""
        return self._shown.index(number) if number in self._shown else None

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
            return "Chosen" if self.pairs and section == ANSWER else _TITLES[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Called by Qt."""
        row = self.row_at(index.row())
        if row is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return _text(row, index.column())
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() in (NUMBER, TOKENS):
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if role == Qt.ItemDataRole.ToolTipRole and row.problem:
            return f"{row.problem}. {row.hint}".strip()
        if role == Qt.ItemDataRole.UserRole:
            return row.state
        return None

    def _passes(self, row: DataRow) -> bool:
        if self._found is not None and row.number not in self._found:
            return False
        return self._filter is RowFilter.ALL or self._filter in row.filters()


def _text(row: DataRow, column: int) -> str:
    match column:
        case 0:
            return f"{row.number + 1:,}"
        case 1:
            return row.state
        case 2:
            return _line(row.prompt) or _line(row.problem)
        case 3:
            return _line(row.answer)
        case 4:
            return _line(row.rejected)
        case _:
            measured = row.measured
            return f"{max(measured.lengths):,}" if measured and measured.lengths else ""


def _line(text: str) -> str:
    return " ".join(text[: 2 * _PREVIEW].split())[:_PREVIEW]
