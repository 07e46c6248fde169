"""The one engine thread, in which every job of the app's life runs, one after the other.

MLX's streams and random numbers belong to the thread that made them, so only messages leave it.
"""

from __future__ import annotations

import logging
from queue import SimpleQueue

from PySide6.QtCore import QObject, QThread

from app.training.event_queue import EventQueue
from app.training.jobs import Job
from app.training.messages import JobDone, JobFailed, JobStarted
from trainer_core.errors import TrainerError

STACK_BYTES = 64 * 2**20
"""macOS gives threads 512 kB; deep lazy graphs need far more. Only touched pages cost memory."""

log = logging.getLogger(__name__)


class TrainerThread(QThread):
    """Runs jobs in the order in which they were submitted, until `shut_down`."""

    def __init__(self, queue: EventQueue, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("engine")
        self.setStackSize(STACK_BYTES)
        self._queue = queue
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()

    def submit(self, job: Job) -> None:
        """Put a job at the end of the line. May be called from any thread."""
        self._jobs.put(job)

    def shut_down(self) -> None:
        """End after the jobs already submitted. Does not wait."""
        self._jobs.put(None)

    def run(self) -> None:
        """The body of the thread; called by Qt."""
        while (job := self._jobs.get()) is not None:
            self._perform(job)

    def _perform(self, job: Job) -> None:
        self._queue.put(JobStarted(job.kind))
        try:
            result = job.run(self._queue.put)
        except TrainerError as error:
            log.info("%s: %s", job.kind, error, exc_info=True)
            self._queue.put(JobFailed(job.kind, error.what, error.why, error.try_this))
        except (
            Exception,
            SystemExit,
        ) as error:  # the border of the thread: nothing may pass silently
            log.exception("%s failed", job.kind)
            reason = f"{type(error).__name__}: {error}".rstrip(": ")
            self._queue.put(
                JobFailed(
                    job.kind, "An error in Burnish itself", reason, "The log file has the details"
                )
            )
        else:
            self._queue.put(JobDone(job.kind, result))
