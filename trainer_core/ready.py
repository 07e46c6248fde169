"""Make a run's job ready: model, adapter and rows, and what a checkpoint adds to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trainer_core.assemble import assemble
from trainer_core.checkpoint import Restored
from trainer_core.control import Control
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.data.types import Dataset
from trainer_core.events import Event, Stage, Warned
from trainer_core.job import Job, Tell
from trainer_core.model.attention import attention_in_force
from trainer_core.reference import with_reference
from trainer_core.start import Start


@dataclass(frozen=True, slots=True)
class Ready:
    """A job, and the checkpoint whose arrays it has; None at the start of a run."""

    job: Job
    checkpoint: Restored | None


class Maker:
    """Makes a run's job ready, at its start and after every pause.

    Attributes:
        seconds_before: time of the sessions before this one.
    """

    def __init__(
        self,
        start: Start,
        tokenizer: ChatTokenizer,
        dataset: Dataset,
        settle: Callable[[Job], None],
        tell: Tell,
        control: Control,
    ) -> None:
        self.seconds_before = 0.0
        self._start = start
        self._tokenizer = tokenizer
        self._dataset = dataset
        self._settle: Callable[[Job], None] | None = settle
        self._tell = tell
        self._control = control

    def __call__(self, step: int) -> Ready:
        """Everything that goes on after a step."""
        start, run = self._start, self._start.session.run
        tell = self._tell if self._settle else self._without_warnings
        tell(Stage("load", "Loading the model"))
        job = assemble(start.plan, start.folder, self._dataset, self._tokenizer, run, tell)
        if self._settle is not None:
            self._settle(job)
        checkpoint = job.keeper.restore(step) if step else None
        if self._settle is not None and start.session.resumed:
            job.keeper.forget_later(step, checkpoint and checkpoint.state["best_step"])
            self.seconds_before = checkpoint.state["seconds"] if checkpoint else 0.0
        self._settle = None
        if job.objective.needs_reference:
            with attention_in_force(job.config.attention):
                job = with_reference(job, run, tell, self._control, resumed=checkpoint is not None)
        return Ready(job, checkpoint)

    def _without_warnings(self, event: Event) -> None:
        """What was warned of at the start is not said again after a pause."""
        if not isinstance(event, Warned):
            self._tell(event)
