"""How sensitive a model's layers are to quantisation, as whoever quantised it has written it down.

Two kinds of files in a model's folder are known: `optiq_metadata.json`, whose `per_layer` (at the
top or in `optimization`) has a `kl` for each layer, and a list of [layer, sensitivity] as mlx-lm's
dynamic quantisation writes it, in a file that ends in `sensitivities.json`. No MLX here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trainer_core.errors import ModelError

_METADATA = "optiq_metadata.json"


def read_sensitivities(folder: Path) -> dict[str, float]:
    """Path of a layer -> its sensitivity; empty if the folder says nothing.

    Raises:
        ModelError: there is such a file, and it holds something else.
    """
    files = [folder / _METADATA, *sorted(folder.glob("*sensitivities.json"))]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        return {}
    try:
        found = dict(_entries(json.loads(file.read_text(encoding="utf-8"))))
        if not found or not all(map(math.isfinite, found.values())):
            raise ValueError("it has no finite sensitivity of a layer")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelError(
            f"{file} cannot be read",
            f"rank_scaling by_kl needs a sensitivity for each layer: {error}",
            "choose rank_scaling by_bits, or take the file away",
        ) from None
    return found


def _entries(told: Any) -> Iterator[tuple[str, float]]:
    """Layer and sensitivity, whatever the form."""
    if isinstance(told, Mapping):
        told = told["per_layer"] if "per_layer" in told else told["optimization"]["per_layer"]
    items = told.items() if isinstance(told, Mapping) else told
    for item in items:
        if isinstance(item, Mapping):
            name, value = item.get("name") or item.get("path") or item["layer"], item
        else:
            name, value = item
        value = value.get("kl") if isinstance(value, Mapping) else value
        if value is not None:  # a layer that was not measured
            yield str(name).removesuffix(".weight"), float(value)
