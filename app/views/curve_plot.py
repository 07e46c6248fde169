"""One plot with its title, live figures and curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.viewmodels.curves_vm import CurvesViewModel
from app.viewmodels.plot_table import Curve, Plot
from app.viewmodels.wording import number
from app.views.axis import CompactAxis
from app.views.palette import Palette

FAINT = 80
"""Alpha of the raw line behind the smoothed one."""


class CurvePlot(QFrame):
    """A card with one plot.

    Signals:
        hovered: the pointer is over this step, or left (None).
        range_chosen: the user zoomed or panned to these steps.
        reset_asked: double click.
    """

    hovered = Signal(object)
    range_chosen = Signal(float, float)
    reset_asked = Signal()

    def __init__(
        self, plot: Plot, vm: CurvesViewModel, palette: Palette, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.plot = plot
        self._vm = vm
        self._palette = palette
        self.setProperty("role", "card")
        self.setToolTip(plot.help)
        self.setMinimumSize(170, 120)
        self._title = QLabel(plot.title)
        self._title.setProperty("role", "heading")
        self._figures = QLabel()
        self._figures.setProperty("role", "small")
        self._figures.setTextFormat(Qt.TextFormat.RichText)
        self._figures.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._figures.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._axes = {side: CompactAxis(side) for side in ("left", "bottom")}
        self._view: Any = pg.PlotWidget(axisItems=self._axes, background=None)
        self._view.setToolTip("")
        self._build_view()
        self._lines: dict[str, pg.PlotDataItem] = {}
        self._raws: dict[str, pg.PlotDataItem] = {}
        self._add_curves()
        header = QHBoxLayout()
        header.setContentsMargins(0, 0, 4, 0)
        header.addWidget(self._title)
        header.addWidget(self._figures, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 9, 8, 6)
        layout.setSpacing(4)
        layout.addLayout(header)
        layout.addWidget(self._view, 1)
        self.paint_with(palette)

    def refresh(self) -> None:
        """Draw the points as they are now."""
        for curve in self.plot.curves:
            series = self._vm.series(self.plot, curve)
            smoothed = series.smoothing > 0
            self._lines[curve.role].setData(series.steps, series.smoothed)
            if curve.role in self._raws:
                self._raws[curve.role].setData(
                    *((series.steps, series.values) if smoothed else ([], []))
                )
            if curve.validation:
                self._mark_best(
                    series.at(self._vm.best_step) if self._vm.best_step is not None else None
                )
        self.refresh_hover()

    def refresh_hover(self) -> None:
        """Put the shared cursor in its place and show the figures under it, or the newest ones."""
        step = self._vm.hover_step
        self._cursor.setVisible(step is not None)
        if step is not None:
            self._cursor.setValue(step)
        parts: list[str] = []
        for curve in self.plot.curves:
            series = self._vm.series(self.plot, curve)
            found = (
                series.at(step) if step is not None else (0.0, series.last) if len(series) else None
            )
            if found is not None:
                parts.append(self._figure(curve, found[1]))
        if step is not None and parts:
            parts.insert(0, f"step {step:,.0f}")
        self._figures.setText("&nbsp;&nbsp; ".join(parts))

    def paint_with(self, palette: Palette) -> None:
        """Take the colours of a palette."""
        self._palette = palette
        for axis in self._axes.values():
            axis.paint_with(palette)
        self._view.getPlotItem().showGrid(x=False, y=True, alpha=1.0)
        self._cursor.setPen(pg.mkPen(palette.faint, width=1, style=Qt.PenStyle.DashLine))
        for curve in self.plot.curves:
            colour = self._colour(curve)
            self._lines[curve.role].setPen(pg.mkPen(colour, width=2))
            if curve.validation:
                self._lines[curve.role].setSymbolBrush(colour)
                self._lines[curve.role].setSymbolPen(pg.mkPen(palette.raised, width=1))
            if curve.role in self._raws:
                faint = QColor(colour)
                faint.setAlpha(FAINT)
                self._raws[curve.role].setPen(pg.mkPen(faint, width=1))
        self._best.setPen(pg.mkPen(palette.curve_valid, width=1.5))
        self.refresh_hover()

    def show_range(self, first: float, last: float) -> None:
        """Show these steps."""
        self._view.setXRange(first, last, padding=0)

    def show_all(self) -> None:
        """Show all steps, and follow new ones."""
        self._view.getViewBox().enableAutoRange(x=True)

    def leaveEvent(self, event: QEvent) -> None:
        """Called by Qt when the pointer leaves the card."""
        self.hovered.emit(None)
        super().leaveEvent(event)

    def _build_view(self) -> None:
        item = self._view.getPlotItem()
        item.setMenuEnabled(False)
        item.hideButtons()
        item.setContentsMargins(0, 2, 2, 0)
        item.setMouseEnabled(x=True, y=False)
        item.setClipToView(True)
        item.setDownsampling(auto=True, mode="peak")
        box = item.getViewBox()
        box.setDefaultPadding(0.03)
        box.setAutoVisible(y=True)
        box.sigRangeChangedManually.connect(self._on_range_chosen)
        if self.plot.share:
            item.setYRange(-0.05, 1.08, padding=0)
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._cursor.setVisible(False)
        item.addItem(self._cursor, ignoreBounds=True)
        self._best = pg.ScatterPlotItem(size=14, symbol="o", brush=None)
        item.addItem(self._best, ignoreBounds=True)
        scene = self._view.scene()
        scene.sigMouseMoved.connect(self._on_mouse_moved)
        scene.sigMouseClicked.connect(self._on_mouse_clicked)

    def _add_curves(self) -> None:
        for curve in self.plot.curves:
            options: dict[str, Any] = {"connect": "finite", "antialias": True}
            if curve.validation:
                options |= {"symbol": "o", "symbolSize": 7}
            elif self.plot.smooth:
                self._raws[curve.role] = self._view.plot([], [], **options)
            line = self._view.plot([], [], **options)
            line.setZValue(2 if curve.validation else 1)
            self._lines[curve.role] = line
        self._best.setZValue(3)

    def _mark_best(self, point: tuple[float, float] | None) -> None:
        known = point is not None and np.isfinite(point[1])
        self._best.setData(
            [point[0]] if known and point else [], [point[1]] if known and point else []
        )

    def _colour(self, curve: Curve) -> str:
        return str(getattr(self._palette, f"curve_{curve.role}"))

    def _figure(self, curve: Curve, value: float | None) -> str:
        unit = f" {self.plot.unit}" if self.plot.unit else ""
        text = (
            f"{value:.0%}"
            if self.plot.share and value is not None and value == value
            else number(value)
        )
        name = f"{curve.label} " if len(self.plot.curves) > 1 else ""
        dot = f"<span style='color:{self._colour(curve)}'>\N{BLACK CIRCLE}</span>"
        return f"{dot} {name}<span style='color:{self._palette.text}'>{text}{unit}</span>"

    def _on_mouse_moved(self, position: QPointF) -> None:
        box = self._view.getViewBox()
        if not box.sceneBoundingRect().contains(position):
            self.hovered.emit(None)
            return
        wanted = box.mapSceneToView(position).x()
        found = [
            point
            for curve in self.plot.curves
            if (point := self._vm.series(self.plot, curve).at(wanted)) is not None
        ]
        self.hovered.emit(min(found, key=lambda p: abs(p[0] - wanted))[0] if found else None)

    def _on_mouse_clicked(self, event: Any) -> None:
        if event.double():
            self.reset_asked.emit()

    def _on_range_chosen(self) -> None:
        first, last = self._view.getViewBox().viewRange()[0]
        self.range_chosen.emit(first, last)
