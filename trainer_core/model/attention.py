"""Attention whose backward needs memory linear in the length, for devices where MLX's is quadratic.

Queries go in blocks: each block's scores are made, used and dropped, and made again in the
backward. The result is MLX's own, block by block; it is exact, and slower by the recomputation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import mlx.core as mx

BLOCK = 256

Mask = mx.array | Literal["causal"] | None

_mlx_attention = mx.fast.scaled_dot_product_attention


def blocked_attention(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    *,
    scale: float,
    mask: Mask = None,
    sinks: mx.array | None = None,
    **more: Any,
) -> mx.array:
    """MLX's scaled dot-product attention with a backward by blocks of queries.

    Args:
        queries: [B, heads, T, D].
        keys: [B, key heads, S, D], S >= T; the queries are the last T of the S positions.
        values: [B, key heads, S, E].
        scale: of the scores.
        mask: "causal", an array that broadcasts to [B, heads, T, S], or None.
        sinks: one logit for each head, constant.
        more: what else MLX takes, such as a stream.
    """
    length, width = queries.shape[2], keys.shape[2]
    if length <= BLOCK:
        return _mlx_attention(queries, keys, values, scale=scale, mask=mask, sinks=sinks, **more)
    ranges = [(i, min(i + BLOCK, length)) for i in range(0, length, BLOCK)]

    def reach(stop: int) -> int:
        """How many keys the queries before `stop` see."""
        return width - length + stop if isinstance(mask, str) else width

    def block(q: mx.array, k: mx.array, v: mx.array, start: int, stop: int) -> mx.array:
        return _mlx_attention(
            q, k, v, scale=scale, mask=_rows_of(mask, start, stop), sinks=sinks, **more
        )

    @mx.custom_function
    def attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        parts: list[mx.array] = []
        for start, stop in ranges:
            # Chained, or the scheduler could hold the scores of all blocks at once.
            rows = mx.depends(q[:, :, start:stop], parts[-1]) if parts else q[:, :, start:stop]
            seen = reach(stop)
            parts.append(block(rows, k[:, :, :seen], v[:, :, :seen], start, stop))
        return mx.concatenate(parts, axis=2)

    @attention.vjp
    def attention_vjp(
        primals: Sequence[mx.array], cotangent: mx.array, _output: mx.array
    ) -> tuple[mx.array, mx.array, mx.array]:
        q, k, v = primals
        by_query: list[mx.array] = []
        by_key, by_value = mx.zeros_like(k), mx.zeros_like(v)
        for start, stop in ranges:
            seen = reach(stop)
            rows = mx.depends(q[:, :, start:stop], [by_key, by_value])

            def one(
                q: mx.array, k: mx.array, v: mx.array, start: int = start, stop: int = stop
            ) -> mx.array:
                return block(q, k, v, start, stop)

            _, found = mx.vjp(
                one, [rows, k[:, :, :seen], v[:, :, :seen]], [cotangent[:, :, start:stop]]
            )
            by_query.append(found[0])
            by_key = by_key + _grown(found[1], width)
            by_value = by_value + _grown(found[2], width)
        return mx.concatenate(by_query, axis=2), by_key, by_value

    result: Any = attention(queries, keys, values)
    return result


@contextmanager
def attention_in_force(kind: str) -> Iterator[None]:
    """Let models use `blocked_attention` for as long as the block runs, if `kind` is "blocked".

    Models call `mx.fast.scaled_dot_product_attention` by name, so that name is what changes.
    """
    if kind != "blocked":
        yield
        return
    fast: Any = mx.fast
    fast.scaled_dot_product_attention = blocked_attention
    try:
        yield
    finally:
        fast.scaled_dot_product_attention = _mlx_attention


def uses_mlx_attention(forward: Callable[[], object]) -> bool:
    """Whether a forward of a model goes through the attention that can be exchanged."""
    calls: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> mx.array:
        calls.append(1)
        return _mlx_attention(*args, **kwargs)

    fast: Any = mx.fast
    fast.scaled_dot_product_attention = counted
    try:
        forward()
    finally:
        fast.scaled_dot_product_attention = _mlx_attention
    return bool(calls)


def _rows_of(mask: Mask, start: int, stop: int) -> Mask:
    """A block of queries' mask. "causal" stays: it aligns the last query with the last key."""
    if mask is None or isinstance(mask, str) or mask.shape[-2] == 1:
        return mask
    return mask[..., start:stop, :]


def _grown(part: mx.array, width: int) -> mx.array:
    missing = width - part.shape[2]
    return mx.pad(part, [(0, 0), (0, 0), (0, missing), (0, 0)]) if missing else part
