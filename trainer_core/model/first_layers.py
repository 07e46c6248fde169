"""A small float32 copy of a model, in which differences between two ways of running it show.

It has the first layers of the model, as many as it takes to meet every kind of layer, and the first
rows of its vocabulary. Nothing is read from the configuration: the copy is made of the model's
own modules, so it also has the real weights.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from trainer_core.model.lora import LoRALinear
from trainer_core.model.stack import Arguments

WINDOW = 16
VOCABULARY = 512

# A copy may take this share of the model's own memory, or the bytes of a small one.
_MOST_SHARE = 0.25
_MOST_BYTES = 256 << 20
_WINDOWS = ("sliding_window", "window_size", "attention_window_size", "window")
_PACKED = (mx.uint8, mx.uint16, mx.uint32)


@contextmanager
def narrow_windows(model: nn.Module) -> Iterator[None]:
    """Cut every sliding window of a model to `WINDOW` tokens for as long as the block runs.

    Short rows then reach past the window, so that a mask that is wrong there is seen.
    """
    found: list[tuple[nn.Module, str, int]] = []
    for module in model.modules():
        for name in _WINDOWS:
            size = vars(module).get(name)
            if isinstance(size, int) and size > WINDOW:
                found.append((module, name, size))
    try:
        for module, name, _ in found:
            setattr(module, name, WINDOW)
        yield
    finally:
        for module, name, size in found:
            setattr(module, name, size)


def layers_of_every_kind(layers: Sequence[nn.Module], arguments: Sequence[Arguments]) -> int:
    """How many of the first layers it takes to meet every kind of layer, and one more.

    The one more is often of the same kind as the last: like layers that meddle with each other
    are seen too.

    Args:
        layers: all of them.
        arguments: what the model hands each; a layer under another mask is another kind.
    """
    kinds = [_kind(layer, given) for layer, given in zip(layers, arguments, strict=True)]
    last_new = max(index for index, kind in enumerate(kinds) if kind not in kinds[:index])
    return min(last_new + 2, len(layers))


def first_layers(
    model: nn.Module, block_path: str, count: int, vocabulary: int
) -> nn.Module | None:
    """A copy of a model in float32 with its first `count` layers and no adapter.

    Args:
        model: stays as it is.
        block_path: path of its list of layers.
        count: layers of the copy.
        vocabulary: rows of its embedding and head; more than `VOCABULARY` are cut off.

    Returns:
        None if the copy would be too large beside the model itself.
    """
    parent, _, name = block_path.rpartition(".")
    owner: Any = dict(model.named_modules())[parent]
    kept = owner[name][:count]
    own = sum(array.nbytes for _, array in _arrays(model))
    added = sum(4 * array.size for layer in kept for _, array in _arrays(layer) if _widened(array))
    if added > max(_MOST_SHARE * own, _MOST_BYTES):
        return None
    whole = owner[name]
    owner[name] = kept
    try:
        copied: nn.Module = _copy(model, {}, vocabulary)
    finally:
        owner[name] = whole
    return copied


def _copy(value: Any, known: dict[int, Any], vocabulary: int) -> Any:
    """The value with other modules and float32 arrays; shared modules stay shared."""
    if isinstance(value, LoRALinear):
        value = value.linear
    if isinstance(value, mx.array):
        return value.astype(mx.float32) if _widened(value) else value
    if isinstance(value, list | tuple):
        return type(value)([_copy(item, known, vocabulary) for item in value])
    if not isinstance(value, dict):
        return value
    if id(value) not in known:
        made = copy.copy(value)
        known[id(value)] = made
        rows = _rows_of_vocabulary(value, vocabulary)
        for name, item in value.items():
            item = item[:VOCABULARY] if name in rows else item
            made[name] = _copy(item, known, vocabulary)
    return known[id(value)]


def _rows_of_vocabulary(module: dict[str, Any], vocabulary: int) -> set[str]:
    """Names of the arrays of a module that have a row for each token."""
    weight = module.get("weight")
    if not isinstance(weight, mx.array) or weight.ndim != 2 or len(weight) != vocabulary:
        return set()
    return {
        name
        for name, item in module.items()
        if isinstance(item, mx.array) and item.ndim and len(item) == vocabulary
    }


def _kind(layer: nn.Module, given: Arguments) -> tuple[Any, ...]:
    """What tells layers apart: their modules, switches and constants, shapes, and their masks."""
    modules = [
        (path, type(module).__name__, sorted(_settings(module)))
        for path, module in layer.named_modules()
    ]
    shapes = [(path, array.shape) for path, array in _arrays(layer)]
    handed = [*given.args, *(item for _, item in sorted(given.kwargs.items()))]
    return (modules, shapes, [_form(item) for item in handed])


def _settings(module: nn.Module) -> Iterator[tuple[str, str]]:
    for name, value in vars(module).items():
        # Other whole numbers are left out: many layers know their own.
        if isinstance(value, bool | str | float) or name in _WINDOWS:
            yield name, repr(value)


def _form(item: Any) -> Any:
    if isinstance(item, mx.array):
        return item.shape, str(item.dtype)
    return item if isinstance(item, str | bool) else type(item).__name__


def _widened(array: mx.array) -> bool:
    return array.dtype not in _PACKED and mx.issubdtype(array.dtype, mx.floating)


def _arrays(module: nn.Module) -> list[tuple[str, mx.array]]:
    flat: Any = tree_flatten(module.parameters())
    return flat
