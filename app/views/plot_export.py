"""The plots on show as a picture or as numbers."""

from __future__ import annotations

import csv
from pathlib import Path

from PySide6.QtCore import QPoint, QRect, QSize
from PySide6.QtGui import QGuiApplication, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from app.viewmodels.curves_vm import CurvesViewModel
from app.viewmodels.plot_table import PLOTS
from trainer_core.errors import ExportError


def copy_picture(plots: QWidget) -> None:
    """Put a picture of the plots on the clipboard."""
    QGuiApplication.clipboard().setPixmap(plots.grab())


def save_picture(plots: QWidget, path: Path) -> None:
    """Write the plots as PNG, or as SVG if the name says so.

    Raises:
        ExportError: the file cannot be written.
    """
    if path.suffix.lower() == ".svg":
        drawing = QSvgGenerator()
        drawing.setFileName(str(path))
        drawing.setSize(QSize(plots.width(), plots.height()))
        drawing.setViewBox(QRect(0, 0, plots.width(), plots.height()))
        painter = QPainter()
        done = painter.begin(drawing)
        if done:
            plots.render(painter, QPoint(0, 0))
            painter.end()
    else:
        done = plots.grab().save(str(path), "PNG")
    if not done:
        raise ExportError(f"{path} cannot be written", "", "Choose another folder")


def save_numbers(vm: CurvesViewModel, path: Path) -> None:
    """Write every point of every curve of the run as CSV: plot, curve, step, value.

    Raises:
        ExportError: the file cannot be written.
    """
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(("plot", "curve", "step", "value"))
            for plot in PLOTS:
                for curve in plot.curves:
                    series = vm.series(plot, curve)
                    pairs = zip(series.steps.tolist(), series.values.tolist(), strict=True)
                    rows.writerows((plot.key, curve.role, int(s), value) for s, value in pairs)
    except OSError as error:
        why = error.strerror or str(error)
        raise ExportError(f"{path} cannot be written", why, "Choose another folder") from None
