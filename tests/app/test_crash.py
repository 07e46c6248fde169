import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import qWarning
from pytestqt.qtbot import QtBot

from app.crash import FaultReporter, log_to_file

pytestmark = pytest.mark.gui


@pytest.fixture
def reporter(qapp: object) -> Iterator[FaultReporter]:
    made = FaultReporter()
    made.install()
    yield made
    made.uninstall()


def test_what_nobody_caught_is_logged_whole_and_reported_shortly(
    qtbot: QtBot, reporter: FaultReporter, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("torn")

    with qtbot.captureExceptions(), qtbot.waitSignal(reporter.reported, timeout=2000) as told:
        # captureExceptions puts its own hook in place, so ours is called by hand
        try:
            fail()
        except ValueError as error:
            reporter._on_exception(type(error), error, error.__traceback__)
    assert told.args == ["ValueError: torn"]
    assert "Traceback" in caplog.text


def test_faults_of_other_threads_are_reported_too(
    qtbot: QtBot, reporter: FaultReporter, caplog: pytest.LogCaptureFixture
) -> None:
    assert threading.excepthook == reporter._on_thread_exception
    with qtbot.waitSignal(reporter.reported, timeout=2000) as told:
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
    assert told.args == ["ZeroDivisionError: division by zero"]


def test_qts_warnings_go_to_the_log(
    reporter: FaultReporter, caplog: pytest.LogCaptureFixture
) -> None:
    qWarning("a timer cannot be started")
    assert "Qt: a timer cannot be started" in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING


def test_the_hooks_are_put_back(qapp: object) -> None:
    before = sys.excepthook, threading.excepthook
    made = FaultReporter()
    made.install()
    assert sys.excepthook != before[0]
    made.uninstall()
    assert (sys.excepthook, threading.excepthook) == before


def test_the_log_file_is_made_with_its_folder(tmp_path: Path) -> None:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        log_to_file(tmp_path / "deep" / "burnish.log")
        logging.getLogger("x").error("kept")
    finally:
        for handler in [h for h in root.handlers if h not in handlers]:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
    assert "ERROR MainThread x: kept" in (tmp_path / "deep" / "burnish.log").read_text("utf-8")
