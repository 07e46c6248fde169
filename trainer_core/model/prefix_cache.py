"""Key-value caches through which gradients flow: how a pair's answers read their shared prompt.

They speak mlx-lm's cache interface, so RoPE offsets, causal masks, sliding windows and grouped
heads are the model's own. Unlike mlx-lm's caches they hold the arrays of one forward and nothing
else.
"""

from __future__ import annotations

from typing import Protocol

import mlx.core as mx
from mlx_lm.models.base import create_causal_mask


class LayerCache(Protocol):
    """What a layer asks of a cache."""

    offset: int

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """The keys and values to attend to, given this call's own."""
        ...


class Position:
    """Stands in for a cache while masks are made: says where the tokens are, holds nothing."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def make_mask(
        self, length: int, return_array: bool = False, window_size: int | None = None
    ) -> mx.array | str | None:
        """The mask of `length` tokens after `offset` others, as mlx-lm's functions make it."""
        end = self.offset + length
        if return_array or (window_size is not None and end > window_size):
            return create_causal_mask(length, self.offset, window_size=window_size)
        return None if length == 1 else "causal"


class Capture:
    """The prompt's cache of one layer: keeps its keys and values for the answers."""

    offset = 0

    def __init__(self) -> None:
        self.keys: mx.array = mx.array(0)
        self.values: mx.array = mx.array(0)

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """The prompt attends to itself alone."""
        self.keys, self.values = keys, values
        return keys, values


class Continue:
    """The answers' cache of one layer: the prompt's keys and values, then the answers' own."""

    def __init__(self, prompt: Capture, offset: int) -> None:
        self.offset = offset
        self._prompt = prompt

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Keys and values [B, heads, P + R, D] for the answers' own [B, heads, R, D]."""
        return after_prompt(self._prompt.keys, keys), after_prompt(self._prompt.values, values)


def after_prompt(prompt: mx.array, own: mx.array) -> mx.array:
    """Keys or values [B, heads, P + R, D] of a prompt's [1, heads, P, D] and each answer's own."""
    wide = mx.broadcast_to(prompt, (own.shape[0], *prompt.shape[1:]))
    return mx.concatenate([wide, own], axis=2)
