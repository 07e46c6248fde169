"""Everything a run tells the outside, as frozen values and as JSON lines.

Events are the only thing that leaves the engine thread. A JSON line has the event's name under
`event` and its fields under their own names; `Step.odds_loss` is written as `or`, which is a Python
keyword. Fields that do not apply are absent; a number that is not finite is null and its name
stands in `nonfinite`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from trainer_core.redact import without_secrets

SCHEMA = 1

_JSON_NAME = {"odds_loss": "or"}
_PYTHON_NAME = {v: k for k, v in _JSON_NAME.items()}


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events."""

    name: ClassVar[str] = ""
    passing: ClassVar[bool] = False
    """Only of interest while it happens: a run's record leaves it out."""


@dataclass(frozen=True, slots=True)
class Started(Event):
    """First of a session. `config` is resolved; `resumed_from` is a step."""

    name: ClassVar[str] = "started"
    run: str
    config: dict[str, Any]
    device: str
    versions: dict[str, str]
    session: int = 1
    resumed_from: int | None = None
    schema: int = SCHEMA

    def undoes(self, event: Event) -> bool:
        """Whether this session takes again what an earlier one had told with this event.

        The step that it goes on from stands. A run that goes on from step 0 begins again, with the
        validation before the first step.
        """
        if self.resumed_from is None:
            return False
        step: int | None = getattr(event, "step", None)
        if step is None:
            return event.name in ("failed", "finished")
        return step > self.resumed_from or self.resumed_from == 0


@dataclass(frozen=True, slots=True)
class Stage(Event):
    """What the engine is at: load, data, reference, compile, train, validate, save or verify."""

    name: ClassVar[str] = "stage"
    stage: str
    message: str = ""
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class Data(Event):
    """Counts of the training rows; tokens are those of one epoch, `longest` of a sequence."""

    name: ClassVar[str] = "data"
    rows: int
    rows_used: int
    rows_skipped: int
    rows_truncated: int
    tokens: int
    supervised_tokens: int
    longest: int
    valid_rows: int = 0


@dataclass(frozen=True, slots=True)
class Step(Event):
    """One optimiser update. Metrics come from the training forward, over all rows of the step."""

    name: ClassVar[str] = "step"
    step: int
    loss: float
    grad_norm: float
    learning_rate: float
    tokens_per_s: float
    supervised_tokens_per_s: float
    peak_memory_bytes: int
    seconds: float
    tokens: int
    epoch: float
    nll: float | None = None
    odds_loss: float | None = None
    accuracy: float | None = None
    margin: float | None = None
    logps_chosen: float | None = None
    logps_rejected: float | None = None


@dataclass(frozen=True, slots=True)
class Validation(Event):
    """Metrics over the validation rows after `step` updates. `best`: the best so far."""

    name: ClassVar[str] = "validation"
    step: int
    loss: float
    rows_used: int
    rows_skipped: int
    seconds: float
    best: bool
    nll: float | None = None
    odds_loss: float | None = None
    accuracy: float | None = None
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class Sample(Event):
    """The model's answer to a prompt after `step` updates; `base` if without the adapter."""

    name: ClassVar[str] = "sample"
    step: int
    prompt: str
    text: str
    base: bool | None = None
    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SamplePiece(Event):
    """The next piece of an answer that is being given; a whole `Sample` follows the last one."""

    name: ClassVar[str] = "sample_piece"
    passing: ClassVar[bool] = True
    step: int
    prompt: str
    text: str
    base: bool | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint(Event):
    """An adapter was written to `path`."""

    name: ClassVar[str] = "checkpoint"
    step: int
    path: str
    best: bool = False


@dataclass(frozen=True, slots=True)
class Paused(Event):
    """The run waits after `step`."""

    name: ClassVar[str] = "paused"
    step: int


@dataclass(frozen=True, slots=True)
class Resumed(Event):
    """The run goes on after `step`."""

    name: ClassVar[str] = "resumed"
    step: int


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something the user should know; the run goes on."""

    name: ClassVar[str] = "warned"
    code: str
    message: str
    try_this: str = ""


@dataclass(frozen=True, slots=True)
class Failed(Event):
    """The run ended with an error. `kind` is `memory` if it needs more than there is."""

    name: ClassVar[str] = "failed"
    what: str
    why: str = ""
    try_this: str = ""
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Finished(Event):
    """The run ended: done, stopped or early_stop. `adapter` is the folder of the final adapter."""

    name: ClassVar[str] = "finished"
    reason: str
    steps: int
    adapter: str
    run: str
    seconds: float
    best_step: int | None = None


EVENTS: dict[str, type[Event]] = {cls.name: cls for cls in Event.__subclasses__()}


def to_json_line(event: Event) -> str:
    """One line of JSON without a line break.

    Args:
        event: any event of this module.
    """
    record: dict[str, Any] = {"event": event.name}
    nonfinite: list[str] = []
    for field in fields(event):
        value = getattr(event, field.name)
        if value is None:
            continue
        key = _JSON_NAME.get(field.name, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            nonfinite.append(key)
            value = None
        record[key] = value
    if nonfinite:
        record["nonfinite"] = nonfinite
    line = json.dumps(record, ensure_ascii=False, allow_nan=False)
    # Half a surrogate pair, as in a file name that is not UTF-8, becomes an escape of JSON.
    return without_secrets(line.encode("utf-8", "backslashreplace").decode("utf-8"))


def from_json_line(line: str) -> Event | None:
    """The event on a line, or None for a kind that this version does not know.

    A number that is null because it was not finite comes back as NaN; unknown fields are left out,
    so that a newer run folder can still be read.

    Raises:
        ValueError: the line is not a JSON object, or a field the event needs is missing.
    """
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("an event line must be a JSON object")
    cls = EVENTS.get(str(record.get("event")))
    if cls is None:
        return None
    known = {f.name for f in fields(cls)}
    values = {_PYTHON_NAME.get(k, k): v for k, v in record.items()}
    for key in record.get("nonfinite", ()):
        values[_PYTHON_NAME.get(key, key)] = math.nan
    try:
        return cls(**{k: v for k, v in values.items() if k in known})
    except TypeError as error:
        raise ValueError(f"{cls.name}: {error}") from None
