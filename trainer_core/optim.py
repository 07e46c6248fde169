"""The optimiser, the learning-rate schedule and gradient clipping."""

from __future__ import annotations

import math
from typing import Any, Literal

import mlx.core as mx
from mlx.optimizers import AdamW

from trainer_core.config import RunConfig

Arrays = dict[str, mx.array]


def learning_rate(
    step: int,
    *,
    peak: float,
    total: int,
    schedule: Literal["constant", "linear", "cosine"],
    warmup: int = 0,
    floor: float = 0.1,
) -> float:
    """The rate of a step.

    Warm-up step k of W gives peak * k / W. After it the rate falls from the peak to floor * peak,
    which the last step has exactly; `constant` stays at the peak. Without warm-up the first step
    is at the peak.

    Args:
        step: 1 to total.
        peak: highest rate.
        total: number of steps.
        schedule: shape of the fall.
        warmup: steps of the rise.
        floor: share of the peak at the end.
    """
    if step < warmup:
        return peak * step / warmup
    if schedule == "constant":
        return peak
    top = max(warmup, 1)
    progress = min(1.0, (step - top) / (total - top)) if total > top else 1.0 * (step > top)
    shape = 1 - progress if schedule == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return peak * (floor + (1 - floor) * shape)


class Optimiser:
    """AdamW with bias correction, arXiv:1711.05101, behind a fixed schedule.

    Args:
        config: rates, betas, decay and clip.
        total: number of steps of the run.
    """

    def __init__(self, config: RunConfig, total: int) -> None:
        assert config.learning_rate is not None, "the configuration is resolved before training"
        self._config = config
        self._peak = config.learning_rate
        self._total = total
        # MLX's default leaves the bias in, which would not give the numbers of the paper or of
        # torch.
        self._adam = AdamW(
            learning_rate=self._peak,
            betas=list(config.adam_betas),
            eps=config.adam_eps,
            weight_decay=config.weight_decay,
            bias_correction=True,
        )

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        return learning_rate(
            step,
            peak=self._peak,
            total=self._total,
            schedule=self._config.lr_schedule,
            warmup=self._config.warmup_steps,
            floor=self._config.lr_floor,
        )

    def update(self, parameters: Arrays, gradients: Arrays, step: int) -> Arrays:
        """The parameters after one step; nothing is changed in place."""
        self._adam.learning_rate = self.rate(step)
        return self._adam.apply_gradients(gradients, parameters)

    def state(self) -> Arrays:
        """Moments and step count as a flat name -> array mapping, for a checkpoint."""
        from mlx.utils import tree_flatten

        flat: Any = tree_flatten(self._adam.state)
        return dict(flat)

    @property
    def arrays(self) -> object:
        """Everything that has to be evaluated after an update."""
        return self._adam.state


def global_norm(gradients: Arrays) -> mx.array:
    """Euclidean norm over all gradients, float32 scalar."""
    return mx.sqrt(
        sum((mx.square(g.astype(mx.float32)).sum() for g in gradients.values()), mx.array(0.0))
    )


def clip(gradients: Arrays, norm: mx.array, limit: float) -> Arrays:
    """Gradients scaled so that their global norm is at most `limit`; 0 leaves them alone.

    The small constant in the divisor is torch's, so that both clip alike.
    """
    if limit == 0:
        return gradients
    factor = mx.minimum(1.0, limit / (norm + 1e-6))
    return {name: g * factor for name, g in gradients.items()}
