"""The tab of the history with the validation rows, the worst first."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.viewmodels.judged_table import CHANGE, LOSS, MARGIN, PLACE
from app.viewmodels.judged_vm import JudgedRowsViewModel
from app.viewmodels.wording import count
from app.views.theme import set_role

_ROW_HEIGHT = 24


class JudgedRows(QWidget):
    """A table, and a button that puts its selected rows under the mask lens.

    Signals:
        asked(RunRecord, list of Source): look at these rows of a run.
    """

    asked = Signal(object, object)

    def __init__(self, vm: JudgedRowsViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self.table = _make_table(vm)
        self.note = QLabel()
        set_role(self.note, "muted")
        self.note.setWordWrap(True)
        self.look = QPushButton("Look at rows")
        self.look.setAutoDefault(False)
        self.look.setToolTip(
            "Show the selected rows on the Data page, where they can be edited and left out"
        )
        foot = QHBoxLayout()
        foot.addWidget(self.note, 1)
        foot.addWidget(self.look)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 8, 0, 0)
        layout.addWidget(self.table, 1)
        layout.addLayout(foot)
        vm.changed.connect(self.refresh)
        self.look.clicked.connect(self._ask)
        self.table.doubleClicked.connect(lambda _: self._ask())
        self.table.selectionModel().selectionChanged.connect(lambda *_: self.refresh())
        enter = QShortcut(QKeySequence(Qt.Key.Key_Return), self.table)
        enter.setContext(Qt.ShortcutContext.WidgetShortcut)
        enter.activated.connect(self._ask)
        self.refresh()

    def refresh(self) -> None:
        """Show the view-model as it is now."""
        vm = self._vm
        self.table.setColumnHidden(MARGIN, not vm.table.pairs)
        self.look.setEnabled(bool(self.table.selectionModel().selectedRows()))
        self.note.setText(vm.error or self._said())

    def _said(self) -> str:
        vm = self._vm
        if vm.record is None:
            return "Select one run to see its validation rows."
        if vm.table.rows:
            return count(len(vm.table.rows), "validation row")
        return "Reading" if vm.reading else "This run kept no losses of single validation rows."

    def _ask(self) -> None:
        places = sorted(index.row() for index in self.table.selectionModel().selectedRows())
        if places and self._vm.record is not None:
            self.asked.emit(self._vm.record, self._vm.sources(places))


def _make_table(vm: JudgedRowsViewModel) -> QTableView:
    table = QTableView()
    table.setModel(vm.ordered)
    table.setSortingEnabled(True)
    table.setAccessibleName("Validation rows")
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setTabKeyNavigation(False)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(_ROW_HEIGHT)
    header = table.horizontalHeader()
    header.setHighlightSections(False)
    header.setSortIndicator(LOSS, Qt.SortOrder.DescendingOrder)
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    header.setStretchLastSection(True)
    for column, width in ((LOSS, 62), (CHANGE, 62), (MARGIN, 60), (PLACE, 52)):
        header.resizeSection(column, width)
    header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
    return table
