"""Every family of mlx-lm that we speak about, as the smallest configuration that shows its ways.

Windows are 16 tokens, so that rows of the tests are longer; every kind of layer occurs. Left out
are families whose classes cannot be made here: bitnet (Metal only), olmo (another package) and
recurrent_gemma (fails in mlx-lm itself).
"""

from __future__ import annotations

import importlib
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_map

from tests.core.tiny import SHAPE

_ROPE = {"rope_theta": 10000.0, "rope_type": "default", "type": "default"}
_WINDOWS: dict[str, Any] = {
    "num_hidden_layers": 4,
    "sliding_window": 16,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}
_GRANITE: dict[str, Any] = {
    "logits_scaling": 4.0,
    "attention_multiplier": 0.3,
    "embedding_multiplier": 3.0,
    "residual_multiplier": 0.5,
    "attention_bias": False,
    "mlp_bias": False,
}
_EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [0],
    "norm_topk_prob": True,
}
_LATENT: dict[str, Any] = {
    "kv_lora_rank": 12,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
_GEMMA3: dict[str, Any] = {
    "num_hidden_layers": 3,
    "sliding_window": 16,
    "sliding_window_pattern": 2,
    "query_pre_attn_scalar": 8,
    "rope_scaling": None,
}
_GEMMA4: dict[str, Any] = {
    "num_hidden_layers": 4,
    "global_head_dim": 16,
    "vocab_size_per_layer_input": 96,
    "hidden_size_per_layer_input": 8,
    "num_kv_shared_layers": 2,
    "sliding_window": 16,
    "sliding_window_pattern": 2,
}
_MAMBA: dict[str, Any] = {
    "mamba_n_heads": 4,
    "mamba_d_head": 8,
    "mamba_d_ssm": 32,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_n_groups": 1,
    "mamba_expand": 1,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
    "mamba_chunk_size": 16,
}
_DELTA: dict[str, Any] = {
    "num_hidden_layers": 4,
    "full_attention_interval": 2,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
    "partial_rotary_factor": 0.5,
    "rope_parameters": {**_ROPE, "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0]},
}
_CONVOLUTION: dict[str, Any] = {
    "layer_types": ["conv", "full_attention", "conv"],
    "norm_eps": 1e-5,
    "conv_bias": False,
    "conv_L_cache": 3,
    "block_dim": 32,
    "block_ff_dim": 48,
    "block_multiple_of": 8,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": False,
    "num_dense_layers": 1,
    "use_expert_bias": True,
}

# Family -> its own arguments; every family also gets those of `tiny.SHAPE`.
CATALOGUE: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama with windows": _WINDOWS,
    "mistral3": {"text_config": {"model_type": "llama"}},
    "ministral3": {
        **_WINDOWS,
        "rope_parameters": {
            **_ROPE,
            "llama_4_scaling_beta": 0.1,
            "original_max_position_embeddings": 8,
        },
    },
    "qwen2": {"tie_word_embeddings": True},
    "qwen3": {},
    "gemma": {},
    "gemma2": {"query_pre_attn_scalar": 8.0},
    "gemma3_text": _GEMMA3,
    "gemma3": {"text_config": {"model_type": "gemma3_text", **_GEMMA3}},
    "gemma4_text": _GEMMA4,
    "phi": {"num_key_value_heads": 4, "partial_rotary_factor": 0.5},
    "phi3": {"head_dim": None},
    "olmo2": {"attention_bias": False},
    "olmo3": _WINDOWS,
    "olmoe": _EXPERTS,
    "granite": _GRANITE,
    "granitemoe": {**_GRANITE, **_EXPERTS},
    "cohere": {"logit_scale": 0.25},
    "cohere2": {"sliding_window": 16, "sliding_window_pattern": 2, "logit_scale": 0.25},
    "smollm3": {"no_rope_layer_interval": 2},
    "qwen2_moe": _EXPERTS,
    "qwen3_moe": _EXPERTS,
    "mixtral": _EXPERTS,
    "phimoe": {
        **_EXPERTS,
        "rope_scaling": {
            "type": "longrope",
            "long_factor": [1.0] * 4,
            "short_factor": [1.0] * 4,
            "long_mscale": 1.0,
            "short_mscale": 1.0,
        },
    },
    "gpt_oss": {**_EXPERTS, **_WINDOWS},
    "deepseek": {**_LATENT},
    "deepseek_v2": {
        **_LATENT,
        "rope_scaling": {
            "type": "yarn",
            "factor": 2.0,
            "original_max_position_embeddings": 64,
        },
    },
    "deepseek_v3": {**_LATENT},
    "minicpm3": {
        **_LATENT,
        "dim_model_base": 16,
        "scale_depth": 1.4,
        "scale_emb": 2.0,
        "rope_scaling": {
            "type": "longrope",
            "long_factor": [1.0] * 2,
            "short_factor": [1.0] * 2,
            "original_max_position_embeddings": 256,
        },
    },
    "minicpm": {"dim_model_base": 16, "scale_depth": 1.4, "scale_emb": 2.0},
    "glm": {},
    "glm4": {"attention_bias": True, "partial_rotary_factor": 0.5},
    "glm4_moe": {
        **_LATENT,
        "use_qk_norm": True,
        "partial_rotary_factor": 0.5,
        "attention_bias": True,
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.0,
        "num_key_value_heads": 2,
        "rope_scaling": None,
    },
    "exaone": {"num_layers": 3, "layer_norm_epsilon": 1e-5},
    "exaone4": {
        **_WINDOWS,
        "sliding_window_pattern": "LG",
        "rope_scaling": {"rope_type": "default"},
    },
    "ernie4_5": {"use_bias": False},
    "ernie4_5_moe": {
        "use_bias": False,
        "moe_num_experts": 4,
        "moe_k": 2,
        "moe_intermediate_size": 16,
        "moe_layer_start_index": 1,
        "moe_num_shared_experts": 1,
    },
    "hunyuan_v1_dense": {},
    "internlm2": {},
    "internlm3": {"qkv_bias": True},
    "starcoder2": {},
    "stablelm": {"use_qkv_bias": True, "partial_rotary_factor": 0.5},
    "nemotron": {"hidden_act": "relu2", "norm_eps": 1e-5, "head_dim": None},
    "seed_oss": {"attention_bias": True},
    "apertus": {"mlp_bias": False, "attention_bias": False, "post_norm": False, "qk_norm": True},
    "helium": {"attention_bias": False, "mlp_bias": False},
    "mimo": {},
    "nanochat": {},
    "gpt2": {
        "n_ctx": 256,
        "n_embd": 32,
        "n_head": 4,
        "n_layer": 3,
        "n_positions": 256,
        "layer_norm_epsilon": 1e-5,
        "num_key_value_heads": 4,
    },
    "gpt_neox": {"rotary_emb_base": 10000, "rotary_pct": 0.5, "num_key_value_heads": 4},
    "openelm": {
        "num_transformer_layers": 3,
        "model_dim": 32,
        "ffn_dim_divisor": 8,
        "num_query_heads": [4, 4, 4],
        "num_kv_heads": [2, 2, 2],
        "ffn_multipliers": [1.0, 1.5, 2.0],
    },
    "llama4_text": {"intermediate_size_mlp": 48, "no_rope_layers": [1, 0, 1], "use_qk_norm": True},
    "gemma4": {"text_config": {"model_type": "gemma4_text", **_GEMMA4}},
    "gemma3n": {
        "text_config": {
            "model_type": "gemma3n_text",
            "num_hidden_layers": 4,
            "num_kv_shared_layers": 2,
            "vocab_size_per_layer_input": 96,
            "sliding_window": 16,
            "rope_local_base_freq": 10000.0,
            "final_logit_softcapping": 30.0,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "activation_sparsity_pattern": [0.5, 0.0, 0.0, 0.0],
            "hidden_size_per_layer_input": 8,
            "altup_num_inputs": 2,
            "altup_coef_clip": 120.0,
            "altup_correct_scale": True,
            "altup_active_idx": 0,
            "laurel_rank": 8,
        }
    },
    "qwen3_next": {**_EXPERTS, **_DELTA},
    "qwen3_5": {"text_config": {"model_type": "qwen3_5_text", **_DELTA}},
    "lfm2": _CONVOLUTION,
    "lfm2_moe": {**_EXPERTS, **_CONVOLUTION},
    "mamba": {
        "state_size": 8,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "time_step_rank": 4,
        "intermediate_size": 64,
    },
    "mamba2": {
        "num_heads": 4,
        "state_size": 8,
        "layer_norm_epsilon": 1e-5,
        "conv_kernel": 4,
        "n_groups": 1,
        "use_bias": False,
        "use_conv_bias": True,
        "intermediate_size": 32,
        "time_step_limit": (0.001, 100.0),
        "time_step_rank": 4,
    },
    "falcon_h1": {**_MAMBA, "attention_in_multiplier": 1.0},
    "granitemoehybrid": {
        **_GRANITE,
        **_EXPERTS,
        **_MAMBA,
        "shared_intermediate_size": 48,
        "layer_types": ["mamba", "attention", "mamba"],
    },
    "nemotron_h": {
        **_LATENT,
        "attention_bias": False,
        "mamba_num_heads": 4,
        "mamba_head_dim": 8,
        "mamba_proj_bias": False,
        "ssm_state_size": 8,
        "conv_kernel": 4,
        "n_groups": 1,
        "mlp_bias": False,
        "layer_norm_epsilon": 1e-5,
        "use_bias": False,
        "use_conv_bias": True,
        "hybrid_override_pattern": ["M", "-", "*", "M"],
        "num_key_value_heads": 2,
    },
    "jamba": {
        **_EXPERTS,
        **_MAMBA,
        "attn_layer_offset": 1,
        "attn_layer_period": 2,
        "expert_layer_offset": 1,
        "expert_layer_period": 2,
    },
    "rwkv7": {
        "norm_eps": 1e-5,
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "decay_low_rank_dim": 8,
    },
}


def family_model(name: str) -> nn.Module:
    """A frozen float32 model of a family, the same on every call, no array of it constant."""
    family, more = name.split()[0], CATALOGUE[name]
    arguments = {"model_type": family, **SHAPE, **more}
    if "text_config" in more:
        arguments["text_config"] = {**SHAPE, **more["text_config"]}
    room = importlib.import_module(f"mlx_lm.models.{family}")
    mx.random.seed(0)
    model: nn.Module = room.Model(room.ModelArgs.from_dict(arguments))
    model.freeze()
    model.eval()
    model.update(tree_map(_shaken, model.parameters()))
    mx.eval(model.parameters())
    return model


def _shaken(array: mx.array) -> mx.array:
    if not mx.issubdtype(array.dtype, mx.floating):
        return array
    return array + 0.05 * mx.random.normal(array.shape)
