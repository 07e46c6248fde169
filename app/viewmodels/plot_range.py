"""Axis ranges that hold still: they grow in strides, for every change redraws the axes."""

from __future__ import annotations

import math

import numpy as np

from app.viewmodels.series import Floats

Range = tuple[float, float]

PADDING = 0.08
SLACK = 0.5
"""A range is kept while the values fill at least this share of it."""


def step_range(first: float, last: float) -> Range:
    """Steps to show: from the first one to a round number a little after the last.

    Args:
        first: smallest step.
        last: largest step.
    """
    span = max(last - first, 1.0)
    stride = max(10.0 ** math.floor(math.log10(span)) / 5, 1.0)
    return first - 0.02 * span, first + math.ceil((span + 0.02 * span) / stride) * stride


def value_range(values: list[Floats], before: Range | None) -> Range | None:
    """Values to show: `before` if it still fits, else a range with a margin; None without values.

    Args:
        values: arrays of values; what is not finite does not count.
        before: the range on show, if any.
    """
    finite = [part for array in values if len(part := array[np.isfinite(array)])]
    if not finite:
        return None
    low = min(float(part.min()) for part in finite)
    high = max(float(part.max()) for part in finite)
    if before is not None:
        inside = before[0] <= low and high <= before[1]
        if inside and high - low >= SLACK * (before[1] - before[0]):
            return before
    span = high - low
    if span <= 1e-9 * max(abs(low), abs(high)):
        span = abs(high) * 0.1 or 1.0
        middle = (low + high) / 2
        return middle - span, middle + span
    return low - PADDING * span, high + PADDING * span
