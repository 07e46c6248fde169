"""Load a base model through mlx-lm's own classes and bring its weights to a precision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from trainer_core.errors import ModelError

WeightPolicy = Literal["keep", "float32", "bfloat16"]


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A frozen base model, its config.json and the folder it came from.

    `bits` has the width in which each quantised linear is stored, also after dequantising.
    """

    model: nn.Module
    config: dict[str, Any]
    folder: Path
    bits: Mapping[str, int] = field(default_factory=dict)


def load_model(folder: Path, weights: WeightPolicy = "keep") -> LoadedModel:
    """Load and freeze a model.

    Args:
        folder: a model folder, see `find.resolve_model`.
        weights: `keep` leaves the stored precision and quantisation; `float32` and `bfloat16`
            dequantise.

    Raises:
        ModelError: the architecture is unknown, or weights are missing or broken.
    """
    from mlx_lm import utils as mlx_lm

    try:
        model, config = mlx_lm.load_model(folder, lazy=True, strict=True)
    except (
        Exception
    ) as error:  # mlx-lm raises many kinds; each means that this folder cannot be used
        raise _model_error(folder, error) from error
    bits = {p: m.bits for p, m in model.named_modules() if isinstance(m, nn.QuantizedLinear)}
    if weights != "keep":
        model = set_precision(model, weights)
    model.freeze()
    model.eval()
    try:
        mx.eval(model.parameters())
    except RuntimeError as error:
        raise _model_error(folder, error) from error
    return LoadedModel(model, config, folder, bits)


def set_precision(model: nn.Module, weights: WeightPolicy) -> nn.Module:
    """The model with every quantised layer dequantised and every float array cast.

    Args:
        model: changed in place where possible.
        weights: `float32` or `bfloat16`; `keep` returns the model as it is.
    """
    if weights == "keep":
        return model
    from mlx_lm import utils as mlx_lm

    if any(name.endswith(".scales") for name, _ in tree_flatten(model.parameters())):
        model = mlx_lm.dequantize_model(model)
    model.set_dtype(mx.float32 if weights == "float32" else mx.bfloat16)
    return model


def is_half(model: nn.Module) -> bool:
    """Whether any floating weight is float16, whose range is too small to train in."""
    flat: Any = tree_flatten(model.parameters())
    return any(array.dtype == mx.float16 for _, array in flat)


def _model_error(folder: Path, error: Exception) -> ModelError:
    text = " ".join(str(error).split())
    if "not supported" in text and "Model type" in text:
        return ModelError(
            f"the model in {folder} cannot be trained",
            text,
            "choose an architecture that mlx-lm supports",
        )
    if isinstance(error, (KeyError, TypeError)):
        text = f"its config.json lacks or misuses {text}"
    if len(text) > 300:
        text = text[:300] + " ..."
    return ModelError(
        f"the model in {folder} could not be loaded",
        text,
        "download the model again, or choose another",
    )
