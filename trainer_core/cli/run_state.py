"""What a run has said so far, in the form in which a terminal shows it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from trainer_core.data.batches import total_steps
from trainer_core.events import (
    Checkpoint,
    Data,
    Event,
    Finished,
    Stage,
    Started,
    Step,
    Validation,
    Warned,
)

# Metric -> the name people know it by, in the order shown.
METRICS = {
    "loss": "loss",
    "nll": "nll",
    "odds_loss": "or",
    "accuracy": "accuracy",
    "margin": "margin",
}

_HISTORY = 2_000


@dataclass(slots=True)
class RunState:
    """The state of a run after the events it was told of."""

    method: str = ""
    model: str = ""
    device: str = ""
    run: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    total: int | None = None
    stage: str = ""
    data: Data | None = None
    last: Step | None = None
    validation: Validation | None = None
    best: Validation | None = None
    checkpoint: Checkpoint | None = None
    finished: Finished | None = None
    warnings: list[Warned] = field(default_factory=list)
    series: dict[str, deque[float]] = field(default_factory=dict)
    pace: deque[float] = field(default_factory=lambda: deque(maxlen=20))

    def take(self, event: Event) -> None:
        """Account for one event."""
        match event:
            case Started():
                self.run, self.device, self.config = event.run, event.device, event.config
                self.method, self.model = str(event.config["method"]), str(event.config["model"])
                self.total = event.config.get("iters")
            case Stage():
                self.stage = event.message or event.stage
            case Data():
                self.data = event
                self._count_steps(event)
            case Step():
                self.last, self.stage = event, ""
                self.pace.append(event.seconds)
                for name in METRICS:
                    if (value := getattr(event, name)) is not None:
                        self.series.setdefault(name, deque(maxlen=_HISTORY)).append(value)
            case Validation():
                self.validation = event
                self.best = event if event.best else self.best
            case Checkpoint():
                self.checkpoint = event
            case Warned():
                self.warnings.append(event)
            case Finished():
                self.finished = event

    @property
    def seconds_left(self) -> float | None:
        """Time until the last step at the pace of the latest ones; validations are not counted."""
        if self.total is None or self.last is None or not self.pace:
            return None
        return median(self.pace) * (self.total - self.last.step)

    def _count_steps(self, data: Data) -> None:
        if self.total is None and data.rows_used > 0:
            self.total = total_steps(
                data.rows_used,
                batch_size=self.config["batch_size"],
                accumulation=self.config["grad_accumulation_steps"],
                epochs=self.config["epochs"],
            )
