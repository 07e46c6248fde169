"""What stands behind the curves of a plot: the ends of epochs, and what is worth a look."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt

from app.viewmodels.curves_vm import CurvesViewModel
from app.views.palette import Palette

MOST_EPOCHS = 20
"""More lines than that would be a hatching."""


class PlotMarks:
    """Upright lines in one plot."""

    def __init__(self, view: Any) -> None:
        self._view = view
        self._lines: list[Any] = []
        self._shown: tuple[Any, ...] = ()

    def show(self, vm: CurvesViewModel, palette: Palette) -> None:
        """Draw the marks of the run on show, if they changed."""
        epochs = vm.epoch_steps if len(vm.epoch_steps) <= MOST_EPOCHS else []
        wanted = (vm.axis, palette.name, tuple(epochs), tuple(vm.alerts))
        if wanted == self._shown and vm.axis == "step":
            return
        self._shown = wanted
        item = self._view.getPlotItem()
        for line in self._lines:
            item.removeItem(line)
        self._lines = [
            *(self._line(vm, step, palette.border_strong, Qt.PenStyle.DotLine) for step in epochs),
            *(self._line(vm, step, palette.warning, Qt.PenStyle.DashLine) for step in vm.alerts),
        ]
        for line in self._lines:
            item.addItem(line, ignoreBounds=True)

    def _line(self, vm: CurvesViewModel, step: int, colour: str, style: Qt.PenStyle) -> Any:
        place = float(vm.x_of(np.array([float(step)]))[0])
        line = pg.InfiniteLine(pos=place, angle=90, movable=False)
        line.setPen(pg.mkPen(colour, width=1, style=style))
        line.setZValue(-5)
        return line
