"""Turns a llama model in a GGUF file into the weights and config of an mlx-lm folder.

MLX reads Q4_1 and Q8_0 tensors as its own quantised triples, so every value stays as it is. Two
things differ between the formats: the names, and the row order of query and key projections.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from trainer_core.errors import ModelError

_TOP = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclass(frozen=True, slots=True)
class GgufFile:
    """Tensors under their GGUF names, and the metadata."""

    tensors: dict[str, mx.array]
    metadata: dict[str, Any]

    def value(self, key: str) -> Any:
        """A metadata value as a plain Python value.

        Raises:
            ModelError: the file lacks the key.
        """
        if key not in self.metadata:
            raise ModelError("the GGUF file cannot be used", f"it has no `{key}`")
        found = self.metadata[key]
        return found.tolist() if isinstance(found, mx.array) else found


def read_gguf(path: Path) -> GgufFile:
    """Read a GGUF file.

    Raises:
        ModelError: the file is not GGUF, or is cut short.
    """
    try:
        tensors, metadata = mx.load(str(path), format="gguf", return_metadata=True)  # type: ignore[misc]
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"{path} cannot be read as GGUF", str(error)) from error
    return GgufFile(dict(tensors), dict(metadata))  # type: ignore[arg-type]


def llama_config(gguf: GgufFile) -> dict[str, Any]:
    """The config.json of the model: geometry, special tokens and how each tensor is quantised."""
    architecture = gguf.value("general.architecture")
    if architecture != "llama":
        raise ModelError(
            "the GGUF file cannot be used", f"its architecture is `{architecture}`, not `llama`"
        )
    heads = gguf.value("llama.attention.head_count")
    width = gguf.value("llama.embedding_length")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": gguf.value("llama.feed_forward_length"),
        "num_hidden_layers": gguf.value("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": gguf.value("llama.attention.head_count_kv"),
        "head_dim": width // heads,
        "hidden_act": "silu",
        "vocab_size": gguf.value("llama.vocab_size"),
        "max_position_embeddings": gguf.value("llama.context_length"),
        "rms_norm_eps": _shortest(gguf.value("llama.attention.layer_norm_rms_epsilon")),
        "rope_theta": _shortest(gguf.value("llama.rope.freq_base")),
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": "output.weight" not in gguf.tensors,
        "bos_token_id": gguf.value("tokenizer.ggml.bos_token_id"),
        "eos_token_id": gguf.value("tokenizer.ggml.eos_token_id"),
        "pad_token_id": gguf.value("tokenizer.ggml.padding_token_id"),
        "torch_dtype": "float32",
    }
    if quantization := _quantization(gguf):
        config["quantization"] = quantization
    return config


def llama_weights(gguf: GgufFile) -> dict[str, mx.array]:
    """All tensors under mlx-lm's names.

    Packed integers stay as they are. Scales, biases and norms become float32, which holds the
    file's float16 exactly, so that the model also computes in float32: half precision would round
    each dequantised weight.
    """
    heads = {
        "attn_q": gguf.value("llama.attention.head_count"),
        "attn_k": gguf.value("llama.attention.head_count_kv"),
    }
    weights: dict[str, mx.array] = {}
    for name, tensor in gguf.tensors.items():
        target, source = _mlx_name(name)
        if source in heads:
            tensor = half_split_rows(tensor, heads[source])
        weights[target] = tensor if tensor.dtype == mx.uint32 else tensor.astype(mx.float32)
    return weights


def half_split_rows(rows: mx.array, n_heads: int) -> mx.array:
    """Undo llama.cpp's order of the rows of a query or key projection.

    llama.cpp rotates neighbouring dimensions (2i, 2i+1) of a head, mlx-lm's llama and transformers
    rotate (i, i + head_dim / 2); the converter to GGUF interleaves the two halves of every head for
    that. A quantised tensor is packed along its columns, so its rows move as a plain one's do.

    Args:
        rows: [n_heads * head_dim, columns].
        n_heads: heads in `rows`.
    """
    out, columns = rows.shape
    pairs = rows.reshape(n_heads, out // n_heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(out, columns)


def _mlx_name(name: str) -> tuple[str, str]:
    """mlx-lm's name of a GGUF tensor, and the GGUF name of its module without the block."""
    module, _, part = name.rpartition(".")
    if module in _TOP:
        return f"{_TOP[module]}.{part}", module
    prefix, _, rest = module.partition(".")
    block, _, inner = rest.partition(".")
    if prefix == "blk" and block.isdigit() and inner in _BLOCK:
        return f"model.layers.{block}.{_BLOCK[inner]}.{part}", inner
    raise ModelError(
        "the GGUF file cannot be used", f"its tensor `{name}` is not part of a llama model"
    )


def _quantization(gguf: GgufFile) -> dict[str, Any]:
    """mlx-lm's quantization block: the commonest layout as the default, the others by module."""
    layouts: dict[str, tuple[int, int]] = {}
    for name, scales in gguf.tensors.items():
        module = name.removesuffix(".scales")
        if module == name:
            continue
        group_size = 32  # of Q4_0, Q4_1 and Q8_0, the types that MLX keeps quantised
        columns = scales.shape[1] * group_size
        bits = gguf.tensors[f"{module}.weight"].shape[1] * 32 // columns
        layouts[_mlx_name(name)[0].removesuffix(".scales")] = (group_size, bits)
    if not layouts:
        return {}
    counts = list(layouts.values())
    default = max(sorted(set(counts)), key=counts.count)
    block: dict[str, Any] = {"group_size": default[0], "bits": default[1]}
    for module, layout in layouts.items():
        if layout != default:
            block[module] = {"group_size": layout[0], "bits": layout[1]}
    return block


def _shortest(value: float) -> float:
    """The shortest decimal that is the same float32: 1e-05, not 9.999999747378752e-06."""
    return float(str(np.float32(value)))
