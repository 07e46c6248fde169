"""Small line glyphs of the form, painted in the palette's colours so that they follow the theme."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QEnterEvent, QPainter, QPaintEvent, QPalette, QPen, QPolygonF
from PySide6.QtWidgets import QAbstractButton, QSizePolicy, QWidget
from typing_extensions import override

Glyph = Literal["right", "down", "reset", "help", "clear", "search"]

_CHEVRONS = {
    "right": [(6, 4), (10, 8), (6, 12)],
    "down": [(4, 6), (8, 10), (12, 6)],
}


class GlyphButton(QAbstractButton):
    """A 16 px button that shows a glyph and nothing else."""

    def __init__(self, glyph: Glyph, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._glyph: Glyph = glyph
        self.setAccessibleName(name)
        self.setToolTip(name)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def set_glyph(self, glyph: Glyph) -> None:
        """Show another glyph."""
        self._glyph = glyph
        self.update()

    @override
    def sizeHint(self) -> QSize:
        return QSize(16, 16)

    @override
    def enterEvent(self, event: QEnterEvent) -> None:
        super().enterEvent(event)
        self.update()

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        lively = self.isEnabled() and (self.underMouse() or self.hasFocus())
        role = QPalette.ColorRole.Accent if lively else QPalette.ColorRole.PlaceholderText
        colour = self.palette().color(role)
        pen = QPen(colour, 1.5)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        painter.setPen(pen)
        painter.translate((self.width() - 16) / 2, (self.height() - 16) / 2)
        paint_glyph(painter, self._glyph)


def paint_glyph(painter: QPainter, glyph: Glyph) -> None:
    """Draw a glyph into the square from (0, 0) to (16, 16) with the painter's pen."""
    if glyph in _CHEVRONS:
        painter.drawPolyline(QPolygonF([QPointF(x, y) for x, y in _CHEVRONS[glyph]]))
    elif glyph == "reset":
        painter.drawArc(QRectF(3.5, 3.5, 9.5, 9.5), 200 * 16, 300 * 16)
        corner = QPointF(2.8, 6.2)
        painter.drawPolyline(QPolygonF([QPointF(2.8, 3), corner, QPointF(6, 6.2)]))
        painter.drawLine(corner, QPointF(4.7, 4.9))
    elif glyph == "clear":
        painter.drawLine(QPointF(5, 5), QPointF(11, 11))
        painter.drawLine(QPointF(11, 5), QPointF(5, 11))
    elif glyph == "search":
        painter.drawEllipse(QRectF(3, 3, 7, 7))
        painter.drawLine(QPointF(9.2, 9.2), QPointF(13, 13))
    else:
        painter.drawEllipse(QRectF(2, 2, 12, 12))
        font = painter.font()
        font.setPixelSize(9)
        font.setBold(True)
        painter.setFont(font)
        painter.drawText(QRectF(2, 2, 12, 12), Qt.AlignmentFlag.AlignCenter, "?")
