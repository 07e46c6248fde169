"""The models on this machine: a list with search, the facts of one, and a button that takes it."""

from __future__ import annotations

from html import escape
from pathlib import Path

from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)
from typing_extensions import override

from app.reading.models import ModelInfo
from app.viewmodels.models_vm import ModelsViewModel, parameters_text
from app.viewmodels.wording import gigabytes, sentence_case
from app.views.download_bar import DownloadBar
from app.views.export_dialog import open_folder
from app.views.palette import SPACE
from app.views.theme import set_role


class ModelsPage(QWidget):
    """List and facts."""

    def __init__(self, vm: ModelsViewModel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search models")
        self.search.setAccessibleName("Search models")
        self.search.setClearButtonEnabled(True)
        self.buttons = {
            "use": QPushButton("Use this model"),
            "add": QPushButton("Add folder\N{HORIZONTAL ELLIPSIS}"),
            "open": QPushButton("Open"),
            "again": QPushButton("Look again"),
        }
        self.table = _make_table(vm)
        self.download = DownloadBar(vm.download)
        self.title = QLabel()
        set_role(self.title, "heading")
        self.facts = QLabel()
        self.facts.setTextFormat(Qt.TextFormat.RichText)
        self.facts.setWordWrap(True)
        self.facts.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.problem = QLabel()
        self.problem.setWordWrap(True)
        self._lay_out()
        self._connect()
        self.refresh()

    def refresh(self) -> None:
        """Show the view-model as it is now."""
        vm, model = self._vm, self._vm.selected
        self.buttons["use"].setEnabled(
            model is not None and not model.problem and model.name != vm.chosen
        )
        self.buttons["open"].setEnabled(model is not None and model.folder.is_dir())
        self.title.setText(model.title if model else "Choose a model to see what it is.")
        self.facts.setText(_facts(model) if model else "")
        bad = model is not None and bool(model.problem)
        set_role(self.problem, "error" if bad else "success")
        self.problem.setText(_verdict(model, vm.chosen) if model else "")
        if model is not None:
            place = vm.table.place_of(model.name)
            if place is not None and place != self._selected_row():
                self.table.selectRow(place)

    @override
    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._vm.look()

    def _connect(self) -> None:
        vm = self._vm
        vm.changed.connect(self.refresh)
        self.search.textChanged.connect(vm.set_search)
        self.table.selectionModel().currentRowChanged.connect(self._on_current_changed)
        self.table.doubleClicked.connect(lambda _: self._use())
        self.buttons["use"].clicked.connect(self._use)
        self.buttons["add"].clicked.connect(self._on_add_clicked)
        self.buttons["again"].clicked.connect(vm.look)
        self.buttons["open"].clicked.connect(self._on_open_clicked)

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.addWidget(self.search, 1)
        for name in ("add", "again"):
            bar.addWidget(self.buttons[name])
        upper = QFrame()
        set_role(upper, "card")
        column = QVBoxLayout(upper)
        column.setContentsMargins(8, 8, 8, 8)
        column.addLayout(bar)
        column.addWidget(self.table, 1)
        column.addWidget(self.download)
        lower = QFrame()
        set_role(lower, "card")
        head = QHBoxLayout()
        head.addWidget(self.title, 1)
        for name in ("open", "use"):
            head.addWidget(self.buttons[name])
        below = QVBoxLayout(lower)
        below.setContentsMargins(12, 9, 12, 12)
        below.addLayout(head)
        below.addWidget(self.facts)
        below.addWidget(self.problem)
        for button in self.buttons.values():
            button.setAutoDefault(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, 0, SPACE, SPACE)
        layout.setSpacing(SPACE)
        layout.addWidget(upper, 1)
        layout.addWidget(lower)

    def _selected_row(self) -> int:
        rows = self.table.selectionModel().selectedRows()
        return rows[0].row() if rows else -1

    def _on_current_changed(self, current: QModelIndex, _: QModelIndex) -> None:
        model = self._vm.table.model_at(current.row())
        if model is not None:
            self._vm.select(model)

    def _use(self) -> None:
        model = self._vm.selected
        if model is not None and not model.problem:
            self._vm.use(model)

    def _on_add_clicked(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "A model, or a folder of models")
        if folder:
            self._vm.add(Path(folder))

    def _on_open_clicked(self) -> None:
        if self._vm.selected is not None:
            open_folder(self._vm.selected.folder)


def _facts(model: ModelInfo) -> str:
    parts = [
        model.family,
        f"{parameters_text(model.parameters)} parameters" if model.parameters else "",
        model.precision,
        f"{gigabytes(model.size)} on disk" if model.size else "",
        f"made for {model.context:,} tokens" if model.context else "",
        f"licence {model.licence}" if model.licence else "",
    ]
    first = " \N{MIDDLE DOT} ".join(escape(part) for part in parts if part)
    return "<br>".join(line for line in (first, escape(str(model.folder))) if line)


def _verdict(model: ModelInfo, chosen: str) -> str:
    if model.problem:
        said = (model.problem, model.try_this)
        return " ".join(sentence_case(part.rstrip(".")) + "." for part in said if part)
    first = "The form has this model." if model.name == chosen else "Can be trained."
    return f"{first} {_fast_paths(model)}"


def _fast_paths(model: ModelInfo) -> str:
    if model.lacks is None:
        return "Which fast paths apply is checked when a run begins."
    if not model.lacks:
        return "All fast paths apply."
    *others, last = model.lacks
    words = f"{', '.join(others)} and {last}" if others else last
    return f"Fast paths apply, but for {words}."


def _make_table(vm: ModelsViewModel) -> QTableView:
    table = QTableView()
    table.setModel(vm.table)
    table.setAccessibleName("Models")
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setTabKeyNavigation(False)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(28)
    header = table.horizontalHeader()
    header.setHighlightSections(False)
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
    header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
    for column, width in ((1, 96), (2, 88), (3, 104), (4, 80), (5, 140)):
        header.resizeSection(column, width)
    return table
