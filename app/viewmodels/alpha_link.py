"""Alpha, as other tools call it, tied to our scale: alpha = scale x rank."""

from __future__ import annotations

from typing import Any

ALPHA_HELP = (
    "Alpha = scale x rank. Editing alpha changes the scale. Editing the rank keeps the scale, so "
    "alpha follows and the adapter acts with the same strength."
)


def alpha_of(rank: Any, scale: Any) -> float | None:
    """Scale x rank without binary dust, or None while one of them is not a number."""
    if not _positive(rank) or not _positive(scale):
        return None
    return float(f"{scale * rank:.12g}")


def scale_for(alpha: float, rank: Any) -> float | None:
    """The scale that gives `alpha` at this rank, or None while the rank is not a number."""
    if not _positive(rank):
        return None
    return alpha / rank


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0
