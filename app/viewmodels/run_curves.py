"""Curves of several runs of one metric, to be laid over one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.viewmodels.series import Floats
from trainer_core.events import Event, Step, Validation


@dataclass(frozen=True, slots=True)
class Metric:
    """A field of the step events or the validation events."""

    key: str
    label: str
    kind: type[Step] | type[Validation]
    field: str


METRICS = (
    Metric("valid_loss", "Validation loss", Validation, "loss"),
    Metric("loss", "Training loss", Step, "loss"),
    Metric("valid_accuracy", "Validation accuracy", Validation, "accuracy"),
    Metric("accuracy", "Training accuracy", Step, "accuracy"),
    Metric("valid_margin", "Validation margin", Validation, "margin"),
    Metric("margin", "Training margin", Step, "margin"),
    Metric("nll", "NLL", Step, "nll"),
    Metric("or", "Odds ratio loss", Step, "odds_loss"),
    Metric("grad_norm", "Gradient norm", Step, "grad_norm"),
    Metric("learning_rate", "Learning rate", Step, "learning_rate"),
    Metric("tokens_per_s", "Tokens per second", Step, "tokens_per_s"),
)


def curve_of(events: Sequence[Event], metric: Metric) -> tuple[Floats, Floats]:
    """Steps [n] and values [n] of a metric; NaN where a value was not finite."""
    points = [
        (event.step, value)
        for event in events
        if isinstance(event, metric.kind) and (value := getattr(event, metric.field)) is not None
    ]
    if not points:
        return np.empty(0), np.empty(0)
    steps, values = np.array(points, np.float64).T
    return steps, np.where(np.isfinite(values), values, np.nan)


def told_by(events: Sequence[Event]) -> set[str]:
    """Keys of the metrics that a run has."""
    return {m.key for m in METRICS if any(
        isinstance(e, m.kind) and getattr(e, m.field) is not None for e in events
    )}  # fmt: skip
