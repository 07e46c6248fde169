"""The rank of each adapted layer: the same for all, by the bits of its base, or by its sensitivity.

A layer that a mixed quantisation keeps in more bits is one that it found sensitive, so it gets more
rank in proportion. Where the sensitivities themselves are known, they say so more finely.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

_LEAST = 2
_LOWEST_SHARE, _HIGHEST_SHARE = 0.5, 2.0
_COMMON_BITS = 4  # a layer of this width gets the rank that was asked for


def ranks_by_bits(paths: Sequence[str], bits: Mapping[str, int], rank: int) -> dict[str, int]:
    """Path -> rank: rank * bits / 4, rounded up, at least 2; `rank` where a layer is not quantised.

    Args:
        paths: of the layers to adapt.
        bits: path -> width of each quantised linear as it is stored.
        rank: of a layer of 4 bits.
    """
    return {
        path: max(_LEAST, math.ceil(rank * bits[path] / _COMMON_BITS)) if path in bits else rank
        for path in paths
    }


def ranks_by_kl(
    paths: Sequence[str], kl: Mapping[str, float], bits: Mapping[str, int], rank: int
) -> dict[str, int]:
    """Path -> rank: rank * kl / median, rounded up, held to half and twice of rank, at least 2.

    Args:
        paths: of the layers to adapt.
        kl: path -> sensitivity; a layer that it lacks gets its rank by bits, and so do all if its
            median is not positive.
        bits: see `ranks_by_bits`.
        rank: of a layer of median sensitivity.
    """
    ranks = ranks_by_bits(paths, bits, rank)
    middle = sorted(kl.values())[len(kl) // 2] if kl else 0.0
    if middle > 0:
        for path in paths:
            if path in kl:
                share = min(max(kl[path] / middle, _LOWEST_SHARE), _HIGHEST_SHARE)
                ranks[path] = max(_LEAST, math.ceil(rank * share))
    return ranks


def spread(ranks: Mapping[str, int]) -> str:
    """How many layers have which rank: `8 for 140 layers, 16 for 28 layers`."""
    counts = sorted(Counter(ranks.values()).items())
    return ", ".join(f"{rank} for {n} layer{'s' * (n > 1)}" for rank, n in counts)
