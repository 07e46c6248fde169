"""The table of rows with its filter and its search."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QKeySequence, QPainter, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from app.viewmodels.data_rows import RowFilter
from app.viewmodels.data_summary import DataSummary
from app.viewmodels.row_table import NUMBER, REJECTED, STATE, TOKENS, Index, RowTable
from app.views.palette import Palette
from app.views.theme import Theme, set_role

TYPING_MS = 200
ROW_HEIGHT = 26


class RowList(QFrame):
    """Search, filter and table.

    Signals:
        searched(str): other words to look for.
        filter_chosen(RowFilter): another kind of rows.
    """

    searched = Signal(str)
    filter_chosen = Signal(object)

    def __init__(self, model: RowTable, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self._model = model
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search rows")
        self.search.setAccessibleName("Search rows")
        self.search.setClearButtonEnabled(True)
        self.filter = QComboBox()
        self.filter.setAccessibleName("Which rows")
        for wanted in RowFilter:
            self.filter.addItem(wanted.value, wanted)
        self.table = _make_table(model, theme)
        self._typing = QTimer(self, singleShot=True, interval=TYPING_MS)
        self._typing.timeout.connect(lambda: self.searched.emit(self.search.text()))
        bar = QHBoxLayout()
        bar.addWidget(self.search, 1)
        bar.addWidget(self.filter)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 8, 8, 8)
        layout.setSpacing(6)
        layout.addLayout(bar)
        layout.addWidget(self.table, 1)
        self.setMinimumHeight(120)
        self.search.textChanged.connect(lambda _: self._typing.start())
        self.filter.activated.connect(self._on_filter_activated)
        model.modelReset.connect(self._fit_columns)
        find = QShortcut(QKeySequence(QKeySequence.StandardKey.Find), self)
        find.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        find.activated.connect(self.search.setFocus)

    def show_counts(self, summary: DataSummary, wanted: RowFilter) -> None:
        """Say how many rows each filter has, and which one is in force."""
        for place, choice in enumerate(RowFilter):
            n = summary.filters[choice]
            self.filter.setItemText(place, f"{choice.value} ({n:,})")
        self.filter.setCurrentIndex(list(RowFilter).index(wanted))

    def forget_search(self) -> None:
        """Search for nothing any more, at once."""
        self.search.clear()
        self._typing.stop()
        self.searched.emit("")

    def choose_filter(self, wanted: RowFilter) -> None:
        """Show one kind of rows."""
        self.filter.setCurrentIndex(list(RowFilter).index(wanted))
        self.filter_chosen.emit(wanted)

    def _on_filter_activated(self, place: int) -> None:
        self.filter_chosen.emit(list(RowFilter)[place])

    def _fit_columns(self) -> None:
        self.table.setColumnHidden(REJECTED, not self._model.pairs)


class _StateDelegate(QStyledItemDelegate):
    """Paints a row's state in the colour of what it means."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme

    @override
    def initStyleOption(self, option: QStyleOptionViewItem, index: Index) -> None:
        super().initStyleOption(option, index)
        state = index.data(Qt.ItemDataRole.UserRole)
        colour = QColor(_colour(self._theme.palette, str(state), column=index.column()))
        option.palette.setColor(option.palette.ColorRole.Text, colour)
        option.palette.setColor(option.palette.ColorRole.HighlightedText, colour)
        if state == "left out":
            option.font.setStrikeOut(True)

    @override
    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        # The focus frame of one cell says nothing where whole rows are chosen.
        option.state &= ~option.state.State_HasFocus
        super().paint(painter, option, index)

    @override
    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(super().sizeHint(option, index).width(), ROW_HEIGHT)


def _colour(palette: Palette, state: str, *, column: int) -> str:
    if column != STATE:
        return palette.faint if state == "left out" else palette.text
    return {
        "unusable": palette.danger,
        "cut": palette.warning,
        "duplicate": palette.warning,
        "contradictory": palette.warning,
        "changed": palette.accent,
        "validation": palette.curve_valid,
    }.get(state, palette.faint)


def _make_table(model: RowTable, theme: Theme) -> QTableView:
    table = QTableView()
    table.setModel(model)
    table.setAccessibleName("Rows")
    table.setItemDelegate(_StateDelegate(theme, table))
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setTabKeyNavigation(False)
    table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(ROW_HEIGHT)
    table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
    header = table.horizontalHeader()
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    header.setHighlightSections(False)
    header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
    for column, width in ((NUMBER, 60), (STATE, 92), (TOKENS, 66)):
        header.setSectionResizeMode(column, QHeaderView.ResizeMode.Fixed)
        header.resizeSection(column, width)
    return table
