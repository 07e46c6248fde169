"""Gradient checkpointing: the whole graph with every layer recomputed in the backward pass.

Chen et al. 2016, arXiv:1604.06174. MLX runs a checkpointed function again while it differentiates,
so everything that the layer reads besides its arguments has to be as it was: the dropout plan is
kept with the call, and the adapter's arrays are arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map

from trainer_core.model.dropout import DropoutSwitch
from trainer_core.model.stack import LayerStack


@contextmanager
def checkpointed(stack: LayerStack, dropout: DropoutSwitch) -> Iterator[None]:
    """For as long as the block runs, the model's layers keep nothing but their inputs.

    Args:
        stack: whose model runs as a whole.
        dropout: the switch of its adapter.
    """
    with stack.standing_in([_Checkpointed(layer, dropout) for layer in stack.layers]):
        yield


class _Checkpointed:
    """Stands in for a layer, whose attributes it has."""

    def __init__(self, layer: nn.Module, dropout: DropoutSwitch) -> None:
        self._layer: Any = layer
        self._dropout = dropout

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        layer, plan = self._layer, self._dropout.plan
        given: Any = (args, kwargs, layer.trainable_parameters())
        found: list[Any] = []

        def run(*inputs: mx.array) -> list[mx.array]:
            places = iter(inputs)
            own_args, own_kwargs, trained = tree_map(
                lambda value: next(places) if _is_floating(value) else value, given
            )
            before = layer.trainable_parameters()
            layer.update(trained)
            try:
                with self._dropout.set(plan):
                    found[:] = [layer(*own_args, **own_kwargs)]
            finally:
                layer.update(before)
            return _arrays(found)

        outputs = iter(mx.checkpoint(run)(*filter(_is_floating, _arrays(given))))
        # What a layer returns besides arrays, such as an offset, does not pass through MLX.
        return tree_map(lambda value: next(outputs) if _is_array(value) else value, found)[0]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


def _arrays(tree: Any) -> list[mx.array]:
    """A tree's arrays in the order in which `tree_map` comes by them."""
    arrays: list[mx.array] = []
    tree_map(lambda value: arrays.append(value) if _is_array(value) else None, tree)
    return arrays


def _is_array(value: Any) -> bool:
    return isinstance(value, mx.array)


def _is_floating(value: Any) -> bool:
    """Integers and truth values have no gradient, and MLX refuses to look for one."""
    return isinstance(value, mx.array) and mx.issubdtype(value.dtype, mx.floating)
