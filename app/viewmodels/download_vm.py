"""A model on its way from Hugging Face: a process of its own, so that the app itself stays offline.

The process is the command line's `download`. It is asked to stop, and killed if it does not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, QProcessEnvironment, QTimer, Signal

from trainer_core.errors import ModelError
from trainer_core.events import Stage, from_json_line
from trainer_core.hub import model_id

_KILL_AFTER_MS = 5_000
_STOPPED = 3
_ROOT = Path(__file__).resolve().parents[2]


class DownloadViewModel(QObject):
    """At most one download at a time.

    Attributes:
        name: the model that is on its way, or was last.
        message: how far it is.
        progress: the fraction that has come, or None while that is not known.
        error: why the last download failed, in a sentence, or an empty string.
        stopping: it was asked to stop and has not yet.

    Signals:
        changed: any of these.
        arrived: a model is there, with its id.
    """

    changed = Signal()
    arrived = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.name = ""
        self.message = ""
        self.progress: float | None = None
        self.error = ""
        self.stopping = False
        self._process: QProcess | None = None
        self._kill = QTimer(self, singleShot=True, interval=_KILL_AFTER_MS)
        self._kill.timeout.connect(self._on_kill_due)

    @property
    def busy(self) -> bool:
        """True from the start of a download to its end."""
        return self._process is not None

    def start(self, text: str) -> None:
        """Download a model, unless another one is on its way.

        Args:
            text: its id or the address of its page, as typed.
        """
        if self.busy:
            return
        self.message, self.error, self.progress = "", "", None
        try:
            self.name = model_id(text)
        except ModelError as error:
            self.error = str(error)
            self.changed.emit()
            return
        self.message = "Starting"
        process = QProcess(self)
        settings = QProcessEnvironment.systemEnvironment()
        settings.insert("HF_HUB_OFFLINE", "0")  # the app's own value; whoever downloads means it
        settings.insert("PYTHONPATH", str(_ROOT))
        process.setProcessEnvironment(settings)
        process.readyReadStandardOutput.connect(self._on_output)
        process.finished.connect(self._on_finished)
        process.errorOccurred.connect(self._on_process_error)
        self._process = process
        process.start(
            sys.executable, ["-m", "trainer_core", "download", self.name, "--events", "-"]
        )
        self.changed.emit()

    def stop(self) -> None:
        """Give the download up; files that have come whole are kept."""
        if self._process is not None and not self.stopping:
            self.stopping = True
            self._process.terminate()
            self._kill.start()
            self.changed.emit()

    def close(self) -> None:
        """End the process now and wait for it."""
        if self._process is not None:
            process, self._process = self._process, None
            process.disconnect(self)
            process.terminate()
            if not process.waitForFinished(_KILL_AFTER_MS):
                process.kill()
                process.waitForFinished()

    def _on_output(self) -> None:
        if self._process is None:
            return
        while self._process.canReadLine():
            event = from_json_line(bytes(self._process.readLine().data()).decode())
            if isinstance(event, Stage):
                self.message, self.progress = event.message, event.progress
        self.changed.emit()

    def _on_finished(self, code: int, status: QProcess.ExitStatus) -> None:
        if self._process is None:
            return
        said = bytes(self._process.readAllStandardError().data()).decode(errors="replace")
        stopped = self.stopping
        self._end()
        if stopped or code == _STOPPED:
            self.message = "Stopped; files that have come whole are kept"
        elif status is QProcess.ExitStatus.NormalExit and code == 0:
            self.message, self.progress = f"{self.name} is here", 1.0
        else:
            self.message, self.error = "", _sentence(said)
        self.changed.emit()
        if not self.error and not stopped and code == 0:
            self.arrived.emit(self.name)

    def _on_process_error(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart and self._process is not None:
            why = self._process.errorString()
            self._end()
            self.message, self.error = "", f"The download could not be started: {why}."
            self.changed.emit()

    def _end(self) -> None:
        self._kill.stop()
        self.stopping = False
        if self._process is not None:
            self._process.deleteLater()
            self._process = None

    def _on_kill_due(self) -> None:
        if self._process is not None:
            self._process.kill()


def _sentence(said: str) -> str:
    """The command's own sentence among what its process wrote."""
    own = [line for line in said.splitlines() if line.startswith("burnish: ")]
    return own[-1].removeprefix("burnish: ") if own else "The download ended without a reason."
