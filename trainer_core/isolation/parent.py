"""Train in a child process: whatever becomes of it, this one lives and says what happened."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import IO

import psutil

from trainer_core.backend import child_environment
from trainer_core.config import RunConfig
from trainer_core.control import Control
from trainer_core.errors import OutOfMemoryError, TrainerError
from trainer_core.events import Event, Failed, Finished, Paused, Resumed, from_json_line
from trainer_core.isolation.wishes import Forwarder, start_line

LOOK_S = 0.05
HANG_S = 900.0
"""A child that tells nothing for so long, or for five times its longest silence, and does not
compute either, hangs."""
END_S = 30.0
_LAST_WORDS = 20
_IDLE = 0.02
"""Of a silence: a child that computes less is not at work."""
_MEMORY = re.compile(
    r"(out of|insufficient) memory|unable to allocate|bad_alloc|\boom\b|resource exhausted",
    re.IGNORECASE,
)

_LOG = logging.getLogger(__name__)


def train_in_process(
    config: RunConfig,
    emit: Callable[[Event], None],
    control: Control | None = None,
    *,
    hang_s: float = HANG_S,
) -> Finished:
    """`train`, in a process of its own.

    Args:
        config: the run.
        emit: receives every event, in this thread.
        control: wishes from outside.
        hang_s: a silence of this many seconds is taken for a hang.

    Returns:
        The last event.

    Raises:
        TrainerError: the run failed, or its process died or hung; a `failed` event went out before.
    """
    control = control or Control()
    forwarder = Forwarder(control)
    with _child(config) as child:
        watch = _Watch(hang_s, child.computed)
        while True:
            for line in forwarder.lines():
                child.tell(line)
            try:
                event = child.events.get(timeout=LOOK_S)
            except queue.Empty:
                if watch.hangs:
                    child.kill()
                    return _fail(_hung(watch.silence), emit)
                continue
            if event is None:
                break
            watch.see(event)
            emit(event)
        code = child.wait()
        if isinstance(watch.last, Finished):
            return watch.last
        if isinstance(watch.failed, Failed):
            failed = watch.failed
            kind = OutOfMemoryError if failed.kind == "memory" else TrainerError
            raise kind(failed.what, failed.why, failed.try_this)
        return _fail(_death(code, child.last_words), emit)


class _Watch:
    """Knows when a child was last heard of, and what it said."""

    def __init__(self, hang_s: float, computed: Callable[[], float]) -> None:
        self.last: Event | None = None
        self.failed: Event | None = None
        self._hang_s = hang_s
        self._computed = computed
        self._heard, self._had = time.monotonic(), computed()
        self._longest = 0.0
        self._paused = False

    def see(self, event: Event) -> None:
        """Note an event."""
        self._longest = max(self._longest, 0.0 if self._paused else self.silence)
        self._heard, self._had = time.monotonic(), self._computed()
        self.last = event
        if isinstance(event, Failed):
            self.failed = event
        if isinstance(event, Paused | Resumed):
            self._paused = isinstance(event, Paused)

    @property
    def silence(self) -> float:
        """Seconds since the last event."""
        return time.monotonic() - self._heard

    @property
    def hangs(self) -> bool:
        """Whether the silence is too long to be work."""
        silence = self.silence
        if self._paused or silence <= max(self._hang_s, 5 * self._longest):
            return False
        return self._computed() - self._had < _IDLE * silence


class _Child:
    """The process, with a thread for each of its outputs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self.last_words: deque[str] = deque(maxlen=_LAST_WORDS)
        self._threads = [
            threading.Thread(target=self._read_events, args=(process.stdout,), daemon=True),
            threading.Thread(target=self._read_words, args=(process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def tell(self, line: str) -> None:
        """Hand on a wish; one to a child that is gone is lost, and its end is noticed elsewhere."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(line)
            self._process.stdin.flush()

    def computed(self) -> float:
        """Seconds of processor time that it has used."""
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return times.user + times.system

    def wait(self) -> int:
        """Its exit code, once it has ended; one that does not end is killed."""
        try:
            code = self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        for thread in self._threads:
            thread.join(END_S)
        return code

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self.wait()

    def _read_events(self, stream: IO[str]) -> None:
        for line in stream:
            try:
                event = from_json_line(line)
            except ValueError:  # half a line of a process that died
                _LOG.warning("the engine's process said: %s", line.rstrip())
                continue
            if event is not None:
                self.events.put(event)
        self.events.put(None)

    def _read_words(self, stream: IO[str]) -> None:
        for line in stream:
            if line.strip():
                self.last_words.append(line.strip())
                _LOG.info("engine: %s", line.rstrip())


@contextlib.contextmanager
def _child(config: RunConfig) -> Iterator[_Child]:
    """Start the engine's process; it is gone when the block ends."""
    frozen = getattr(sys, "frozen", False)
    command = [sys.executable, *(["--engine"] if frozen else ["-m", "trainer_core"]), "engine"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=child_environment(os.environ),
    )
    child = _Child(process)
    try:
        child.tell(start_line(config))
        yield child
    finally:
        if process.poll() is None:
            child.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _fail(error: TrainerError, emit: Callable[[Event], None]) -> Finished:
    kind = "memory" if isinstance(error, OutOfMemoryError) else None
    emit(Failed(error.what, error.why, error.try_this, kind))
    raise error


_GO_ON = "continue the run from its last checkpoint"


def _hung(silence: float) -> TrainerError:
    return TrainerError(
        f"the engine's process told nothing for {silence / 60:.0f} minutes and was ended",
        "it may hang in a driver of the device",
        _GO_ON,
    )


def _death(code: int, words: deque[str]) -> TrainerError:
    """What became of a process that ended without a word."""
    said = words[-1] if words else ""
    if _MEMORY.search(" ".join(words)):
        return OutOfMemoryError(
            "the engine's process ended because memory ran out",
            said,
            f"choose a setting that needs less, then {_GO_ON} or start anew",
        )
    if code == -signal.SIGKILL:
        return OutOfMemoryError(
            "the engine's process was killed from outside",
            "most likely by the system, because memory ran out",
            f"choose a setting that needs less, or close other programs, then {_GO_ON}",
        )
    how = f"by signal {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
    return TrainerError(f"the engine's process ended {how}", said, _GO_ON)
