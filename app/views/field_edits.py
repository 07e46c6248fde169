"""Line edits of the form: numbers that arrow keys step, paths that are dropped in and elided."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QKeyEvent, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QLineEdit, QStyle, QStyleOptionFrame, QWidget
from typing_extensions import override

_UNIT_GAP = 9


class NumberEdit(QLineEdit):
    """Takes any text, with a unit at the right end; up and down ask for a step, with Shift for ten.

    Signals:
        stepped(n): the user asked for n steps up.
    """

    stepped = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._unit = ""

    def set_unit(self, unit: str) -> None:
        """What stands after the number, inside the field."""
        if unit != self._unit:
            self._unit = unit
            room = self.fontMetrics().horizontalAdvance(unit) + _UNIT_GAP if unit else 0
            self.setTextMargins(0, 0, room, 0)
            self.update()

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self._unit:
            painter = QPainter(self)
            painter.setPen(self.palette().color(QPalette.ColorRole.PlaceholderText))
            area = self.rect().adjusted(0, 0, -_UNIT_GAP, 0)
            painter.drawText(
                area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, self._unit
            )

    @override
    def keyPressEvent(self, event: QKeyEvent) -> None:
        sign = {Qt.Key.Key_Up: 1, Qt.Key.Key_Down: -1}.get(Qt.Key(event.key()))
        if sign is None or self.isReadOnly():
            super().keyPressEvent(event)
        else:
            many = event.modifiers() & Qt.KeyboardModifier.ShiftModifier
            self.stepped.emit(sign * (10 if many else 1))


class PathEdit(QLineEdit):
    """Takes a file or folder dropped on it; shows a long path with its middle left out.

    Signals:
        dropped(path): something local was dropped.
    """

    dropped = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAcceptDrops(True)

    def shown_text(self) -> str:
        """What is painted: the whole text while it is edited or fits, else an elided one."""
        if self.hasFocus() or not self.text():
            return self.text()
        width = self._text_area().width()
        return self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideMiddle, width)

    @override
    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls() and event.mimeData().urls()[0].isLocalFile():
            event.acceptProposedAction()
        else:
            super().dragEnterEvent(event)

    @override
    def dropEvent(self, event: QDropEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()
            self.dropped.emit(event.mimeData().urls()[0].toLocalFile())
        else:
            super().dropEvent(event)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        shown = self.shown_text()
        if shown == self.text():
            super().paintEvent(event)
            return
        painter = QPainter(self)
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        self.style().drawPrimitive(QStyle.PrimitiveElement.PE_PanelLineEdit, option, painter, self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self._text_area(), Qt.AlignmentFlag.AlignVCenter, shown)

    def _text_area(self) -> QRect:
        option = QStyleOptionFrame()
        self.initStyleOption(option)
        area = self.style().subElementRect(QStyle.SubElement.SE_LineEditContents, option, self)
        return area.adjusted(2, 0, -2, 0)  # the margin that QLineEdit itself leaves around its text
