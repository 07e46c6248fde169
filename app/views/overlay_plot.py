"""One metric of several runs, laid over one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtWidgets import QComboBox, QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.viewmodels.runs_vm import RunsViewModel
from app.viewmodels.series import smooth
from app.viewmodels.thinning import envelope
from app.viewmodels.wording import number
from app.views.axis import CompactAxis
from app.views.palette import dash_of, run_colour
from app.views.theme import Theme, set_role
from trainer_core.events import Validation

MOST_POINTS = 600
SMOOTHING = 0.9


class OverlayPlot(QFrame):
    """Curves of the selected runs, each with a colour and a dash of its own.

    Signals:
        metric_chosen(Metric): show another one.
    """

    metric_chosen = Signal(object)

    def __init__(self, vm: RunsViewModel, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        set_role(self, "card")
        self._vm = vm
        self._theme = theme
        self.choice = QComboBox()
        self.choice.setAccessibleName("What the curves show")
        self.figures = QLabel()
        self.figures.setTextFormat(Qt.TextFormat.RichText)
        self.figures.setWordWrap(True)
        set_role(self.figures, "small")
        self._axes = {side: CompactAxis(side) for side in ("left", "bottom")}
        self._view: Any = pg.PlotWidget(axisItems=self._axes, enableMenu=False)
        self._view.setBackground(None)
        self._view.setMinimumHeight(90)
        self._cursor = pg.InfiniteLine(angle=90, movable=False)
        self._lines: list[Any] = []
        self._build()
        self.choice.activated.connect(self._on_metric_activated)
        vm.curves_changed.connect(self.refresh)
        theme.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Draw the selected runs as they are now."""
        self._show_metrics()
        palette = self._theme.palette
        for axis in self._axes.values():
            axis.paint_with(palette)
        item = self._view.getPlotItem()
        item.showGrid(x=False, y=True, alpha=1.0)
        self._cursor.setPen(pg.mkPen(palette.faint, width=1, style=Qt.PenStyle.DashLine))
        for line in self._lines:
            item.removeItem(line)
        self._lines = []
        validation = self._vm.metric.kind is Validation
        for place, record in enumerate(self._vm.overlaid):
            steps, values = self._vm.curve(record)
            if len(steps) and not validation:
                values = smooth(values, SMOOTHING) if len(steps) > 30 else values
                steps, values = envelope(steps, values, MOST_POINTS)
            pen = pg.mkPen(run_colour(palette, place), width=2, style=dash_of(place))
            marks = {"symbol": "o", "symbolSize": 6} if validation else {}
            line = pg.PlotDataItem(
                steps, values, pen=pen, connect="finite", antialias=True, **marks
            )
            if validation:
                line.setSymbolBrush(run_colour(palette, place))
                line.setSymbolPen(pg.mkPen(palette.raised, width=1))
            item.addItem(line)
            self._lines.append(line)
        item.getViewBox().autoRange(padding=0.06)
        self._show_figures(None)

    def _build(self) -> None:
        item = self._view.getPlotItem()
        item.hideButtons()
        for axis in self._axes.values():
            axis.setZValue(-10)  # the plot item puts its grid above the curves
        item.setMouseEnabled(x=True, y=False)
        item.addItem(self._cursor, ignoreBounds=True)
        self._cursor.setVisible(False)
        scene = self._view.scene()
        scene.sigMouseMoved.connect(self._on_mouse_moved)
        scene.sigMouseClicked.connect(self._on_mouse_clicked)
        head = QHBoxLayout()
        head.addWidget(self.choice)
        head.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 9, 8, 6)
        layout.addLayout(head)
        layout.addWidget(self._view, 1)
        layout.addWidget(self.figures)

    def _show_metrics(self) -> None:
        metrics = self._vm.metrics or [self._vm.metric]
        if [self.choice.itemData(i) for i in range(self.choice.count())] != metrics:
            self.choice.clear()
            for metric in metrics:
                self.choice.addItem(metric.label, metric)
        self.choice.setCurrentIndex(
            metrics.index(self._vm.metric) if self._vm.metric in metrics else 0
        )

    def _show_figures(self, step: float | None) -> None:
        """Name the runs, each with its value at a step, or its last one."""
        parts = [] if step is None else [f"step {step:,.0f}"]
        for place, record in enumerate(self._vm.overlaid):
            steps, values = self._vm.curve(record)
            text = "no such curve"
            if len(steps):
                at = len(steps) - 1 if step is None else int(np.abs(steps - step).argmin())
                text = number(float(values[at]), digits=3)
            colour = run_colour(self._theme.palette, place)
            dot = f"<span style='color:{colour}'>\N{BLACK CIRCLE}</span>"
            parts.append(f"{dot} {record.title} <b>{text}</b>")
        self.figures.setText("&nbsp;&nbsp; ".join(parts))

    def _on_metric_activated(self, place: int) -> None:
        self.metric_chosen.emit(self.choice.itemData(place))

    def _on_mouse_moved(self, position: QPointF) -> None:
        box = self._view.getPlotItem().getViewBox()
        inside = box.sceneBoundingRect().contains(position)
        self._cursor.setVisible(inside)
        if inside:
            step = max(round(box.mapSceneToView(position).x()), 0)
            self._cursor.setValue(step)
            self._show_figures(step)
        else:
            self._show_figures(None)

    def _on_mouse_clicked(self, event: Any) -> None:
        if event.double():
            self._view.getPlotItem().getViewBox().autoRange(padding=0.06)
