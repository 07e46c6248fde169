"""Which curves there are, which apply to the method, and their points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.viewmodels.series import Series
from trainer_core.events import Event, Started, Step, Validation

Page = Literal["training", "diagnostics"]
CurveRole = Literal["train", "valid", "chosen", "rejected"]

ALL = ("sft", "dpo", "orpo")
PAIRS = ("dpo", "orpo")
FIRST_SMOOTHING = 0.6
LARGEST_SMOOTHING = 0.98


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a plot: a field of the step events or of the validation events."""

    field: str
    role: CurveRole
    label: str
    factor: float = 1.0

    @property
    def validation(self) -> bool:
        """True if its points come from validations, which are few and shown as dots."""
        return self.role == "valid"


@dataclass(frozen=True, slots=True)
class Plot:
    """One pair of axes. `methods`: for which it means something. `smooth`: noisy enough to be smoothed."""

    key: str
    title: str
    help: str
    page: Page
    methods: tuple[str, ...]
    curves: tuple[Curve, ...]
    unit: str = ""
    smooth: bool = True
    share: bool = False


def _both(field: str) -> tuple[Curve, ...]:
    return (Curve(field, "train", "train"), Curve(field, "valid", "validation"))


PLOTS = (
    Plot("loss", "Loss", "What training makes small. A validation loss that rises while the training loss "
         "falls means overfitting.", "training", ALL, _both("loss")),
    Plot("nll", "NLL", "Negative log-likelihood per token of the preferred answers.", "training",
         ("orpo",), _both("nll")),
    Plot("or", "Odds ratio loss", "ORPO's second term. It falls as preferred answers become likelier than "
         "rejected ones.", "training", ("orpo",), _both("odds_loss")),
    Plot("accuracy", "Accuracy", "Share of pairs in which the preferred answer is the likelier one.",
         "training", PAIRS, _both("accuracy"), share=True),
    Plot("margin", "Margin", "How far preferred answers are ahead of rejected ones.", "diagnostics", PAIRS,
         _both("margin")),
    Plot("logps", "Log-probabilities", "Of preferred and rejected answers. Both falling is usual; chosen "
         "falling faster is not.", "diagnostics", PAIRS,
         (Curve("logps_chosen", "chosen", "chosen"), Curve("logps_rejected", "rejected", "rejected"))),
    Plot("learning_rate", "Learning rate", "Of each step, after warm-up and decay.", "diagnostics", ALL,
         (Curve("learning_rate", "train", "rate"),), smooth=False),
    Plot("grad_norm", "Gradient norm", "Before clipping. Spikes mean rows that pull hard.", "diagnostics",
         ALL, (Curve("grad_norm", "train", "norm"),)),
    Plot("tokens_per_s", "Speed", "Tokens of the rows as data, per second.", "diagnostics", ALL,
         (Curve("tokens_per_s", "train", "speed"),), unit="tokens/s"),
    Plot("memory", "Memory", "MLX's peak since the report before.", "diagnostics", ALL,
         (Curve("peak_memory_bytes", "train", "peak", 1e-9),), unit="GB", smooth=False),
)  # fmt: skip


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
        """Show the plots of another method."""
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
                self.set_method(str(event.config.get("method", self.method)))
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
