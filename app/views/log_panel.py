"""The log at the foot of the window: plain sentences with their times; folds away."""

from __future__ import annotations

from html import escape

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QIcon
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPlainTextEdit, QToolButton, QVBoxLayout, QWidget

from app.paths import resources_folder
from app.viewmodels.log_vm import MOST_LINES, LogLine, LogViewModel
from app.views.palette import SPACE
from app.views.theme import Theme

HEADER_HEIGHT = 32


class LogPanel(QWidget):
    """Header with the fold, and the lines.

    Signals:
        folded: carries True when the lines are hidden.
    """

    folded = Signal(bool)

    def __init__(self, vm: LogViewModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._theme = theme
        self._fold = QToolButton()
        self._fold.setText("Log")
        self._fold.setProperty("role", "section")
        self._fold.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self._fold.setCheckable(True)
        self._fold.setChecked(True)
        self._fold.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._note = QLabel()
        self._copy = QToolButton()
        self._copy.setText("Copy")
        self._copy.setProperty("role", "quiet")
        self._copy.setToolTip("Copy the whole log")
        self._lines = QPlainTextEdit()
        self._lines.setReadOnly(True)
        self._lines.setProperty("role", "log")
        self._lines.setMaximumBlockCount(MOST_LINES)
        self._lines.setAccessibleName("Log")
        self._lines.setPlaceholderText("Nothing has happened yet.")
        header = QHBoxLayout()
        header.setContentsMargins(SPACE, 2, SPACE, 2)
        header.addWidget(self._fold)
        header.addWidget(self._note)
        header.addStretch(1)
        header.addWidget(self._copy)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(header)
        layout.addWidget(self._lines, 1)
        self._fold.toggled.connect(self.set_open)
        self._copy.clicked.connect(self._on_copy_clicked)
        vm.appended.connect(self._on_appended)
        vm.cleared.connect(self._repaint_all)
        theme.changed.connect(self._repaint_all)
        self._repaint_all()

    @property
    def is_open(self) -> bool:
        """True while the lines can be seen."""
        return self._fold.isChecked()

    def set_open(self, wanted: bool) -> None:
        """Show or hide the lines."""
        self._fold.setChecked(wanted)
        self._lines.setVisible(wanted)
        self.setMaximumHeight(16_777_215 if wanted else HEADER_HEIGHT)
        self._show_fold()
        self.folded.emit(not wanted)

    def _on_appended(self, lines: list[LogLine]) -> None:
        bar = self._lines.verticalScrollBar()
        follow = bar.value() >= bar.maximum() - 4
        for line in lines:
            self._lines.appendHtml(self._html(line))
        if follow:
            bar.setValue(bar.maximum())
        self._show_note()

    def _repaint_all(self) -> None:
        self._lines.clear()
        self._on_appended(self._vm.lines)
        self._show_fold()

    def _html(self, line: LogLine) -> str:
        palette = self._theme.palette
        colour = {"info": palette.text, "warning": palette.warning, "error": palette.danger,
                  "success": palette.success}[line.level]  # fmt: skip
        word = {"warning": "Warning: ", "error": "Error: "}.get(line.level, "")
        return (
            f"<span style='color:{palette.faint}'>{line.time}</span>&nbsp;&nbsp;"
            f"<span style='color:{colour}'>{word}{escape(line.text)}</span>"
        )

    def _show_note(self) -> None:
        n = self._vm.warnings
        self._note.setProperty("role", "warning" if n else "small")
        newest = self._vm.lines[-1].text if self._vm.lines and not self.is_open else ""
        self._note.setText(f"{n} warning{'s' if n != 1 else ''}" if n else newest[:120])
        self._note.style().polish(self._note)

    def _show_fold(self) -> None:
        way = "down" if self.is_open else "right"
        scheme = self._theme.palette.name
        self._fold.setIcon(QIcon(str(resources_folder() / "icons" / f"chevron-{way}-{scheme}.svg")))
        self._show_note()

    def _on_copy_clicked(self) -> None:
        QGuiApplication.clipboard().setText(self._vm.text())
