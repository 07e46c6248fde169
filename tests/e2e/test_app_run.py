"""The real app trains for real: start, watch, stop, close, fail, export. One small llama on CPU."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot

from app import application
from app.application import Application
from app.paths import AppPaths
from app.viewmodels.export_vm import ExportState
from app.viewmodels.run_vm import RunState
from trainer_core.events import Step
from trainer_core.runfolder import RunFolder, read_events

pytestmark = pytest.mark.gui

RUN_MS = 120_000


@pytest.fixture
def config(golden: Path, tmp_path: Path) -> Path:
    """A short ORPO run on the small llama, as a configuration file."""
    path = tmp_path / "tiny.yaml"
    values = {
        "model": str(golden / "llama"),
        "data": str(golden / "llama" / "preference.jsonl"),
        "method": "orpo",
        "prompt_format": "raw",
        "valid_fraction": 0.25,
        "iters": 6,
        "steps_per_eval": 3,
        "rank": 4,
        "learning_rate": 1e-3,
        "output": str(tmp_path / "runs"),
    }
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


@pytest.fixture
def start_app(
    qapp: QApplication, tmp_path: Path, config: Path, dirs: Path
) -> Iterator[Callable[[], Application]]:
    made: list[Application] = []

    def start() -> Application:
        app = Application(qapp, AppPaths(tmp_path / "config", tmp_path / "log"))
        app.open()
        app.commands.open_config(config)
        made.append(app)
        return app

    yield start
    for app in made:
        app.session.stop_now()
        app.window.may_close = lambda: True
        app.window.close()
        app.shut_down()
    qapp.setStyleSheet("")
    qapp.styleHints().setColorScheme(Qt.ColorScheme.Unknown)


def press_start(app: Application) -> None:
    app.window.actions_table.start.trigger()
    assert app.session.run.active, app.session.notices.notice


def wait_for_end(qtbot: QtBot, app: Application) -> None:
    qtbot.waitUntil(lambda: not app.session.busy, timeout=RUN_MS)


def wait_for_step(qtbot: QtBot, app: Application, number: int) -> None:
    qtbot.waitUntil(
        lambda: app.session.progress.step >= number or not app.session.busy, timeout=RUN_MS
    )
    assert app.session.busy, app.session.log.text()


def loss_points(app: Application) -> dict[int, float]:
    plot = app.session.curves.plots("training")[0]
    series = app.session.curves.series(plot, plot.curves[0])
    return dict(zip(series.steps.astype(int).tolist(), series.values.tolist(), strict=True))


def test_train_watch_and_export(
    qtbot: QtBot, start_app: Callable[[], Application], tmp_path: Path
) -> None:
    app = start_app()
    press_start(app)
    wait_for_end(qtbot, app)
    run = app.session.run
    assert run.state is RunState.FINISHED, app.session.log.text()
    assert run.run_folder is not None

    # What is drawn is what the run wrote to its folder.
    events = read_events(RunFolder(run.run_folder).events)
    steps = {event.step: event.loss for event in events if isinstance(event, Step)}
    assert loss_points(app) == pytest.approx(steps)
    assert sorted(steps) == [1, 2, 3, 4, 5, 6]
    plots = app.window.panels.plots.plots
    assert [plot.plot.key for plot in plots] == ["loss", "nll", "or", "accuracy"]
    for plot in plots:
        qtbot.waitUntil(
            lambda p=plot: (
                len(p._lines["train"].getData()[0]) == 6
                and len(p._lines["valid"].getData()[0]) == 3
            ),
            timeout=5000,
        )
    assert app.session.progress.steps_text == "6 of 6"
    assert app.window.actions_table.export.isEnabled()

    out = tmp_path / "exported"
    app.commands.export_to(out)
    wait_for_end(qtbot, app)
    export = app.session.export
    assert export.state is ExportState.DONE, export.message
    assert {path.name for path in out.iterdir()} == {
        "adapters.safetensors",
        "adapter_config.json",
        "chat.json",
    }
    assert str(out) in export.command
    trained = (run.run_folder / "adapter" / "adapters.safetensors").read_bytes()
    assert (out / "adapters.safetensors").read_bytes() == trained


def test_stop_keeps_what_was_learned(qtbot: QtBot, start_app: Callable[[], Application]) -> None:
    app = start_app()
    app.form.set_value("iters", 5000)
    press_start(app)
    wait_for_step(qtbot, app, 2)
    app.window.actions_table.stop.trigger()
    wait_for_end(qtbot, app)
    run = app.session.run
    assert run.finished is not None
    assert run.finished.reason == "stopped"
    assert 2 <= run.finished.steps < 5000
    adapter = Path(run.finished.adapter)
    assert (adapter / "adapters.safetensors").stat().st_size > 0
    notice = app.session.notices.notice
    assert notice is not None
    assert str(adapter) in notice.text
    assert app.window.actions_table.export.isEnabled()


def test_closing_during_a_run_saves_and_closes_by_itself(
    qtbot: QtBot, start_app: Callable[[], Application]
) -> None:
    app = start_app()
    app.form.set_value("iters", 5000)
    press_start(app)
    wait_for_step(qtbot, app, 1)
    app.window.close()
    box = next(box for box in app.window.findChildren(QMessageBox) if box.isVisible())
    next(b for b in box.findChildren(QPushButton) if b.text() == "Stop and close").click()
    assert app.window.isVisible()
    qtbot.waitUntil(lambda: not app.window.isVisible(), timeout=RUN_MS)
    finished = app.session.run.finished
    assert finished is not None
    assert (Path(finished.adapter) / "adapters.safetensors").exists()
    app.session.close()
    app.session.wait()
    assert not app.session._thread.isRunning()


def test_a_bad_row_is_told_with_its_place_and_the_next_run_works(
    qtbot: QtBot, start_app: Callable[[], Application], tmp_path: Path, golden: Path
) -> None:
    app = start_app()
    broken = tmp_path / "rows.jsonl"
    broken.write_text(
        '{"prompt": "a", "chosen": "b", "rejected": "c"}\n{"prompt": "a", "chosen": "b"}\n',
        encoding="utf-8",
    )
    app.form.set_value("data", str(broken))
    press_start(app)
    wait_for_end(qtbot, app)
    assert app.session.run.state is RunState.FAILED
    notice = app.session.notices.notice
    assert notice is not None
    assert notice.level == "error"
    assert "rows.jsonl" in notice.title
    assert "2" in notice.text
    assert "Traceback" not in notice.text + app.session.log.text()
    assert not app.window.actions_table.open_run.isEnabled()

    app.form.set_value("data", str(golden / "llama" / "preference.jsonl"))
    app.form.set_value("iters", 1)
    press_start(app)
    wait_for_end(qtbot, app)
    assert app.session.run.state is RunState.FINISHED
    assert sorted(loss_points(app)) == [1]


def test_a_form_that_cannot_be_does_not_reach_the_engine(
    start_app: Callable[[], Application], tmp_path: Path
) -> None:
    app = start_app()
    app.form.set_value("model", str(tmp_path))
    app.window.actions_table.start.trigger()
    assert not app.session.busy
    notice = app.session.notices.notice
    assert notice is not None
    assert notice.title == "This configuration cannot start"
    assert "config.json" in notice.text


def test_a_model_without_weights_fails_with_its_folders_name(
    qtbot: QtBot, start_app: Callable[[], Application], tmp_path: Path, golden: Path
) -> None:
    app = start_app()
    model = tmp_path / "hollow"
    model.mkdir()
    for path in (golden / "llama").glob("*.json"):
        shutil.copy(path, model)
    app.form.set_value("model", str(model))
    press_start(app)
    wait_for_end(qtbot, app)
    assert app.session.run.state is RunState.FAILED
    notice = app.session.notices.notice
    assert notice is not None
    assert notice.level == "error"
    assert str(model) in notice.title + notice.text
    assert app.session.curves.empty


def test_main_runs_until_the_window_is_closed(
    qapp: QApplication,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    config: Path,
    dirs: Path,
) -> None:
    shown: list[str] = []

    def close() -> None:
        for window in qapp.topLevelWidgets():
            if window.objectName() == "main" and window.isVisible():
                shown.append(window.windowTitle())
                window.close()

    QTimer.singleShot(0, lambda: QTimer.singleShot(200, close))
    paths = AppPaths(tmp_path / "config", tmp_path / "log")
    assert application.main(["burnish", str(config)], paths) == 0
    assert shown[0].startswith("tiny")
    stored = json.loads(paths.settings_file.read_text("utf-8"))
    assert stored["last_values"]["rank"] == 4
    assert stored["recent"] == [str(config)]
    qapp.setStyleSheet("")
