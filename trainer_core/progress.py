"""Small running figures of a training loop: the step's metrics, throughput, the best so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_SHOWN = ("nll", "odds_loss", "accuracy", "margin", "logps_chosen", "logps_rejected")


@dataclass(slots=True)
class StepMetrics:
    """Loss and metrics of one optimiser step; shares of its micro-batches add up."""

    tokens: int
    supervised_tokens: int
    loss: float = 0.0
    values: dict[str, float] = field(default_factory=dict)

    def add(self, loss: float, shares: dict[str, float]) -> None:
        """Add a micro-batch's shares."""
        self.loss += loss
        for name, value in shares.items():
            self.values[name] = self.values.get(name, 0.0) + value

    def shown(self) -> dict[str, float]:
        """The metrics that are fields of the step event."""
        return {name: value for name, value in self.values.items() if name in _SHOWN}


@dataclass(slots=True)
class Rates:
    """Tokens and seconds since the last report; time spent on validation is not in it."""

    tokens: int = 0
    last_seconds: float = 0.0
    _window_tokens: int = 0
    _window_supervised: int = 0
    _window_seconds: float = 0.0

    def add(self, metrics: StepMetrics, seconds: float) -> None:
        """Count one step."""
        self.tokens += metrics.tokens
        self.last_seconds = seconds
        self._window_tokens += metrics.tokens
        self._window_supervised += metrics.supervised_tokens
        self._window_seconds += seconds

    @property
    def tokens_per_s(self) -> float:
        """Tokens of rows as data per second."""
        return self._window_tokens / max(self._window_seconds, 1e-9)

    @property
    def supervised_tokens_per_s(self) -> float:
        """Trained tokens per second."""
        return self._window_supervised / max(self._window_seconds, 1e-9)

    def report(self) -> None:
        """Begin a new window."""
        self._window_tokens = self._window_supervised = 0
        self._window_seconds = 0.0


class BestSoFar:
    """Which validation was best, and how many have passed since.

    Args:
        metric: loss (lower is better), accuracy or margin (higher is better).
        patience: validations without improvement after which training should end; 0 = never.
    """

    def __init__(self, metric: str, patience: int) -> None:
        self.metric = metric
        self.patience = patience
        self.step: int | None = None
        self.value = math.nan
        self.since = 0

    def offer(self, step: int, scores: dict[str, float]) -> bool:
        """Whether this validation is the best so far. NaN never is."""
        value = scores.get(self.metric, math.nan)
        better = value < self.value if self.metric == "loss" else value > self.value
        if math.isfinite(value) and (better or self.step is None):
            self.step, self.value, self.since = step, value, 0
            return True
        self.since += 1
        return False

    @property
    def worn_out(self) -> bool:
        """True once patience has run out."""
        return self.patience > 0 and self.since >= self.patience

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        value = self.value if math.isfinite(self.value) else None
        return {"best_step": self.step, "best_value": value, "validations_since_best": self.since}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        value = state["best_value"]
        self.step, self.since = state["best_step"], state["validations_since_best"]
        self.value = math.nan if value is None else float(value)
