"""How much memory a run needs and how much there is, without MLX.

Read from a model folder's config.json and the headers of its safetensors files, so that the form
can show it while an option is being changed and the engine can choose the precision of the weights
before loading.

Not modelled: what MLX's allocator and the operating system keep besides, adapters on embeddings,
segmented backward, prefix sharing and checkpointing (which all need less), and layers unlike a
transformer's. Take the activations as right to a factor of two.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from trainer_core.config import PREFERENCE, RunConfig
from trainer_core.model_files import Tensor, read_json, read_tensors

_FLOAT32 = 4
_BLOCK = 256  # queries that blocked attention takes at a time
_ROUTER = re.compile(r"(^|\.)(router|gate|shared_expert_gate|wg|altup)(\.|$)")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.(.+)\.weight$")


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


def _adapter_parameters(tensors: list[Tensor], config: RunConfig) -> int:
    """Elements of A and B over the linears that `target_modules` and `num_layers` name."""
    linears = []
    for tensor in tensors:
        found = _LAYER.search(tensor.name)
        # A mixture's experts are three-dimensional or lie under `experts`; they get no adapter.
        if found and len(tensor.shape) == 2 and ".experts." not in tensor.name:
            linears.append((int(found[1]), found[2], tensor.shape))
    layers = 1 + max((layer for layer, _, _ in linears), default=-1)
    first = 0 if config.num_layers < 0 else layers - config.num_layers
    wanted = config.target_modules
    total = 0
    for layer, name, shape in linears:
        if wanted == "auto":
            chosen = not _ROUTER.search(name)
        else:
            chosen = any(f".{name}".endswith(f".{asked}") for asked in wanted)
        if layer >= first and chosen:
            total += config.rank * (shape[0] + shape[1])
    return total


def _activations(
    shape: dict[str, Any], tensors: list[Tensor], config: RunConfig, length: int
) -> int:
    """What autograd keeps of the layers in memory, one layer's attention scores, the logits."""
    text = shape.get("text_config") or shape
    layers = text.get("num_hidden_layers", 0)
    width = text.get("hidden_size", 0)
    heads = text.get("num_attention_heads", 1)
    keys = text.get("num_key_value_heads") or heads
    head_width = text.get("head_dim") or width // max(heads, 1)
    inner = text.get("intermediate_size") or 4 * width
    vocabulary = text.get("vocab_size") or max((t.shape[0] for t in tensors if t.shape), default=0)
    sequences = 2 if config.method in PREFERENCE else 1
    segment = config.segment_size if isinstance(config.segment_size, int) else 0
    if segment == 0:
        kept, boundaries = layers, 0
        sequences *= config.batch_size
    else:
        # Rows stream one after the other; one segment is alive, and the states between segments.
        kept, boundaries = min(segment, layers), math.ceil(layers / segment) + 1
    tokens = sequences * length
    per_token = 6 * width + (2 * heads + 2 * keys) * head_width + 4 * inner
    # One layer's scores, while its backward runs; blocked attention holds a block of queries.
    queries = min(length, _BLOCK) if config.attention == "blocked" else length
    scores = 3 * sequences * heads * queries * length
    rows = tokens if config.head == "full" else min(tokens, config.chunk_size)
    logits = 3 * rows * vocabulary  # logits, softmax and their gradient
    streams = boundaries * tokens * width
    return _FLOAT32 * (kept * tokens * per_token + streams + scores + logits)


def _container_limit() -> int | None:
    """Memory left under a Linux control group's limit, or None without one."""
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        used = (group / "memory.current").read_text().strip()
    except OSError:
        return None
    return max(int(limit) - int(used), 0) if limit.isdigit() else None
