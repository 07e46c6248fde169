"""What stands in the place of the curves while there are none."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QLabel, QVBoxLayout, QWidget
from typing_extensions import override

from app.views.icons import pixmap
from app.views.theme import Theme

WIDEST = 460


class EmptyState(QFrame):
    """A picture, a title and a sentence in the middle of a card."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self.setProperty("role", "card")
        self._picture = QLabel()
        self._title = QLabel()
        self._title.setProperty("role", "title")
        self._text = QLabel()
        self._text.setProperty("role", "muted")
        self._text.setWordWrap(True)
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        layout.addStretch(1)
        for label in (self._picture, self._title, self._text):
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            layout.addWidget(label, 0, Qt.AlignmentFlag.AlignHCenter)
        layout.addStretch(1)
        theme.changed.connect(self._on_theme_changed)
        self._on_theme_changed()

    def say(self, title: str, text: str) -> None:
        """Show these words."""
        self._title.setText(title)
        self._text.setText(text)
        self._text.setVisible(bool(text))
        self._make_room()

    @override
    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._make_room()  # only now does the style sheet's font apply

    @override
    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    def _make_room(self) -> None:
        """Give the text its width and all its lines; a centred label is not asked for them."""
        wanted = self._text.fontMetrics().horizontalAdvance(self._text.text()) + 8
        width = max(80, min(WIDEST, wanted, self.width() - 48))
        self._text.setFixedWidth(width)
        self._text.setMinimumHeight(self._text.heightForWidth(width))

    def _on_theme_changed(self) -> None:
        self._picture.setPixmap(pixmap("curve", self._theme.palette.border_strong, 72))
