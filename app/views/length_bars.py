"""How long the rows are, as bars, with the place where the sequence length cuts."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget
from typing_extensions import override

from app.viewmodels.data_summary import BINS, histogram
from app.viewmodels.series import Floats
from app.views.theme import Theme

_FOOT = 16


class LengthBars(QWidget):
    """A small histogram of sequence lengths in tokens."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._counts: Floats = np.zeros(BINS)
        self._width = 1.0
        self._limit = 0
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        theme.changed.connect(self.update)

    def show_lengths(self, lengths: np.ndarray, limit: int) -> None:
        """Show these lengths.

        Args:
            lengths: tokens of each sequence.
            limit: where rows are cut.
        """
        counts, self._width = histogram(lengths, limit)
        self._counts, self._limit = counts.astype(np.float64), limit
        n, over = int(lengths.size), int((lengths > limit).sum())
        longest = int(lengths.max(initial=0))
        text = f"Lengths of {n:,} sequences, the longest of {longest:,} tokens; {over:,} are cut"
        self.setToolTip(text)
        self.setAccessibleName(text)
        self.setVisible(n > 0)
        self.update()

    @override
    def sizeHint(self) -> QSize:
        return QSize(280, 66)

    @override
    def paintEvent(self, event: QPaintEvent) -> None:
        palette = self._theme.palette
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        height, step = self.height() - _FOOT, self.width() / BINS
        most = max(float(self._counts.max()), 1.0)
        painter.setPen(Qt.PenStyle.NoPen)
        for place, value in enumerate(self._counts):
            # Square roots keep the few long rows visible beside the many short ones.
            tall = (value / most) ** 0.5 * (height - 4)
            over = place * self._width >= self._limit
            painter.setBrush(QColor(palette.danger if over else palette.curve_valid))
            if value:
                bar = QRectF(place * step + 0.5, height - tall, max(step - 1, 1), tall)
                painter.drawRect(bar)
        painter.setPen(QPen(QColor(palette.border_strong), 1))
        painter.drawLine(QPointF(0, height + 0.5), QPointF(self.width(), height + 0.5))
        self._write(painter, height)
        painter.end()

    def _write(self, painter: QPainter, height: float) -> None:
        palette = self._theme.palette
        font = painter.font()
        font.setPixelSize(11)
        painter.setFont(font)
        foot = QRectF(0, height + 2, self.width(), _FOOT)
        painter.setPen(QColor(palette.muted))
        painter.drawText(foot, int(Qt.AlignmentFlag.AlignLeft), "0")
        top = self._width * BINS
        painter.drawText(foot, int(Qt.AlignmentFlag.AlignRight), f"{top:,.0f} tokens")
        x = self._limit / top * self.width()
        if x <= self.width():
            painter.setPen(QPen(QColor(palette.danger), 1, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(x, 0), QPointF(x, height))
