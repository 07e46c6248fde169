"""A bar of the memory that the form's run needs, by part, against what is free."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget
from typing_extensions import override

from app.viewmodels.fit_vm import PARTS, FitViewModel
from app.viewmodels.wording import gigabytes
from app.views.palette import Palette, run_colour
from app.views.theme import Theme, set_role

HEIGHT = 10
MOST_PARTS = 5


class FitMeter(QWidget):
    """Words, bar, and the way to the details.

    Signals:
        details_asked: show the parts and what would need less.
    """

    details_asked = Signal()

    def __init__(self, vm: FitViewModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        title = QLabel("Memory")
        set_role(title, "field")
        self.words = QLabel()
        set_role(self.words, "small")
        self.words.setAccessibleName("Memory")
        self.more = QPushButton("Details")
        self.more.setAutoDefault(False)
        set_role(self.more, "link")
        self.more.clicked.connect(self.details_asked)
        self.bar = FitBar(vm, theme)
        self.bar.clicked.connect(self.details_asked)
        row = QHBoxLayout()
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(title)
        row.addWidget(self.words, 1)
        row.addWidget(self.more)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(3)
        column.addLayout(row)
        column.addWidget(self.bar)
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Show the estimate as it is now."""
        vm = self._vm
        self.words.setText(vm.summary)
        self.words.setToolTip(vm.summary)
        set_role(self.words, "small" if vm.fits else "error")
        self.more.setText("Details" if vm.fits else "Make it fit")
        self.more.setEnabled(vm.fit is not None)
        self.bar.refresh()


class FitBar(QWidget):
    """The bar alone."""

    clicked = Signal()

    def __init__(self, vm: FitViewModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self._theme = theme
        self.setFixedHeight(HEIGHT)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        theme.changed.connect(self.update)

    def refresh(self) -> None:
        """Show the estimate as it is now."""
        self.setToolTip(
            "\n".join(f"{PARTS[name]}: {gigabytes(size)}" for name, size in self._parts())
        )
        self.update()

    @override
    def mousePressEvent(self, event: QMouseEvent) -> None:
        if self._vm.fit is not None:
            self.clicked.emit()

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        palette, found = self._theme.palette, self._vm.fit
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        whole = QRectF(self.rect())
        shape = QPainterPath()
        shape.addRoundedRect(whole, HEIGHT / 2, HEIGHT / 2)
        painter.setClipPath(shape)
        painter.fillRect(whole, QColor(palette.hover))
        if found is None or not found.available:
            return
        top = max(found.available, self._vm.total)
        scale = whole.width() * self._vm.total / max(found.total, 1) / top
        left = 0.0
        for place, (_, size) in enumerate(self._parts()):
            width = size * scale
            painter.fillRect(QRectF(left, 0, width, HEIGHT), part_colour(palette, place))
            left += width
        at = whole.width() * found.room / top
        painter.fillRect(QRectF(at - 1, 0, 2, HEIGHT), QColor(palette.danger))

    def _parts(self) -> list[tuple[str, int]]:
        return list(self._vm.fit.parts.items()) if self._vm.fit else []


def part_colour(palette: Palette, place: int) -> QColor:
    """The colour of the part that is the so-many-th largest."""
    return QColor(run_colour(palette, place) if place < MOST_PARTS else palette.faint)
