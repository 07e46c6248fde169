"""Reads what a model folder says about its weights, without loading them and without MLX.

A safetensors file starts with a table of its tensors; that and config.json are all that is read.
The three tensors of a quantised weight (weight, scales, biases) count as the one they stand for.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer_core.errors import ModelError


@dataclass(frozen=True, slots=True)
class Tensor:
    """One logical weight: `shape` as if it were not quantised, `stored` in bytes as in the file."""

    name: str
    shape: tuple[int, ...]
    stored: int
    dtype: str

    @property
    def parameters(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a model folder.

    Raises:
        ModelError: there is no such file, or it does not hold an object.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(
            f"cannot read {path}", error.strerror or str(error), "choose a model folder"
        ) from None
    except ValueError as error:
        raise ModelError(
            f"{path} is not valid JSON", str(error), "download the model again"
        ) from None
    if not isinstance(value, dict):
        raise ModelError(f"{path} does not hold a JSON object", "", "download the model again")
    return value


def read_tensors(folder: Path, config: dict[str, Any]) -> list[Tensor]:
    """The logical weights of all safetensors files of a model folder.

    Args:
        folder: the model folder.
        config: its config.json, for the group sizes of quantised weights.

    Raises:
        ModelError: there is no such file, or a header is damaged.
    """
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise ModelError(
            f"{folder} holds no model*.safetensors", "", "choose a folder with a whole model"
        )
    headers: dict[str, dict[str, Any]] = {}
    for file in files:
        headers.update(_header(file))
    found = []
    for name, entry in headers.items():
        base = name.removesuffix(".scales").removesuffix(".biases")
        if base != name and f"{base}.weight" in headers and f"{base}.scales" in headers:
            continue  # counted with its weight
        found.append(_tensor(name, entry, headers, config))
    return found


def _header(file: Path) -> dict[str, dict[str, Any]]:
    try:
        with file.open("rb") as stream:
            (size,) = struct.unpack("<Q", stream.read(8))
            if size > file.stat().st_size:
                raise ValueError("the header is longer than the file")
            header = json.loads(stream.read(size))
        if not isinstance(header, dict):
            raise ValueError("the header is not a table")
        return {name: entry for name, entry in header.items() if name != "__metadata__"}
    except (OSError, ValueError, struct.error) as error:
        raise ModelError(f"{file} is damaged", str(error), "download the model again") from None


def _stored(entry: dict[str, Any]) -> int:
    begin, end = entry["data_offsets"]
    return end - begin


def _tensor(
    name: str, entry: dict[str, Any], headers: dict[str, Any], config: dict[str, Any]
) -> Tensor:
    base = name.removesuffix(".weight")
    scales = headers.get(f"{base}.scales")
    if base == name or scales is None or entry["dtype"] != "U32":
        return Tensor(name, tuple(entry["shape"]), _stored(entry), entry["dtype"])
    quantisation = config.get("quantization") or config.get("quantization_config") or {}
    own = quantisation.get(base)
    group = (own if isinstance(own, dict) else quantisation).get("group_size", 64)
    stored = sum(
        _stored(headers[n]) for n in (name, f"{base}.scales", f"{base}.biases") if n in headers
    )
    rows, columns = entry["shape"][:-1], scales["shape"][-1] * group
    return Tensor(name, (*rows, columns), stored, f"Q{entry['shape'][-1] * 32 // columns}")
