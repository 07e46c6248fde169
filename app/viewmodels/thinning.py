"""Fewer points for the same picture: a plot has some hundred columns, a run many more steps."""

from __future__ import annotations

import numpy as np

from app.viewmodels.series import Floats


def envelope(steps: Floats, values: Floats, most: int) -> tuple[Floats, Floats]:
    """At most `most` points that keep every peak: the lowest and highest of each bucket, in order.

    Args:
        steps: steps [n].
        values: values [n]; NaN stays as a gap where a whole bucket is NaN.
        most: largest number of points, at least 4.
    """
    n = len(values)
    if n <= most:
        return steps, values
    size = -(-n // (most // 2))
    full = n // size * size
    rows = values[:full].reshape(-1, size)
    finite = np.isfinite(rows)
    start = np.arange(0, full, size)
    low = start + np.where(finite, rows, np.inf).argmin(axis=1)
    high = start + np.where(finite, rows, -np.inf).argmax(axis=1)
    kept = np.stack([np.minimum(low, high), np.maximum(low, high)], axis=1).ravel()
    if full < n:
        rest = values[full:]
        if np.isfinite(rest).any():
            ends = [full + int(np.nanargmin(rest)), full + int(np.nanargmax(rest))]
            kept = np.append(kept, sorted(ends))
    return steps[kept], values[kept]


def every_nth(steps: Floats, values: Floats, most: int) -> tuple[Floats, Floats]:
    """At most `most` evenly chosen points that end with the last one: enough for a smooth curve.

    Args:
        steps: steps [n].
        values: values [n].
        most: largest number of points.
    """
    stride = -(-len(values) // most)
    if stride <= 1:
        return steps, values
    first = (len(values) - 1) % stride
    return steps[first::stride], values[first::stride]
