"""A run's progress as one line per report, for files, pipes and continuous integration."""

from __future__ import annotations

import shlex
from typing import TextIO

from trainer_core.cli.run_state import METRICS, RunState
from trainer_core.cli.streams import Lines
from trainer_core.cli.wording import duration, metric, size
from trainer_core.control import Control
from trainer_core.events import (
    Data,
    Event,
    Finished,
    Sample,
    Stage,
    Started,
    Step,
    Validation,
    Warned,
)


class PlainDisplay:
    """Listener that writes a line for each event worth one."""

    def __init__(self, stream: TextIO, control: Control) -> None:
        self._lines = Lines(stream, control)
        self._state = RunState()
        self._last = ""

    def __call__(self, event: Event) -> None:
        """Write the event's line."""
        self._state.take(event)
        text = self._line(event)
        if text and text != self._last:
            self._lines.write(text)
            self._last = text

    def _line(self, event: Event) -> str:
        match event:
            case Started():
                return f"{self._state.method.upper()} on {self._state.model}, {event.device}"
            case Stage():
                return event.message or event.stage
            case Data():
                return data_line(event)
            case Step():
                return self._step(event)
            case Validation():
                return self._validation(event)
            case Warned():
                return f"warning: {warning_text(event)}"
            case Sample():
                return f"> {event.prompt}\n{event.text}"
            case Finished():
                return "\n".join(closing_lines(event, self._state.model))
        return ""

    def _step(self, event: Step) -> str:
        of = f"/{self._state.total}" if self._state.total else ""
        left = self._state.seconds_left
        parts = [f"step {event.step}{of}", *_metrics(event)]
        parts.append(f"{event.tokens_per_s:,.0f} tokens/s")
        parts.append(size(event.peak_memory_bytes))
        if left is not None:
            parts.append(f"{duration(left)} left")
        return "  ".join(parts)

    def _validation(self, event: Validation) -> str:
        best = "  best so far" if event.best else ""
        return "  ".join([f"validation after {event.step}", *_metrics(event)]) + best


def data_line(event: Data) -> str:
    """Counts of the rows, in words."""
    extra = [
        f"{count:,} {word}"
        for count, word in ((event.rows_skipped, "skipped"), (event.rows_truncated, "truncated"))
        if count
    ]
    rows = f"{event.rows_used:,} rows" + (f" ({', '.join(extra)})" if extra else "")
    valid = f" and {event.valid_rows:,} for validation" if event.valid_rows else ""
    tokens = f"{event.tokens:,} tokens, {event.supervised_tokens:,} of them trained"
    return f"{rows}{valid}; {tokens}; longest {event.longest:,}"


def warning_text(event: Warned) -> str:
    """Message and advice as sentences."""
    parts = [event.message, event.try_this]
    return " ".join(f"{part[0].upper()}{part[1:].rstrip('.')}." for part in parts if part)


def closing_lines(event: Finished, model: str) -> list[str]:
    """How the run ended, where the adapter lies and what can be done with it."""
    reason = {
        "done": "Done",
        "stopped": "Stopped as asked",
        "early_stop": "Stopped early, as validation no longer improved",
    }.get(event.reason, event.reason)
    steps = "1 step" if event.steps == 1 else f"{event.steps} steps"
    lines = [f"{reason} after {steps}, {duration(event.seconds)}."]
    if event.best_step is not None:
        lines.append(f"Best validation after step {event.best_step}.")
    if event.adapter:
        command = ["python", "-m", "trainer_core"]
        question = ["--model", model, "--adapter", event.adapter, "--prompt", "TEXT"]
        lines += [
            f"Adapter: {event.adapter}",
            f"Try it:  {shlex.join([*command, 'generate', *question])}",
            f"Export:  {shlex.join([*command, 'export', event.run, '--out', 'FOLDER'])}",
        ]
    return lines


def _metrics(event: Step | Validation) -> list[str]:
    found = [(name, getattr(event, key)) for key, name in METRICS.items()]
    return [f"{name} {metric(value)}" for name, value in found if value is not None]
