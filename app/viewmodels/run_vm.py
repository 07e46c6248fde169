"""Where the run stands: what may be pressed, and where its folder and adapter are."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from trainer_core.events import Event, Failed, Finished, Paused, Resumed, Started, Step


class RunState(Enum):
    """The life of a run, from the window's side."""

    IDLE = "idle"
    STARTING = "starting"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"
    FINISHED = "finished"
    FAILED = "failed"


ACTIVE = (RunState.STARTING, RunState.RUNNING, RunState.PAUSING, RunState.PAUSED, RunState.STOPPING)


class RunViewModel(QObject):
    """State of the newest run, and the last one that left an adapter.

    Attributes:
        state: see `RunState`.
        run_folder: folder of the newest run, once it has one.
        finished_run: folder of the last run that ended with an adapter; what Export exports.
        device: what the engine runs on, once known.

    Signals:
        changed: any of them.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = RunState.IDLE
        self.run_folder: Path | None = None
        self.finished_run: Path | None = None
        self.finished: Finished | None = None
        self.device = ""
        self._dirty = False

    @property
    def active(self) -> bool:
        """True from Start until the engine has ended the run."""
        return self.state in ACTIVE

    @property
    def run_name(self) -> str:
        """Name of the newest run's folder, or an empty string."""
        return self.run_folder.name if self.run_folder else ""

    def begin(self) -> None:
        """Start was pressed."""
        self.state = RunState.STARTING
        self.run_folder = None
        self.finished = None
        self.changed.emit()

    def pausing(self) -> None:
        """Pause was pressed."""
        if self.active:
            self.state = RunState.PAUSING
            self.changed.emit()

    def going_on(self) -> None:
        """The pause is over."""
        if self.state in (RunState.PAUSING, RunState.PAUSED):
            self.state = RunState.RUNNING
            self.changed.emit()

    def stopping(self) -> None:
        """Stop was pressed."""
        if self.active:
            self.state = RunState.STOPPING
            self.changed.emit()

    def end(self) -> None:
        """The engine left the run. One without a `finished` event has failed."""
        if self.active:
            self.state = RunState.FAILED
            self.changed.emit()

    def take(self, event: Event) -> None:
        """Note an event; `flush` tells the view."""
        match event:
            case Started():
                self.run_folder = Path(event.run)
                self.device = event.device
                self._become(RunState.RUNNING)
            case Step() if self.state is RunState.STARTING:
                self._become(RunState.RUNNING)
            case Paused():
                self._become(RunState.PAUSED)
            case Resumed():
                self._become(RunState.RUNNING)
            case Finished():
                self.state = RunState.FINISHED
                self.run_folder = self.finished_run = Path(event.run)
                self.finished = event
                self._dirty = True
            case Failed():
                self.state = RunState.FAILED
                if self.run_folder is not None and not self.run_folder.exists():
                    self.run_folder = None  # the engine keeps no folder of a run that never trained
                self._dirty = True

    def flush(self) -> None:
        """Tell the view once about everything taken since the last time."""
        if self._dirty:
            self._dirty = False
            self.changed.emit()

    def _become(self, state: RunState) -> None:
        if self.state is not RunState.STOPPING:
            self.state = state
        self._dirty = True
