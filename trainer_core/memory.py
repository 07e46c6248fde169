"""How much memory a run needs and how much there is, without MLX.

Read from a model folder's config.json and the headers of its safetensors files, so that the form can show
it while an option is being changed and the engine can choose the precision of the weights before loading.

Not modelled: what MLX's allocator and the operating system keep besides, adapters on embeddings, segmented
backward, prefix sharing and checkpointing (which all need less), and layers unlike a transformer's. Take
the activations as right to a factor of two.
"""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from trainer_core.config import PREFERENCE, RunConfig
from trainer_core.errors import ModelError

_BYTES = {
    "F64": 8,
    "I64": 8,
    "F32": 4,
    "U32": 4,
    "I32": 4,
    "BF16": 2,
    "F16": 2,
    "U16": 2,
    "U8": 1,
    "I8": 1,
}
_FLOAT32 = 4
_ROUTERS = ("router", "gate", "shared_expert_gate")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.(.+)$")


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


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes of the parts of a run.

    Attributes:
        parameters: elements of the base model.
        stored: the weights as they are in the files.
        quantised: whether some of them are.
        dtype: the files' commonest floating type, as safetensors names it.
        adapter_parameters: elements that are trained.
        activations: what a whole-graph backward keeps for one micro-batch, float32.
    """

    parameters: int
    stored: int
    quantised: bool
    dtype: str
    adapter_parameters: int
    activations: int

    @property
    def adapter(self) -> int:
        """Adapter and its gradient, float32."""
        return 2 * _FLOAT32 * self.adapter_parameters

    @property
    def optimiser(self) -> int:
        """Adam's two moments, float32."""
        return 2 * _FLOAT32 * self.adapter_parameters

    def weights(self, precision: str) -> int:
        """Bytes of the base weights at `keep`, `float32` or `bfloat16`."""
        each = {"float32": 4, "bfloat16": 2}.get(precision)
        return self.stored if each is None else self.parameters * each

    def total(self, precision: str) -> int:
        """Bytes of the whole run with the base weights at this precision."""
        return self.weights(precision) + self.adapter + self.optimiser + self.activations


def estimate(folder: Path, config: RunConfig, longest: int | None = None) -> MemoryEstimate:
    """What a run of `config` on the model in `folder` needs.

    Args:
        folder: a model folder with config.json and safetensors files.
        config: the run.
        longest: tokens of the longest row, if known; otherwise `max_seq_length` is assumed.

    Raises:
        ModelError: the folder is not a model's, or its files are damaged.
    """
    shape = read_json(folder / "config.json")
    tensors = read_tensors(folder, shape)
    floats = [t for t in tensors if t.dtype in ("F32", "BF16", "F16")]
    by_type: dict[str, int] = {}
    for tensor in floats:
        by_type[tensor.dtype] = by_type.get(tensor.dtype, 0) + tensor.parameters
    length = min(longest or config.max_seq_length, config.max_seq_length)
    return MemoryEstimate(
        parameters=sum(t.parameters for t in tensors),
        stored=sum(t.stored for t in tensors),
        quantised=any(t.dtype.startswith("Q") for t in tensors),
        dtype=max(by_type, key=lambda name: by_type[name]) if by_type else "",
        adapter_parameters=_adapter_parameters(tensors, config),
        activations=_activations(shape, tensors, config, length),
    )


def available_bytes() -> int:
    """Memory that can be taken now without swapping, a container's limit included."""
    free = psutil.virtual_memory().available
    room = _container_limit()
    return free if room is None else min(free, room)


def total_bytes() -> int:
    """Memory of the machine."""
    return psutil.virtual_memory().total


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


def _adapter_parameters(tensors: list[Tensor], config: RunConfig) -> int:
    matrices = []
    for tensor in tensors:
        found = _LAYER.search(tensor.name.removesuffix(".weight"))
        if found and len(tensor.shape) >= 2 and tensor.name.endswith(".weight"):
            matrices.append((int(found.group(1)), found.group(2), tensor.shape))
    layers = 1 + max((layer for layer, _, _ in matrices), default=-1)
    first = 0 if config.num_layers < 0 else layers - config.num_layers
    total = 0
    for layer, path, shape in matrices:
        name = path.rsplit(".", 1)[-1]
        chosen = (
            name not in _ROUTERS
            if config.target_modules == "auto"
            else name in config.target_modules
        )
        if layer >= first and chosen:
            total += math.prod(shape[:-2]) * config.rank * (shape[-2] + shape[-1])
    return total


def _activations(
    shape: dict[str, Any], tensors: list[Tensor], config: RunConfig, length: int
) -> int:
    """Per token and layer: the residuals, norms and projections that autograd keeps; then logits."""
    text = shape.get("text_config") or shape
    layers = text.get("num_hidden_layers", 0)
    width = text.get("hidden_size", 0)
    heads = text.get("num_attention_heads", 1)
    keys = text.get("num_key_value_heads") or heads
    head_width = text.get("head_dim") or width // max(heads, 1)
    inner = text.get("intermediate_size") or 4 * width
    vocabulary = text.get("vocab_size") or max((t.shape[0] for t in tensors if t.shape), default=0)
    sequences = config.batch_size * (2 if config.method in PREFERENCE else 1)
    tokens = sequences * length
    per_token = 6 * width + (2 * heads + 2 * keys) * head_width + 4 * inner
    scores = 3 * sequences * heads * length * length  # one layer's, while its backward runs
    rows = tokens if config.head == "full" else min(tokens, config.chunk_size)
    logits = 3 * rows * vocabulary  # logits, softmax and their gradient
    return _FLOAT32 * (layers * tokens * per_token + scores + logits)


def _container_limit() -> int | None:
    """Memory left under a Linux control group's limit, or None without one."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        used = (group / "memory.current").read_text().strip()
    except OSError:
        return None
    return max(int(limit) - int(used), 0) if limit.isdigit() else None
