"""Keeps standard output for what a command means to say.

Libraries print, and kernels are compiled by child processes that print too. While a command runs,
file descriptor 1 leads to standard error, and only the stream given here leads to the real standard
output.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TextIO

from trainer_core.control import Control
from trainer_core.errors import TrainerError
from trainer_core.events import Event, Failed, to_json_line


@contextmanager
def claimed_stdout() -> Iterator[TextIO]:
    """Give the real standard output; whatever else is written there goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    out = io.TextIOWrapper(os.fdopen(os.dup(kept), "wb"), encoding="utf-8", write_through=True)
    try:
        with redirect_stdout(sys.stderr):
            yield out
    finally:
        with suppress(BrokenPipeError):  # the reader has gone, and with it anyone to tell
            out.close()
        os.dup2(kept, 1)
        os.close(kept)


class Lines:
    """Writes lines to a reader, for whom the run goes on only as long as they read.

    A reader that goes away is taken as a wish to stop: whoever watched the run is gone.
    """

    def __init__(self, stream: TextIO, control: Control) -> None:
        self._stream: TextIO | None = stream
        self._control = control

    def write(self, line: str) -> None:
        """Write a line at once."""
        if self._stream is None:
            return
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except BrokenPipeError:
            self._stream = None
            self._control.stop()


class EventStream:
    """Listener that writes events as JSON lines. `failed` tells whether one said that it failed."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.failed = False

    def __call__(self, event: Event) -> None:
        """Write one event."""
        self.failed = self.failed or isinstance(event, Failed)
        self._lines.write(to_json_line(event))


@contextmanager
def event_stream(where: str | None, out: TextIO, control: Control) -> Iterator[EventStream | None]:
    """The listener for `--events`: `-` is standard output, anything else a file to write anew.

    Raises:
        TrainerError: the file cannot be written.
    """
    if where is None:
        yield None
    elif where == "-":
        yield EventStream(Lines(out, control))
    else:
        try:
            file = Path(where).expanduser().open("w", encoding="utf-8")
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise TrainerError(f"cannot write the events to {where}", why) from None
        with file:
            yield EventStream(Lines(file, control))
