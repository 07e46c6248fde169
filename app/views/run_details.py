"""What is known of the selected runs: facts, notes and tags of one, differences of several."""

from __future__ import annotations

from datetime import datetime
from html import escape

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTableWidget,
    QTableWidgetItem,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from app.reading.runs import RunNotes, RunRecord
from app.viewmodels.judged_vm import JudgedRowsViewModel
from app.viewmodels.run_table import STATES
from app.viewmodels.runs_vm import RunsViewModel
from app.viewmodels.wording import count, duration, number, sentence_case
from app.views.judged_rows import JudgedRows
from app.views.palette import run_colour
from app.views.theme import Theme, set_role


class RunDetails(QFrame):
    """Tabs with facts and settings.

    Signals:
        notes_written(RunRecord, RunNotes): name, tags or notes were edited.
    """

    notes_written = Signal(object, object)

    def __init__(
        self,
        vm: RunsViewModel,
        judged: JudgedRowsViewModel,
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self._vm = vm
        self._theme = theme
        self._record: RunRecord | None = None
        self._count = 1
        self.facts = QLabel()
        self.facts.setWordWrap(True)
        self.facts.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.facts.setTextFormat(Qt.TextFormat.RichText)
        self.facts.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.title = _line("Name", "Name of the run")
        self.tags = _line("Tags, separated by commas", "Tags")
        self.notes = QPlainTextEdit()
        self.notes.setPlaceholderText("Notes")
        self.notes.setAccessibleName("Notes")
        self.notes.setTabChangesFocus(True)
        self.settings = _table()
        self.judged = JudgedRows(judged)
        self.tabs = QTabWidget()
        about = QWidget()
        column = QVBoxLayout(about)
        column.setContentsMargins(0, 8, 0, 0)
        for widget in (self.facts, self.title, self.tags):
            column.addWidget(widget)
        column.addWidget(self.notes, 1)
        self.tabs.addTab(about, "About")
        self.tabs.addTab(self.settings, "Settings")
        self.tabs.addTab(self.judged, "Rows")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 2, 12, 9)
        layout.addWidget(self.tabs)
        self.title.editingFinished.connect(self.keep)
        self.tags.editingFinished.connect(self.keep)
        vm.changed.connect(self.refresh)
        theme.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the selected runs."""
        chosen = self._vm.overlaid
        record = chosen[0] if len(chosen) == 1 else None
        if self._record is not None and (record is None or record.folder != self._record.folder):
            self.keep()
        before, self._record = self._record, record
        self.facts.setText(_facts(record) if record else _several(len(self._vm.selected)))
        for field in (self.title, self.tags, self.notes):
            field.setVisible(record is not None)
        if record is not None and (before is None or before.folder != record.folder):
            self.title.setText(record.title)
            self.tags.setText(", ".join(record.notes.tags))
            self.notes.setPlainText(record.notes.text)
        self._show_settings(chosen)
        if len(chosen) != self._count:
            self._count = len(chosen)
            self.tabs.setCurrentIndex(1 if len(chosen) > 1 else 0)

    def keep(self) -> None:
        """Hand on what was written, if anything was."""
        record = self._record
        if record is None:
            return
        title = self.title.text().strip()
        tags = tuple(dict.fromkeys(t.strip() for t in self.tags.text().split(",") if t.strip()))
        own = "" if title == record.folder.name else title
        notes = RunNotes(own, self.notes.toPlainText().strip(), tags)
        if notes != record.notes:
            self._record = None
            self.notes_written.emit(record, notes)

    def _show_settings(self, chosen: list[RunRecord]) -> None:
        rows, table = self._vm.differences, self.settings
        self.tabs.setTabText(1, "Differences" if len(chosen) > 1 else "Settings")
        table.setColumnCount(1 + len(chosen))
        heads = [record.title for record in chosen] if len(chosen) > 1 else ["not the default"]
        for column, text in enumerate(["Option", *heads[: len(chosen)]]):
            item = QTableWidgetItem(text)
            item.setToolTip(text)
            if column and len(chosen) > 1:
                item.setIcon(_swatch(run_colour(self._theme.palette, column - 1)))
            table.setHorizontalHeaderItem(column, item)
        table.setRowCount(len(rows))
        for place, row in enumerate(rows):
            for column, text in enumerate((row.label, *row.values)):
                item = QTableWidgetItem(text or "\N{EN DASH}")
                item.setToolTip(row.key if column == 0 else text)
                table.setItem(place, column, item)


def _facts(record: RunRecord) -> str:
    parts = [f"<b>{sentence_case(STATES.get(record.state, record.state))}</b>"]
    parts.append(f"{record.method.upper()} of {escape(record.model)} on {escape(record.data)}")
    if record.rows:
        parts.append(count(record.rows, "row"))
    took = f" in {duration(record.seconds)}" if record.seconds else ""
    parts.append(f"{count(record.steps, 'step')}{took}")
    if record.best_loss is not None:
        best = f"best validation {number(record.best_loss)} at step {record.best_step or 0:,}"
        parts.append(best)
    if record.device:
        parts.append(escape(record.device))
    began = f"{datetime.fromtimestamp(record.began):%A, %d %B %Y, %H:%M}"
    lines = [" \N{MIDDLE DOT} ".join(parts), began]
    if record.failure:
        lines.append(f"Failed: {escape(record.failure)}")
    return "<br>".join(lines)


def _several(n: int) -> str:
    return "" if n == 0 else f"{n} runs are selected. Their differences are on the other tab."


def _swatch(colour: str) -> QIcon:
    """A dot in the colour of a run's curve."""
    picture = QPixmap(24, 24)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(colour))
    painter.drawEllipse(4, 4, 16, 16)
    painter.end()
    return QIcon(picture)


def _line(placeholder: str, name: str) -> QLineEdit:
    edit = QLineEdit()
    edit.setPlaceholderText(placeholder)
    edit.setAccessibleName(name)
    return edit


def _table() -> QTableWidget:
    table = QTableWidget()
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setAccessibleName("Settings")
    table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(24)
    header = table.horizontalHeader()
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
    return table
