"""The window's commands on a real window, with jobs that need no engine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import shiboken6
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from app.application import Application
from app.paths import AppPaths
from app.viewmodels.session import Session
from app.views.actions import Actions
from app.views.commands import about_lines
from tests.app.fake_jobs import ScriptedExport, ScriptedTrain

pytestmark = pytest.mark.gui

Build = Callable[..., Application]


@pytest.fixture
def build(qapp: QApplication, tmp_path: Path) -> Iterator[Build]:
    made: list[Application] = []

    def make(
        train: ScriptedTrain | None = None, export: ScriptedExport | None = None
    ) -> Application:
        session = Session(
            make_train=train or ScriptedTrain(tmp_path), make_export=export or ScriptedExport()
        )
        app = Application(qapp, AppPaths(tmp_path / "config", tmp_path / "log"), session)
        app.open(warm_up=False)
        made.append(app)
        return app

    yield make
    for app in made:
        if shiboken6.isValid(app):
            app.window.may_close = lambda: True
            app.window.close()
            app.shut_down()
    qapp.setStyleSheet("")
    qapp.styleHints().setColorScheme(Qt.ColorScheme.Unknown)


def enabled(table: Actions) -> set[str]:
    return {
        name for name in ("start", "stop", "export", "open_run") if getattr(table, name).isEnabled()
    }


def question(app: Application) -> QMessageBox | None:
    return next((box for box in app.window.findChildren(QMessageBox) if box.isVisible()), None)


def press(box: QMessageBox, text: str) -> None:
    next(b for b in box.findChildren(QPushButton) if b.text() == text).click()


def test_what_can_be_pressed_follows_the_run(qtbot: QtBot, tmp_path: Path, build: Build) -> None:
    train = ScriptedTrain(tmp_path, steps=2)
    app = build(train)
    table = app.window.actions_table
    assert enabled(table) == {"start"}
    table.start.trigger()
    assert enabled(table) == {"start", "stop"}
    assert app.form.status == "Ready; edits are for the next run"
    train.allow(2)
    with qtbot.waitSignal(app.session.idle):
        pass
    assert enabled(table) == {"start", "export", "open_run"}
    assert app.form.status == "Ready"


def test_a_bad_form_does_not_start_and_the_banner_says_why(build: Build) -> None:
    app = build()
    app.form.set_value("rank", "many")
    app.window.actions_table.start.trigger()
    assert not app.session.busy
    assert app.window.panels.notice.isVisible()
    notice = app.session.notices.notice
    assert notice is not None
    assert "Rank" in notice.text


def test_closing_during_a_run_asks_and_then_closes_by_itself(
    qtbot: QtBot, tmp_path: Path, build: Build
) -> None:
    train = ScriptedTrain(tmp_path, steps=100)
    app = build(train)
    app.window.actions_table.start.trigger()
    app.window.close()
    assert app.window.isVisible()
    assert not train.control.stopping
    box = question(app)
    assert box is not None
    press(box, "Keep training")
    assert not train.control.stopping
    app.window.close()
    box = question(app)
    assert box is not None
    press(box, "Stop and close")
    assert train.control.stopping
    assert not train.control.stopping_now
    app.window.close()  # again: does not wait for the step
    assert train.control.stopping_now
    assert app.window.isVisible()
    train.allow()
    qtbot.waitUntil(lambda: not app.window.isVisible(), timeout=5000)


def test_closing_during_an_export_waits_for_it(qtbot: QtBot, tmp_path: Path, build: Build) -> None:
    train, export = ScriptedTrain(tmp_path), ScriptedExport()
    app = build(train, export)
    app.window.actions_table.start.trigger()
    train.allow(3)
    with qtbot.waitSignal(app.session.idle):
        pass
    app.commands.export_to(tmp_path / "out")
    app.window.close()
    assert app.window.isVisible()
    export.allow.set()
    qtbot.waitUntil(lambda: not app.window.isVisible(), timeout=5000)


def test_the_export_dialog_shows_the_proof(qtbot: QtBot, tmp_path: Path, build: Build) -> None:
    train, export = ScriptedTrain(tmp_path), ScriptedExport()
    app = build(train, export)
    app.window.actions_table.start.trigger()
    train.allow(3)
    with qtbot.waitSignal(app.session.idle):
        pass
    app.commands.export_to(tmp_path / "out")
    dialog = app.commands._export_dialog
    assert dialog.isVisible()
    assert dialog._title.text() == "Exporting the adapter"
    assert not dialog._next.isVisible()
    export.allow.set()
    with qtbot.waitSignal(app.session.idle):
        pass
    assert dialog._title.text() == "Exported and proven"
    assert dialog._command.toPlainText() == "mlx_lm.generate --x"
    dialog.close()


def test_everything_is_remembered(tmp_path: Path, build: Build) -> None:
    app = build()
    config = tmp_path / "mine.yaml"
    app.form.set_value("rank", 4)
    app.commands.save_config(config)
    app.window.resize(795, 700)  # the test's screen has 800 x 800
    app.window.actions_table.show_log.setChecked(False)
    app.window.actions_table.theme_dark.trigger()
    app.session.curves.set_smoothing(0.2)
    app.window.close()
    app.shut_down()
    again = build()
    assert again.form.values["rank"] == 4
    assert again.window.size().toTuple() == (795, 700)
    assert not again.window.panels.log.is_open
    assert again.theme.palette.name == "dark"
    assert again.session.curves.smoothing == pytest.approx(0.2)
    assert again.documents.recent == [config]
    assert again.window.windowTitle().startswith("mine")


def test_a_broken_settings_file_does_not_stop_the_start(tmp_path: Path, build: Build) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "settings.json").write_text('{"geometry": "%%%", "splitters": {"rows": "?"}', "utf-8")
    app = build()
    assert app.window.isVisible()
    assert (folder / "settings.json.broken").exists()


def test_geometry_that_means_nothing_is_ignored(tmp_path: Path, build: Build) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "settings.json").write_text('{"geometry": "%%%é", "splitters": {"rows": 3}}', "utf-8")
    assert build().window.isVisible()


def test_a_config_that_cannot_be_opened_is_told(tmp_path: Path, build: Build) -> None:
    app = build()
    app.commands.open_config(tmp_path / "none.yaml")
    notice = app.session.notices.notice
    assert notice is not None
    assert "none.yaml" in notice.title
    assert app.documents.name == "sample"


def test_a_fault_of_ours_is_a_short_notice(build: Build) -> None:
    app = build()
    app.faults.reported.emit("ValueError: torn")
    notice = app.session.notices.notice
    assert notice is not None
    assert (notice.level, notice.text) == ("error", "ValueError: torn")


def test_about_names_what_we_stand_on() -> None:
    assert any(line.startswith("mlx-lm 0.") for line in about_lines())


def test_another_trainers_file_is_read_and_told_of(build: Build, tmp_path: Path) -> None:
    app = build()
    file = tmp_path / "lora.yaml"
    file.write_text("model: sample\ndata: sample\ntrain: true\nmask_prompt: true\nbatch_size: 2\n")
    app.commands.open_config(file)
    config = app.form.config()
    assert config is not None, app.form.status
    assert (config.batch_size, config.loss_on, config.learning_rate) == (2, "last", 1e-5)
    notice = app.session.notices.notice
    assert notice is not None
    assert "configuration of mlx-lm" in notice.text
    assert app.documents.name == "lora-burnish"  # which is what Save proposes
    assert sum("adam corrects" in line.text for line in app.session.log.lines) == 1
