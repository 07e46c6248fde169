"""Work that would hold the window up: reading rows, models and runs. Nothing of MLX is done here.

A line of tasks with a thread of its own; what a task finds comes back in the GUI thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from PySide6.QtCore import QObject, Qt, Signal

from trainer_core.errors import TrainerError

log = logging.getLogger(__name__)


class Cancelled(Exception):
    """The task is no longer wanted; raised by `Task.check`, caught by the line."""


class Task:
    """One piece of work. Its body may look at `cancelled` and `tell` of parts as they are ready."""

    def __init__(
        self,
        body: Callable[[Task], Any],
        post: Callable[[tuple[Task, str, Any]], None],
        done: Callable[[Any], None],
        part: Callable[[Any], None] | None,
        failed: Callable[[TrainerError], None] | None,
    ) -> None:
        self._body = body
        self._post = post
        self._cancelled = threading.Event()
        self.done, self.part, self.failed = done, part, failed

    @property
    def cancelled(self) -> bool:
        """True once nobody wants the result."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Give the task up: nothing of it is delivered from now on. From any thread."""
        self._cancelled.set()

    def check(self) -> None:
        """Leave the body if the task was given up.

        Raises:
            Cancelled: it was.
        """
        if self.cancelled:
            raise Cancelled

    def tell(self, part: Any) -> None:
        """Deliver something before the end. Called by the body."""
        self.check()
        self._post((self, "part", part))

    def perform(self) -> None:
        """Do the work in the calling thread."""
        try:
            self.check()
            self._post((self, "done", self._body(self)))
        except Cancelled:
            return
        except TrainerError as error:
            self._post((self, "failed", error))
        except Exception as error:  # the border of the thread: nothing may pass silently
            log.exception("a task in the background failed")
            why = f"{type(error).__name__}: {error}".rstrip(": ")
            fault = TrainerError("An error in Burnish itself", why, "The log file has the details")
            self._post((self, "failed", fault))


class Background(QObject):
    """Tasks one after the other, off the GUI thread. Belongs to the thread that made it."""

    _posted = Signal(object)

    def __init__(self, name: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._line: SimpleQueue[Task | None] = SimpleQueue()
        self._open: list[Task] = []
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._started = False
        self._posted.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    @property
    def busy(self) -> bool:
        """True while a task is waiting or going on."""
        return any(not task.cancelled for task in self._open)

    def run(
        self,
        body: Callable[[Task], Any],
        done: Callable[[Any], None],
        *,
        part: Callable[[Any], None] | None = None,
        failed: Callable[[TrainerError], None] | None = None,
    ) -> Task:
        """Put a task at the end of the line.

        Args:
            body: the work, in the other thread.
            done: gets its result, in this thread.
            part: gets what the body tells of before.
            failed: gets its error; without it an error is only logged.
        """
        task = Task(body, self._posted.emit, done, part, failed)
        self._open.append(task)
        if not self._started:
            self._started = True
            self._thread.start()
        self._line.put(task)
        return task

    def close(self) -> None:
        """Give up everything and wait for the thread. Nothing is delivered any more."""
        for task in self._open:
            task.cancel()
        self._line.put(None)
        if self._started:
            self._thread.join()

    def _work(self) -> None:
        while (task := self._line.get()) is not None:
            task.perform()

    def _deliver(self, posted: tuple[Task, str, Any]) -> None:
        task, what, value = posted
        self._open = [
            t for t in self._open if not t.cancelled and (t is not task or what == "part")
        ]
        if task.cancelled:
            return
        if what == "done":
            task.done(value)
        elif what == "part" and task.part is not None:
            task.part(value)
        elif what == "failed":
            log.info("in the background: %s", value)
            if task.failed is not None:
                task.failed(value)
