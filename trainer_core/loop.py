"""fit(): the one training loop. Step, accumulate, clip, update, report, validate, save, stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from trainer_core.backward.choose import Backward
from trainer_core.checkpoint import Keeper
from trainer_core.config import RunConfig
from trainer_core.control import Control
from trainer_core.data.batches import Window
from trainer_core.errors import TrainerError
from trainer_core.evaluate import evaluate
from trainer_core.events import Checkpoint, Event, Paused, Resumed, Stage, Step, Validation, Warned
from trainer_core.objectives.objective import Objective
from trainer_core.objectives.rows import ScoredRow
from trainer_core.optim import Arrays, Optimiser, clip, global_norm
from trainer_core.policy import Policy, Reference
from trainer_core.progress import BestSoFar, Rates, StepMetrics

_SAVE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Job:
    """Everything `fit` works with.

    Attributes:
        config: resolved.
        policy: what is trained.
        objective: what for.
        backward: how gradients are made.
        train: scored training rows; windows name them by index.
        valid: scored validation rows, may be empty.
        valid_skipped: validation rows that could not be used.
        reference: DPO's sums for all rows.
        windows: the optimiser steps in order.
        total: how many there are.
        keeper: where adapters go.
        sample: answers prompts with the policy, for sample requests.
    """

    config: RunConfig
    policy: Policy
    objective: Objective
    backward: Backward
    train: Sequence[ScoredRow]
    valid: Sequence[ScoredRow]
    valid_skipped: int
    reference: Reference | None
    valid_reference: Reference | None
    windows: Iterable[Window]
    total: int
    keeper: Keeper
    sample: Callable[[int, Sequence[str], int], Iterable[Event]]


@dataclass(slots=True)
class Outcome:
    """How the loop ended: done, stopped or early_stop, after `steps` updates."""

    reason: str
    steps: int
    best_step: int | None


class GaveUp(Exception):
    """The step in hand was given up because a stop at once was asked for."""


@dataclass(slots=True)
class _Progress:
    """What changes from step to step."""

    steps: int = 0
    bad_steps: int = 0
    saved_at: float = field(default_factory=time.monotonic)
    ceiling_warned: bool = False


def fit(job: Job, tell: Callable[[Event], None], control: Control) -> Outcome:
    """Train until done, stopped, or no longer improving.

    Args:
        job: what to train on and with.
        tell: receives every event.
        control: wishes from outside, looked at between steps.

    Raises:
        TrainerError: two steps in a row had a loss or gradient that is not finite, or saving
        failed.
    """
    config = job.config
    optimiser = Optimiser(config, job.total)
    best = BestSoFar(config.best_metric, config.early_stop_patience)
    rates = Rates()
    progress = _Progress()
    mx.reset_peak_memory()

    _validate(job, 0, best, tell, control)
    tell(Stage("train", "Training", 0.0))
    reason = "done"
    for window in job.windows:
        if _should_stop(job, progress, tell, control):
            reason = "stopped"
            break
        began = time.perf_counter()
        try:
            metrics, gradients = _gradients(job, window, control)
        except GaveUp:
            reason = "stopped"
            break
        norm = _update(job, optimiser, metrics, gradients, window.step, progress, tell)
        progress.steps = window.step
        rates.add(metrics, time.perf_counter() - began)
        if window.step % config.steps_per_report == 0 or window.step == job.total:
            tell(_step_event(metrics, norm, optimiser.rate(window.step), rates, window))
            rates.report()
        _warn_at_ceiling(metrics, progress, tell)
        last = window.step == job.total
        if config.steps_per_eval and window.step % config.steps_per_eval == 0 and not last:
            _validate(job, window.step, best, tell, control)
        if best.worn_out:
            reason = "early_stop"
            break
        due = time.monotonic() - progress.saved_at > _SAVE_SECONDS
        if control.take_save() or due or (window.step % config.save_every == 0 and not last):
            _save(job, optimiser, best, progress, tell)
    if reason == "done":
        _validate(job, progress.steps, best, tell, control)
    return Outcome(reason, progress.steps, best.step)


def _gradients(job: Job, window: Window, control: Control) -> tuple[StepMetrics, Arrays]:
    """Metrics and summed gradients of one optimiser step; the sum is the big batch's gradient."""
    batches = [[job.train[index] for index in batch] for batch in window.micro_batches]
    rows = [row for batch in batches for row in batch]
    totals = job.objective.totals(rows)
    metrics = StepMetrics(
        tokens=sum(row.example.tokens for row in rows),
        supervised_tokens=sum(row.example.supervised_tokens for row in rows),
    )
    summed: Arrays | None = None
    for batch in batches:
        if control.stopping_now:
            raise GaveUp
        loss, shares, gradients = job.backward(
            job.policy, job.objective, batch, totals, job.reference, window.step
        )
        if summed is not None:
            gradients = {name: summed[name] + g for name, g in gradients.items()}
        # Evaluated here, so that the graph of one micro-batch is gone before the next begins.
        mx.eval(loss, shares, gradients)
        summed = gradients
        metrics.add(float(loss), {name: float(value) for name, value in shares.items()})
    assert summed is not None, "a window has at least one row"
    return metrics, summed


def _update(
    job: Job,
    optimiser: Optimiser,
    metrics: StepMetrics,
    gradients: Arrays,
    step: int,
    progress: _Progress,
    tell: Callable[[Event], None],
) -> float:
    """Clip and apply the gradients, or skip a step that is not finite; the norm before clipping."""
    norm = global_norm(gradients)
    value = float(norm)
    if not (math.isfinite(value) and math.isfinite(metrics.loss)):
        progress.bad_steps += 1
        if progress.bad_steps > 1:
            raise TrainerError(
                f"the loss or gradient of step {step} is not finite, the second in a row",
                "nothing was changed by these two steps",
                "lower the learning rate, or train in float32 with weights: float32",
            )
        tell(
            Warned(
                "nonfinite",
                f"the loss or gradient of step {step} is not a finite number; the step was skipped",
                "if it happens again the run stops",
            )
        )
        return value
    progress.bad_steps = 0
    clipped = clip(gradients, norm, job.config.grad_clip)
    updated = optimiser.update(job.policy.adapter.parameters(), clipped, step)
    mx.eval(updated, optimiser.arrays)
    job.policy.adapter.assign(updated)
    return value


def _step_event(
    metrics: StepMetrics, norm: float, rate: float, rates: Rates, window: Window
) -> Step:
    peak = mx.get_peak_memory()
    mx.reset_peak_memory()
    return Step(
        step=window.step,
        loss=metrics.loss,
        grad_norm=norm,
        learning_rate=rate,
        tokens_per_s=rates.tokens_per_s,
        supervised_tokens_per_s=rates.supervised_tokens_per_s,
        peak_memory_bytes=peak,
        seconds=rates.last_seconds,
        tokens=rates.tokens,
        epoch=window.epoch,
        **metrics.shown(),
    )


def _validate(
    job: Job, step: int, best: BestSoFar, tell: Callable[[Event], None], control: Control
) -> None:
    if not job.valid:
        return

    def between(done: int) -> bool:
        tell(Stage("validate", "Validating", done / len(job.valid)))
        return not control.stopping_now

    scores = evaluate(job.policy, job.objective, job.valid, job.valid_reference, between=between)
    if scores is None:
        return
    is_best = best.offer(step, {"loss": scores.loss, **scores.metrics})
    shown = {
        name: value
        for name, value in scores.metrics.items()
        if name in ("nll", "odds_loss", "accuracy", "margin")
    }
    tell(
        Validation(
            step=step,
            loss=scores.loss,
            rows_used=scores.rows,
            rows_skipped=job.valid_skipped,
            seconds=scores.seconds,
            best=is_best,
            **shown,
        )
    )
    if is_best:
        path = job.keeper.save_best(step)
        tell(Checkpoint(step, str(path), best=True))


def _save(
    job: Job,
    optimiser: Optimiser,
    best: BestSoFar,
    progress: _Progress,
    tell: Callable[[Event], None],
) -> None:
    tell(Stage("save", "Saving a checkpoint"))
    path = job.keeper.save_checkpoint(progress.steps, optimiser, best.state())
    progress.saved_at = time.monotonic()
    tell(Checkpoint(progress.steps, str(path)))


def _should_stop(
    job: Job, progress: _Progress, tell: Callable[[Event], None], control: Control
) -> bool:
    """Serve sample requests and pauses between two steps; True if the run is to end."""
    while (request := control.take_sample()) is not None:
        for event in job.sample(progress.steps, request.prompts, request.max_tokens):
            tell(event)
    if control.paused and not control.stopping:
        tell(Paused(progress.steps))
        mx.clear_cache()
        control.wait_while_paused()
        if not control.stopping:
            tell(Resumed(progress.steps))
    return control.stopping


def _warn_at_ceiling(
    metrics: StepMetrics, progress: _Progress, tell: Callable[[Event], None]
) -> None:
    count = int(metrics.values.get("at_ceiling", 0))
    if count and not progress.ceiling_warned:
        progress.ceiling_warned = True
        tell(
            Warned(
                "probability_one",
                f"{count} answers of a step have probability one, so their odds have no gradient",
                "look for empty or one-token answers in the data",
            )
        )
