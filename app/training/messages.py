"""What the engine thread tells the window besides the engine's own events: jobs begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from trainer_core.events import Event

JobKind = Literal["warm-up", "train", "export", "ask", "release", "probe"]


@dataclass(frozen=True, slots=True)
class JobStarted:
    """The engine thread took up a job. Every event up to its end belongs to it."""

    job: JobKind


@dataclass(frozen=True, slots=True)
class JobDone:
    """The job ended well. `result` holds plain values only, nothing of MLX."""

    job: JobKind
    result: object = None


@dataclass(frozen=True, slots=True)
class JobFailed:
    """The job ended with an error, told in the user's terms; the log file has the traceback."""

    job: JobKind
    what: str
    why: str = ""
    try_this: str = ""


Message = Event | JobStarted | JobDone | JobFailed
