"""One optimiser step: gradients of its micro-batches, clipping, update; or none of it, if NaN."""

from __future__ import annotations

import math
from typing import Any

import mlx.core as mx

from trainer_core.checkpoint import Restored
from trainer_core.control import Control
from trainer_core.data.batches import Window
from trainer_core.data.types import Source
from trainer_core.errors import TrainerError
from trainer_core.events import Warned
from trainer_core.job import Job, Tell
from trainer_core.optim import Arrays, Optimiser, clip, global_norm
from trainer_core.progress import StepMetrics

_NAMED = 5


class GaveUp(Exception):
    """The step in hand was given up because a stop at once was asked for."""


class Stepper:
    """Takes the steps of a run.

    Args:
        job: what to train.
        tell: told once of answers whose odds have no gradient, and of a step that was skipped.

    Attributes:
        updated: the last step that changed the adapter, 0 if none did.
    """

    def __init__(self, job: Job, tell: Tell) -> None:
        self.optimiser = Optimiser(job.config, job.total)
        self.updated = 0
        self._job = job
        self._tell = tell
        self._skipped = 0
        self._ceiling_told = False

    def state(self) -> dict[str, Any]:
        """For a checkpoint, beside the optimiser's arrays."""
        return {"skipped_in_a_row": self._skipped, "ceiling_told": self._ceiling_told}

    def restore(self, checkpoint: Restored) -> None:
        """Go on from a checkpoint, whose arrays the adapter has already."""
        self.optimiser.restore(checkpoint.moments, self._job.policy.adapter.parameters())
        self.updated = checkpoint.step
        self._skipped = checkpoint.state["skipped_in_a_row"]
        self._ceiling_told = checkpoint.state["ceiling_told"]

    def take(self, window: Window, control: Control) -> tuple[StepMetrics, float]:
        """Metrics of the training forward and the gradient's norm before clipping.

        A step whose loss or gradient is not finite changes nothing.

        Raises:
            GaveUp: a stop at once came in between.
            TrainerError: this is the second step in a row that is not finite.
        """
        metrics, gradients = self._gradients(window, control)
        norm = global_norm(gradients)
        value = float(norm)
        if math.isfinite(value) and math.isfinite(metrics.loss):
            self._skipped = 0
            clipped = clip(gradients, norm, self._job.config.grad_clip)
            adapter = self._job.policy.adapter
            updated = self.optimiser.update(adapter.parameters(), clipped, window.step)
            mx.eval(updated, self.optimiser.arrays)
            adapter.assign(updated)
            self.updated = window.step
        else:
            self._skip(window)
        self._tell_of_ceiling(metrics)
        return metrics, value

    def _gradients(self, window: Window, control: Control) -> tuple[StepMetrics, Arrays]:
        """Metrics and gradients summed over micro-batches, which is the big batch's gradient."""
        job = self._job
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

    def _skip(self, window: Window) -> None:
        step = window.step
        self._skipped += 1
        if self._skipped > 1:
            raise TrainerError(
                f"the loss or gradient of step {step} is not finite, the second in a row",
                f"nothing was changed by these two steps; {self._culprits(window)}",
                "look at these rows, lower the learning rate, or train in float32 with "
                "weights: float32",
            )
        self._tell(
            Warned(
                "nonfinite",
                f"the loss or gradient of step {step} is not a finite number; the step was "
                f"skipped; {self._culprits(window)}",
                "if it happens again the run stops",
            )
        )

    def _culprits(self, window: Window) -> str:
        """The rows whose own loss or gradient is not finite, in words."""
        job = self._job
        rows = [job.train[index] for index in window.rows]
        totals = job.objective.totals(rows)
        found: list[Source] = []
        for row in rows:
            loss, _, gradients = job.backward(
                job.policy, job.objective, [row], totals, job.reference, window.step
            )
            norm = global_norm(gradients)
            if not (math.isfinite(float(loss)) and math.isfinite(float(norm))):
                found.append(row.example.source)
        if not found:
            return "no row of it alone causes that"
        named = ", ".join(f"{source.file}:{source.line}" for source in found[:_NAMED])
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        return f"it comes from {named}{more}"

    def _tell_of_ceiling(self, metrics: StepMetrics) -> None:
        count = int(metrics.values.get("at_ceiling", 0))
        if count and not self._ceiling_told:
            self._ceiling_told = True
            self._tell(
                Warned(
                    "probability_one",
                    f"{count} answers of a step have probability one, so their odds have no "
                    "gradient",
                    "look for empty or one-token answers in the data",
                )
            )
