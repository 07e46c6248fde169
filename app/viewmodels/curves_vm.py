"""Which curves there are, which apply to the method, and their points."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.viewmodels.plot_table import PLOTS, Curve, Page, Plot, plotted_as
from app.viewmodels.series import Series
from trainer_core.events import Event, Started, Step, Validation

FIRST_SMOOTHING = 0.6
LARGEST_SMOOTHING = 0.98


class CurvesViewModel(QObject):
    """Points of all curves of the run on show.

    Signals:
        data_changed: curves have new points, or the smoothing changed.
        layout_changed: another method, so other plots.
        hover_changed: the shared cursor moved.
    """

    data_changed = Signal()
    layout_changed = Signal()
    hover_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.method = "sft"
        self.best_step: int | None = None
        self.hover_step: float | None = None
        self._smoothing = FIRST_SMOOTHING
        self._dirty = False
        self._series = {
            (plot.key, curve.role): Series(self._weight_of(plot, curve))
            for plot in PLOTS
            for curve in plot.curves
        }

    def plots(self, page: Page) -> list[Plot]:
        """The plots of a page that apply to the method, in their order."""
        return [plot for plot in PLOTS if plot.page == page and self.method in plot.methods]

    def series(self, plot: Plot, curve: Curve) -> Series:
        """The points of one curve."""
        return self._series[plot.key, curve.role]

    @property
    def empty(self) -> bool:
        """True while there is nothing to draw."""
        return not any(len(series) for series in self._series.values())

    @property
    def smoothing(self) -> float:
        """Weight of the past, 0 to `LARGEST_SMOOTHING`."""
        return self._smoothing

    def set_smoothing(self, weight: float) -> None:
        """Smooth all curves that may be smoothed."""
        self._smoothing = min(max(weight, 0.0), LARGEST_SMOOTHING)
        for plot in PLOTS:
            for curve in plot.curves:
                self.series(plot, curve).smoothing = self._weight_of(plot, curve)
        self.data_changed.emit()

    def set_hover(self, step: float | None) -> None:
        """Move the shared cursor, or take it away."""
        if step != self.hover_step:
            self.hover_step = step
            self.hover_changed.emit()

    def set_method(self, method: str) -> None:
        """Show the plots of another method, as `plotted_as` names it."""
        if method != self.method:
            self.method = method
            self.layout_changed.emit()

    def clear(self) -> None:
        """Forget the run on show."""
        for series in self._series.values():
            series.clear()
        self.best_step = None
        self.hover_step = None
        self._dirty = True

    def take(self, event: Event) -> None:
        """Note an event; `flush` tells the view."""
        match event:
            case Started():
                if event.resumed_from is None:
                    self.clear()
                method = str(event.config.get("method", self.method))
                self.set_method(plotted_as(method, event.config.get("preference_loss")))
            case Step():
                self._append(event, validation=False)
            case Validation():
                self._append(event, validation=True)
                if event.best:
                    self.best_step = event.step

    def flush(self) -> None:
        """Tell the view once about everything taken since the last time."""
        if self._dirty:
            self._dirty = False
            self.data_changed.emit()

    def _append(self, event: Step | Validation, *, validation: bool) -> None:
        for plot in PLOTS:
            for curve in plot.curves:
                if curve.validation is not validation:
                    continue
                value = getattr(event, curve.field)
                if value is not None:
                    self.series(plot, curve).append(event.step, value * curve.factor)
                    self._dirty = True

    def _weight_of(self, plot: Plot, curve: Curve) -> float:
        return self._smoothing if plot.smooth and not curve.validation else 0.0
