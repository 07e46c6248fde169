"""Ranges of layers as compiled functions, which spares a GPU the wait for Python.

A compiled function takes every array it works with as an input: carried states, masks, the adapter,
and the frozen weights too. So nothing of one step is baked in, and layers of one kind share one
function for each shape. Streams with bucketed lengths keep the number of shapes small.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from trainer_core.backward.autograd import Gradients
from trainer_core.backward.layer_kinds import kind_of
from trainer_core.backward.layer_ranges import EagerRanges, carried, vjp
from trainer_core.model.lora import Adapter
from trainer_core.model.stack import Arguments, LayerStack, State
from trainer_core.policy import Policy
from trainer_core.streams.stream import States, Stream

Compiled = Callable[[list[mx.array]], list[mx.array]]

# More than the lengths that most data sets bring; the least recently used one makes room.
_MOST_FUNCTIONS = 256


@dataclass(slots=True)
class _Range:
    """The arrays of some layers of the model, and what kind of layers these are."""

    kind: int
    names: list[str]
    trained: list[tuple[nn.Module, str]]
    frozen: list[tuple[nn.Module, str]]

    def arrays(self) -> list[mx.array]:
        """All of them as they are now, the adapter's first."""
        return [module[name] for module, name in (*self.trained, *self.frozen)]

    @contextmanager
    def holding(self, arrays: Sequence[mx.array]) -> Iterator[None]:
        """The layers with these arrays in place of `arrays()`."""
        places, own = [*self.trained, *self.frozen], self.arrays()
        try:
            for (module, name), array in zip(places, arrays, strict=True):
                module[name] = array
            yield
        finally:
            for (module, name), array in zip(places, own, strict=True):
                module[name] = array


@dataclass(slots=True)
class _Function:
    """A compiled function, and which layers' keys and values its result carries."""

    call: Compiled
    shared: list[tuple[int, ...]] = field(default_factory=list)


class CompiledRanges:
    """See the module's docstring. Without dropout; another adapter makes it start afresh.

    Attributes:
        compilations: how many functions were made so far.
    """

    def __init__(self) -> None:
        self.compilations = 0
        self._functions: OrderedDict[Hashable, _Function] = OrderedDict()
        self._ranges: dict[tuple[int, int], _Range] = {}
        self._kinds: dict[Hashable, int] = {}
        self._adapter: Adapter | None = None
        self._eager = EagerRanges()

    def run(self, policy: Policy, stream: Stream, states: States, start: int, stop: int) -> States:
        """See `LayerRanges`."""
        layers = self._range(policy, start, stop)
        inputs = _Inputs(states, start, stop)
        if not inputs.compilable:
            return self._eager.run(policy, stream, states, start, stop)
        key = ("run", type(stream), layers.kind, inputs.key())
        function = self._functions.get(key)
        if function is None:
            function = self._keep(key, _forward(stream, layers, inputs.hollow(), start, stop))
        self._functions.move_to_end(key)
        found = function.call([*inputs.arrays, *layers.arrays()])
        return _with_carried(states, found, function.shared)

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
        layers = self._range(policy, start, stop)
        inputs = _Inputs(before, start, stop)
        if not inputs.compilable:
            return self._eager.pull(policy, stream, before, start, stop, cotangents)
        wanted = inputs.carried if start > 0 else 0
        key = ("pull", type(stream), layers.kind, inputs.key(), wanted)
        function = self._functions.get(key)
        if function is None:
            made = _backward(
                _forward(stream, layers, inputs.hollow(), start, stop).call,
                inputs=len(inputs.arrays),
                wanted=wanted,
                trained=len(layers.trained),
                cotangents=len(cotangents),
            )
            function = self._keep(key, _Function(made))
        self._functions.move_to_end(key)
        found = function.call([*inputs.arrays, *layers.arrays(), *cotangents])
        return found[:wanted], dict(zip(layers.names, found[wanted:], strict=True))

    def _keep(self, key: Hashable, function: _Function) -> _Function:
        made = replace(function, call=mx.compile(function.call))
        self.compilations += 1
        self._functions[key] = made
        if len(self._functions) > _MOST_FUNCTIONS:
            # With the function goes what MLX has compiled for it.
            self._functions.popitem(last=False)
        return made

    def _range(self, policy: Policy, start: int, stop: int) -> _Range:
        if policy.adapter is not self._adapter:
            for kept in (self._functions, self._ranges, self._kinds):
                kept.clear()
            self._adapter = policy.adapter
        found = self._ranges.get((start, stop))
        if found is None:
            found = self._ranges[start, stop] = self._look_at(policy, start, stop)
        return found

    def _look_at(self, policy: Policy, start: int, stop: int) -> _Range:
        layers = policy.stack.layers[start:stop]
        names = policy.adapter.names(start, stop)
        trained: list[tuple[nn.Module, str]] = []
        for name in names:
            path, leaf = name.rsplit(".", 1)
            trained.append((policy.adapter.layers[path], leaf))
        known = {(id(module), name) for module, name in trained}
        frozen = [
            (module, name)
            for layer in layers
            for module in layer.modules()
            for name, value in module.items()
            if isinstance(value, mx.array) and (id(module), name) not in known
        ]
        kind: Hashable = tuple(kind_of(layer) for layer in layers)
        if type(policy.stack)._run_layer is not LayerStack._run_layer:
            # The stack runs its layers by number, so no two are alike.
            kind = (kind, start)
        return _Range(self._kinds.setdefault(kind, len(self._kinds)), names, trained, frozen)


class _Inputs:
    """States taken apart: the arrays that layers start..stop-1 read, and the rest."""

    def __init__(self, states: States, start: int, stop: int) -> None:
        self._start = start
        self.arrays = carried(states)
        self.carried = len(self.arrays)
        self.compilable = True
        self._states = [
            (
                len(state.carried()),
                tuple(state.shared),
                state.offset,
                tuple(self._apart(arguments) for arguments in state.arguments[start:stop]),
            )
            for state in states
        ]

    def key(self) -> Hashable:
        """Equal for inputs that one compiled function can take."""
        return tuple(self._states), tuple((array.shape, array.dtype) for array in self.arrays)

    def hollow(self) -> _Hollow:
        """What is left without the arrays."""
        return _Hollow(self._start, self._states)

    def _apart(self, arguments: Arguments) -> Hashable:
        at = arguments.cache_at
        args = tuple(None if at == i else self._value(v) for i, v in enumerate(arguments.args))
        kwargs = tuple(
            (name, None if at == name else self._value(value))
            for name, value in arguments.kwargs.items()
        )
        return args, kwargs, at

    def _value(self, value: Any) -> Hashable:
        if isinstance(value, mx.array):
            self.arrays.append(value)
            return _Place(len(self.arrays) - 1)
        if value is not None and not isinstance(value, (str, int, float, bool)):
            self.compilable = False
        return value


@dataclass(frozen=True, slots=True)
class _Place:
    """Where an argument is in a list of arrays."""

    at: int


@dataclass(frozen=True, slots=True)
class _Hollow:
    """States without arrays, see `_Inputs`."""

    start: int
    states: list[Any]

    def filled(self, arrays: Sequence[mx.array]) -> States:
        """The states with these arrays; layers outside the range have no arguments."""

        def value(made: Any) -> Any:
            return arrays[made.at] if isinstance(made, _Place) else made

        found: list[State] = []
        first = 0
        for count, shared, offset, arguments in self.states:
            own = arrays[first : first + count]
            first += count
            made = [
                Arguments(tuple(map(value, args)), {n: value(v) for n, v in kwargs}, at)
                for args, kwargs, at in arguments
            ]
            before = [Arguments((), {})] * self.start
            pairs = {n: (own[1 + 2 * i], own[2 + 2 * i]) for i, n in enumerate(shared)}
            found.append(State(own[0], (*before, *made), pairs, offset))
        return tuple(found)


def _forward(stream: Stream, layers: _Range, hollow: _Hollow, start: int, stop: int) -> _Function:
    """From a range's inputs and weights to what its states carry."""
    shared: list[tuple[int, ...]] = []
    count = len(layers.trained) + len(layers.frozen)

    def call(arrays: list[mx.array]) -> list[mx.array]:
        states = hollow.filled(arrays[: len(arrays) - count])
        with layers.holding(arrays[len(arrays) - count :]):
            after = stream.run(states, start, stop)
        shared[:] = [tuple(state.shared) for state in after]
        return carried(after)

    return _Function(call, shared)


def _backward(
    forward: Compiled, *, inputs: int, wanted: int, trained: int, cotangents: int
) -> Compiled:
    """From inputs, weights and cotangents to cotangents of the first inputs and weights."""

    def call(arrays: list[mx.array]) -> list[mx.array]:
        given = arrays[: len(arrays) - cotangents]

        def run(primals: list[mx.array]) -> list[mx.array]:
            rest = [*primals[:wanted], *given[wanted:inputs], *primals[wanted:]]
            return forward([*rest, *given[inputs + trained :]])

        primals = [*given[:wanted], *given[inputs : inputs + trained]]
        return vjp(run, primals, arrays[len(arrays) - cotangents :])

    return call


def _with_carried(
    states: States, arrays: Sequence[mx.array], shared: list[tuple[int, ...]]
) -> States:
    """The states that follow `states`, with what they carry in one list."""
    found: list[State] = []
    first = 0
    for state, numbers in zip(states, shared, strict=True):
        pairs = {
            n: (arrays[first + 1 + 2 * i], arrays[first + 2 + 2 * i]) for i, n in enumerate(numbers)
        }
        found.append(replace(state, stream=arrays[first], shared=pairs))
        first += 1 + 2 * len(numbers)
    return tuple(found)
