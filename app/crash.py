"""Where faults of ours end up: the log file gets everything, the window a short notice."""

from __future__ import annotations

import faulthandler
import logging
import sys
import threading
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType

from PySide6.QtCore import QMessageLogContext, QObject, QtMsgType, Signal, qInstallMessageHandler

from trainer_core.redact import without_secrets

LARGEST_LOG = 2_000_000
KEPT_LOGS = 4

log = logging.getLogger("burnish")

_QT_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


def log_to_file(path: Path) -> None:
    """Send the log of the whole process to a rotating file; to stderr if it cannot be written."""
    handler: logging.Handler
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = RotatingFileHandler(
            path, maxBytes=LARGEST_LOG, backupCount=KEPT_LOGS, encoding="utf-8"
        )
    except OSError:
        handler = logging.StreamHandler()
    handler.setFormatter(
        _Redacting("%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s")
    )
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)


class _Redacting(logging.Formatter):
    """Keeps secrets out of the log, tracebacks included."""

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class FaultReporter(QObject):
    """Catches what nobody caught, in any thread, while it is installed.

    Signals:
        reported: carries one short sentence; arrives in the thread of the receiver.
    """

    reported = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._undo: list[Callable[[], object]] = []

    def install(self) -> None:
        """Take the place of the hooks of Python and Qt."""
        before, thread_before = sys.excepthook, threading.excepthook
        qt_before = qInstallMessageHandler(self._on_qt_message)
        sys.excepthook = self._on_exception
        threading.excepthook = self._on_thread_exception
        self._undo = [
            lambda: setattr(sys, "excepthook", before),
            lambda: setattr(threading, "excepthook", thread_before),
            lambda: qInstallMessageHandler(qt_before),
        ]
        if sys.stderr is not None and not faulthandler.is_enabled():
            faulthandler.enable()

    def uninstall(self) -> None:
        """Put the hooks back that were there before."""
        while self._undo:
            self._undo.pop()()

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        log.critical("uncaught", exc_info=(kind, error, trace))
        self.reported.emit(f"{kind.__name__}: {error}")

    def _on_thread_exception(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            self._on_exception(args.exc_type, args.exc_value, args.exc_traceback)

    def _on_qt_message(self, kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        level = _QT_LEVELS.get(kind, logging.WARNING)
        log.log(level, "Qt: %s (%s)", message, context.category or "")
