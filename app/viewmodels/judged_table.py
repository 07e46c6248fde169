"""The table of validation rows with their losses: a model for Qt's views, and its order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)

from app.reading.judged import RowText
from app.viewmodels.wording import number
from trainer_core.data.types import Source
from trainer_core.row_losses import RowHistory

LOSS, CHANGE, MARGIN, PLACE, TEXT = range(5)
_TITLES = ("Loss", "Change", "Margin", "Row", "Prompt and answer")
_TIPS = (
    "Loss of this row alone at the last validation",
    "What became of it since the first validation",
    "By how much the chosen answer is preferred; below zero the rejected one is",
    "File and line",
    "What the row says",
)

Index = QModelIndex | QPersistentModelIndex


class JudgedTable(QAbstractTableModel):
    """Rows as the run judged them, in its order."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.rows: Sequence[RowHistory] = []
        self._texts: Mapping[Source, RowText] = {}

    def show(self, rows: Sequence[RowHistory], texts: Mapping[Source, RowText]) -> None:
        """Show these rows. Where only numbers or texts are new, lines stay where they are."""
        same = [row.source for row in rows] == [row.source for row in self.rows]
        if same and rows:
            self.rows, self._texts = rows, texts
            self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, TEXT))
            return
        self.beginResetModel()
        self.rows, self._texts = rows, texts
        self.endResetModel()

    @property
    def _one_file(self) -> bool:
        """Whether the line alone says where a row stands."""
        return len({row.source.file for row in self.rows}) == 1

    @property
    def pairs(self) -> bool:
        """Whether the rows have margins."""
        return any(row.margins for row in self.rows)

    def rowCount(self, parent: Index | None = None) -> int:
        """Called by Qt."""
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index | None = None) -> int:
        """Called by Qt."""
        return 0 if parent is not None and parent.isValid() else len(_TITLES)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Called by Qt."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.ToolTipRole:
            return _TIPS[section]
        return _TITLES[section] if role == Qt.ItemDataRole.DisplayRole else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Called by Qt. The role UserRole has what a column is sorted by."""
        row = self.rows[index.row()]
        column = index.column()
        if role == Qt.ItemDataRole.UserRole:
            return self._order(row, column)
        if role == Qt.ItemDataRole.DisplayRole:
            return self._shown(row, column)
        if role == Qt.ItemDataRole.ToolTipRole:
            text = self._texts.get(row.source)
            where = f"{row.source.file}, line {row.source.line:,}"
            return where if column == PLACE or text is None else f"{text.prompt}\n\n{text.answer}"
        if role == Qt.ItemDataRole.TextAlignmentRole and column in (LOSS, CHANGE, MARGIN):
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def _shown(self, row: RowHistory, column: int) -> str:
        match column:
            case 0:
                return number(row.last, digits=3, steady=True)
            case 1:
                change = row.last - row.first
                return f"{change:+.2f}" if math.isfinite(change) else "\N{EN DASH}"
            case 2:
                margin = row.last_margin
                return "" if margin is None else f"{margin:+.2f}"
            case 3:
                name = PurePath(row.source.file).name
                return f"{row.source.line:,}" if self._one_file else f"{name}:{row.source.line}"
            case _:
                text = self._texts.get(row.source)
                parts = (text.prompt, text.answer) if text else ()
                return " \N{RIGHTWARDS ARROW} ".join(" ".join(p.split()) for p in parts if p)

    def _order(self, row: RowHistory, column: int) -> float | str:
        match column:
            case 0:
                # What is not a number is the worst of all.
                return math.inf if math.isnan(row.last) else row.last
            case 1:
                change = row.last - row.first
                return math.inf if math.isnan(change) else change
            case 2:
                return row.last_margin if row.last_margin is not None else math.inf
            case 3:
                return f"{row.source.file}:{row.source.line:09d}"
            case _:
                return self._shown(row, column)


class WorstFirst(QSortFilterProxyModel):
    """The table in the order of one of its columns; at first by loss, the worst on top."""

    def __init__(self, table: JudgedTable, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.setSourceModel(table)
        self.setSortRole(Qt.ItemDataRole.UserRole)
        self.setDynamicSortFilter(True)
        self.sort(LOSS, Qt.SortOrder.DescendingOrder)
