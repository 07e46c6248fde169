"""Gemma 4: late layers read the keys and values of earlier ones, and every layer has an own input.

The shared keys and values travel in the state, so their cotangents add up by themselves as a
backward pass walks down. The per-layer inputs come from the frozen embedding and are constants.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mlx.core as mx

from trainer_core.model.prefix_cache import LayerCache
from trainer_core.model.stack import LayerStack, State, with_cache


class Gemma4Stack(LayerStack):
    """The stack of gemma4_text."""

    def _run_layer(self, state: State, number: int, cache: LayerCache | None) -> State:
        reads: list[int] = self._inner.previous_kvs
        donor = reads[number]
        borrows = donor != number
        args, kwargs = with_cache(state.arguments[number], None if borrows else cache)
        kwargs = {
            **kwargs,
            "shared_kv": state.shared[donor] if borrows else None,
            "offset": state.offset if borrows else None,
        }
        stream, pair, _ = self.layers[number](state.stream, *args, **kwargs)
        shared = dict(state.shared)
        if not borrows and number in reads[number + 1 :]:
            shared[number] = pair
        # Keys and values that no later layer reads need not travel on.
        shared = {n: kv for n, kv in shared.items() if n in reads[number + 1 :]}
        return replace(state, stream=stream, shared=shared)

    def _passed_on(self, stream: mx.array) -> Any:
        return stream, None, None
