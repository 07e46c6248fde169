"""Tiny models of many families, from mlx-lm's own classes, with random weights."""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
import mlx.nn as nn

SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "rms_norm_eps": 1e-5,
    "layer_norm_eps": 1e-5,
    "vocab_size": 96,
    "max_position_embeddings": 256,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "mistral3": {"text_config": {**SHAPE, "model_type": "llama"}},
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {},
    "gemma": {},
    "phi3": {"head_dim": None},
    "olmo2": {"attention_bias": False},
    "granite": {
        "logits_scaling": 4.0,
        "attention_multiplier": 0.3,
        "embedding_multiplier": 3.0,
        "residual_multiplier": 0.5,
        "attention_bias": False,
        "mlp_bias": False,
    },
    "cohere2": {"sliding_window": 8, "sliding_window_pattern": 2, "logit_scale": 0.25},
    "smollm3": {"no_rope_layer_interval": 2},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [0],
        "moe_intermediate_size": 16,
        "norm_topk_prob": True,
    },
}


def tiny_model(family: str, **more: Any) -> nn.Module:
    """A frozen model of a family, the same on every call."""
    room = importlib.import_module(f"mlx_lm.models.{family}")
    arguments = room.ModelArgs.from_dict(
        {"model_type": family, **SHAPE, **FAMILIES[family], **more}
    )
    mx.random.seed(0)
    model: nn.Module = room.Model(arguments)
    model.freeze()
    model.eval()
    mx.eval(model.parameters())
    return model
