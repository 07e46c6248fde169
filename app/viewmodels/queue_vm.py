"""Runs that wait for the engine, each with its own settings, whatever the form says by then."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from PySide6.QtCore import QObject, Signal

from trainer_core.config import RunConfig

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run that waits. `number` tells it from another one with the same settings."""

    number: int
    config: RunConfig

    @property
    def title(self) -> str:
        """What it is, in a line."""
        config = self.config
        if config.resume:
            return f"Continue {Path(config.resume).name}"
        length = f"{config.epochs:g} epochs" if config.epochs else f"{config.iters or 100:,} steps"
        names = f"{Path(config.model).name} on {Path(config.data).name}"
        named = f"{config.run_name}: " if config.run_name else ""
        return f"{named}{config.method.upper()}, {names}, {length}"


class QueueViewModel(QObject):
    """The line of waiting runs.

    Attributes:
        runs: in the order in which they will be taken.
        held: whether none is taken until `go_on`; so after a run was stopped by hand.

    Signals:
        changed: any of it.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.runs: list[QueuedRun] = []
        self.held = False
        self._made = 0

    def add(self, config: RunConfig) -> QueuedRun:
        """Put a run at the end of the line."""
        self._made += 1
        queued = QueuedRun(self._made, config)
        self.runs.append(queued)
        self.changed.emit()
        return queued

    def remove(self, number: int) -> None:
        """Take a run out of the line."""
        self.runs = [run for run in self.runs if run.number != number]
        self.held = self.held and bool(self.runs)
        self.changed.emit()

    def sooner(self, number: int) -> None:
        """Let a run change places with the one before it."""
        place = next((i for i, run in enumerate(self.runs) if run.number == number), 0)
        if place:
            self.runs[place - 1 : place + 1] = [self.runs[place], self.runs[place - 1]]
            self.changed.emit()

    def hold(self) -> None:
        """Take no run until `go_on`."""
        if self.runs and not self.held:
            self.held = True
            self.changed.emit()

    def go_on(self) -> None:
        """Take runs again."""
        if self.held:
            self.held = False
            self.changed.emit()

    def stored(self) -> list[dict[str, Any]]:
        """The line as plain values, for the next start of the app."""
        return [run.config.model_dump(mode="json", exclude_defaults=True) for run in self.runs]

    def restore(self, stored: Sequence[dict[str, Any]]) -> None:
        """The line as it was left. It is held: nobody may be there to see a run begin."""
        for values in stored:
            try:
                self.add(RunConfig(**values))
            except ValidationError as error:
                log.warning("a run that waited no longer fits this version: %s", error)
        self.hold()

    def take(self) -> RunConfig | None:
        """The next run's settings, if one may start."""
        if self.held or not self.runs:
            return None
        first = self.runs.pop(0)
        self.changed.emit()
        return first.config
