"""LayerStack: a model as embed -> layers -> final norm -> projection, from the model's own code.

Nothing of a model is reimplemented. Its own `__call__` runs with some of its parts swapped for
stand-ins, so masks, scalings, soft caps and tied heads are whatever the model does. A model whose
parts do not come apart this way is used whole: its "hidden states" are then its logits and its
projection is the identity.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from trainer_core.model.prefix_cache import LayerCache, Position
from trainer_core.model.targets import blocks_of


class StackMismatch(Exception):
    """The model's parts do not reproduce the model; the text says where."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What the model hands a layer besides the stream. `cache_at` is where its cache goes."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    cache_at: int | str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """What goes from layer to layer.

    Attributes:
        stream: the residual stream [B, T, D].
        arguments: each layer's other arguments, constant.
        shared: layer number -> keys and values [B, heads, T, D] that later layers read.
        offset: position of the first token.
    """

    stream: mx.array
    arguments: tuple[Arguments, ...]
    shared: Mapping[int, tuple[mx.array, mx.array]] = field(default_factory=dict)
    offset: int = 0

    def carried(self) -> list[mx.array]:
        """The arrays that change from layer to layer, and so carry gradients."""
        return [self.stream, *(array for pair in self.shared.values() for array in pair)]

    def carrying(self, arrays: Sequence[mx.array]) -> State:
        """The same state with other arrays in place of `carried`."""
        pairs = {
            number: (arrays[1 + 2 * i], arrays[2 + 2 * i]) for i, number in enumerate(self.shared)
        }
        return replace(self, stream=arrays[0], shared=pairs)


class LayerStack:
    """The parts of a model, see the module's docstring. `head` is set once it is found.

    Args:
        model: a model of mlx-lm.
        block_path: path of its list of blocks, such as model.layers.
    """

    def __init__(self, model: nn.Module, block_path: str) -> None:
        modules = dict(model.named_modules())
        inner_path, self._layers_name = _split(block_path)
        outer_path, self._inner_name = _split(inner_path)
        self._model = model
        self._inner: Any = modules[inner_path]
        self._outer: Any = modules[outer_path]
        self.block_path = block_path
        self.whole = not inner_path
        self.layers: list[Any] = blocks_of(model)
        self.head: nn.Module | None = None

    def __len__(self) -> int:
        return len(self.layers)

    def hidden(self, ids: mx.array) -> mx.array:
        """Final hidden states [B, T, D] of ids [B, T], after the last norm."""
        return self._through(self._model if self.whole else self._inner, ids)

    def project(self, hidden: mx.array) -> mx.array:
        """Logits [N, V] of hidden states [N, D], by the model's own head."""
        if self.whole:
            return hidden
        with shadow(self._outer, self._inner_name, _Returns(self._inner, hidden[None])):
            return self._outer(_any_id()).squeeze(0)  # an index would copy

    def project_block(self, hidden: mx.array, start: int, stop: int) -> mx.array:
        """Logits [N, stop - start] of the tokens start..stop-1, by the model's own head.

        The head runs with its rows cut down to these tokens; packed rows stay packed.
        """
        assert self.head is not None, "open_stack found no head to cut"
        with _rows(self.head, start, stop):
            return self.project(hidden)

    def embed(self, ids: mx.array, offset: int | None = None) -> State:
        """The state before the first layer.

        Args:
            ids: [B, T].
            offset: position of the first token if the layers will be given caches, else None.

        Raises:
            StackMismatch: the model does not call each layer once.
        """
        recorders = [_Recorder(layer, self._passed_on) for layer in self.layers]
        caches = None if offset is None else [Position(offset) for _ in self.layers]
        with shadow(self._inner, self._layers_name, recorders):
            self._through(self._inner, ids, caches)
        if any(recorder.calls != 1 for recorder in recorders):
            raise StackMismatch("its layers are not called once each")
        return State(recorders[0].stream, tuple(r.arguments for r in recorders), offset=offset or 0)

    def run(
        self, state: State, start: int, stop: int, caches: Sequence[LayerCache] | None = None
    ) -> State:
        """The state after layers start..stop-1, each with its cache of `caches` if given."""
        for number in range(start, stop):
            cache = None if caches is None else caches[number - start]
            state = self._run_layer(state, number, cache)
        return state

    def final(self, stream: mx.array) -> mx.array:
        """Final hidden states [B, T, D] of the stream after the last layer."""
        passing = [_Returns(layer, self._passed_on(stream)) for layer in self.layers]
        with shadow(self._inner, self._layers_name, passing):
            return self._through(self._inner, _any_id())

    @contextmanager
    def standing_in(self, layers: Sequence[Any]) -> Iterator[None]:
        """For as long as the block runs, the model as a whole calls these for its layers."""
        with shadow(self._inner, self._layers_name, list(layers)):
            yield

    def _through(
        self, network: Any, ids: mx.array, caches: Sequence[Position] | None = None
    ) -> Any:
        """Call the model or its inner part; some of them take no default for their cache."""
        if caches is None:
            taken = inspect.signature(network.__call__).parameters.get("cache")
            if taken is None or taken.default is not inspect.Parameter.empty:
                return network(ids)
        return network(ids, cache=caches)

    def _run_layer(self, state: State, number: int, cache: LayerCache | None) -> State:
        args, kwargs = with_cache(state.arguments[number], cache)
        return replace(state, stream=self.layers[number](state.stream, *args, **kwargs))

    def _passed_on(self, stream: mx.array) -> Any:
        """What a stand-in layer returns so that the model takes `stream` for its output."""
        return stream


def with_cache(
    arguments: Arguments, cache: LayerCache | None
) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """A layer's positional and named arguments with a cache in its place."""
    args, kwargs = list(arguments.args), dict(arguments.kwargs)
    if isinstance(arguments.cache_at, int):
        args[arguments.cache_at] = cache
    elif arguments.cache_at is not None:
        kwargs[arguments.cache_at] = cache
    return args, kwargs


class _Returns:
    """Stands in for a module: gives back a fixed value, and the module's attributes."""

    def __init__(self, module: nn.Module, given: Any) -> None:
        self._module = module
        self._given = given

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Recorder:
    """Stands in for a layer: passes the stream through and keeps what the model gave with it."""

    def __init__(self, layer: nn.Module, passed_on: Any) -> None:
        self._layer = layer
        self._passed_on = passed_on
        self.calls = 0
        self.stream: mx.array = mx.array(0)
        self.arguments = Arguments((), {})

    def __call__(self, stream: mx.array, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        self.stream = stream
        places: list[int | str] = [i for i, a in enumerate(args) if isinstance(a, Position)]
        places += [name for name, a in kwargs.items() if isinstance(a, Position)]
        self.arguments = Arguments(args, kwargs, places[0] if places else None)
        return self._passed_on(stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


@contextmanager
def shadow(module: Any, name: str, value: Any) -> Iterator[None]:
    """Hide a child behind a stand-in: a plain attribute wins over mlx's dict of children."""
    module.__dict__[name] = value
    try:
        yield
    finally:
        del module.__dict__[name]


@contextmanager
def _rows(head: Any, start: int, stop: int) -> Iterator[None]:
    """Cut a head's arrays down to some of its rows, one for each token of the vocabulary."""
    whole = {n: head[n] for n in ("weight", "scales", "biases", "bias") if head.get(n) is not None}
    try:
        for name, array in whole.items():
            head[name] = array[start:stop]
        yield
    finally:
        for name, array in whole.items():
            head[name] = array


def _any_id() -> mx.array:
    """Ids for a call whose embedding is not used."""
    return mx.zeros((1, 1), dtype=mx.int32)


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition(".")
    return parent, name
