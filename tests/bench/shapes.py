"""The models that are measured: real architectures with random weights, written once per run.

`python -m tests.bench.shapes NAME FOLDER [--layers N] [--vocabulary V]` writes one for the
processes that a bench starts, and prints what MLX computes on as JSON.
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


def write_model(folder: Path, config: dict[str, Any], half: bool) -> None:
    """Random weights of a config.json, the same on every call, in bfloat16 or float32."""
    import mlx.core as mx
    from mlx.utils import tree_flatten

    room = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    mx.random.seed(0)
    model = room.Model(room.ModelArgs.from_dict(config))
    # The scale of trained weights, so that logits do not vanish.
    shape = model.model.embed_tokens.weight.shape
    model.model.embed_tokens.weight = 0.05 * mx.random.normal(shape)
    model.set_dtype(mx.bfloat16 if half else mx.float32)
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
    asked = parser.parse_args()

    from trainer_core import backend

    backend.prepare()
    device = backend.device()
    on_gpu = device.kind != "cpu"
    write_model(asked.folder, config_of(asked.name, asked.layers, asked.vocabulary), half=on_gpu)
    import mlx.core as mx

    print(json.dumps({"device": str(device), "gpu": on_gpu, "mlx": mx.__version__}))


if __name__ == "__main__":
    main()
