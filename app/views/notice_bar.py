"""The banner above the plots with the one notice that matters now."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.viewmodels.notice_vm import NoticeViewModel
from app.views.icons import icon, pixmap
from app.views.palette import SPACE
from app.views.theme import Theme, set_state

WORDS = {
    "show_log": "Show log",
    "open_log_file": "Open log folder",
    "export": "Export adapter\N{HORIZONTAL ELLIPSIS}",
    "open_run": "Open run folder",
    "continue_run": "Continue",
    "isolate_run": "Continue in its own process",
    "copy_diagnostics": "Copy diagnostics",
    "fit": "Make it fit\N{HORIZONTAL ELLIPSIS}",
    "go_runs": "All runs",
}


class NoticeBar(QFrame):
    """Icon, title, text, buttons.

    Signals:
        asked: a button was pressed; carries the action's key.
    """

    asked = Signal(str)

    def __init__(self, vm: NoticeViewModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._theme = theme
        self.setProperty("role", "notice")
        self._picture = QLabel()
        self._title = QLabel()
        self._title.setProperty("role", "heading")
        self._title.setWordWrap(True)
        self._text = QLabel()
        self._text.setWordWrap(True)
        self._text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._buttons = QHBoxLayout()
        self._buttons.setSpacing(6)
        self._close = QToolButton()
        self._close.setProperty("role", "quiet")
        self._close.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._close.setToolTip("Dismiss")
        self._close.setAccessibleName("Dismiss the notice")
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._title)
        words.addWidget(self._text)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(12, SPACE, SPACE, SPACE)
        layout.setSpacing(10)
        layout.addWidget(self._picture, 0, Qt.AlignmentFlag.AlignTop)
        layout.addLayout(words, 1)
        layout.addLayout(self._buttons)
        layout.addWidget(self._close, 0, Qt.AlignmentFlag.AlignTop)
        self._close.clicked.connect(vm.dismiss)
        vm.changed.connect(self.refresh)
        theme.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the view-model as it is now."""
        notice = self._vm.notice
        self.setVisible(notice is not None)
        if notice is None:
            return
        palette = self._theme.palette
        colour = {"error": palette.danger, "warning": palette.warning, "success": palette.success,
                  "info": palette.muted}[notice.level]  # fmt: skip
        set_state(self, "level", notice.level)
        self._picture.setPixmap(pixmap(notice.level, colour))
        self._close.setIcon(icon("close", palette.muted, palette.faint))
        self._title.setText(notice.title)
        self._text.setText(notice.text)
        self._text.setVisible(bool(notice.text))
        while (item := self._buttons.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for action in notice.actions:
            button = QPushButton(WORDS[action])
            button.clicked.connect(lambda _=False, key=action: self.asked.emit(key))
            self._buttons.addWidget(button)
