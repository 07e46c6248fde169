from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.viewmodels.curves_vm import CurvesViewModel
from app.viewmodels.progress_vm import ProgressViewModel
from app.views.axis import tick_label
from app.views.plots_panel import PlotsPanel, columns_for
from app.views.theme import Theme
from tests.app.run_events import started, step, validation

pytestmark = pytest.mark.gui
RUN = Path("/runs/one")


@pytest.fixture
def panel(qtbot: QtBot, qapp: QApplication) -> Iterator[PlotsPanel]:
    made = PlotsPanel(CurvesViewModel(), ProgressViewModel(), Theme(qapp, "light"))
    qtbot.addWidget(made)
    made.resize(900, 600)
    made.show()
    yield made
    qapp.setStyleSheet("")
    qapp.styleHints().setColorScheme(Qt.ColorScheme.Unknown)


def feed(panel: PlotsPanel, steps: int, method: str = "orpo") -> None:
    panel._vm.take(started(RUN, method=method))
    panel._vm.take(validation(0, loss=3.0))
    for number in range(1, steps + 1):
        panel._vm.take(step(number, loss=2.0 / number))
    panel._vm.flush()


def drawn(panel: PlotsPanel, key: str, role: str) -> int:
    xs = panel._all[key]._lines[role].getData()[0]
    return 0 if xs is None else len(xs)


@pytest.mark.parametrize(("n", "columns"), [(1, 1), (2, 2), (3, 2), (4, 2), (5, 3), (6, 3)])
def test_the_grid_wastes_no_place(n: int, columns: int) -> None:
    assert columns_for(n) == columns


def test_an_empty_panel_says_what_to_do(panel: PlotsPanel) -> None:
    panel.set_idle_words("Press Start to train the sample", "Curves appear here.")
    assert panel._empty._title.text() == "Press Start to train the sample"
    assert panel._empty.isVisible()
    panel._progress.begin("Loading the model")
    assert panel._empty._title.text() == "Loading the model"


def test_curves_are_drawn_one_plot_after_the_other(qtbot: QtBot, panel: PlotsPanel) -> None:
    feed(panel, 20)
    qtbot.waitUntil(lambda: drawn(panel, "accuracy", "train") == 20, timeout=3000)
    assert drawn(panel, "loss", "train") == 20
    assert drawn(panel, "loss", "valid") == 1
    assert not panel._next.isActive()
    assert [plot.plot.key for plot in panel.plots if plot.isVisible()] == [
        "loss",
        "nll",
        "or",
        "accuracy",
    ]


def test_plots_that_do_not_apply_are_not_shown(qtbot: QtBot, panel: PlotsPanel) -> None:
    feed(panel, 3, method="sft")
    qtbot.waitUntil(lambda: drawn(panel, "loss", "train") == 3, timeout=3000)
    shown = [key for key, plot in panel._all.items() if plot.isVisible()]
    assert shown == ["loss"]
    panel.show_page("diagnostics")
    shown = [key for key, plot in panel._all.items() if plot.isVisible()]
    assert shown == ["learning_rate", "grad_norm", "tokens_per_s", "memory"]


def test_a_long_run_is_drawn_with_few_points(qtbot: QtBot, panel: PlotsPanel) -> None:
    feed(panel, 20_000)
    qtbot.waitUntil(lambda: drawn(panel, "loss", "train") > 0, timeout=3000)
    assert drawn(panel, "loss", "train") <= 250
    low, high = panel._all["loss"]._view.getViewBox().viewRange()[0]
    assert low <= 0
    assert high >= 20_000


def test_zooming_one_plot_zooms_all_and_a_double_click_undoes_it(
    qtbot: QtBot, panel: PlotsPanel
) -> None:
    feed(panel, 100)
    panel.plots[0].range_chosen.emit(20.0, 40.0)
    for plot in panel.plots:
        qtbot.waitUntil(
            lambda p=plot: p._view.getViewBox().viewRange()[0] == pytest.approx([20, 40]),
            timeout=3000,
        )
    panel.plots[1].reset_asked.emit()
    last = panel.plots[-1]
    qtbot.waitUntil(lambda: last._view.getViewBox().viewRange()[0][1] >= 100, timeout=3000)


def test_the_cursor_is_shared_and_reads_the_curves(panel: PlotsPanel) -> None:
    feed(panel, 10)
    panel._vm.set_hover(4)
    for plot in panel.plots:
        assert plot._cursor.isVisible()
        assert plot._figures.text().startswith("step 4")
    assert "0.5" in panel.plots[0]._figures.text()
    panel._vm.set_hover(None)
    assert "step" not in panel.plots[0]._figures.text()


def test_the_slider_smooths(panel: PlotsPanel) -> None:
    panel._smoothing.setValue(0)
    assert panel._smoothing_value.text() == "off"
    panel._smoothing.setValue(90)
    assert panel._vm.smoothing == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("value", "spacing", "text"),
    [
        (0.0, 0.5, "0"),
        (0.25, 0.25, "0.25"),
        (3.0, 1.0, "3"),
        (2e-4, 5e-5, "2e-4"),
        (1.5e-4, 5e-5, "1.5e-4"),
        (12_000, 2000, "12k"),
        (2_500_000, 500_000, "2.5M"),
        (800.0, 200.0, "800"),
    ],
)
def test_tick_labels_are_short(value: float, spacing: float, text: str) -> None:
    assert tick_label(value, spacing) == text
