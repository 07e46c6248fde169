"""A prompt and its two answers as one row of tokens, which halves the work that is not arithmetic.

Everything in a layer that looks at single tokens runs once over the row [prompt, answer, answer].
Only two functions of MLX look at more, and only they are told of the parts: `rope`, because both
answers start where the prompt ends, and `scaled_dot_product_attention`, because neither answer
sees the other. Models call them by name, so those names are what changes. A model with a rope or an
attention of its own would come out wrong; the self-check finds that, and such a model runs prompt
and answers apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx

from trainer_core.model.prefix_cache import Capture, after_prompt
from trainer_core.model.stack import LayerStack, State


@dataclass(frozen=True, slots=True)
class Parts:
    """Lengths of the parts of a row: a prompt, then two answers of one length."""

    prompt: int
    answer: int

    @property
    def total(self) -> int:
        """Length of the row."""
        return self.prompt + 2 * self.answer


def join(prompt: State, answers: State) -> State | None:
    """The state [1, P + 2 R, D] of a prompt [1, P, D] and its answers [2, R, D] in one row.

    Its `offset` is the length of the prompt.

    Returns:
        None if a layer has another mask than the plain causal one, which would have to be cut.
    """
    for arguments in (*prompt.arguments, *answers.arguments):
        given = (*arguments.args, *arguments.kwargs.values())
        if any(isinstance(value, mx.array) for value in given) or "causal" not in given:
            return None
    depth = prompt.stream.shape[-1]
    stream = mx.concatenate([prompt.stream, answers.stream.reshape(1, -1, depth)], axis=1)
    return replace(prompt, stream=stream, offset=answers.offset)


def run_joined(stack: LayerStack, state: State, start: int, stop: int) -> State:
    """The state after layers start..stop-1, for a state from `join`."""
    length = state.stream.shape[1]
    parts = Parts(state.offset, (length - state.offset) // 2)
    with _parts_in_force(parts):
        return stack.run(state, start, stop, [Capture() for _ in range(start, stop)])


def runs_joined(stack: LayerStack) -> bool:
    """Whether a stack runs its layers the common way, each by itself."""
    return type(stack)._run_layer is LayerStack._run_layer


@contextmanager
def _parts_in_force(parts: Parts) -> Iterator[None]:
    fast: Any = mx.fast
    rope, attention = fast.rope, fast.scaled_dot_product_attention

    def rope_of_parts(x: mx.array, *args: Any, offset: Any, **more: Any) -> mx.array:
        # One answer goes on from the prompt as in any row; the other starts again after it.
        first, second = mx.split(x, [parts.prompt + parts.answer], axis=-2)
        turned = [
            rope(first, *args, offset=offset, **more),
            rope(second, *args, offset=offset + parts.prompt, **more),
        ]
        return mx.concatenate(turned, axis=-2)

    def attention_of_parts(
        queries: mx.array, keys: mx.array, values: mx.array, **more: Any
    ) -> mx.array:
        given = [mx.split(x, [parts.prompt], axis=2) for x in (queries, keys, values)]
        prompt = [part[0] for part in given]
        own = [_side_by_side(part[1]) for part in given]
        seen = [after_prompt(*pair) for pair in zip(prompt[1:], own[1:], strict=True)]
        answers = attention(own[0], *seen, **more)
        return mx.concatenate([attention(*prompt, **more), _in_a_row(answers)], axis=2)

    try:
        fast.rope, fast.scaled_dot_product_attention = rope_of_parts, attention_of_parts
        yield
    finally:
        fast.rope, fast.scaled_dot_product_attention = rope, attention


def _side_by_side(x: mx.array) -> mx.array:
    """[2, H, R, D] of [1, H, 2 R, D], without copying."""
    return x.reshape(x.shape[1], 2, -1, x.shape[3]).swapaxes(0, 1)


def _in_a_row(x: mx.array) -> mx.array:
    """[1, H, 2 R, D] of [2, H, R, D]."""
    return x.swapaxes(0, 1).reshape(1, x.shape[1], -1, x.shape[3])
