"""Numbers as people read them: durations, sizes, metrics."""

from __future__ import annotations

import math


def duration(seconds: float) -> str:
    """`8 s`, `2 min 05 s`, `3 h 07 min`."""
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(whole / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def number(value: float | None, *, digits: int = 4, steady: bool = False) -> str:
    """This many significant digits, with an exponent if very small or large; a dash for none.

    Args:
        value: any number.
        digits: significant digits.
        steady: keep zeros at the end, so that a changing figure does not jump about.
    """
    if value is None:
        return "\N{EN DASH}"
    if not math.isfinite(value):
        return (
            "not a number" if math.isnan(value) else ("infinite" if value > 0 else "minus infinite")
        )
    size = abs(value)
    if size and (size < 1e-3 or size >= 1e6):
        return f"{value:.2e}".replace("e-0", "e-").replace("e+0", "e")
    if size >= 1000:
        return f"{value:,.0f}"
    if steady and value:
        return f"{value:#.{digits}g}".rstrip(".")
    return f"{value:.{digits}g}"


def gigabytes(n_bytes: float) -> str:
    """`1.24 GB`, or `310 MB` below one."""
    if n_bytes < 1e9:
        return f"{n_bytes / 1e6:.0f} MB"
    return f"{n_bytes / 1e9:.2f} GB"


def sentence_case(text: str) -> str:
    """With a capital, unless it begins with a file's name or an option's."""
    first, _, rest = text.partition(" ")
    if not first.isalpha() or rest.startswith("="):
        return text
    return text[:1].upper() + text[1:]


def count(n: int, one: str, many: str | None = None) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"
