"""Ways through a stack against the model itself: hidden states, and gradients of an adapter.

The gradients walk down layer by layer with nothing but the carried state between them, as the
segmented backward does. So a layer that hands something on behind the stack's back is found even
where the hidden states agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from trainer_core.model.in_a_row import sequences_in_force
from trainer_core.model.joined import join, run_joined
from trainer_core.model.lora import Adapter
from trainer_core.model.prefix_cache import Capture, Continue
from trainer_core.model.stack import LayerStack, State

# Much above rounding, also that of tensor cores, and much below what a wrong mask or place does.
_FLOAT32 = 1e-2
_TOLERANCE = {mx.float16: 5e-2, mx.bfloat16: 1e-1}
# A backward pass rounds about as often again.
_BACKWARD = 2.0

Gradients = dict[str, mx.array]
_States = tuple[State, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Ids [B, T] of rows that share their first `prompt` tokens."""

    ids: mx.array
    prompt: int


def rows_of_pair(prompt: int, answer: int) -> Rows:
    """Two rows of different tokens after a prompt."""
    start = 3
    middle, end = start + prompt, start + prompt + answer
    first = [*range(start, middle), *range(middle, end)]
    second = [*range(start, middle), *range(end, end + answer)]
    return Rows(mx.array([first, second]), prompt)


def same(make: Callable[[], tuple[mx.array, mx.array]], slack: float = 1.0) -> bool:
    """Whether two ways to an array agree, by the norm of their difference, to their precision."""
    try:
        got, wanted = make()
        dtype, got, wanted = wanted.dtype, got.astype(mx.float32), wanted.astype(mx.float32)
        distance = float(mx.linalg.norm(got - wanted))
        size = float(mx.linalg.norm(wanted))
    except Exception:  # noqa: BLE001 - whatever a foreign model raises here means that it differs
        return False
    return distance <= slack * _TOLERANCE.get(dtype, _FLOAT32) * size


def in_ranges(stack: LayerStack, rows: Rows) -> mx.array:
    """Hidden states [B, T, D] by single layers."""
    states = (stack.embed(rows.ids),)
    for number in range(len(stack)):
        states = _apart(stack, states, number)
    return stack.final(states[0].stream)


def after_prompt(stack: LayerStack, rows: Rows) -> mx.array:
    """Hidden states [B, T - prompt, D] of what follows the prompt that all rows share."""
    return stack.final(_after(stack, rows)[1].stream)


def continued(stack: LayerStack, row: Rows) -> mx.array:
    """Hidden states [1, T, D] of a single row, whose prompt ran first and then what follows it."""
    parts = [stack.final(state.stream) for state in _after(stack, row)]
    return mx.concatenate(parts, axis=1)


def joined(stack: LayerStack, rows: Rows) -> mx.array:
    """Hidden states [2, T - prompt, D] of two answers in one row with their prompt."""
    state = join(*_split(stack, rows))
    if state is None:
        raise ValueError("its masks are not plain")
    hidden = stack.final(run_joined(stack, state, 0, len(stack)).stream)
    return hidden[0, rows.prompt :].reshape(2, -1, hidden.shape[-1])


def packed(stack: LayerStack, rows: Rows) -> mx.array:
    """Hidden states [1, T + prompt, D] of the first row and, behind it, the second's prompt."""
    length = rows.ids.shape[1]
    ids = mx.concatenate([rows.ids[:1], rows.ids[1:, : rows.prompt]], axis=1)
    state = stack.embed(ids)
    with sequences_in_force([length, rows.prompt]):
        return stack.final(stack.run(state, 0, len(stack)).stream)


def by_themselves(stack: LayerStack, rows: Rows) -> mx.array:
    """The hidden states of `packed`, each row by itself."""
    parts = [stack.hidden(rows.ids[:1]), stack.hidden(rows.ids[1:, : rows.prompt])]
    return mx.concatenate(parts, axis=1)


class GradientCheck:
    """Gradients of an adapter on a model, by the whole graph and by the stack.

    Args:
        adapter: on the model; its B must not be zero, or A has no gradient.
        stack: the model's parts.
        rows: as from `rows_of_pair`.
    """

    def __init__(self, adapter: Adapter, stack: LayerStack, rows: Rows) -> None:
        self._adapter = adapter
        self._stack = stack
        self._rows = rows
        hidden = stack.hidden(rows.ids)
        self._weights = mx.random.normal(hidden.shape, key=mx.random.key(1)).astype(hidden.dtype)
        self._wanted = self._whole()

    def segments(self) -> bool:
        """Whether single layers give the whole graph's gradients."""

        def end(states: _States) -> mx.array:
            return (self._stack.final(states[0].stream) * self._weights).sum()

        return self._agree(lambda: self._walk((self._stack.embed(self._rows.ids),), _apart, end))

    def prefix(self) -> bool:
        """Whether the shared prompt and its answers, by single layers, do."""
        length = self._rows.prompt
        prompt, answers = self._weights[:, :length].sum(axis=0), self._weights[:, length:]

        def end(states: _States) -> mx.array:
            first, second = (self._stack.final(state.stream) for state in states)
            return (first * prompt).sum() + (second * answers).sum()

        return self._agree(lambda: self._walk(_split(self._stack, self._rows), _shared, end))

    def _agree(self, walk: Callable[[], Gradients]) -> bool:
        def both() -> tuple[mx.array, mx.array]:
            got = walk()
            return _flat(got, self._wanted), _flat(self._wanted, self._wanted)

        return same(both, _BACKWARD)

    def _whole(self) -> Gradients:
        parameters = self._adapter.parameters()

        def loss(parameters: Gradients) -> mx.array:
            self._adapter.assign(parameters)
            return (self._stack.hidden(self._rows.ids) * self._weights).sum()

        try:
            gradients = mx.grad(loss)(parameters)
            mx.eval(gradients)
        finally:
            self._adapter.assign(parameters)
        return gradients

    def _walk(
        self,
        states: _States,
        run: Callable[[LayerStack, _States, int], _States],
        end: Callable[[_States], mx.array],
    ) -> Gradients:
        boundaries = [states]
        for number in range(len(self._stack)):
            boundaries.append(run(self._stack, boundaries[-1], number))
            mx.eval(_carried(boundaries[-1]))
        last = boundaries.pop()

        def loss(carried: list[mx.array]) -> mx.array:
            return end(_carrying(last, carried))

        cotangents: list[mx.array] = mx.grad(loss)(_carried(last))
        gradients: Gradients = {}
        parameters = self._adapter.parameters()
        for number in reversed(range(len(self._stack))):
            before = boundaries.pop()
            names = self._adapter.names(number, number + 1)
            carried = _carried(before)

            def layer(
                *arrays: mx.array,
                number: int = number,
                before: _States = before,
                names: list[str] = names,
                count: int = len(carried),
            ) -> list[mx.array]:
                self._adapter.assign(dict(zip(names, arrays[count:], strict=True)))
                states = _carrying(before, arrays[:count])
                return _carried(run(self._stack, states, number))

            try:
                _, found = mx.vjp(
                    layer, [*carried, *(parameters[name] for name in names)], cotangents
                )
                mx.eval(found)
            finally:
                self._adapter.assign(parameters)
            cotangents = list(found[: len(carried)])
            gradients.update(zip(names, found[len(carried) :], strict=True))
        return gradients


def _apart(stack: LayerStack, states: _States, number: int) -> _States:
    return (stack.run(states[0], number, number + 1),)


def _split(stack: LayerStack, rows: Rows) -> _States:
    prompt, answers = rows.ids[:1, : rows.prompt], rows.ids[:, rows.prompt :]
    return stack.embed(prompt, offset=0), stack.embed(answers, offset=rows.prompt)


def _shared(stack: LayerStack, states: _States, number: int) -> _States:
    capture = Capture()
    prompt = stack.run(states[0], number, number + 1, [capture])
    follow = Continue(capture, states[1].offset)
    return prompt, stack.run(states[1], number, number + 1, [follow])


def _after(stack: LayerStack, rows: Rows) -> _States:
    states = _split(stack, rows)
    for number in range(len(stack)):
        states = _shared(stack, states, number)
    return states


def _flat(gradients: Gradients, like: Gradients) -> mx.array:
    return mx.concatenate([gradients[name].reshape(-1) for name in like])


def _carried(states: _States) -> list[mx.array]:
    return [array for state in states for array in state.carried()]


def _carrying(states: _States, arrays: Sequence[mx.array]) -> _States:
    found: list[Any] = []
    start = 0
    for state in states:
        stop = start + len(state.carried())
        found.append(state.carrying(arrays[start:stop]))
        start = stop
    return tuple(found)
