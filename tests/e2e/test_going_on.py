"""Runs that were killed, stopped or done go on in the window, as a user would have it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QInputDialog, QPushButton
from pytestqt.qtbot import QtBot

from app.application import Application
from app.paths import AppPaths
from app.viewmodels.plot_table import PLOTS
from app.viewmodels.run_vm import RunState
from app.views.runs_page import RunsPage
from tests.core.runs import fresh_config, run
from tests.core.same_run import differences
from tests.core.test_resume import kill_after
from trainer_core.config import RunConfig
from trainer_core.control import Control
from trainer_core.events import Event, Step, Validation
from trainer_core.run_lock import locked
from trainer_core.runfolder import RunFolder, read_events

pytestmark = pytest.mark.gui

STEPS = 6


def short(folder: Path, **more: Any) -> RunConfig:
    return fresh_config(folder, "orpo", iters=STEPS, save_every=2, steps_per_eval=2, **more)


@pytest.fixture
def start_app(
    qapp: QApplication, tmp_path: Path, dirs: Path
) -> Iterator[Callable[[], Application]]:
    made: list[Application] = []

    def start() -> Application:
        app = Application(qapp, AppPaths(tmp_path / "config", tmp_path / "log"))
        app.settings.run_folders.append(str(tmp_path / "runs"))
        app.open()
        app.resuming.look_for_interrupted()
        made.append(app)
        return app

    yield start
    for app in made:
        app.window.may_close = lambda: True
        app.window.close()
        app.shut_down()
    qapp.setStyleSheet("")
    qapp.styleHints().setColorScheme(Qt.ColorScheme.Unknown)


def runs_page(app: Application) -> RunsPage:
    app.window.pages.show_page("runs")
    page = app.window.panels.others["runs"]
    assert isinstance(page, RunsPage)
    return page


def press(qtbot: QtBot, app: Application, key: str, page: RunsPage) -> None:
    qtbot.waitUntil(lambda: bool(app.runs.selected), timeout=20_000)
    qtbot.mouseClick(page.buttons[key], Qt.MouseButton.LeftButton)


def wait_for_end(qtbot: QtBot, app: Application) -> None:
    qtbot.waitUntil(lambda: app.session.run.state is RunState.FINISHED, timeout=120_000)


def shown_steps(app: Application) -> list[float]:
    plot = next(plot for plot in PLOTS if plot.key == "loss")
    return list(app.session.curves.series(plot, plot.curves[0]).steps)


def test_an_interrupted_run_is_offered_at_the_start_and_goes_on(
    qtbot: QtBot, start_app: Callable[[], Application], tmp_path: Path
) -> None:
    whole = run(short(tmp_path / "whole")).folder
    killed = kill_after(short(tmp_path / "runs"), 5)
    app = start_app()
    notices = app.session.notices
    qtbot.waitUntil(lambda: notices.notice is not None, timeout=20_000)
    assert notices.notice is not None
    assert notices.notice.title == f"{killed.path.name} was interrupted after 4 steps of 6"
    assert "go on from step 4" in notices.notice.text
    buttons = app.window.panels.notice.findChildren(QPushButton)
    button = next(button for button in buttons if button.text() == "Continue")
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    wait_for_end(qtbot, app)
    assert differences(killed, whole, STEPS) == []
    assert shown_steps(app) == [1, 2, 3, 4, 5, 6]
    assert app.session.run.finished_run == killed.path


def test_an_interruption_is_told_once(
    qtbot: QtBot, start_app: Callable[[], Application], tmp_path: Path
) -> None:
    killed = kill_after(short(tmp_path / "runs"), 5)
    with locked(killed.path):  # another program is at it
        app = start_app()
        qtbot.waitUntil(lambda: app.runs.records is not None, timeout=20_000)
        assert app.session.notices.notice is None
        assert app.runs.records is not None
        assert app.runs.records[0].state == "running"
    app.resuming.look_for_interrupted()
    qtbot.waitUntil(lambda: app.session.notices.notice is not None, timeout=20_000)
    app.session.notices.dismiss()
    app.resuming.look_for_interrupted()
    qtbot.waitUntil(lambda: not app.runs._line.busy, timeout=20_000)
    assert app.session.notices.notice is None


def test_a_stopped_run_goes_on_and_a_done_one_goes_further(
    qtbot: QtBot, start_app: Callable[[], Application], tmp_path: Path
) -> None:
    control = Control()

    def when(event: Event) -> None:
        if isinstance(event, Step) and event.step == 3:
            control.stop()

    stopped = run(short(tmp_path / "runs"), control, when).folder
    app = start_app()
    page = runs_page(app)
    press(qtbot, app, "continue", page)
    wait_for_end(qtbot, app)
    assert [e.step for e in read_events(stopped.events) if isinstance(e, Step)] == [*range(1, 7)]
    page = runs_page(app)
    app.runs.look()
    qtbot.waitUntil(lambda: app.runs.selected[0].state == "done", timeout=20_000)
    assert page.buttons["continue"].text().startswith("Continue\N{HORIZONTAL ELLIPSIS}")
    press(qtbot, app, "continue", page)
    dialog = page.findChild(QInputDialog)
    assert dialog is not None
    assert dialog.intValue() == 12
    dialog.setIntValue(8)
    dialog.accept()
    qtbot.waitUntil(lambda: app.session.run.active, timeout=20_000)
    wait_for_end(qtbot, app)
    assert shown_steps(app) == [*range(1, 9)]
    validations = [e.step for e in read_events(stopped.events) if isinstance(e, Validation)]
    assert validations == [0, 2, 4, 6, 8]


def test_what_cannot_go_on_says_why(
    qtbot: QtBot, start_app: Callable[[], Application], tmp_path: Path
) -> None:
    killed = kill_after(short(tmp_path / "runs"), 5)
    for step in killed.checkpoint_steps():
        (killed.checkpoint(step) / "state.json").unlink()
    app = start_app()
    press(qtbot, app, "continue", runs_page(app))
    qtbot.waitUntil(lambda: app.session.run.state is RunState.FAILED, timeout=60_000)
    notice = app.session.notices.notice
    assert notice is not None
    assert notice.title.startswith("No checkpoint of")
    assert RunFolder(killed.path).checkpoint_steps() == [2, 4]


def child_of_this() -> psutil.Process | None:
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "engine" in child.cmdline():
                return child
    return None


def test_a_killed_engine_leaves_the_window_alive(
    qtbot: QtBot, start_app: Callable[[], Application], tmp_path: Path
) -> None:
    app = start_app()
    config = short(tmp_path / "runs").model_copy(update={"iters": 100_000, "isolation": "process"})
    app.session.start(RunConfig(**config.model_dump(exclude_unset=True)))
    qtbot.waitUntil(lambda: app.session.progress.step >= 3, timeout=60_000)
    child = child_of_this()
    assert child is not None
    assert app.settings.running == ""
    child.kill()
    qtbot.waitUntil(lambda: app.session.run.state is RunState.FAILED, timeout=20_000)
    notice = app.session.notices.notice
    assert notice is not None
    assert notice.title == "The engine's process was killed from outside"
    assert notice.actions[0] == "fit"
    app.window.panels.notice.asked.emit("fit")
    assert app.fit_dialog.isVisible()
    app.fit_dialog.close()
    # The next run needs no restart of the app.
    app.session.start(short(tmp_path / "runs"))
    wait_for_end(qtbot, app)


def test_after_a_run_took_the_app_down_a_process_of_its_own_is_offered(
    qtbot: QtBot, start_app: Callable[[], Application], tmp_path: Path
) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "from app.application import Application, make_qt_application\n"
        "from app.paths import AppPaths; from trainer_core.config import RunConfig\n"
        "qt = make_qt_application([])\n"
        "app = Application(qt, AppPaths(Path(sys.argv[1]), Path(sys.argv[2])))\n"
        "app.open()\n"
        "app.session.start(RunConfig.model_validate_json(sys.argv[3]))\n"
        "die = lambda: app.session.progress.step >= 3 and os.abort()\n"
        "app.session.drained.connect(die)\n"
        "qt.exec()\n"
    )
    config = short(tmp_path / "runs", run_name="fell").model_copy(update={"iters": 300})
    arguments = [str(tmp_path / "config"), str(tmp_path / "log")]
    arguments.append(config.model_dump_json(exclude_unset=True))
    fell = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, timeout=120
    )
    assert fell.returncode == -6, fell.stderr.decode()[-2000:]
    app = start_app()
    qtbot.waitUntil(lambda: app.session.notices.notice is not None, timeout=20_000)
    notice = app.session.notices.notice
    assert notice is not None
    assert "Burnish ended with it" in notice.text
    buttons = app.window.panels.notice.findChildren(QPushButton)
    button = next(b for b in buttons if b.text() == "Continue in its own process")
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: child_of_this() is not None, timeout=20_000)
    qtbot.waitUntil(lambda: app.session.progress.step >= 10, timeout=60_000)
    assert app.form.values["isolation"] == "process"
    app.session.stop_now()
    qtbot.waitUntil(lambda: not app.session.run.active, timeout=60_000)
    qtbot.waitUntil(lambda: child_of_this() is None, timeout=20_000)
