"""Full fine-tuning: the model's own weights are trained, in place of an adapter's.

Everything that asks for an adapter's arrays gets the model's. Fast heads and segments take the
embedding and the head for constants, so the model runs as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten, tree_unflatten

from trainer_core.errors import ConfigError
from trainer_core.model.dropout import DropoutSwitch
from trainer_core.model.lora import Adapter
from trainer_core.model.open_stack import CheckedStack
from trainer_core.model.stack import LayerStack
from trainer_core.model.targets import block_path, blocks_of

_WHY = "all weights are trained, the head's too"


class FullWeights(Adapter):
    """The trained weights of a model, by the names that they have in it.

    Args:
        model: frozen; what is trained is unfrozen.
        num_layers: train the last n blocks alone, or everything if it is -1.

    Raises:
        ConfigError: it has fewer blocks.
    """

    def __init__(self, model: nn.Module, num_layers: int = -1) -> None:
        super().__init__({}, DropoutSwitch())
        blocks = blocks_of(model)
        if num_layers > len(blocks):
            raise ConfigError(
                f"num_layers is {num_layers}, but the model has {len(blocks)} blocks",
                "",
                f"use a number up to {len(blocks)}, or -1 for everything",
                key="num_layers",
            )
        for part in [model] if num_layers < 0 else blocks[-num_layers:]:
            part.unfreeze()
        self._model = model

    def parameters(self) -> dict[str, mx.array]:
        """Name -> array, as in the model's own files."""
        flat: Any = tree_flatten(self._model.trainable_parameters())
        return {name: array for name, array in flat if mx.issubdtype(array.dtype, mx.floating)}

    def uniform(self, rank: int, scale: float) -> dict[str, mx.array]:
        """The arrays as they are, which is what mlx-lm loads."""
        return self.parameters()

    def is_uniform(self, rank: int, scale: float) -> bool:
        """There is nothing to pad."""
        return True

    def names(self, start: int, stop: int) -> list[str]:
        """Not for single layers: the model runs as a whole."""
        raise NotImplementedError(_WHY)

    def assign(self, parameters: dict[str, mx.array]) -> None:
        """Put arrays in place; names and shapes are those of `parameters`."""
        self._model.update(tree_unflatten(list(parameters.items())))

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """Before the first step these weights are the base model."""
        yield


def as_a_whole(model: nn.Module) -> CheckedStack:
    """The stack of a model that is trained as a whole, which needs no check."""
    stack = LayerStack(model, block_path(model))
    stack.whole = True
    return CheckedStack(stack, _WHY, _WHY, _WHY, _WHY)
