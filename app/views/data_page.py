"""The data page: counts and lengths on top, the rows, and one of them through the mask lens."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, QPoint, Qt
from PySide6.QtGui import (
    QDragEnterEvent,
    QDropEvent,
    QHideEvent,
    QKeySequence,
    QResizeEvent,
    QShortcut,
    QShowEvent,
)
from PySide6.QtWidgets import QMenu, QSplitter, QStackedWidget, QVBoxLayout, QWidget
from typing_extensions import override

from app.viewmodels.data_rows import DataRow, RowFilter
from app.viewmodels.data_vm import DataViewModel
from app.views.columns_dialog import ColumnsDialog
from app.views.data_header import DataHeader
from app.views.empty_state import EmptyState
from app.views.mask_lens import MaskLens
from app.views.palette import SPACE
from app.views.row_editor import RowEditor
from app.views.row_list import RowList
from app.views.theme import Theme
from trainer_core.errors import TrainerError

WIDE = 1_250
"""From this width on the lens stands beside the table instead of below it."""


class DataPage(QWidget):
    """What the form's data holds. Takes files and folders that are dropped on it."""

    def __init__(self, vm: DataViewModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self.setAcceptDrops(True)
        self.header = DataHeader(theme)
        self.list = RowList(vm.table, theme)
        self.lens = MaskLens(theme)
        self._empty = EmptyState(theme)
        self._halves = QSplitter(Qt.Orientation.Vertical)
        self._halves.setChildrenCollapsible(False)
        self._halves.addWidget(self.list)
        self._halves.addWidget(self.lens)
        self._halves.setStretchFactor(0, 1)
        self._halves.setStretchFactor(1, 1)
        self._stack = QStackedWidget()
        self._stack.addWidget(self._halves)
        self._stack.addWidget(self._empty)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, 0, SPACE, SPACE)
        layout.setSpacing(SPACE)
        layout.addWidget(self.header)
        layout.addWidget(self._stack, 1)
        self._connect()
        self.refresh()
        self._show_lens()

    def refresh(self) -> None:
        """Show the view-model as it is now."""
        vm = self._vm
        self.header.show_data(vm)
        self.list.show_counts(vm.summary, vm.wanted)
        bare = vm.error is not None or (not vm.summary.rows and not vm.reading)
        self._stack.setCurrentIndex(1 if bare else 0)
        if vm.error is not None:
            self._empty.say(
                vm.error.what, " ".join(p for p in (vm.error.why, vm.error.try_this) if p)
            )
        elif bare:
            self._empty.say("No rows", "Drop a file or a folder of rows here.")

    def show_rows(self, rows: list[DataRow]) -> None:
        """Select these rows, whatever was searched for; the first goes under the lens."""
        self.list.forget_search()
        self.list.choose_filter(RowFilter.ALL)
        self._vm.select(rows[0])
        selection, model = QItemSelection(), self._vm.table
        for row in rows:
            if (place := model.place_of(row.number)) is not None:
                selection.select(model.index(place, 0), model.index(place, 0))
        flags = QItemSelectionModel.SelectionFlag
        self.list.table.selectionModel().select(selection, flags.Select | flags.Rows)

    def choose_columns(self) -> None:
        """Ask which column is what."""
        vm = self._vm
        mapping = vm.proposal or vm.mapping
        dialog = ColumnsDialog(vm.columns, mapping, pairs=vm.table.pairs, parent=self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.chosen.connect(vm.map_columns)
        dialog.open()

    def edit_row(self) -> None:
        """Ask for other values of the row under the lens."""
        row = self._vm.row
        if row is None or row.scanned.row is None:
            return
        try:
            values = self._vm.values_of(row)
        except TrainerError as error:
            self._vm.report(error)
            return
        editor = RowEditor(f"Row {row.number + 1:,}", values, self)
        editor.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        editor.saved.connect(lambda values: self._change(lambda: self._vm.replace(row, values)))
        editor.open()

    @override
    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._vm.wake()

    @override
    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._vm.sleep()

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = self.width() >= WIDE
        self._halves.setOrientation(Qt.Orientation.Horizontal if wide else Qt.Orientation.Vertical)

    @override
    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        urls = event.mimeData().urls()
        if len(urls) == 1 and urls[0].isLocalFile():
            event.acceptProposedAction()

    @override
    def dropEvent(self, event: QDropEvent) -> None:
        self._vm.open(Path(event.mimeData().urls()[0].toLocalFile()))
        event.acceptProposedAction()

    def _connect(self) -> None:
        vm = self._vm
        vm.changed.connect(self.refresh)
        vm.lens_changed.connect(self._show_lens)
        vm.sought.connect(self.show_rows)
        self.header.columns_asked.connect(self.choose_columns)
        self.header.proposal_taken.connect(lambda: vm.map_columns(vm.proposal))
        self.header.again_asked.connect(vm.again)
        self.header.filter_asked.connect(self.list.choose_filter)
        self.header.opened.connect(vm.open)
        self.list.filter_chosen.connect(vm.set_filter)
        self.list.searched.connect(vm.set_search)
        self.list.table.selectionModel().currentRowChanged.connect(self._on_current_changed)
        self.list.table.customContextMenuRequested.connect(self._show_menu)
        self.lens.leave_out_asked.connect(self._on_leave_out_asked)
        self.lens.edit_asked.connect(self.edit_row)
        self.lens.restore_asked.connect(
            lambda: self._change(lambda: vm.restore(self._selected_or_current()))
        )
        remove = QShortcut(QKeySequence(QKeySequence.StandardKey.Delete), self.list.table)
        remove.setContext(Qt.ShortcutContext.WidgetShortcut)
        remove.activated.connect(self._on_delete)

    def _show_lens(self) -> None:
        vm = self._vm
        self.lens.show_row(vm.row, vm.lens, vm.lens_error)
        if vm.row is None:
            return
        place = vm.table.place_of(vm.row.number)
        table = self.list.table
        if place is not None and table.currentIndex().row() != place:
            select = QItemSelectionModel.SelectionFlag.ClearAndSelect
            rows = QItemSelectionModel.SelectionFlag.Rows
            table.selectionModel().setCurrentIndex(vm.table.index(place, 0), select | rows)

    def _on_current_changed(self, current: QModelIndex, _: QModelIndex) -> None:
        row = self._vm.table.row_at(current.row())
        if row is not None and row is not self._vm.row:
            self._vm.select(row)

    def _selected(self) -> list[DataRow]:
        places = self.list.table.selectionModel().selectedRows()
        return [row for place in places if (row := self._vm.table.row_at(place.row()))]

    def _selected_or_current(self) -> list[DataRow]:
        return self._selected() or ([self._vm.row] if self._vm.row else [])

    def _on_leave_out_asked(self, wanted: bool) -> None:
        rows = self._selected_or_current()
        self._change(lambda: self._vm.leave_out(rows, wanted=wanted))

    def _on_delete(self) -> None:
        rows = self._selected()
        wanted = any(not row.scanned.left_out for row in rows)
        if rows:
            self._change(lambda: self._vm.leave_out(rows, wanted=wanted))

    def _show_menu(self, at: QPoint) -> None:
        rows = self._selected()
        if not rows:
            return
        menu = QMenu(self)
        vm = self._vm
        if any(not row.scanned.left_out for row in rows):
            menu.addAction("Leave out", lambda: self._on_leave_out_asked(True))
        if any(row.scanned.left_out for row in rows):
            menu.addAction("Use again", lambda: self._on_leave_out_asked(False))
        if len(rows) == 1 and not rows[0].scanned.left_out:
            menu.addAction("Edit\N{HORIZONTAL ELLIPSIS}", self.edit_row)
        if any(row.changed for row in rows):
            menu.addAction("Undo the change", lambda: self._change(lambda: vm.restore(rows)))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.list.table.viewport().mapToGlobal(at))

    def _change(self, change) -> None:  # noqa: ANN001 - any of the view-model's edits
        try:
            change()
        except TrainerError as error:
            self._vm.report(error)
        except OSError as error:
            what = "The change cannot be kept"
            self._vm.report(TrainerError(what, error.strerror or str(error), "Make room and retry"))
