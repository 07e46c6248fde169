"""Running a range of a stream's layers forward, and differentiating it, as the model's own code."""

from __future__ import annotations

from typing import Protocol

import mlx.core as mx

from trainer_core.backward.autograd import Gradients
from trainer_core.policy import Policy
from trainer_core.streams.stream import States, Stream


class LayerRanges(Protocol):
    """The two things that a segmented backward does with a range of layers. Both are lazy."""

    def run(self, policy: Policy, stream: Stream, states: States, start: int, stop: int) -> States:
        """The states after layers start..stop-1."""
        ...

    def pull(
        self,
        policy: Policy,
        stream: Stream,
        before: States,
        start: int,
        stop: int,
        cotangents: list[mx.array],
    ) -> tuple[list[mx.array], Gradients]:
        """Cotangents of what `before` carries, and gradients of the adapter's arrays in the range.

        The embedding is frozen, so below the first layer there are no cotangents.

        Args:
            policy: what is trained.
            stream: what runs.
            before: the states before layer `start`.
            start: first layer.
            stop: layer after the last.
            cotangents: of what the states after the range carry.
        """
        ...


class EagerRanges:
    """Every call builds its graph anew."""

    def run(self, policy: Policy, stream: Stream, states: States, start: int, stop: int) -> States:
        """See `LayerRanges`."""
        return stream.run(states, start, stop)

    def pull(
        self,
        policy: Policy,
        stream: Stream,
        before: States,
        start: int,
        stop: int,
        cotangents: list[mx.array],
    ) -> tuple[list[mx.array], Gradients]:
        """See `LayerRanges`."""
        names = policy.adapter.names(start, stop)
        parameters = policy.adapter.parameters()
        inputs = carried(before) if start > 0 else []
        count = len(inputs)

        def run(arrays: list[mx.array]) -> list[mx.array]:
            states = carrying(before, arrays[:count]) if count else before
            policy.adapter.assign(dict(zip(names, arrays[count:], strict=True)))
            return carried(stream.run(states, start, stop))

        try:
            found = vjp(run, [*inputs, *(parameters[name] for name in names)], cotangents)
        finally:
            # While MLX traces, the layers hold tracers; they must not stay there.
            policy.adapter.assign(parameters)
        return found[:count], dict(zip(names, found[count:], strict=True))


def vjp(
    function: object,
    primals: list[mx.array],
    cotangents: list[mx.array],
    *,
    outputs: bool = False,
) -> list[mx.array]:
    """Cotangents of a list of arrays through a function from lists to lists.

    Args:
        function: is differentiated.
        primals: its argument.
        cotangents: of its result.
        outputs: put its result before what is returned.
    """

    def flat(*arrays: mx.array) -> object:
        return function(list(arrays))  # type: ignore[operator]

    if not primals:
        return []
    made, found = mx.vjp(flat, primals, cotangents)
    return [*(made if outputs else []), *found]


def carried(states: States) -> list[mx.array]:
    """All arrays that change from layer to layer."""
    return [array for state in states for array in state.carried()]


def carrying(states: States, arrays: list[mx.array]) -> States:
    """The same states with other arrays in place of `carried`."""
    found = []
    start = 0
    for state in states:
        stop = start + len(state.carried())
        found.append(state.carrying(arrays[start:stop]))
        start = stop
    return tuple(found)
