"""What a test of the window left behind: threads, timers and windows that nobody ended."""

from __future__ import annotations

import gc
import threading
import time
from dataclasses import dataclass

import shiboken6
from PySide6.QtCore import QCoreApplication, QEvent, QObject, QThread, QTimer
from PySide6.QtWidgets import QApplication

GRACE_S = 3.0
"""A thread that was told to end may take this long."""


@dataclass(frozen=True)
class Living:
    """What is alive, each with a description.

    Attributes:
        threads: identity of a Python thread that is running.
        timers: address of a Qt timer that will fire, or of a running QThread.
        windows: address of a window, shown or not.
    """

    threads: dict[int, str]
    timers: dict[int, str]
    windows: dict[int, str]

    def beyond(self, before: Living) -> list[str]:
        """What was not there before."""
        pairs = (
            (self.threads, before.threads),
            (self.timers, before.timers),
            (self.windows, before.windows),
        )
        return sorted(mine[key] for mine, theirs in pairs for key in mine.keys() - theirs.keys())


def living() -> Living:
    """What is alive now."""
    threads = {
        thread.ident: f"thread {thread.name}"
        for thread in threading.enumerate()
        # A QThread that ran Python leaves an entry that can never be told to end.
        if thread.ident is not None and not isinstance(thread, threading._DummyThread)
    }
    timers: dict[int, str] = {}
    for thing in shiboken6.getAllValidWrappers():
        if isinstance(thing, QTimer) and thing.isActive():
            timers[_address(thing)] = f"timer of {_owner(thing)}"
        elif isinstance(thing, QThread) and thing.isRunning() and not _is_main(thing):
            timers[_address(thing)] = f"QThread {thing.objectName() or type(thing).__name__}"
    windows = {
        _address(window): f"window {type(window).__name__} {window.windowTitle()}".rstrip()
        for window in QApplication.topLevelWidgets()
        if window.parent() is None
    }
    return Living(threads, timers, windows)


def left_behind(before: Living) -> list[str]:
    """What has come since and stays, once everything had its chance to go."""
    end = time.monotonic() + GRACE_S
    gc.unfreeze()  # what the window froze for speed is looked at too
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    found = living().beyond(before)
    while found and time.monotonic() < end:
        # An object in a cycle of references is nobody's; Python had no reason to look yet.
        gc.collect()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        found = living().beyond(before)
        if found:
            time.sleep(0.05)
    return found


def _address(thing: QObject) -> int:
    """Where Qt keeps an object; Python's own may come and go."""
    return shiboken6.getCppPointer(thing)[0]


def _is_main(thread: QThread) -> bool:
    application = QCoreApplication.instance()
    return application is not None and thread is application.thread()


def _owner(timer: QTimer) -> str:
    parent = timer.parent()
    return "nobody" if parent is None else type(parent).__name__
