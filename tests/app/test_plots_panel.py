import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.viewmodels.curves_vm import CurvesViewModel
from app.viewmodels.health_vm import HealthViewModel
from app.viewmodels.progress_vm import ProgressViewModel
from app.viewmodels.samples_vm import SamplesViewModel
from app.views.axis import CompactAxis, tick_label
from app.views.plots_panel import PlotsPanel, columns_for
from app.views.theme import Theme
from tests.app.run_events import started, step, validation

pytestmark = pytest.mark.gui
RUN = Path("/runs/one")


@pytest.fixture
def panel(qtbot: QtBot, qapp: QApplication) -> Iterator[PlotsPanel]:
    curves = CurvesViewModel()
    health = HealthViewModel(curves)
    samples = SamplesViewModel(curves, curves)
    made = PlotsPanel(curves, ProgressViewModel(), health, samples, Theme(qapp, "light"))
    curves.setParent(made)
    health.setParent(made)
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


def test_a_logarithmic_axis_shows_logarithms_of_what_is_above_zero(
    qtbot: QtBot, panel: PlotsPanel
) -> None:
    feed(panel, 20)
    panel._vm.set_smoothing(0.0)
    qtbot.keyClick(panel, Qt.Key.Key_L)
    assert panel._vm.log
    qtbot.waitUntil(lambda: not panel._next.isActive())
    loss = panel._all["loss"]._lines["train"].getData()[1]
    assert loss[9] == pytest.approx(math.log10(2.0 / 10))
    accuracy = panel._all["accuracy"]._lines["train"].getData()[1]
    assert accuracy[9] == 0.5
    margin = panel._all["margin"]
    assert not margin._log
    qtbot.keyClick(panel, Qt.Key.Key_L)
    qtbot.waitUntil(lambda: not panel._next.isActive())
    assert panel._all["loss"]._lines["train"].getData()[1][9] == pytest.approx(0.2)


def test_log_labels_do_not_crowd() -> None:
    axis = CompactAxis("left")
    many = [math.log10(n / 10) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)]
    assert axis.logTickStrings(many, 1.0, 1.0) == ["0.1", "0.2", "", "", "0.5", *[""] * 4, "1"]
    assert axis.logTickStrings([math.log10(3), math.log10(4)], 1.0, 1.0) == ["3", "4"]


def test_plots_run_along_tokens_and_time(qtbot: QtBot, panel: PlotsPanel) -> None:
    feed(panel, 10)
    qtbot.keyClick(panel, Qt.Key.Key_X)
    assert panel.controls.axis.currentText() == "Tokens"
    qtbot.waitUntil(lambda: not panel._next.isActive())
    xs = panel._all["loss"]._lines["train"].getData()[0]
    assert xs.tolist() == [100.0 * n for n in range(1, 11)]
    panel._vm.set_hover(4.0)
    assert "400 tokens" in panel._all["loss"]._figures.text()
    qtbot.keyClick(panel, Qt.Key.Key_X)
    qtbot.waitUntil(lambda: not panel._next.isActive())
    assert panel._all["loss"]._lines["train"].getData()[0].tolist() == list(range(1, 11))
    assert panel._vm.x_words(4.0) == "4 s"


def test_smoothing_is_stepped_through_by_a_key(qtbot: QtBot, panel: PlotsPanel) -> None:
    panel._smoothing.setValue(0)
    seen = []
    for _ in range(5):
        qtbot.keyClick(panel, Qt.Key.Key_S)
        seen.append(panel._vm.smoothing)
    assert seen == pytest.approx([0.3, 0.6, 0.9, 0.97, 0.0])


def test_arrow_keys_move_a_cursor_that_is_spoken(qtbot: QtBot, panel: PlotsPanel) -> None:
    feed(panel, 10)
    plot = panel._all["loss"]
    qtbot.keyClick(plot, Qt.Key.Key_Left)
    assert panel._vm.hover_step == 10
    qtbot.keyClick(plot, Qt.Key.Key_Left)
    assert panel._vm.hover_step == 9
    assert plot.accessibleDescription().startswith("Loss, step 9, train 0.222")
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    qtbot.keyClick(plot, Qt.Key.Key_Right)
    assert panel._vm.hover_step == 10
    qtbot.keyClick(plot, Qt.Key.Key_Escape)
    assert panel._vm.hover_step is None


def test_the_ends_of_epochs_are_lines(qtbot: QtBot, panel: PlotsPanel) -> None:
    feed(panel, 25)
    assert panel._vm.epoch_steps == [10, 20]
    qtbot.waitUntil(lambda: not panel._next.isActive())
    assert [line.value() for line in panel._all["loss"]._marks._lines] == [10, 20]


def test_curves_are_saved_as_pictures_and_numbers(
    qtbot: QtBot, panel: PlotsPanel, tmp_path: Path
) -> None:
    feed(panel, 10)
    qtbot.waitUntil(lambda: not panel._next.isActive())
    for name, start in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
        panel.save_to("picture", tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    panel.save_to("numbers", tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[0] == "plot,curve,step,value"
    assert "loss,train,10,0.2" in lines
    assert "loss,valid,0,3.0" in lines
    panel.save("copy")
    assert not QApplication.clipboard().pixmap().isNull()


@pytest.mark.parametrize("what", ["picture", "numbers"])
def test_a_place_that_takes_no_file_is_named(
    qtbot: QtBot, panel: PlotsPanel, tmp_path: Path, what: str
) -> None:
    with qtbot.waitSignal(panel.failed) as told:
        panel.save_to(what, tmp_path / "none" / "a.png")
    assert "cannot be written" in str(told.args[0])
