"""What stands in the place of the curves while there are none."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFrame, QLabel, QVBoxLayout, QWidget

from app.views.icons import pixmap
from app.views.theme import Theme


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
        self._text.setMaximumWidth(460)
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
        if text:
            metrics = self._text.fontMetrics()
            self._text.setMinimumWidth(min(460, metrics.horizontalAdvance(text) + 8))

    def _on_theme_changed(self) -> None:
        self._picture.setPixmap(pixmap("curve", self._theme.palette.border_strong, 72))
