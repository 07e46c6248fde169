"""The log of the window: one plain sentence per thing that happened, with its time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.viewmodels.progress_vm import STAGES
from app.viewmodels.wording import count, duration, number, sentence_case
from trainer_core.events import (
    Checkpoint,
    Data,
    Event,
    Failed,
    Finished,
    Paused,
    Resumed,
    Sample,
    Stage,
    Started,
    Step,
    Validation,
    Warned,
)

Level = Literal["info", "warning", "error", "success"]

MOST_LINES = 5000
MILESTONES = 10
"""Steps that get a line of their own, besides the first."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One sentence. `time` is local, `HH:MM:SS`."""

    time: str
    level: Level
    text: str


def _now() -> str:
    return datetime.now().strftime("%H:%M:%S")


class LogViewModel(QObject):
    """The newest lines of the log.

    Signals:
        appended: lines were added; carries them as a list.
        cleared: all lines are gone.
    """

    appended = Signal(list)
    cleared = Signal()

    def __init__(self, parent: QObject | None = None, clock: Callable[[], str] = _now) -> None:
        super().__init__(parent)
        self.lines: list[LogLine] = []
        self.warnings = 0
        self._clock = clock
        self._pending: list[LogLine] = []
        self._total = 0
        self._next_milestone = 0
        self._last_stage = ""

    def say(self, text: str, level: Level = "info") -> None:
        """Add a sentence at once."""
        self._add(text, level)
        self.flush()

    def clear(self) -> None:
        """Forget all lines."""
        self.lines.clear()
        self._pending.clear()
        self.warnings = 0
        self.cleared.emit()

    def text(self) -> str:
        """All lines, for the clipboard."""
        return "\n".join(f"{line.time}  {line.text}" for line in self.lines)

    def take(self, event: Event) -> None:
        """Put an event into words; `flush` tells the view."""
        match event:
            case Started():
                self._take_started(event)
            case Stage():
                self._take_stage(event)
            case Data():
                self._add(_data_sentence(event))
            case Step():
                self._take_step(event)
            case Validation():
                self._add(_validation_sentence(event))
            case Sample():
                self._add(
                    f"After step {event.step}, \u201c{event.prompt}\u201d gives: {event.text}"
                )
            case Checkpoint():
                which = "best adapter so far" if event.best else "checkpoint"
                self._add(f"Saved the {which} at step {event.step} in {event.path}")
            case Paused() | Resumed():
                how = "Paused" if isinstance(event, Paused) else "Went on"
                self._add(f"{how} after step {event.step}")
            case Warned():
                self._add(_sentences(event.message, "", event.try_this), "warning")
            case Failed():
                self._add(_sentences(event.what, event.why, event.try_this), "error")
            case Finished():
                self._add(_finished_sentence(event), "success")

    def flush(self) -> None:
        """Tell the view once about everything taken since the last time."""
        if self._pending:
            fresh, self._pending = self._pending, []
            self.appended.emit(fresh)

    def _add(self, text: str, level: Level = "info") -> None:
        line = LogLine(self._clock(), level, text)
        self.lines.append(line)
        self._pending.append(line)
        if level == "warning":
            self.warnings += 1
        if len(self.lines) > MOST_LINES:
            del self.lines[: len(self.lines) - MOST_LINES]

    def _take_started(self, event: Started) -> None:
        self._total = int(event.config.get("iters") or 0)
        self._next_milestone = 1
        self._last_stage = ""
        versions = f", MLX {event.versions['mlx']}" if "mlx" in event.versions else ""
        method = str(event.config.get("method", "")).upper()
        again = "" if not event.resumed_from else f", going on from step {event.resumed_from:,}"
        name = Path(event.run).name
        self._add(f"{method} run {name} started on {event.device}{versions}{again}".strip())

    def _take_stage(self, event: Stage) -> None:
        text = event.message or STAGES.get(event.stage, event.stage)
        if text != self._last_stage and event.stage not in ("validate", "save"):
            self._add(text)
        self._last_stage = text

    def _take_step(self, event: Step) -> None:
        if event.step < self._next_milestone:
            return
        every = max(1, self._total // MILESTONES)
        self._next_milestone = (event.step // every + 1) * every
        of = f" of {self._total:,}" if self._total else ""
        accuracy = "" if event.accuracy is None else f", accuracy {event.accuracy:.0%}"
        pace = f"{event.seconds:.2g} s" if event.seconds < 10 else duration(event.seconds)
        self._add(f"Step {event.step:,}{of}: loss {number(event.loss)}{accuracy}, {pace} a step")


def _sentences(what: str, why: str, try_this: str) -> str:
    first = sentence_case(what.rstrip(".")) + (f": {why.rstrip('.')}" if why else "")
    return f"{first}. {sentence_case(try_this.rstrip('.'))}." if try_this else f"{first}."


def _data_sentence(event: Data) -> str:
    parts = [f"{count(event.rows_used, 'training row')} of {event.rows:,}"]
    if event.valid_rows:
        parts.append(count(event.valid_rows, "validation row"))
    if event.rows_skipped:
        parts.append(f"{event.rows_skipped:,} skipped")
    if event.rows_truncated:
        parts.append(f"{event.rows_truncated:,} cut to length")
    parts.append(f"{event.tokens:,} tokens, {event.supervised_tokens:,} of them trained")
    parts.append(f"longest {event.longest:,} tokens")
    return "; ".join(parts)


def _validation_sentence(event: Validation) -> str:
    accuracy = "" if event.accuracy is None else f", accuracy {event.accuracy:.0%}"
    best = ", the best so far" if event.best else ""
    return (
        f"Validation at step {event.step:,} on {count(event.rows_used, 'row')}: "
        f"loss {number(event.loss)}{accuracy}{best}"
    )


def _finished_sentence(event: Finished) -> str:
    how = {
        "done": "Done",
        "stopped": "Stopped",
        "early_stop": "Stopped early, as validation no longer improved",
    }
    best = f"; best at step {event.best_step:,}" if event.best_step is not None else ""
    return (
        f"{how.get(event.reason, event.reason)} after {count(event.steps, 'step')} "
        f"in {duration(event.seconds)}{best}. The adapter is in {event.adapter}"
    )
