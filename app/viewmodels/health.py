"""How a run is doing: rules that look at its events and say what is worth a person's attention.

Each rule says its sentence once, with numbers and with what can be done about it.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

from app.viewmodels.wording import count, gigabytes, number, sentence_case
from trainer_core.events import Data, Event, Step, Validation, Warned

Action = Literal["", "stop", "show_cut_rows", "learning_rate", "segment_size"]

WORSE_IN_A_ROW = 3
WORSE_BY = 1.01
WINDOW = 50
START = 10
CHANCE = (0.45, 0.55)
TIMES_THE_START = 1.5
LESS_LIKELY_BY = 0.2
CUT_SHARE = 0.5
MEMORY_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence about the run, the step at which it became true, and what can be done."""

    key: str
    step: int
    text: str
    action: Action = ""
    button: str = ""


class Health:
    """The rules, fed with the events of one run.

    Args:
        memory: bytes that this machine has, or None if that is not known.
    """

    def __init__(self, memory: int | None = None) -> None:
        self._memory = memory
        self._said: set[str] = set()
        self._step = 0
        self._best: Validation | None = None
        self._worse = 0
        self._losses: deque[float] = deque(maxlen=START)
        self._first_loss: list[float] = []
        self._accuracy: deque[float] = deque(maxlen=WINDOW)
        self._logps: deque[tuple[float, float]] = deque(maxlen=START)
        self._first_logps: list[tuple[float, float]] = []

    def take(self, event: Event) -> list[Finding]:
        """What an event adds to what is known."""
        match event:
            case Data():
                return self._new(self._cut(event))
            case Validation():
                return self._new(self._rising(event))
            case Step():
                return self._new(
                    self._not_a_number(event),
                    self._diverging(event),
                    self._at_chance(event),
                    self._less_likely(event),
                    self._short_of_memory(event),
                )
            case Warned(code="nonfinite"):
                return self._new(self._skipped(event))
            case _:
                return []

    def _new(self, *findings: Finding | None) -> list[Finding]:
        fresh = [f for f in findings if f is not None and f.key not in self._said]
        self._said |= {finding.key for finding in fresh}
        return fresh

    def _cut(self, data: Data) -> Finding | None:
        if data.rows_used == 0 or data.rows_truncated / data.rows_used <= CUT_SHARE:
            return None
        rows = f"{data.rows_truncated:,} of {count(data.rows_used, 'row')}"
        text = f"{rows} are cut at the sequence length: what is cut off is not learned."
        return Finding("cut", 0, text, "show_cut_rows", "Show them")

    def _rising(self, event: Validation) -> Finding | None:
        if self._best is None or event.loss < self._best.loss:
            self._best, self._worse = event, 0
            return None
        self._worse += event.loss > self._best.loss * WORSE_BY
        if self._worse < WORSE_IN_A_ROW:
            return None
        best = self._best
        text = (
            f"Validation loss has been higher for {self._worse} checks: {number(event.loss)} now, "
            f"{number(best.loss)} at step {best.step:,}, whose adapter is kept as best."
        )
        return Finding("rising", event.step, text, "stop", "Stop here")

    def _not_a_number(self, step: Step) -> Finding | None:
        self._step = step.step
        if math.isfinite(step.loss) and math.isfinite(step.grad_norm):
            return None
        what = "gradient" if math.isfinite(step.loss) else "loss"
        return self._nonfinite(f"The {what} was not a finite number.", step.step)

    def _skipped(self, event: Warned) -> Finding:
        return self._nonfinite(sentence_case(event.message) + ".", self._step + 1)

    def _nonfinite(self, what: str, step: int) -> Finding:
        text = f"{what} A second one in a row stops the run; a lower learning rate usually helps."
        return Finding("nonfinite", step, text, "learning_rate", "Show the learning rate")

    def _diverging(self, step: Step) -> Finding | None:
        if not math.isfinite(step.loss):
            return None
        self._losses.append(step.loss)
        if len(self._first_loss) < START:
            self._first_loss.append(step.loss)
            return None
        first, now = _mean(self._first_loss), _mean(self._losses)
        if first <= 0 or len(self._losses) < START or now < TIMES_THE_START * first:
            return None
        text = (
            f"The loss is {now / first:.1f} times what it was at the start ({number(first)}, now "
            f"{number(now)}): the learning rate of {number(step.learning_rate)} may be too high."
        )
        return Finding("diverging", step.step, text, "learning_rate", "Show the learning rate")

    def _at_chance(self, step: Step) -> Finding | None:
        if step.accuracy is None:
            return None
        self._accuracy.append(step.accuracy)
        share = _mean(self._accuracy)
        if len(self._accuracy) < WINDOW or not CHANCE[0] <= share <= CHANCE[1]:
            return None
        text = (
            f"Accuracy stays at chance: {share:.0%} over the last {WINDOW} steps. The answers are "
            "not told apart yet; a higher learning rate or more steps may be needed."
        )
        return Finding("chance", step.step, text, "learning_rate", "Show the learning rate")

    def _less_likely(self, step: Step) -> Finding | None:
        if step.logps_chosen is None or step.logps_rejected is None:
            return None
        pair = (step.logps_chosen, step.logps_rejected)
        if not all(map(math.isfinite, pair)):
            return None
        self._logps.append(pair)
        if len(self._first_logps) < START:
            self._first_logps.append(pair)
            return None
        before = [_mean([p[i] for p in self._first_logps]) for i in (0, 1)]
        now = [_mean([p[i] for p in self._logps]) for i in (0, 1)]
        falls = [n < b - LESS_LIKELY_BY * abs(b) for n, b in zip(now, before, strict=True)]
        if len(self._logps) < START or step.step < 2 * START or not all(falls):
            return None
        text = (
            "Both answers become less likely: log-probability of the preferred one from "
            f"{number(before[0], digits=3)} to {number(now[0], digits=3)}, of the rejected one "
            f"from {number(before[1], digits=3)} to {number(now[1], digits=3)}."
        )
        return Finding("less_likely", step.step, text, "learning_rate", "Show the learning rate")

    def _short_of_memory(self, step: Step) -> Finding | None:
        if self._memory is None or step.peak_memory_bytes < MEMORY_SHARE * self._memory:
            return None
        text = (
            f"The run takes {gigabytes(step.peak_memory_bytes)} of this machine's "
            f"{gigabytes(self._memory)}. Smaller segments or shorter sequences need less."
        )
        return Finding("memory", step.step, text, "segment_size", "Show the segment size")


def _mean(values: deque[float] | list[float]) -> float:
    return sum(values) / len(values)
