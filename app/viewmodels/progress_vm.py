"""How far the run is, how fast it goes and how long it will take."""

from __future__ import annotations

import statistics
from collections import deque

from PySide6.QtCore import QObject, Signal

from app.viewmodels.wording import duration, gigabytes
from trainer_core.events import (
    Event,
    Failed,
    Finished,
    Paused,
    Resumed,
    Stage,
    Started,
    Step,
    Validation,
)

RECENT = 20

STAGES = {
    "load": "Loading the model",
    "data": "Reading the data",
    "reference": "Computing the reference",
    "compile": "Compiling",
    "train": "Training",
    "validate": "Validating",
    "save": "Saving",
    "verify": "Checking the export",
}


class ProgressViewModel(QObject):
    """Texts and numbers of the progress panel.

    Attributes:
        headline: what the engine is busy with.
        fraction: 0 to 1, or None while nothing can be said.
        busy: True while a job runs.
        level: `normal`, `success` or `error`, for the colour of the bar.

    Signals:
        changed: any of them.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._reset()
        self._dirty = False

    def _reset(self) -> None:
        self.headline = "Ready"
        self.fraction: float | None = 0.0
        self.busy = False
        self.level = "normal"
        self.step = 0
        self.total = 0
        self._eval_every = 0
        self._step_seconds: deque[float] = deque(maxlen=RECENT)
        self._validation_seconds = 0.0
        self._speed: float | None = None
        self._memory = 0
        self._stopping = False

    @property
    def steps_text(self) -> str:
        """`24 of 60`, or empty before the first step."""
        return f"{self.step:,} of {self.total:,}" if self.total else ""

    @property
    def remaining_seconds(self) -> float | None:
        """Median of the recent steps times the steps left, plus the validations still to come."""
        if not self.busy or not self._step_seconds or not self.total:
            return None
        left = max(0, self.total - self.step)
        validations = 0
        if left:
            between = (
                self.total // self._eval_every - self.step // self._eval_every
                if self._eval_every
                else 0
            )
            ends_on_one = self._eval_every and self.total % self._eval_every == 0
            validations = between + (0 if ends_on_one else 1)
        return statistics.median(self._step_seconds) * left + validations * self._validation_seconds

    @property
    def eta_text(self) -> str:
        """`2 min 05 s`, or empty while unknown."""
        seconds = self.remaining_seconds
        return "" if seconds is None else duration(seconds)

    @property
    def speed_text(self) -> str:
        """`1,240 tokens/s`, or empty."""
        return "" if self._speed is None else f"{self._speed:,.0f} tokens/s"

    @property
    def memory_text(self) -> str:
        """`1.24 GB`, the highest peak of the run, or empty."""
        return gigabytes(self._memory) if self._memory else ""

    def begin(self, headline: str) -> None:
        """A job was asked for and nothing has come of it yet."""
        self._reset()
        self.headline = headline
        self.busy = True
        self.fraction = None
        self.changed.emit()

    def stopping(self, *, now: bool) -> None:
        """The user asked for the end of the run."""
        self._stopping = True
        self.headline = "Stopping now" if now else "Stopping after this step"
        self.changed.emit()

    def pausing(self) -> None:
        """Pause was pressed."""
        self.headline = "Pausing after this step"
        self.changed.emit()

    def going_on(self) -> None:
        """The pause is over."""
        self.headline = STAGES["train"]
        self.changed.emit()

    def end(self, headline: str, level: str) -> None:
        """The job is over."""
        self.busy = False
        self.headline = headline
        self.level = level
        if self.fraction is None:
            self.fraction = 0.0
        self.changed.emit()

    def take(self, event: Event) -> None:
        """Note an event; `flush` tells the view."""
        match event:
            case Started():
                self.total = int(event.config.get("iters") or 0)
                self._eval_every = int(event.config.get("steps_per_eval") or 0)
                self.step = event.resumed_from or 0
            case Stage():
                self._take_stage(event)
            case Step():
                self._take_step(event)
            case Validation():
                self._validation_seconds = event.seconds
            case Paused():
                self.headline = "Paused"
            case Resumed():
                self.headline = STAGES["train"]
            case Finished():
                self.fraction = 1.0 if event.reason == "done" else self.fraction
                self.step = event.steps
            case Failed():
                self.level = "error"
            case _:
                return
        self._dirty = True

    def flush(self) -> None:
        """Tell the view once about everything taken since the last time."""
        if self._dirty:
            self._dirty = False
            self.changed.emit()

    def _take_stage(self, event: Stage) -> None:
        if not self._stopping or event.stage == "save":
            self.headline = event.message or STAGES.get(event.stage, event.stage.capitalize())
        if event.stage not in ("train", "validate", "save") or not self.total:
            self.fraction = event.progress

    def _take_step(self, event: Step) -> None:
        self.step = event.step
        if not self._stopping:
            self.headline = STAGES["train"]
        if self.total:
            self.fraction = min(1.0, event.step / self.total)
        self._step_seconds.append(event.seconds)
        self._speed = event.tokens_per_s
        self._memory = max(self._memory, event.peak_memory_bytes)
