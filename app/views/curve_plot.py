"""One plot with its title, live figures and curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.viewmodels.curves_vm import CurvesViewModel
from app.viewmodels.plot_range import Range, step_range, value_range
from app.viewmodels.plot_table import Curve, Plot
from app.viewmodels.series import Floats, Series
from app.viewmodels.thinning import envelope, every_nth
from app.viewmodels.wording import number
from app.views.axis import CompactAxis
from app.views.palette import Palette, mixed
from app.views.plot_marks import PlotMarks

FAINT = 0.35
"""Strength of the raw line behind the smoothed one."""

_HOW = "Scroll to zoom, drag to move, double-click or Home to see all; arrow keys move the cursor."

SHARE_RANGE = (-0.05, 1.08)

# Strokes are what drawing costs, and a plot is some 400 pixels wide. A noisy thick line takes 20
# times as long as one path as segment by segment, but few segments show their joints; a translucent
# one takes 5 times as long as an opaque one.
MOST_RAW = 500
MOST_SMOOTH = 250
MOST_IN_ONE_PATH = 120


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
        self._zoom: Range | None = None
        self._shown_x: Range | None = None
        self._shown_y: Range | None = None
        self._figures = QLabel()
        self._axes: dict[str, Any] = {side: CompactAxis(side) for side in ("left", "bottom")}
        # pyqtgraph is not typed: its widgets get their methods from the items they hold.
        self._view: Any = pg.PlotWidget(axisItems=self._axes, enableMenu=False)
        self._view.setBackground(None)
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._best: Any = pg.ScatterPlotItem(size=14, symbol="o", brush=None)
        self._marks = PlotMarks(self._view)
        self._log = False
        self._lines: dict[str, Any] = {}
        self._raws: dict[str, Any] = {}
        self._lay_out()
        self._build_view()
        self._add_curves()
        self.paint_with(palette)

    def refresh(self) -> None:
        """Draw the points as they are now."""
        self._follow_log()
        self._fit()
        for curve in self.plot.curves:
            self._draw(curve)
            if curve.validation:
                self._mark_best(curve)
        self._marks.show(self._vm, self._palette)
        self.refresh_hover()

    def refresh_hover(self) -> None:
        """Put the shared cursor in its place and show the figures under it, or the newest ones."""
        step = self._vm.hover_step
        self._cursor.setVisible(step is not None)
        if step is not None:
            self._cursor.setValue(float(self._vm.x_of(np.array([step]))[0]))
        parts = [] if step is None else [self._vm.x_words(step)]
        for curve in self.plot.curves:
            series = self._vm.series(self.plot, curve)
            point = series.at(step if step is not None else np.inf)
            if point is not None:
                parts.append(self._figure(curve, point[1]))
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
                faint = mixed(colour, palette.raised, FAINT)
                self._raws[curve.role].setPen(pg.mkPen(faint, width=1))
        self._best.setPen(pg.mkPen(palette.curve_valid, width=1.5))
        self.refresh_hover()

    def show_range(self, zoom: Range | None) -> None:
        """Show these steps from the next `refresh` on; None shows all, and follows new ones."""
        self._zoom = zoom

    def spoken(self) -> str:
        """The figures under the cursor as plain text, for a screen reader."""
        step = self._vm.hover_step
        parts = [self.plot.title] if step is None else [self.plot.title, self._vm.x_words(step)]
        for curve in self.plot.curves:
            point = self._vm.series(self.plot, curve).at(step if step is not None else np.inf)
            if point is not None:
                parts.append(f"{curve.label} {self._value_text(point[1])}")
        return ", ".join(parts)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Called by Qt: arrows move the shared cursor, Home shows everything, Escape hides it."""
        match event.key():
            case Qt.Key.Key_Left:
                self._vm.step_hover(-1)
            case Qt.Key.Key_Right:
                self._vm.step_hover(1)
            case Qt.Key.Key_Home:
                self.reset_asked.emit()
            case Qt.Key.Key_Escape:
                self._vm.set_hover(None)
            case _:
                super().keyPressEvent(event)
                return
        self.setAccessibleDescription(self.spoken())

    def leaveEvent(self, event: QEvent) -> None:
        """Called by Qt when the pointer leaves the card."""
        self.hovered.emit(None)
        super().leaveEvent(event)

    def _lay_out(self) -> None:
        self.setProperty("role", "card")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(f"Plot: {self.plot.title}")
        self.setToolTip(f"{self.plot.help}\n{_HOW}")
        self.setMinimumSize(170, 120)
        title = QLabel(self.plot.title)
        title.setProperty("role", "heading")
        self._figures.setProperty("role", "small")
        self._figures.setTextFormat(Qt.TextFormat.RichText)
        self._figures.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._figures.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        header = QHBoxLayout()
        header.setContentsMargins(0, 0, 4, 0)
        header.addWidget(title)
        header.addWidget(self._figures, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 9, 8, 6)
        layout.setSpacing(4)
        layout.addLayout(header)
        layout.addWidget(self._view, 1)

    def _build_view(self) -> None:
        item = self._view.getPlotItem()
        item.hideButtons()
        item.setContentsMargins(0, 2, 2, 0)
        item.setMouseEnabled(x=True, y=False)
        for axis in self._axes.values():
            axis.setZValue(-10)  # the plot item puts its grid above the curves
        box = item.getViewBox()
        box.disableAutoRange()
        box.sigRangeChangedManually.connect(self._on_range_chosen)
        self._cursor.setVisible(False)
        for extra in (self._cursor, self._best):
            item.addItem(extra, ignoreBounds=True)
        self._best.setZValue(3)
        scene = self._view.scene()
        scene.sigMouseMoved.connect(self._on_mouse_moved)
        scene.sigMouseClicked.connect(self._on_mouse_clicked)

    def _add_curves(self) -> None:
        for curve in self.plot.curves:
            options: dict[str, Any] = {"connect": "finite", "antialias": True}
            if curve.validation:
                options |= {"symbol": "o", "symbolSize": 7}
            elif self.plot.smooth:
                self._raws[curve.role] = self._view.plot(connect="finite", antialias=False)
            line = self._view.plot(**options)
            line.setZValue(2 if curve.validation else 1)
            self._lines[curve.role] = line

    def _follow_log(self) -> None:
        log = self._vm.log and self.plot.log
        if log != self._log:
            self._log = log
            self._shown_y = None
            self._axes["left"].setLogMode(False, log)

    def _scaled(self, values: Floats) -> Floats:
        """Values as they lie on the vertical axis; what has no logarithm becomes a gap."""
        if not self._log:
            return values
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(values > 0, np.log10(values), np.nan)

    def _fit(self) -> None:
        """Set both axes, but only if they change: every change draws the axes anew."""
        all_series = [self._vm.series(self.plot, curve) for curve in self.plot.curves]
        steps = [self._vm.x_of(series.steps[[0, -1]]) for series in all_series if len(series)]
        if not steps:
            return
        box = self._view.getViewBox()
        wanted_x = self._zoom or step_range(
            min(float(part[0]) for part in steps), max(float(part[-1]) for part in steps)
        )
        if wanted_x != self._shown_x:
            self._shown_x = wanted_x
            box.setXRange(*wanted_x, padding=0)
        if self.plot.share:
            wanted_y: Range | None = SHARE_RANGE
        else:
            visible = [self._scaled(s.values[self._between(s, wanted_x)]) for s in all_series]
            wanted_y = value_range(visible, self._shown_y)
        if wanted_y is not None and wanted_y != self._shown_y:
            self._shown_y = wanted_y
            box.setYRange(*wanted_y, padding=0)

    def _draw(self, curve: Curve) -> None:
        series = self._vm.series(self.plot, curve)
        part = self._between(series, self._shown_x) if self._shown_x else slice(0, 0)
        steps = self._vm.x_of(series.steps[part])
        values, smoothed = self._scaled(series.values[part]), self._scaled(series.smoothed[part])
        line = self._lines[curve.role]
        if curve.validation or series.smoothing == 0:
            points = envelope(steps, values, MOST_RAW)
            if curve.role in self._raws:
                self._raws[curve.role].setData([], [])
        else:
            self._raws[curve.role].setData(*envelope(steps, values, MOST_RAW))
            points = every_nth(steps, smoothed, MOST_SMOOTH)
        line.curve.setSegmentedLineMode("on" if len(points[0]) > MOST_IN_ONE_PATH else "off")
        line.setData(*points)

    def _between(self, series: Series, shown: Range) -> slice:
        """The part of a series that lies between two places along the axis."""
        return series.between(self._vm.step_of(shown[0]), self._vm.step_of(shown[1]))

    def _mark_best(self, curve: Curve) -> None:
        step = self._vm.best_step
        point = None if step is None else self._vm.series(self.plot, curve).at(step)
        if point is None or not np.isfinite(point[1]):
            self._best.setData([], [])
        else:
            place = self._vm.x_of(np.array([point[0]]))
            self._best.setData(place, self._scaled(np.array([point[1]])))

    def _colour(self, curve: Curve) -> str:
        return str(getattr(self._palette, f"curve_{curve.role}"))

    def _figure(self, curve: Curve, value: float) -> str:
        text = self._value_text(value)
        name = f"{curve.label} " if len(self.plot.curves) > 1 else ""
        dot = f"<span style='color:{self._colour(curve)}'>\N{BLACK CIRCLE}</span>"
        return f"{dot} {name}<span style='color:{self._palette.text}'>{text}</span>"

    def _value_text(self, value: float) -> str:
        unit = f" {self.plot.unit}" if self.plot.unit else ""
        if self.plot.share and np.isfinite(value):
            return f"{value:.0%}{unit}"
        return number(value, digits=3, steady=True) + unit

    def _on_mouse_moved(self, position: QPointF) -> None:
        box = self._view.getViewBox()
        if not box.sceneBoundingRect().contains(position):
            self.hovered.emit(None)
            return
        wanted = self._vm.step_of(box.mapSceneToView(position).x())
        all_series = [self._vm.series(self.plot, curve) for curve in self.plot.curves]
        found = [point[0] for series in all_series if (point := series.at(wanted)) is not None]
        self.hovered.emit(min(found, key=lambda step: abs(step - wanted)) if found else None)

    def _on_mouse_clicked(self, event: Any) -> None:
        if event.double():
            self.reset_asked.emit()

    def _on_range_chosen(self) -> None:
        first, last = self._view.getViewBox().viewRange()[0]
        self._shown_x = (first, last)
        self.range_chosen.emit(first, last)
