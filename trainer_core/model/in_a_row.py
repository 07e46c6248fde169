"""Several sequences in one row of tokens, each of which sees only itself and starts at position 0.

As in `joined`, everything that looks at single tokens runs once over the row, and only MLX's `rope`
and `scaled_dot_product_attention` are told where a sequence ends. Attention by sequences needs no
mask between them and no scores between them either. A mask that the model made for the whole row,
such as that of a sliding window, depends on distances alone, so each sequence takes its own square
of it. The self-check tells which models this is right for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import mlx.core as mx


@contextmanager
def sequences_in_force(lengths: Sequence[int]) -> Iterator[None]:
    """Take rows [1, T, ...] for sequences of these lengths, for as long as the block runs.

    Args:
        lengths: their sum is T.
    """
    fast: Any = mx.fast
    rope, attention = fast.rope, fast.scaled_dot_product_attention
    ends = list(accumulate(lengths))
    cuts, ranges = ends[:-1], list(zip([0, *ends[:-1]], ends, strict=True))

    def rope_of_each(x: mx.array, *args: Any, **more: Any) -> mx.array:
        parts = mx.split(x, cuts, axis=-2)
        return mx.concatenate([rope(part, *args, **more) for part in parts], axis=-2)

    def attention_of_each(
        queries: mx.array, keys: mx.array, values: mx.array, *, mask: Any = None, **more: Any
    ) -> mx.array:
        given = zip(*(mx.split(x, cuts, axis=2) for x in (queries, keys, values)), strict=True)
        parts = [
            attention(*part, mask=_square(mask, *place), **more)
            for part, place in zip(given, ranges, strict=True)
        ]
        return mx.concatenate(parts, axis=2)

    try:
        fast.rope, fast.scaled_dot_product_attention = rope_of_each, attention_of_each
        yield
    finally:
        fast.rope, fast.scaled_dot_product_attention = rope, attention


def _square(mask: Any, start: int, stop: int) -> Any:
    return mask[..., start:stop, start:stop] if isinstance(mask, mx.array) else mask
