"""One curve as growing arrays: steps, values, and the values smoothed.

Values that are not finite are kept as NaN, so that they show as a gap. A step that comes again, as
after a resume, replaces what stood there and everything after it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_BLOCK = 128


def smooth(values: Floats, weight: float) -> Floats:
    """Debiased exponential moving average [n]; NaN stays NaN and does not count.

    Args:
        values: raw values [n].
        weight: of the past, 0 (raw) to below 1. The average of the first k values is divided by
            1 - weight**k, as in Adam, or the start of the curve would lean to zero.
    """
    out = np.full(len(values), np.nan)
    finite = np.isfinite(values)
    raw = values[finite]
    if weight <= 0:
        out[finite] = raw
        return out
    result = np.empty(len(raw))
    state = 0.0
    # Powers of the weight are taken per block only: over a whole curve they would underflow.
    block = max(1, min(_BLOCK, int(-200 / math.log10(weight)))) if weight < 1 else _BLOCK
    for start in range(0, len(raw), block):
        part = raw[start : start + block]
        powers = weight ** np.arange(1, len(part) + 1)
        sums = powers * (state + (1 - weight) * np.cumsum(part / powers))
        result[start : start + block] = sums
        state = float(sums[-1])
    result /= -np.expm1(np.arange(1, len(raw) + 1) * math.log(weight))
    out[finite] = result
    return out


class Series:
    """Points of one curve in the order of their steps.

    Attributes:
        smoothing: weight of the past in `smoothed`, 0 to below 1.
    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self._steps = np.empty(256)
        self._values = np.empty(256)
        self._smoothed = np.empty(256)
        self._size = 0
        self._smoothing = smoothing
        self._average = 0.0
        self._counted = 0

    def __len__(self) -> int:
        return self._size

    def append(self, step: float, value: float) -> None:
        """Add a point at the end, or at its place if the step was seen before."""
        if self._size and step <= self._steps[self._size - 1]:
            self._cut(int(np.searchsorted(self._steps[: self._size], step)))
        if self._size == len(self._steps):
            self._steps, self._values, self._smoothed = (
                np.concatenate([a, np.empty(len(a))])
                for a in (self._steps, self._values, self._smoothed)
            )
        value = value if math.isfinite(value) else math.nan
        self._steps[self._size] = step
        self._values[self._size] = value
        self._smoothed[self._size] = self._next_average(value)
        self._size += 1

    def cut_after(self, step: float) -> None:
        """Forget the points after a step."""
        self._cut(int(np.searchsorted(self.steps, step, side="right")))

    def clear(self) -> None:
        """Forget all points; the smoothing stays."""
        self._size = 0
        self._average = 0.0
        self._counted = 0

    @property
    def smoothing(self) -> float:
        """Weight of the past in `smoothed`."""
        return self._smoothing

    @smoothing.setter
    def smoothing(self, weight: float) -> None:
        if not 0 <= weight < 1:
            raise ValueError(f"the smoothing must be at least 0 and below 1, not {weight}")
        if weight != self._smoothing:
            self._smoothing = weight
            self._cut(self._size)

    @property
    def steps(self) -> Floats:
        """Steps [n]; a view that stays as it is only until the next change."""
        return self._steps[: self._size]

    @property
    def values(self) -> Floats:
        """Raw values [n]."""
        return self._values[: self._size]

    @property
    def smoothed(self) -> Floats:
        """Smoothed values [n]."""
        return self._smoothed[: self._size]

    @property
    def last(self) -> float | None:
        """The newest raw value."""
        return float(self._values[self._size - 1]) if self._size else None

    def between(self, first: float, last: float) -> slice:
        """Where the steps from `first` to `last` are, with one more at each end."""
        begin = int(np.searchsorted(self.steps, first, side="left"))
        end = int(np.searchsorted(self.steps, last, side="right"))
        return slice(max(begin - 1, 0), end + 1)

    def at(self, step: float) -> tuple[float, float] | None:
        """Step and raw value of the point nearest to `step`."""
        if not self._size:
            return None
        steps = self.steps
        right = int(np.searchsorted(steps, step))
        near = min(
            (i for i in (right - 1, right) if 0 <= i < self._size),
            key=lambda i: abs(steps[i] - step),
        )
        return float(steps[near]), float(self._values[near])

    def _next_average(self, value: float) -> float:
        if math.isnan(value):
            return math.nan
        if self._smoothing == 0:
            return value
        self._average = self._smoothing * self._average + (1 - self._smoothing) * value
        self._counted += 1
        return self._average / (1 - self._smoothing**self._counted)

    def _cut(self, size: int) -> None:
        """Keep the first `size` points and work out their averages anew."""
        self._size = size
        self._smoothed[:size] = smooth(self.values, self._smoothing)
        finite = np.flatnonzero(np.isfinite(self.values))
        self._counted = len(finite)
        self._average = 0.0
        if self._counted and self._smoothing:
            last = float(self._smoothed[finite[-1]])
            self._average = last * (1 - self._smoothing**self._counted)
