"""LayerStack: a model as embed -> layers -> final norm -> projection, from the model's own code.

Nothing of a model is reimplemented. Its own `__call__` runs with some of its parts swapped for
recorders, so masks, scalings, soft caps and tied heads are whatever the model does. A model whose
parts do not come apart this way is used whole: its "hidden states" are then its logits and its
projection is the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from trainer_core.model.targets import blocks_of


class StackMismatch(Exception):
    """The model's parts do not reproduce the model; the text says where."""


@dataclass(frozen=True, slots=True)
class State:
    """What goes from layer to layer: the stream [B, T, D], and each layer's other arguments."""

    stream: mx.array
    arguments: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]


class LayerStack:
    """The parts of a model, see the module's docstring.

    Args:
        model: a model of mlx-lm.
        block_path: path of its list of blocks, such as model.layers.
    """

    def __init__(self, model: nn.Module, block_path: str) -> None:
        modules = dict(model.named_modules())
        inner_path, self._layers_name = _split(block_path)
        outer_path, self._inner_name = _split(inner_path)
        self._model = model
        self._inner = modules[inner_path]
        self._outer = modules[outer_path]
        self.whole = not inner_path
        self.layers = blocks_of(model)

    def __len__(self) -> int:
        return len(self.layers)

    def hidden(self, ids: mx.array) -> mx.array:
        """Final hidden states [B, T, D] of ids [B, T], after the last norm."""
        return self._model(ids) if self.whole else self._inner(ids)

    def project(self, hidden: mx.array) -> mx.array:
        """Logits [N, V] of hidden states [N, D], by the model's own head."""
        if self.whole:
            return hidden
        given = hidden[None]
        with _shadow(self._outer, self._inner_name, _Returns(self._inner, given)):
            return self._outer(_ANY_ID())[0]

    def embed(self, ids: mx.array) -> State:
        """The state before the first layer, for ids [B, T]."""
        seen: list[_Recorder] = [_Recorder(layer) for layer in self.layers]
        with _shadow(self._inner, self._layers_name, seen):
            self._inner(ids)
        if any(recorder.calls != 1 for recorder in seen):
            raise StackMismatch("its layers are not called once each")
        return State(seen[0].stream, tuple((r.args, r.kwargs) for r in seen))

    def run(self, state: State, start: int, stop: int) -> State:
        """The state after layers start..stop-1."""
        stream = state.stream
        for number in range(start, stop):
            args, kwargs = state.arguments[number]
            stream = self.layers[number](stream, *args, **kwargs)
        return State(stream, state.arguments)

    def final(self, state: State) -> mx.array:
        """Final hidden states [B, T, D]."""
        passing: list[Any] = [_Returns(layer, state.stream) for layer in self.layers]
        with _shadow(self._inner, self._layers_name, passing):
            return self._inner(_ANY_ID())


def check_projection(stack: LayerStack) -> bool:
    """Whether hidden states and projection reproduce the model's own logits on a short input."""
    if stack.whole:
        return True
    ids = mx.array([[1, 2, 3, 4, 5]])
    try:
        parts = stack.project(stack.hidden(ids)[0])
        model = stack._model(ids)[0]
        difference = mx.abs(parts - model).max()
        mx.eval(difference)
    except Exception:  # noqa: BLE001 - whatever a foreign model raises here means that its parts do not come apart
        return False
    return bool(difference <= 1e-4 * mx.abs(model).max())


def block_path(model: nn.Module) -> str:
    """Path of the list of blocks, such as model.layers; empty if it is not a plain attribute."""
    blocks = blocks_of(model)
    for path, module in model.named_modules():
        if module is blocks[0]:
            return path.rsplit(".", 1)[0]
    return ""


def open_stack(model: nn.Module) -> tuple[LayerStack, str]:
    """The stack of a model, and why it has to be used whole, or an empty string."""
    stack = LayerStack(model, block_path(model))
    if not check_projection(stack):
        stack.whole = True
        return stack, "its hidden states and its head do not come apart"
    return stack, ""


class _Returns:
    """Stands in for a module: gives back a fixed array, and the module's attributes."""

    def __init__(self, module: nn.Module, given: mx.array) -> None:
        self._module = module
        self._given = given

    def __call__(self, *args: Any, **kwargs: Any) -> mx.array:
        return self._given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Recorder:
    """Stands in for a layer: passes the stream through and keeps what the model gave with it."""

    def __init__(self, layer: nn.Module) -> None:
        self._layer = layer
        self.calls = 0
        self.stream: mx.array = mx.array(0)
        self.args: tuple[Any, ...] = ()
        self.kwargs: dict[str, Any] = {}

    def __call__(self, stream: mx.array, *args: Any, **kwargs: Any) -> mx.array:
        self.calls += 1
        self.stream, self.args, self.kwargs = stream, args, kwargs
        return stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


@contextmanager
def _shadow(module: nn.Module, name: str, value: Any) -> Iterator[None]:
    """Hide a child behind a stand-in: a plain attribute wins over mlx's dict of children."""
    module.__dict__[name] = value
    try:
        yield
    finally:
        del module.__dict__[name]


_ANY_ID: Callable[[], mx.array] = lambda: mx.zeros((1, 1), dtype=mx.int32)  # noqa: E731


def _split(path: str) -> tuple[str, str]:
    parent, _, name = path.rpartition(".")
    return parent, name
