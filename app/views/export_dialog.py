"""Export adapter: the work, the proof, and what to do with the folder."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.viewmodels.export_vm import ExportState, ExportViewModel
from app.views.icons import pixmap
from app.views.palette import SPACE
from app.views.theme import Theme, set_role

TITLES = {
    ExportState.IDLE: "Export adapter",
    ExportState.RUNNING: "Exporting the adapter",
    ExportState.DONE: "Exported and proven",
    ExportState.FAILED: "The export did not work",
}


class ExportDialog(QDialog):
    """Follows the export view-model; closing it does not end the export."""

    def __init__(self, vm: ExportViewModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._theme = theme
        self.setWindowTitle("Export adapter")
        self.setMinimumWidth(620)
        self._picture = QLabel()
        self._title = QLabel()
        self._title.setProperty("role", "title")
        self._message = QLabel()
        self._message.setWordWrap(True)
        self._message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._bar = QProgressBar()
        self._bar.setRange(0, 0)
        self._bar.setTextVisible(False)
        self._figures = QGridLayout()
        self._figures.setHorizontalSpacing(SPACE * 2)
        self._next = QWidget()
        self._command = QPlainTextEdit()
        self._command.setReadOnly(True)
        self._command.setProperty("role", "command")
        self._command.setFixedHeight(92)
        self._buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self._folder_button = QPushButton("Open folder")
        self._buttons.addButton(self._folder_button, QDialogButtonBox.ButtonRole.ActionRole)
        self._lay_out()
        self._buttons.rejected.connect(self.reject)
        self._folder_button.clicked.connect(self._on_folder_clicked)
        vm.changed.connect(self.refresh)
        theme.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the view-model as it is now."""
        vm, palette = self._vm, self._theme.palette
        self._title.setText(TITLES[vm.state])
        set_role(self._message, "error" if vm.state is ExportState.FAILED else "muted")
        self._message.setText(vm.message)
        self._bar.setVisible(vm.state is ExportState.RUNNING)
        name, colour = {
            ExportState.DONE: ("success", palette.success),
            ExportState.FAILED: ("error", palette.danger),
        }.get(vm.state, ("export", palette.accent))
        self._picture.setPixmap(pixmap(name, colour, 28))
        done = vm.state is ExportState.DONE
        self._show_figures(vm.figures if done else [])
        self._next.setVisible(done)
        self._folder_button.setVisible(done)
        if done:
            self._command.setPlainText(vm.command)
        QTimer.singleShot(0, self, self._fit)  # once the new words have their fonts

    def _fit(self) -> None:
        """As high as the words need at this width; Qt's own size hint forgets wrapped lines."""
        layout = self.layout()
        if layout is not None:
            layout.activate()
            width = max(self.width(), self.minimumWidth())
            self.resize(width, layout.totalHeightForWidth(width))

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(10)
        head.addWidget(self._picture)
        head.addWidget(self._title, 1)
        hint = QLabel("Try it in a terminal:")
        hint.setProperty("role", "heading")
        copy = QPushButton("Copy")
        copy.clicked.connect(self._on_copy_clicked)
        row = QHBoxLayout()
        row.addWidget(hint, 1)
        row.addWidget(copy)
        following = QVBoxLayout(self._next)
        following.setContentsMargins(0, SPACE, 0, 0)
        following.addLayout(row)
        following.addWidget(self._command)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(20, 18, 20, 16)
        layout.setSpacing(SPACE + 2)
        layout.addLayout(head)
        layout.addWidget(self._message)
        layout.addWidget(self._bar)
        layout.addLayout(self._figures)
        layout.addWidget(self._next)
        layout.addStretch(1)
        layout.addWidget(self._buttons)

    def _show_figures(self, figures: list[tuple[str, str]]) -> None:
        while (item := self._figures.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for row, (name, value) in enumerate(figures):
            label, text = QLabel(name), QLabel(value)
            label.setProperty("role", "muted")
            text.setWordWrap(True)
            text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self._figures.addWidget(label, row, 0, Qt.AlignmentFlag.AlignTop)
            self._figures.addWidget(text, row, 1)
        self._figures.setColumnStretch(1, 1)

    def _on_copy_clicked(self) -> None:
        QGuiApplication.clipboard().setText(self._vm.command)

    def _on_folder_clicked(self) -> None:
        open_folder(self._vm.folder)


def open_folder(folder: Path | None) -> None:
    """Show a folder in the system's file manager."""
    if folder is not None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))
