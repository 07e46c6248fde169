"""The models that are measured: real architectures with random weights, written once per run.

`python -m tests.bench.shapes NAME FOLDER [--layers N] [--vocabulary V] [--bits B]` writes one for
the processes that a bench starts, and prints what MLX computes on as JSON.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path
from typing import Any

_COMMON: dict[str, Any] = {
    "max_position_embeddings": 40960,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
}

# DESIGN's model for the CPU, a shallower one for long rows, the GPU's, and one for tests.
SHAPES: dict[str, dict[str, Any]] = {
    "llama-16": {
        **_COMMON,
        "model_type": "llama",
        "hidden_size": 512,
        "num_hidden_layers": 16,
        "intermediate_size": 1536,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "vocab_size": 64000,
        "tie_word_embeddings": False,
    },
    "llama-8": {
        **_COMMON,
        "model_type": "llama",
        "hidden_size": 256,
        "num_hidden_layers": 8,
        "intermediate_size": 768,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 32000,
        "tie_word_embeddings": False,
    },
    "qwen3-0.6b": {
        **_COMMON,
        "model_type": "qwen3",
        "hidden_size": 1024,
        "num_hidden_layers": 28,
        "intermediate_size": 3072,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
    "qwen3-small": {
        **_COMMON,
        "model_type": "qwen3",
        "hidden_size": 256,
        "num_hidden_layers": 12,
        "intermediate_size": 768,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 48000,
        "tie_word_embeddings": True,
    },
    "gemma3-small": {
        **_COMMON,
        "model_type": "gemma3_text",
        "hidden_size": 256,
        "num_hidden_layers": 8,
        "intermediate_size": 1024,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "vocab_size": 32000,
        "sliding_window": 256,
        "sliding_window_pattern": 3,
        "query_pre_attn_scalar": 64,
        "rope_local_base_freq": 1e4,
        "rope_global_base_freq": 1e6,
        "tie_word_embeddings": True,
    },
    "tiny": {
        **_COMMON,
        "model_type": "llama",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "vocab_size": 256,
        "tie_word_embeddings": False,
    },
}


def config_of(
    name: str, layers: int | None = None, vocabulary: int | None = None
) -> dict[str, Any]:
    """A shape's config.json, perhaps with another number of layers or tokens."""
    config = dict(SHAPES[name])
    if layers is not None:
        config["num_hidden_layers"] = layers
    if vocabulary is not None:
        config["vocab_size"] = vocabulary
    return config


def write_model(folder: Path, config: dict[str, Any], half: bool, bits: int | None = None) -> None:
    """Random weights of a config.json, the same on every call, in bfloat16 or float32.

    `bits` quantises what mlx-lm would, in groups of 64.
    """
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten

    room = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(0)
    model = room.Model(room.ModelArgs.from_dict(config))
    # The scale of trained weights, so that logits do not vanish.
    shape = model.model.embed_tokens.weight.shape
    model.model.embed_tokens.weight = 0.05 * mx.random.normal(shape)
    model.set_dtype(mx.bfloat16 if half else mx.float32)
    if bits is not None:
        nn.quantize(model, 64, bits)
        config = {**config, "quantization": {"group_size": 64, "bits": bits}}
    weights = dict(tree_flatten(model.parameters()))
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, {"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--vocabulary", type=int)
    parser.add_argument("--bits", type=int)
    asked = parser.parse_args()

    from trainer_core import backend

    backend.prepare()
    device = backend.device()
    on_gpu = device.kind != "cpu"
    config = config_of(asked.name, asked.layers, asked.vocabulary)
    write_model(asked.folder, config, half=on_gpu, bits=asked.bits)
    import mlx.core as mx

    print(json.dumps({"device": str(device), "gpu": on_gpu, "mlx": mx.__version__}))


if __name__ == "__main__":
    main()
