"""fit(): the one training loop. Validate, step, report, save, serve wishes, stop."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx

from trainer_core.checkpoint import Restored
from trainer_core.control import Control, SampleRequest
from trainer_core.data.batches import Window
from trainer_core.errors import TrainerError
from trainer_core.evaluate import evaluate
from trainer_core.events import (
    Checkpoint,
    Paused,
    Resumed,
    Stage,
    Step,
    Validation,
    Warned,
    from_json_line,
    to_json_line,
)
from trainer_core.job import Job, Tell
from trainer_core.progress import BestSoFar, Rates, StepMetrics
from trainer_core.sharing import SharingCount
from trainer_core.step import GaveUp, Stepper

_SAVE_SECONDS = 300.0

PAUSED = "paused"
"""Why the loop ends when a pause is asked for; a checkpoint has what it goes on from."""


@dataclass(slots=True)
class Outcome:
    """How the loop ended: done, stopped, early_stop or paused, after `steps` updates."""

    reason: str
    steps: int
    best_step: int | None


@dataclass(slots=True)
class _Progress:
    """What changes from step to step.

    Attributes:
        steps: updates taken.
        told: the last step that was told of, or was not to be.
        untold: the event of a step that a listener or a full disk did not take.
        validated: the last step after which the validation rows were judged.
        answered: the last step after which the fixed prompts were answered.
        saved: the last step that a checkpoint holds.
        seconds: time of earlier sessions.
    """

    stepper: Stepper
    best: BestSoFar
    sharing: SharingCount
    rates: Rates = field(default_factory=Rates)
    steps: int = 0
    told: int = 0
    untold: Step | None = None
    validated: int = -1
    answered: int = -1
    saved: int = 0
    seconds: float = 0.0
    began: float = field(default_factory=time.monotonic)
    saved_at: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        """Seconds of this session and those that it goes on from."""
        return self.seconds + time.monotonic() - self.began

    def state(self) -> dict[str, Any]:
        """For a checkpoint: with the adapter and the moments it decides everything to come."""
        return {
            **self.best.state(),
            **self.stepper.state(),
            "sharing": self.sharing.state(),
            "untold": self.untold and to_json_line(self.untold),
            "validated": self.validated,
            "answered": self.answered,
            "tokens": self.rates.tokens,
            "seconds": round(self.spent, 3),
        }

    def restore(self, checkpoint: Restored) -> None:
        """Go on from a checkpoint."""
        state = checkpoint.state
        self.best.restore(state)
        self.stepper.restore(checkpoint)
        self.sharing.restore(state["sharing"])
        self.validated, self.answered = state["validated"], state["answered"]
        self.rates.tokens, self.seconds = state["tokens"], state["seconds"]
        self.steps = self.told = self.saved = checkpoint.step
        untold = from_json_line(state["untold"]) if state["untold"] else None
        self.untold = untold if isinstance(untold, Step) else None


def fit(
    job: Job,
    tell: Tell,
    control: Control,
    checkpoint: Restored | None = None,
    *,
    keep_last: bool = True,
) -> Outcome:
    """Train until done, stopped, or no longer improving.

    Args:
        job: what to train on and with.
        tell: receives every event.
        control: wishes from outside, looked at between steps.
        checkpoint: what to go on from; its arrays are in the adapter already.
        keep_last: leave a checkpoint of the last step, from which the run can go on.

    Raises:
        TrainerError: two steps in a row had a loss or gradient that is not finite, or saving
            failed. What was trained until then is in a checkpoint if the disk takes it.
    """
    best = BestSoFar(job.config.best_metric, job.config.early_stop_patience)
    progress = _Progress(Stepper(job, tell), best, SharingCount(job, tell))
    if checkpoint is not None:
        progress.restore(checkpoint)
    mx.reset_peak_memory()
    try:
        reason = _fit(job, progress, tell, control)
        if keep_last and progress.steps > progress.saved:
            _save(job, progress, tell)
        if reason != PAUSED:
            progress.sharing.close()
    except Exception:
        _rescue(job, progress, tell)
        raise
    return Outcome(reason, progress.steps, best.step)


def _fit(job: Job, progress: _Progress, tell: Tell, control: Control) -> str:
    """The loop itself; returns why it ended."""
    config = job.config
    _tell_step(progress, tell)
    _judge_if_due(job, progress, tell, control)
    tell(Stage("train", "Training", progress.steps / job.total))
    for window in job.windows(progress.steps + 1):
        answer_requests(job, progress.steps, tell, control)
        if progress.steps == 0:
            _wait_at_start(job, tell, control)
        if control.stopping:
            return "stopped"
        if control.paused:
            return PAUSED
        began = time.perf_counter()
        try:
            metrics, norm = progress.stepper.take(window, control)
        except GaveUp:
            return "stopped"
        progress.steps = window.step
        progress.rates.add(metrics, time.perf_counter() - began)
        progress.sharing.add(window)
        last = window.step == job.total
        if window.step % config.steps_per_report == 0 or last:
            _report(metrics, norm, progress, window, tell)
        progress.sharing.end_epoch(window)
        progress.told = window.step
        _judge_if_due(job, progress, tell, control)
        if not last and progress.best.worn_out:
            return "early_stop"
        due = time.monotonic() - progress.saved_at > _SAVE_SECONDS
        if control.take_save() or due or (window.step % config.save_every == 0 and not last):
            _save(job, progress, tell)
    answer_requests(job, progress.steps, tell, control)
    return "done"


def _report(
    metrics: StepMetrics, norm: float, progress: _Progress, window: Window, tell: Tell
) -> None:
    rates = progress.rates
    progress.untold = Step(
        step=window.step,
        loss=metrics.loss,
        grad_norm=norm,
        learning_rate=progress.stepper.optimiser.rate(window.step),
        tokens_per_s=rates.tokens_per_s,
        supervised_tokens_per_s=rates.supervised_tokens_per_s,
        peak_memory_bytes=mx.get_peak_memory(),
        seconds=rates.last_seconds,
        tokens=rates.tokens,
        epoch=window.epoch,
        **metrics.shown(),
    )
    _tell_step(progress, tell)
    mx.reset_peak_memory()
    rates.report()


def _tell_step(progress: _Progress, tell: Tell) -> None:
    if progress.untold is not None:
        tell(progress.untold)
        progress.untold = None


def _judge_if_due(job: Job, progress: _Progress, tell: Tell, control: Control) -> None:
    """Validate and answer the fixed prompts: at the start, at the end and in between.

    What a checkpoint has behind it already is not done again.
    """
    step, every = progress.steps, job.config.steps_per_eval
    if step not in (0, job.total) and not (every and step % every == 0):
        return
    if progress.validated != step:
        _validate(job, progress, tell, control)
    if progress.answered != step:
        _answer_fixed(job, progress, tell, control)


def _validate(job: Job, progress: _Progress, tell: Tell, control: Control) -> None:
    """Score the validation rows, and keep the adapter if it is the best so far.

    A stop that came before the first step leaves nothing to judge, and a stop at once gives up.
    """
    if not job.valid or (control.stopping and progress.steps == 0):
        return

    def between(done: int) -> bool:
        tell(Stage("validate", "Validating", done / len(job.valid)))
        return not control.stopping_now

    scores = evaluate(job.policy, job.objective, job.valid, job.valid_reference, between=between)
    if scores is None:
        return
    step = progress.steps
    progress.validated = step
    job.row_log.append(step, scores.judged)
    is_best = progress.best.offer(step, {"loss": scores.loss, **scores.metrics})
    tell(
        Validation(
            step=step,
            loss=scores.loss,
            rows_used=scores.rows,
            rows_skipped=job.valid_skipped,
            seconds=scores.seconds,
            best=is_best,
            nll=scores.metrics.get("nll"),
            odds_loss=scores.metrics.get("odds_loss"),
            accuracy=scores.metrics.get("accuracy"),
            margin=scores.metrics.get("margin"),
        )
    )
    if is_best:
        tell(Checkpoint(step, str(job.keeper.save_best(step)), best=True))


def _save(job: Job, progress: _Progress, tell: Tell) -> None:
    """Write a checkpoint of the step just taken."""
    tell(Stage("save", "Saving a checkpoint"))
    path = job.keeper.save_checkpoint(progress.steps, progress.stepper.optimiser, progress.state())
    progress.saved, progress.saved_at = progress.steps, time.monotonic()
    tell(Checkpoint(progress.steps, str(path)))


def _rescue(job: Job, progress: _Progress, tell: Tell) -> None:
    """Keep what a failing run has trained. It fails with its own error, whatever happens here."""
    # A step of which nobody could ever be told is taken again rather than missed in the record.
    told = progress.told if progress.untold is None else progress.untold.step
    if progress.steps == told > progress.saved:
        with contextlib.suppress(TrainerError, OSError):
            _save(job, progress, tell)


def answer_requests(job: Job, step: int, tell: Tell, control: Control) -> None:
    """Answer the sample requests that came in, unless the run is to end.

    What cannot be answered is no reason to end a training.
    """
    while not control.stopping and (request := control.take_sample()) is not None:
        _answer_one(job, step, tell, request, lambda: control.answering)


def _answer_one(
    job: Job, step: int, tell: Tell, request: SampleRequest, wanted: Callable[[], bool]
) -> None:
    try:
        for event in job.answering.answer(request, step, wanted):
            tell(event)
    except TrainerError as error:
        tell(Warned("sample", f"no answer: {error.what}", error.try_this))


def _answer_fixed(job: Job, progress: _Progress, tell: Tell, control: Control) -> None:
    """Answer the prompts that every validation answers, once for each step."""
    prompts = tuple(job.config.sample_prompts or ())
    if prompts and not control.stopping_now:
        tell(Stage("validate", "Answering the prompts"))
        request = SampleRequest(prompts, job.config.sample_tokens)
        _answer_one(job, progress.steps, tell, request, lambda: not control.stopping_now)
        if not control.stopping_now:
            progress.answered = progress.steps


def _wait_at_start(job: Job, tell: Tell, control: Control) -> None:
    """Wait before the first step, with the model: there is no checkpoint of it yet."""
    if not control.paused or control.stopping:
        return
    tell(Paused(0))
    while control.paused and not control.stopping:
        control.wait_while_paused()
        control.take_save()
        answer_requests(job, 0, tell, control)
    if not control.stopping:
        tell(Resumed(0))
