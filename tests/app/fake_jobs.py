"""Jobs that need no engine, behind the real ones' interface. They wait on events, never on time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from app.training.messages import JobKind
from tests.app.run_events import finished, started, step
from trainer_core.config import RunConfig
from trainer_core.control import Control
from trainer_core.events import Event, Failed, Paused, Resumed, Stage
from trainer_core.export.report import ExportReport

WAIT_S = 10


class ScriptedTrain:
    """Makes a step each time `allow` is called, and ends when stopped or after `steps` steps."""

    kind: JobKind = "train"

    def __init__(self, run: Path, steps: int = 3, error: Exception | None = None) -> None:
        self.control = Control()
        self.config: RunConfig | None = None
        self.thread: int | None = None
        self.began = threading.Event()
        self._run = run
        self._steps = steps
        self._error = error
        self._tokens = threading.Semaphore(0)

    def __call__(self, config: RunConfig) -> ScriptedTrain:
        self.config = config
        return self

    def allow(self, steps: int = 1) -> None:
        self._tokens.release(steps)

    def run(self, emit: Callable[[Event], None]) -> object:
        self.thread = threading.get_ident()
        emit(started(self._run, iters=self._steps))
        self.began.set()
        done = 0
        while done < self._steps and not self.control.stopping:
            assert self._tokens.acquire(timeout=WAIT_S), "the test forgot to allow a step"
            if self._error is not None:
                emit(Failed("the engine broke", str(self._error), "try again"))
                raise self._error
            done += 1
            emit(step(done))
            if self.control.paused:
                emit(Paused(done))
                while self.control.paused:
                    self.control.wait_while_paused()
                emit(Resumed(done))
        end = finished(self._run, reason="stopped" if self.control.stopping else "done", steps=done)
        emit(end)
        return end


class ScriptedExport:
    """Succeeds or raises once `allow` is set."""

    kind: JobKind = "export"

    def __init__(self, error: Exception | None = None) -> None:
        self.allow = threading.Event()
        self._error = error
        self._folder = Path()

    def __call__(self, source: Path, folder: Path) -> ScriptedExport:
        self.source, self._folder = source, folder
        return self

    def run(self, emit: Callable[[Event], None]) -> object:
        emit(Stage("save", "Writing the adapter"))
        assert self.allow.wait(WAIT_S)
        if self._error is not None:
            raise self._error
        return ExportReport(self._folder, ("a", "b", "c"), 1e-6, 20.0, 1.0, "mlx_lm.generate --x")
