"""The centre of the window: two pages of plots with one shared cursor, zoom and smoothing."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QSlider,
    QStackedWidget,
    QTabBar,
    QVBoxLayout,
    QWidget,
)

from app.viewmodels.curves_vm import LARGEST_SMOOTHING, CurvesViewModel
from app.viewmodels.health_vm import HealthViewModel
from app.viewmodels.plot_range import Range
from app.viewmodels.plot_table import PLOTS, Page
from app.viewmodels.progress_vm import ProgressViewModel
from app.viewmodels.samples_vm import SamplesViewModel
from app.views.curve_plot import CurvePlot
from app.views.empty_state import EmptyState
from app.views.health_strip import HealthStrip
from app.views.palette import SPACE
from app.views.plot_controls import PlotControls
from app.views.plot_export import copy_picture, save_numbers, save_picture
from app.views.sample_strip import SampleStrip
from app.views.theme import Theme
from trainer_core.errors import TrainerError

SMOOTHINGS = (0.0, 0.3, 0.6, 0.9, 0.97)
BETWEEN_PLOTS_MS = 25
"""Four plots are redrawn ten times a second, each in a turn of its own."""

PAGES: tuple[tuple[Page, str], ...] = (("training", "Training"), ("diagnostics", "Diagnostics"))


class PlotsPanel(QWidget):
    """Tabs, smoothing, and the grid of plots that apply to the method.

    Signals:
        failed(TrainerError): a picture or numbers could not be written.
    """

    failed = Signal(object)

    def __init__(
        self,
        vm: CurvesViewModel,
        progress: ProgressViewModel,
        health: HealthViewModel,
        samples: SamplesViewModel,
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._vm = vm
        self._progress = progress
        self._theme = theme
        self._plots: list[CurvePlot] = []
        self._stale: list[CurvePlot] = []
        self._next = QTimer(self)
        self._next.setInterval(BETWEEN_PLOTS_MS)
        self._next.timeout.connect(self._refresh_next)
        self._zoom: Range | None = None
        self._tabs = QTabBar()
        self._tabs.setExpanding(False)
        self._tabs.setUsesScrollButtons(False)
        for _, title in PAGES:
            self._tabs.addTab(title)
        self._best = QLabel()
        self._best.setProperty("role", "small")
        self._smoothing = QSlider(Qt.Orientation.Horizontal)
        self._smoothing.setRange(0, round(LARGEST_SMOOTHING * 100))
        self._smoothing.setFixedWidth(110)
        self._smoothing.setValue(round(vm.smoothing * 100))
        self._smoothing.setToolTip(
            "Weight of the past in the thick lines. The learning rate is never smoothed."
        )
        self._smoothing.setAccessibleName("Smoothing")
        self._smoothing_value = QLabel()
        self._smoothing_value.setProperty("role", "small")
        self.controls = PlotControls(vm)
        self.health = HealthStrip(health)
        self.samples = SampleStrip(samples)
        self._idle_words = ("", "")
        self._empty = EmptyState(theme)
        self._grid_page = QWidget()
        self._grid = QGridLayout(self._grid_page)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(SPACE)
        self._stack = QStackedWidget()
        self._stack.addWidget(self._empty)
        self._stack.addWidget(self._grid_page)
        self._all = self._make_plots()
        self._lay_out()
        self._tabs.currentChanged.connect(self._arrange)
        self._smoothing.valueChanged.connect(self._on_smoothing_moved)
        vm.data_changed.connect(self._on_data_changed)
        vm.layout_changed.connect(self._arrange)
        vm.hover_changed.connect(self._on_hover_changed)
        progress.changed.connect(self._refresh_empty)
        theme.changed.connect(self._on_theme_changed)
        vm.axis_changed.connect(self._on_axis_changed)
        self.controls.save_asked.connect(self.save)
        self._add_keys()
        self._show_smoothing()
        self._arrange()

    def _add_keys(self) -> None:
        for key, wish in (
            ("S", self.next_smoothing),
            ("L", self.controls.log.toggle),
            ("X", self.controls.next_axis),
            ("R", self._on_reset_asked),
        ):
            shortcut = QShortcut(QKeySequence(key), self)
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
            shortcut.activated.connect(wish)

    def next_smoothing(self) -> None:
        """Smooth a little more; after the strongest comes none."""
        now = self._vm.smoothing
        stronger = next((weight for weight in SMOOTHINGS if weight > now + 1e-6), 0.0)
        self._smoothing.setValue(round(stronger * 100))

    def save(self, what: str) -> None:
        """Copy the plots, or ask for a file and write them to it."""
        if what == "copy":
            copy_picture(self._grid_page)
            return
        filters = {
            "picture": "Pictures (*.png *.svg)",
            "numbers": "Numbers (*.csv)",
        }[what]
        name = "curves.png" if what == "picture" else "curves.csv"
        chosen, _ = QFileDialog.getSaveFileName(self, "Save", name, filters)
        if chosen:
            self.save_to(what, Path(chosen))

    def save_to(self, what: str, path: Path) -> None:
        """Write a picture or the numbers of the plots on show."""
        try:
            if what == "picture":
                save_picture(self._grid_page, path)
            else:
                save_numbers(self._vm, path)
        except TrainerError as error:
            self.failed.emit(error)

    def set_idle_words(self, title: str, text: str) -> None:
        """What to say while there is no run."""
        self._idle_words = (title, text)
        self._refresh_empty()

    def show_page(self, page: Page) -> None:
        """Turn to a page."""
        self._tabs.setCurrentIndex([key for key, _ in PAGES].index(page))

    @property
    def plots(self) -> list[CurvePlot]:
        """The plots of the page on show."""
        return self._plots

    def _lay_out(self) -> None:
        name = QLabel("Smoothing")
        name.setProperty("role", "small")
        self._smoothing_value.setFixedWidth(28)
        bar = QHBoxLayout()
        bar.setContentsMargins(4, 0, 4, 0)
        bar.setSpacing(SPACE)
        bar.addWidget(self._tabs)
        bar.addStretch(1)
        for widget in (self._best, name, self._smoothing, self._smoothing_value, self.controls):
            bar.addWidget(widget)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(SPACE, SPACE // 2, SPACE, SPACE)
        layout.setSpacing(SPACE // 2)
        layout.addLayout(bar)
        layout.addWidget(self.health)
        layout.addWidget(self._stack, 1)
        layout.addWidget(self.samples)

    def _arrange(self) -> None:
        """Put the plots of the page that apply to the method into the grid, and no others."""
        for plot in self._plots:
            self._grid.removeWidget(plot)
            plot.hide()
        page = PAGES[self._tabs.currentIndex()][0]
        self._stale.clear()
        self._plots = [self._all[plot.key] for plot in self._vm.plots(page)]
        columns = columns_for(len(self._plots))
        rows = -(-len(self._plots) // columns)
        for i in range(self._grid.columnCount()):
            self._grid.setColumnStretch(i, 1 if i < columns else 0)
        for i in range(self._grid.rowCount()):
            self._grid.setRowStretch(i, 1 if i < rows else 0)
        for i, plot in enumerate(self._plots):
            self._grid.addWidget(plot, i // columns, i % columns)
            self._grid.setColumnStretch(i % columns, 1)
            self._grid.setRowStretch(i // columns, 1)
            plot.refresh()
            plot.show()
        self._on_data_changed()

    def _make_plots(self) -> dict[str, CurvePlot]:
        """Every plot there is, made once: making one takes longer than a frame."""
        made: dict[str, CurvePlot] = {}
        for plot in PLOTS:
            card = CurvePlot(plot, self._vm, self._theme.palette, self._grid_page)
            card.hide()
            card.hovered.connect(self._vm.set_hover)
            card.range_chosen.connect(self._on_range_chosen)
            card.reset_asked.connect(self._on_reset_asked)
            made[plot.key] = card
        return made

    def _on_data_changed(self) -> None:
        if self._vm.empty and self._zoom is not None:
            self._set_zoom(None)
        self._stack.setCurrentWidget(self._empty if self._vm.empty else self._grid_page)
        best = self._vm.best_step
        self._best.setText("" if best is None else f"\N{FISHEYE} best at step {best:,}   ")
        self._refresh_empty()
        self._refresh_soon()

    def _refresh_soon(self) -> None:
        self._stale += [plot for plot in self._plots if plot not in self._stale]
        if self._stale and not self._next.isActive():
            self._next.start()

    def _refresh_next(self) -> None:
        """Redraw one plot per turn of the event loop, so that no turn is long."""
        if self._stale:
            self._stale.pop(0).refresh()
        if not self._stale:
            self._next.stop()

    def _refresh_empty(self) -> None:
        if not self._vm.empty:
            return
        if self._progress.busy:
            self._empty.say(self._progress.headline, "Curves appear with the first step.")
        else:
            self._empty.say(*self._idle_words)

    def _on_hover_changed(self) -> None:
        for plot in self._plots:
            plot.refresh_hover()

    def _on_range_chosen(self, first: float, last: float) -> None:
        self._set_zoom((first, last))

    def _on_axis_changed(self) -> None:
        self._set_zoom(None)

    def _on_reset_asked(self) -> None:
        self._set_zoom(None)

    def _set_zoom(self, zoom: Range | None) -> None:
        self._zoom = zoom
        for plot in self._all.values():
            plot.show_range(zoom)
        self._refresh_soon()

    def _on_smoothing_moved(self, value: int) -> None:
        self._vm.set_smoothing(value / 100)
        self._show_smoothing()

    def _show_smoothing(self) -> None:
        self._smoothing_value.setText(f"{self._vm.smoothing:.2f}" if self._vm.smoothing else "off")

    def _on_theme_changed(self) -> None:
        for plot in self._all.values():
            plot.paint_with(self._theme.palette)


def columns_for(n_plots: int) -> int:
    """Columns of a grid that wastes no place: 1, 2, 2x2, then three in a row."""
    if n_plots <= 1:
        return 1
    return 2 if n_plots <= 4 else 3
