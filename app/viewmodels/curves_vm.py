"""Which curves there are, which apply to the method, and their points."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QObject, Signal

from app.viewmodels.places import Axis, Places
from app.viewmodels.plot_table import PLOTS, Curve, Page, Plot, plotted_as
from app.viewmodels.series import Floats, Series
from app.viewmodels.wording import duration
from trainer_core.events import Event, Started, Step, Validation

FIRST_SMOOTHING = 0.6
LARGEST_SMOOTHING = 0.98


class CurvesViewModel(QObject):
    """Points of all curves of the run on show.

    Signals:
        data_changed: curves have new points, or the smoothing changed.
        layout_changed: another method, so other plots.
        axis_changed: another axis, or a logarithmic one.
        hover_changed: the shared cursor moved.

    Attributes:
        method: whose plots are shown.
        best_step: the step with the best validation so far.
        hover_step: where the shared cursor stands.
        axis: what runs along the plots.
        log: whether values are drawn on a logarithmic axis where that makes sense.
        epoch_steps: the last step of each epoch that is over.
        alerts: steps at which something worth a look happened, each with its sentence.
    """

    data_changed = Signal()
    layout_changed = Signal()
    hover_changed = Signal()
    axis_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.method = "sft"
        self.best_step: int | None = None
        self._bests: list[int] = []
        self.hover_step: float | None = None
        self.axis: Axis = "step"
        self.log = False
        self.epoch_steps: list[int] = []
        self.alerts: dict[int, str] = {}
        self._places = Places()
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

    def set_axis(self, axis: Axis) -> None:
        """Draw over steps, tokens or time."""
        if axis != self.axis:
            self.axis = axis
            self.axis_changed.emit()

    def set_log(self, log: bool) -> None:
        """Draw values above 0 on a logarithmic axis, or not."""
        if log != self.log:
            self.log = log
            self.axis_changed.emit()

    def x_of(self, steps: Floats) -> Floats:
        """Where steps [n] lie along the axis."""
        return self._places.x_of(steps, self.axis)

    def step_of(self, x: float) -> float:
        """The step at a place along the axis."""
        return self._places.step_of(x, self.axis)

    def x_words(self, step: float) -> str:
        """The place of a step in words: `step 20`, `12,400 tokens`, `2 min 05 s`."""
        if self.axis == "step":
            return f"step {step:,.0f}"
        x = float(self.x_of(np.array([step]))[0])
        return duration(x) if self.axis == "time" else f"{x:,.0f} tokens"

    def mark(self, step: int, text: str) -> None:
        """Note something worth a look at a step."""
        self.alerts[step] = text
        self._dirty = True

    def step_hover(self, ways: int) -> None:
        """Move the cursor by so many points; the first time it goes to the last one."""
        steps = self._places.steps
        if not len(steps):
            return
        if self.hover_step is None:
            self.set_hover(float(steps[-1]))
            return
        at = int(np.abs(steps - self.hover_step).argmin())
        self.set_hover(float(steps[min(max(at + ways, 0), len(steps) - 1)]))

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
        self._bests = []
        self.hover_step = None
        self.epoch_steps = []
        self.alerts = {}
        self._places = Places()
        self._dirty = True

    def take(self, event: Event) -> None:
        """Note an event; `flush` tells the view."""
        match event:
            case Started():
                self._go_back(event.resumed_from or 0)
                method = str(event.config.get("method", self.method))
                self.set_method(plotted_as(method, event.config.get("preference_loss")))
            case Step():
                self._note(event)
                self._append(event, validation=False)
            case Validation():
                self._append(event, validation=True)
                if event.best:
                    self.best_step = event.step
                    self._bests.append(event.step)

    def flush(self) -> None:
        """Tell the view once about everything taken since the last time."""
        if self._dirty:
            self._dirty = False
            self.data_changed.emit()

    def _go_back(self, step: int) -> None:
        """Forget what comes after a step; 0 forgets the run."""
        if step == 0:
            self.clear()
            return
        for series in self._series.values():
            series.cut_after(step)
        self._places.cut_after(step)
        self._bests = [best for best in self._bests if best <= step]
        self.best_step = self._bests[-1] if self._bests else None
        self.epoch_steps = [begun for begun in self.epoch_steps if begun <= step]
        self.alerts = {at: text for at, text in self.alerts.items() if at <= step}
        self._dirty = True

    def _note(self, event: Step) -> None:
        before = self._places.epoch
        self._places.append(event.step, event.tokens, event.seconds, event.epoch)
        if int(event.epoch) > int(before) and event.step > 1:
            self.epoch_steps.append(event.step)

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
