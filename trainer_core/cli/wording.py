"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

_BLOCKS = "▁▂▃▄▅▆▇█"


def duration(seconds: float) -> str:
    """`0:42`, `12:05` or `3:04:05`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def size(count: float) -> str:
    """Bytes in decimal units: `3.4 GB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 999.5:
            return f"{count:.0f} {unit}" if unit in ("B", "kB", "MB") else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def metric(value: float | None) -> str:
    """Four significant digits; a dash for a metric that the method lacks."""
    return "-" if value is None else f"{value:.4g}"


def sparkline(values: Iterable[float], width: int) -> str:
    """A curve in one line of block characters, the newest value on the right.

    More values than `width` are averaged in groups; one that is not finite is a blank.
    """
    points = _grouped(list(values), width)
    finite = [p for p in points if math.isfinite(p)]
    if not finite:
        return " " * len(points)
    low, high = min(finite), max(finite)
    step = (high - low) / (len(_BLOCKS) - 1)
    return "".join(
        " " if not math.isfinite(p) else _BLOCKS[round((p - low) / step) if step > 0 else 3]
        for p in points
    )


def _grouped(values: list[float], width: int) -> list[float]:
    if len(values) <= width:
        return values
    edges = [round(i * len(values) / width) for i in range(width + 1)]
    return [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
