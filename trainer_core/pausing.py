"""A run that pauses gives its memory back: what it goes on from is in a checkpoint."""

from __future__ import annotations

import gc
from collections.abc import Callable

import mlx.core as mx

from trainer_core.control import Control
from trainer_core.events import Paused, Resumed
from trainer_core.job import Tell
from trainer_core.loop import PAUSED, Outcome, answer_requests, fit
from trainer_core.model.attention import attention_in_force
from trainer_core.ready import Ready


def fit_with_pauses(
    make: Callable[[int], Ready], step: int, tell: Tell, control: Control
) -> tuple[Ready, Outcome]:
    """Train until the end, through any number of pauses.

    Args:
        make: makes everything ready to go on after a step.
        step: where to begin; 0 at the start of a run.
        tell: receives every event.
        control: wishes from outside.

    Returns:
        What was trained, as it was made ready last, and how it ended.

    Raises:
        TrainerError: see `fit`.
    """
    ready = make(step)
    while True:
        with attention_in_force(ready.job.config.attention):
            outcome = fit(ready.job, tell, control, ready.checkpoint)
        if outcome.reason != PAUSED:
            return ready, outcome
        del ready
        _wait(make, outcome.steps, tell, control)
        ready = make(outcome.steps)


def _wait(make: Callable[[int], Ready], step: int, tell: Tell, control: Control) -> None:
    """Wait without a model until the pause is over. A question brings it back for its answer."""
    _give_back()
    tell(Paused(step))
    while control.paused and not control.stopping:
        control.wait_while_paused()
        control.take_save()  # the checkpoint is there
        if control.asked and not control.stopping:
            ready = make(step)
            with attention_in_force(ready.job.config.attention):
                answer_requests(ready.job, step, tell, control)
            del ready
            _give_back()
    if not control.stopping:
        tell(Resumed(step))


def _give_back() -> None:
    gc.collect()  # models refer to themselves in places
    mx.clear_cache()
