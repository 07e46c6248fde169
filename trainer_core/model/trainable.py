"""Whether a model can be trained at all: its adapter has a gradient, finite and not zero.

Some layers of some models cannot be differentiated, or not on every device. It is better to say so
before the first step than to train nothing.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn

from trainer_core.errors import ModelError
from trainer_core.model.lora import Adapter

_TOKENS = 8


def check_trainable(model: nn.Module, adapter: Adapter) -> None:
    """Differentiate the model's loss on a few tokens.

    Args:
        model: with the adapter on it.
        adapter: new or trained.

    Raises:
        ModelError: nothing would be learned, with the reason.
    """
    ids = mx.arange(3, 4 + _TOKENS)[None]
    network: Any = model
    parameters = adapter.parameters()

    def loss(parameters: dict[str, mx.array]) -> mx.array:
        adapter.assign(parameters)
        logits = network(ids[:, :-1]).astype(mx.float32)
        return nn.losses.cross_entropy(logits, ids[:, 1:], reduction="mean")

    try:
        value, gradients = mx.value_and_grad(loss)(parameters)
        # A sum of magnitudes overflows later than one of squares.
        size = sum((mx.abs(g.astype(mx.float32)).sum() for g in gradients.values()), mx.array(0.0))
        mx.eval(value, size)
    except MemoryError:
        raise
    except Exception as error:  # a foreign model raises whatever it likes
        text = " ".join(str(error).split())
        raise _refusal(f"MLX cannot run and differentiate it here: {text[:300]}") from error
    finally:
        adapter.assign(parameters)
    if not mx.isfinite(value).item():
        raise _refusal("its loss on a few tokens is not a number")
    if not mx.isfinite(size).item():
        raise _refusal("the gradient of its adapter is not finite")
    if size.item() == 0:
        raise _refusal("the gradient of its adapter is zero")


def _refusal(why: str) -> ModelError:
    return ModelError(
        "this model cannot be trained",
        why,
        "choose another model, or other target_modules; weights: float32 may help",
    )
