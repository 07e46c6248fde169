"""What the window can ask for, and the clock that brings the engine's messages to the panels."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from app.training.event_queue import EventQueue
from app.training.jobs import Ask, Asking, Export, Job, Probe, Train, TrainJob, WarmUp
from app.training.messages import JobDone, JobFailed, JobKind, JobStarted, Message
from app.training.trainer_thread import TrainerThread
from app.viewmodels.curves_vm import CurvesViewModel
from app.viewmodels.exchanges import Exchanges
from app.viewmodels.export_vm import ExportViewModel
from app.viewmodels.health_vm import HealthViewModel
from app.viewmodels.log_vm import LogViewModel
from app.viewmodels.notice_vm import Notice, NoticeViewModel, error_notice, finished_notice
from app.viewmodels.plot_table import plotted_as
from app.viewmodels.progress_vm import ProgressViewModel
from app.viewmodels.queue_vm import QueueViewModel
from app.viewmodels.run_form import RunForm
from app.viewmodels.run_vm import RunViewModel
from app.viewmodels.samples_vm import SamplesViewModel
from app.viewmodels.wording import number, sentence_case
from trainer_core.backend import Machine
from trainer_core.config import RunConfig
from trainer_core.control import Question, SampleRequest
from trainer_core.errors import ConfigError, TrainerError
from trainer_core.events import Event, Failed, Finished
from trainer_core.export.report import ExportReport

TICK_MS = 40
"""25 times a second."""

log = logging.getLogger(__name__)


class Session(QObject):
    """The engine thread and everything that shows what it does.

    Args:
        make_train: makes the job of a run; tests give one that needs no engine.
        make_export: makes the job of an export.
        asking: makes the jobs that ask a model.

    Attributes:
        run, curves, progress, log, notices, export: the view-models of the panels.
        queue: runs that wait.
        health: what is worth attention in the run on show.
        exchanges: questions and their answers.
        samples: what the run on show answers at every validation.
        current: the job the engine is at, if any.
        machine: what runs are planned for, once the engine has told.

    Signals:
        idle: the engine has nothing more to do for the user.
        machine_known: `machine` was set.
        probed(result): a probe ended: (bytes, seconds), None if it was stopped, or a TrainerError.
        drained: one tick is over; carries the messages it brought, as a list.
    """

    idle = Signal()
    machine_known = Signal()
    probed = Signal(object)
    drained = Signal(list)

    def __init__(
        self,
        parent: QObject | None = None,
        *,
        make_train: Callable[[RunConfig], TrainJob] = Train,
        make_export: Callable[[Path, Path], Job] = Export,
        asking: Asking | None = None,
    ) -> None:
        super().__init__(parent)
        self._make_train = make_train
        self._make_export = make_export
        self._asking = asking or Asking()
        self._ask: Ask | None = None
        self._probe: Probe | None = None
        self.run = RunViewModel(self)
        self.curves = CurvesViewModel(self)
        self.progress = ProgressViewModel(self)
        self.log = LogViewModel(self)
        self.notices = NoticeViewModel(self)
        self.export = ExportViewModel(self)
        self.queue = QueueViewModel(self)
        self.health = HealthViewModel(self.curves, self)
        self.samples = SamplesViewModel(self.curves, self)
        self.exchanges = Exchanges(self)
        # Curves before health, which marks what it finds on them.
        self._of_run = (
            *(self.run, self.curves, self.health, self.samples, self.progress, self.log),
        )
        self.current: JobKind | None = None
        self.machine: Machine | None = None
        self._queue = EventQueue()
        self._thread = TrainerThread(self._queue, self)
        self._train: TrainJob | None = None
        self._isolated = False
        self._waiting = 0
        self._failure_shown = False
        self._timer = QTimer(self)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self.drain)

    @property
    def busy(self) -> bool:
        """True while a run or an export is going on or waits; warming up does not count."""
        return self.run.active or self.export_running

    @property
    def isolated(self) -> bool:
        """Whether the newest run has a process of its own."""
        return self._isolated

    @property
    def export_running(self) -> bool:
        """True while an adapter is being exported."""
        return self.export.state.value == "running"

    def open(self, *, warm_up: bool = True, model: str = "") -> None:
        """Start the engine thread and let it import the engine and read a model's tokenizer."""
        self._thread.start()
        if warm_up:
            self._submit(WarmUp(model))

    def start(self, config: RunConfig) -> None:
        """Begin a run.

        Raises:
            ConfigError: the engine is at work already.
        """
        if self.busy:
            raise ConfigError(
                "A run cannot start yet", "the engine is still at work", "Wait until it has ended"
            )
        self.hush()
        self.stop_probe()
        self.notices.dismiss()
        self.curves.clear()
        self.samples.clear()
        self.curves.set_method(plotted_as(config.method, config.preference_loss))
        self.curves.flush()
        self.run.begin()
        self.progress.begin("Starting")
        self._failure_shown = False
        self._isolated = config.isolation == "process"
        self._train = self._make_train(config)
        self._submit(self._asking.release())
        self._submit(self._train)

    def start_form(self, form: RunForm) -> bool:
        """Begin the run that the form describes, or show what is wrong with it.

        While the engine is at work, the run is put in the line.

        Returns:
            Whether the run has begun or waits.
        """
        config = form.config()
        if config is None:
            n = len(form.problems)
            rest = "" if n < 2 else f" and {n - 1} more, marked in the form"
            self.notices.show(
                Notice("error", "This configuration cannot start", f"{form.status}{rest}.")
            )
            return False
        self.start_or_queue(config)
        return True

    def start_or_queue(self, config: RunConfig) -> None:
        """Begin a run; while the engine is at work, put it in the line."""
        if self.busy:
            queued = self.queue.add(config)
            self.log.say(f"In the queue: {queued.title}")
        else:
            self.start(config)

    def start_next(self) -> None:
        """Begin the first run of the line, if the engine is free and the line is not held."""
        if not self.busy and (config := self.queue.take()) is not None:
            self.start(config)

    def stop(self) -> None:
        """End the run after the step in hand; asked a second time, at once."""
        if self._train is None or not self.run.active:
            return
        self.queue.hold()
        again = self._train.control.stopping
        self._train.control.stop()
        self.run.stopping()
        self.progress.stopping(now=again)
        self.log.say(
            "Giving up the step in hand"
            if again
            else "Stopping after this step; what was learned is saved"
        )

    def pause_or_go_on(self) -> None:
        """Pause the run after the step in hand, which gives its memory back, or let it go on."""
        if self._train is None or not self.run.active:
            return
        control = self._train.control
        if control.paused:
            control.resume()
            self.run.going_on()
            self.progress.going_on()
        else:
            control.pause()
            self.run.pausing()
            self.progress.pausing()

    def stop_now(self) -> None:
        """End the run without waiting for the step."""
        if self._train is not None and self.run.active:
            self.queue.hold()
            self._train.control.stop_now()
            self.run.stopping()
            self.progress.stopping(now=True)

    def export_adapter(self, folder: Path, source: Path | None = None) -> None:
        """Export the adapter of a run, by default of the last one that finished.

        Raises:
            ConfigError: there is nothing to export, or the engine is at work.
        """
        source = source or self.run.finished_run
        if source is None:
            raise ConfigError(
                "There is no adapter to export yet", "no run has finished", "Press Start first"
            )
        if self.busy:
            raise ConfigError(
                "The adapter cannot be exported yet",
                "the engine is still at work",
                "Wait until it has ended",
            )
        self.export.begin(source, folder)
        self.log.say(f"Exporting the adapter of {source.name} to {folder}")
        self._submit(self._make_export(source, folder))

    def ask(self, question: Question) -> None:
        """Have an adapter answer as soon as the engine is free."""
        self._ask = self._asking.ask(question)
        self._submit(self._ask)

    def ask_run(self, request: SampleRequest) -> None:
        """Have the run that is going on answer after the step in hand."""
        if self._train is not None:
            self._train.control.ask(request)

    def probe(self, config: RunConfig) -> None:
        """Measure what a run needs, as soon as the engine is free."""
        self._probe = Probe(config)
        self._submit(self._asking.release())
        self._submit(self._probe)

    def stop_probe(self) -> None:
        """End a probe after the step in hand."""
        if self._probe is not None:
            self._probe.control.stop()

    def hush(self) -> None:
        """End the answer in hand, and answer nothing more."""
        if self._ask is not None:
            self._ask.control.hush()
        if self._train is not None and self.run.active:
            self._train.control.hush()

    def close(self) -> None:
        """Let the engine thread end after what it has in hand. Does not wait."""
        self.hush()
        self.stop_probe()
        if self._train is not None:
            self._train.control.stop()
        self._thread.shut_down()

    def wait(self) -> None:
        """Block until the engine thread is gone; call after `close`, when no window is left."""
        self._thread.wait()
        self._timer.stop()

    def drain(self) -> None:
        """Bring waiting messages to the view-models, then let each tell its panel once."""
        messages = self._queue.drain()
        for message in messages:
            self._take(message)
        for view_model in (*self._of_run, self.export, self.exchanges):
            view_model.flush()
        if messages:
            self.drained.emit(messages)
        if self._waiting == 0:
            self._timer.stop()
            if messages:
                self.start_next()
        if self._waiting == 0 and messages:
            self.idle.emit()

    def replay(self, events: list[Event]) -> None:
        """Show the events of a recorded run as if it were going on now."""
        self.current = "train"
        for event in events:
            self._take(event)
        for view_model in self._of_run:
            view_model.flush()
        self.current = None

    def _submit(self, job: Job) -> None:
        self._waiting += 1
        self._thread.submit(job)
        self._timer.start()

    def _take(self, message: Message) -> None:
        match message:
            case JobStarted():
                self.current = message.job
            case JobDone():
                self._end(message)
            case JobFailed():
                self._fail(message)
            case _ if self.current == "export":
                self.export.take(message)
            case _ if self.current == "probe":
                return
            case _ if self.current == "ask":
                self.exchanges.take(message)
            case _:
                self._take_run_event(message)

    def _take_run_event(self, event: Event) -> None:
        for view_model in (*self._of_run, self.exchanges):
            view_model.take(event)
        match event:
            case Finished():
                self.notices.show(finished_notice(event))
                self.progress.end("Done" if event.reason == "done" else "Stopped", "success")
            case Failed():
                memory = event.kind == "memory"
                self._show_failure(event.what, event.why, event.try_this, memory=memory)

    def _end(self, message: JobDone) -> None:
        self._waiting -= 1
        self.current = None
        if message.job == "train":
            self.run.end()
            self.exchanges.end("The run ended before it could answer. Ask again.")
        elif message.job == "ask":
            self.exchanges.end()
        elif message.job == "probe":
            self.probed.emit(message.result)
        elif isinstance(message.result, Machine):
            self.machine = message.result
            self.machine_known.emit()
        elif isinstance(message.result, ExportReport):
            self.export.succeed(message.result)
            difference = number(message.result.logits_difference)
            self.log.say(
                f"Exported the adapter to {message.result.folder}; "
                f"loaded by mlx-lm its logits differ by {difference} at most",
                "success",
            )

    def _fail(self, message: JobFailed) -> None:
        self._waiting -= 1
        self.current = None
        error = TrainerError(message.what, message.why, message.try_this)
        text = sentence_case(str(error))
        if message.job == "export":
            self.log.say(text, "error")
            self.export.fail(text)
            return
        if message.job == "ask":
            self.exchanges.end(text)
            return
        if message.job == "probe":
            self.probed.emit(error)
            return
        if message.job == "train":
            if not self._failure_shown:
                self.log.say(text, "error")
                self._show_failure(message.what, message.why, message.try_this)
            self.run.end()
            self.exchanges.end("The run failed before it could answer.")
            return
        self.log.say(text, "error")
        self.notices.show(
            Notice("error", "The engine could not be loaded", text, ("show_log", "open_log_file"))
        )

    def _show_failure(self, what: str, why: str, try_this: str, *, memory: bool = False) -> None:
        self._failure_shown = True
        self.progress.end("Failed", "error")
        self.notices.show(error_notice(what, why, try_this, memory=memory))
