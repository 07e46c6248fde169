"""An axis with short labels, faint lines and a fixed width, so that plots in a grid line up."""

from __future__ import annotations

import math

import pyqtgraph as pg
from PySide6.QtGui import QFont

from app.views.palette import Palette

LEFT_WIDTH = 46
MOST_LOG_LABELS = 6


class CompactAxis(pg.AxisItem):
    """Labels such as `0.25`, `12k`, `2e-4`."""

    def __init__(self, orientation: str) -> None:
        super().__init__(orientation)
        font = QFont()
        font.setPixelSize(11)
        self.setTickFont(font)
        self.enableAutoSIPrefix(False)
        self.setStyle(tickLength=0, tickTextOffset=6, maxTickLevel=0, hideOverlappingLabels=True)
        self.setTickDensity(1.4 if orientation == "left" else 1.0)
        if orientation == "left":
            self.setWidth(LEFT_WIDTH)

    def paint_with(self, palette: Palette) -> None:
        """Take the colours of a palette."""
        self.setPen(palette.grid)
        self.setTextPen(palette.muted)

    def logTickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        """Called by pyqtgraph on a logarithmic axis; `values` are exponents of ten."""
        if len(values) > MOST_LOG_LABELS:
            return [_round_label(value) for value in values]
        return [f"{10.0**value:.3g}" for value in values]

    def tickStrings(self, values: list[float], scale: float, spacing: float) -> list[str]:
        """Called by pyqtgraph: one label per tick."""
        if self.logMode:
            return self.logTickStrings(values, scale, spacing)
        return [tick_label(value * scale, spacing * scale) for value in values]


def _round_label(exponent: float) -> str:
    """The label of a tick at 1, 2 or 5 times a power of ten; between these there is no room."""
    first = round(10.0 ** (exponent - math.floor(exponent + 1e-9)), 6)
    return f"{10.0**exponent:.3g}" if first in (1.0, 2.0, 5.0) else ""


def tick_label(value: float, spacing: float) -> str:
    """The shortest label that tells ticks `spacing` apart."""
    if value == 0:
        return "0"
    largest = max(abs(value), spacing)
    if largest >= 1e4:
        return f"{value / 1e3:g}k" if largest < 1e6 else f"{value / 1e6:g}M"
    if largest < 1e-2:
        exponent = math.floor(math.log10(largest))
        return f"{round(value / 10.0**exponent, 2):g}e{exponent}"
    places = next((n for n in range(6) if math.isclose(round(spacing, n), spacing)), 6)
    return f"{value:.{places}f}"
