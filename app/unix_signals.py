"""Ctrl+C and a polite kill close the window as the user would, saving what the run has learned."""

from __future__ import annotations

import signal
import socket

from PySide6.QtCore import QObject, QSocketNotifier, Signal


class UnixSignals(QObject):
    """Turns SIGINT and SIGTERM into a Qt signal, also while no Python runs in the event loop.

    Signals:
        received: one of them came.
    """

    received = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._read, self._write = socket.socketpair()
        for end in (self._read, self._write):
            end.setblocking(False)
        self._notifier = QSocketNotifier(self._read.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_readable)
        self._before = {
            number: signal.signal(number, lambda *_: None)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        self._wakeup_before = signal.set_wakeup_fd(self._write.fileno(), warn_on_full_buffer=False)

    def close(self) -> None:
        """Put the handlers back that were there before."""
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._read.close()
        self._write.close()

    def _on_readable(self) -> None:
        try:
            self._read.recv(64)
        except BlockingIOError:
            return
        self.received.emit()
