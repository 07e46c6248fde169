"""The check of what a test leaves behind finds each kind of thing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from PySide6.QtCore import QEventLoop, QThread, QTimer
from PySide6.QtWidgets import QApplication, QWidget

import tests.leaks
from tests.leaks import left_behind, living

pytestmark = pytest.mark.gui


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests.leaks, "GRACE_S", 0.2)


def a_thread() -> tuple[str, object, Callable[[], object]]:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="forgotten")
    thread.start()
    return "thread forgotten", thread, lambda: (end.set(), thread.join())


def a_timer() -> tuple[str, object, Callable[[], object]]:
    timer = QTimer(interval=1000)
    timer.start()
    return "timer of nobody", timer, timer.stop


def a_qthread() -> tuple[str, object, Callable[[], object]]:
    thread = QThread(objectName="forgotten")
    thread.start()
    return "QThread forgotten", thread, lambda: (thread.quit(), thread.wait())


def a_window() -> tuple[str, object, Callable[[], object]]:
    window = QWidget(windowTitle="forgotten")
    return "window QWidget forgotten", window, window.deleteLater


@pytest.mark.parametrize("make", [a_thread, a_timer, a_qthread, a_window])
def test_what_is_left_is_named_and_what_has_ended_is_not(
    make: Callable[[], tuple[str, object, Callable[[], object]]], qapp: QApplication
) -> None:
    before = living()
    name, kept, end = make()
    assert left_behind(before) == [name]
    end()
    assert left_behind(before) == []
    del kept


def test_a_window_in_a_cycle_of_references_is_gone(qapp: QApplication) -> None:
    before = living()
    window = QWidget()
    window.own = [window]  # type: ignore[attr-defined]
    del window
    assert left_behind(before) == []


def test_an_event_loop_that_ended_leaves_nothing(qapp: QApplication) -> None:
    before = living()
    loop = QEventLoop()
    QTimer.singleShot(0, loop.quit)
    loop.exec()
    assert left_behind(before) == []
