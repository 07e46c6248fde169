"""Every run: a list with search, and the curves, facts and settings of those that are selected."""

from __future__ import annotations

from PySide6.QtCore import QItemSelection, QItemSelectionModel, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QKeySequence, QShortcut, QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QMenu,
    QMessageBox,
    QPushButton,
    QSplitter,
    QStackedWidget,
    QTableView,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from app.reading.runs import RunRecord
from app.viewmodels.going_on import needs_more_steps, why_not
from app.viewmodels.judged_vm import JudgedRowsViewModel
from app.viewmodels.queue_vm import QueueViewModel
from app.viewmodels.run_table import BEGAN, BEST, DATA, METHOD, NAME, STATE, STEPS
from app.viewmodels.runs_vm import RunsViewModel
from app.viewmodels.wording import count
from app.views.dialogs import ask_for_steps
from app.views.empty_state import EmptyState
from app.views.export_dialog import open_folder
from app.views.overlay_plot import OverlayPlot
from app.views.palette import SPACE
from app.views.queue_strip import QueueStrip
from app.views.run_details import RunDetails
from app.views.theme import Theme, set_role

ROW_HEIGHT = 28
_TIPS = {
    "use": "Fill the form with the settings of this run",
    "continue": "Go on with this run from its last checkpoint, exactly as if it had not ended",
    "fork": "Begin a new run from one of this run's adapters, with other settings if you like",
    "export": "Write this run's adapter as mlx-lm reads it, and prove it",
    "open": "Show the files of the run",
    "remove": "Move the run folder to the bin",
}


class RunsPage(QWidget):
    """The history.

    Signals:
        used: the form has a run's settings now.
        export_asked(Path): export a run's adapter.
        continue_asked(RunRecord, int | None): go on with a run, to so many steps if given.
    """

    used = Signal(str)
    export_asked = Signal(object)
    continue_asked = Signal(object, object)

    def __init__(
        self,
        vm: RunsViewModel,
        judged: JudgedRowsViewModel,
        queue: QueueViewModel,
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._vm = vm
        self.queue = QueueStrip(queue)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search names, notes, tags, models and data")
        self.search.setAccessibleName("Search runs")
        self.search.setClearButtonEnabled(True)
        self.buttons = {
            name: QPushButton(text)
            for name, text in (
                ("use", "Use settings"),
                ("continue", "Continue"),
                ("fork", "Fork\N{HORIZONTAL ELLIPSIS}"),
                ("export", "Export\N{HORIZONTAL ELLIPSIS}"),
                ("open", "Open"),
                ("remove", "Delete"),
            )
        }
        self.table = _make_table(vm)
        self.plot = OverlayPlot(vm, theme)
        self.details = RunDetails(vm, judged, theme)
        self._empty = EmptyState(theme)
        self._empty.say("No runs yet", "Every run that was ever made is listed here.")
        self._lay_out()
        self._connect()
        self.refresh()

    def refresh(self) -> None:
        """Show the view-model as it is now."""
        vm = self._vm
        self._stack.setCurrentIndex(1 if vm.records == [] else 0)
        chosen = vm.selected
        one = chosen[0] if len(chosen) == 1 else None
        for name, button in self.buttons.items():
            button.setEnabled(bool(chosen) if name == "remove" else one is not None)
        has_adapter = one is not None and bool(one.checkpoints())
        self.buttons["fork"].setEnabled(has_adapter)
        why = why_not(one) if one is not None else ""
        self.buttons["continue"].setEnabled(one is not None and not why)
        self.buttons["continue"].setToolTip(why or _TIPS["continue"])
        more = one is not None and needs_more_steps(one)
        self.buttons["continue"].setText("Continue\N{HORIZONTAL ELLIPSIS}" if more else "Continue")
        self.buttons["export"].setEnabled(has_adapter)
        self._select_again()

    @override
    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._vm.wake()

    @override
    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.details.keep()
        self._vm.sleep()

    def fork_menu(self) -> QMenu:
        """The adapters that the selected run left."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for record in self._vm.selected[:1]:
            for name, path in record.checkpoints():
                menu.addAction(
                    name.capitalize(), lambda r=record, p=path: self._taken(r, self._vm.fork(r, p))
                )
        return menu

    def ask_to_remove(self) -> None:
        """Move the selected runs to the bin, if that is meant."""
        chosen = self._vm.selected
        if not chosen:
            return
        named = chosen[0].title if len(chosen) == 1 else count(len(chosen), "run")
        box = QMessageBox(QMessageBox.Icon.Question, "Delete", f"Move {named} to the bin?")
        box.setParent(self, Qt.WindowType.Dialog)
        box.setInformativeText("Adapters and checkpoints in the run folder go with it.")
        move = box.addButton("Move to the bin", QMessageBox.ButtonRole.AcceptRole)
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        move.clicked.connect(lambda: self._vm.remove(chosen))
        box.open()

    def _connect(self) -> None:
        vm = self._vm
        vm.changed.connect(self.refresh)
        self.search.textChanged.connect(vm.set_search)
        # Selecting many lines tells of each; what follows is done once.
        self._soon = QTimer(self, singleShot=True, interval=0)
        self._soon.timeout.connect(self._on_selected)
        self.table.selectionModel().selectionChanged.connect(lambda *_: self._soon.start())
        self.table.customContextMenuRequested.connect(self._show_menu)
        self.plot.metric_chosen.connect(vm.set_metric)
        self.details.notes_written.connect(vm.set_notes)
        self.buttons["use"].clicked.connect(self._on_use_clicked)
        self.buttons["continue"].clicked.connect(self._on_continue_clicked)
        self.buttons["fork"].clicked.connect(self._on_fork_clicked)
        self.buttons["export"].clicked.connect(self._on_export_clicked)
        self.buttons["open"].clicked.connect(self._on_open_clicked)
        self.buttons["remove"].clicked.connect(self.ask_to_remove)
        remove = QShortcut(QKeySequence(QKeySequence.StandardKey.Delete), self.table)
        remove.setContext(Qt.ShortcutContext.WidgetShortcut)
        remove.activated.connect(self.ask_to_remove)

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.addWidget(self.search, 1)
        for name, button in self.buttons.items():
            button.setAutoDefault(False)
            button.setToolTip(_TIPS[name])
            bar.addWidget(button)
        upper = QFrame()
        set_role(upper, "card")
        column = QVBoxLayout(upper)
        column.setContentsMargins(8, 8, 8, 8)
        column.addLayout(bar)
        column.addWidget(self.table, 1)
        lower = QSplitter(Qt.Orientation.Horizontal)
        lower.setChildrenCollapsible(False)
        lower.addWidget(self.plot)
        lower.addWidget(self.details)
        lower.setSizes([560, 400])
        halves = QSplitter(Qt.Orientation.Vertical)
        halves.setChildrenCollapsible(False)
        halves.addWidget(upper)
        halves.addWidget(lower)
        halves.setStretchFactor(0, 1)
        halves.setStretchFactor(1, 1)
        self._stack = QStackedWidget()
        self._stack.addWidget(halves)
        self._stack.addWidget(self._empty)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, 0, SPACE, SPACE)
        layout.setSpacing(SPACE)
        layout.addWidget(self.queue)
        layout.addWidget(self._stack, 1)

    def _on_selected(self) -> None:
        self.details.keep()
        places = sorted({index.row() for index in self.table.selectionModel().selectedRows()})
        found = [record for place in places if (record := self._vm.table.record_at(place))]
        self._vm.select([record.folder for record in found])

    def _select_again(self) -> None:
        """Select the lines of the chosen runs, which may have moved; the newest if none is."""
        model = self._vm.table
        places = [p for r in self._vm.selected if (p := model.place_of(r.folder)) is not None]
        if not places and model.rowCount() and not self.search.text():
            places = [0]
        selection = self.table.selectionModel()
        if places and {index.row() for index in selection.selectedRows()} != set(places):
            wanted = QItemSelection()
            for place in places:
                wanted.select(model.index(place, NAME), model.index(place, STATE))
            selection.select(wanted, QItemSelectionModel.SelectionFlag.ClearAndSelect)

    def _one(self) -> RunRecord | None:
        chosen = self._vm.selected
        return chosen[0] if len(chosen) == 1 else None

    def _on_use_clicked(self) -> None:
        if record := self._one():
            self._taken(record, self._vm.use(record))

    def _taken(self, record: RunRecord, done: bool) -> None:
        if done:
            self.used.emit(record.title)

    def _on_continue_clicked(self) -> None:
        record = self._one()
        if record is None:
            return
        if needs_more_steps(record):
            ask_for_steps(self, record, self.continue_asked.emit)
        else:
            self.continue_asked.emit(record, None)

    def _on_fork_clicked(self) -> None:
        button = self.buttons["fork"]
        self.fork_menu().popup(button.mapToGlobal(button.rect().bottomLeft()))

    def _on_export_clicked(self) -> None:
        if record := self._one():
            self.export_asked.emit(record.folder)

    def _on_open_clicked(self) -> None:
        if record := self._one():
            open_folder(record.folder)

    def _show_menu(self, at: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for button in self.buttons.values():
            action = menu.addAction(button.text(), button.click)
            action.setEnabled(button.isEnabled())
        menu.popup(self.table.viewport().mapToGlobal(at))


def _make_table(vm: RunsViewModel) -> QTableView:
    table = QTableView()
    table.setModel(vm.table)
    table.setAccessibleName("Runs")
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setTabKeyNavigation(False)
    table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(ROW_HEIGHT)
    header = table.horizontalHeader()
    header.setHighlightSections(False)
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
    for column, width in (
        (BEGAN, 112), (METHOD, 64), (DATA, 120), (STEPS, 60), (BEST, 76), (STATE, 92),
    ):  # fmt: skip
        header.setSectionResizeMode(column, QHeaderView.ResizeMode.Interactive)
        header.resizeSection(column, width)
    return table
