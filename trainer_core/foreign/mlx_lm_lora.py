"""mlx-lm-lora's trainer, version 5.10.2: every key of its configuration."""

from __future__ import annotations

from typing import Any

from trainer_core.foreign.keys import Key, Reading, Refusal, ignored, refused, same
from trainer_core.foreign.shared_keys import SHARED

_LOSSES = ("sigmoid", "hinge", "ipo")
_ONLINE = "it belongs to methods that generate while they train"
_DEFAULT_ITERS = 100


def _mode(value: Any, _: Reading) -> dict[str, Any]:
    if value not in ("sft", "dpo", "orpo"):
        raise Refusal(f"there is no method {value} here", "use sft, dpo or orpo")
    # Its ORPO scores the answers only, and its reference is the model without an adapter.
    more = {"orpo": {"sft_scope": "response"}, "dpo": {"dpo_reference": "base"}}
    return {"method": value, **more.get(value, {})}


def _beta(value: Any, reading: Reading) -> dict[str, Any]:
    names = {"dpo": "dpo_beta", "orpo": "orpo_lambda"}
    mode = reading.values["train_mode"]
    return {names[mode]: value} if mode in names else {}


def _loss(value: Any, reading: Reading) -> dict[str, Any]:
    if reading.values["train_mode"] != "dpo" or value == "sigmoid":
        return {}
    if value not in _LOSSES:
        raise Refusal(f"there is no loss {value} here", f"use {', '.join(_LOSSES)}")
    return {"preference_loss": value}


def _length(value: Any, reading: Reading) -> dict[str, Any]:
    if value is None and reading.values.get("epochs") is None:
        return {"iters": _DEFAULT_ITERS}
    return {} if value is None else {"iters": value}


def _epochs(value: Any, reading: Reading) -> dict[str, Any]:
    return {"epochs": value} if value is not None and reading.values.get("iters") is None else {}


def _reference(value: Any, reading: Reading) -> dict[str, Any]:
    if value not in (None, reading.values.get("model")):
        raise Refusal(
            "the reference is always the model that is trained", "leave it out, or merge the models"
        )
    return {}


def _quantises(bits: str) -> Key:
    return refused(
        False,
        "a model is trained as it is",
        f"quantise it to {bits} beforehand with mlx_lm.convert",
    )


MLX_LM_LORA: dict[str, Key] = {
    **SHARED,
    "train_mode": Key("sft", "`method`; refused unless sft, dpo or orpo", _mode),
    "train_type": same("fine_tune_type", "lora"),
    "iters": Key(None, f"`iters`; {_DEFAULT_ITERS} if epochs is not given either", _length),
    "epochs": Key(None, "`epochs`, unless iters is given", _epochs),
    "gradient_accumulation_steps": same("grad_accumulation_steps", 1),
    "micro_batch_size": refused(None, "rows run as memory allows", "leave it out"),
    "beta": Key(0.1, "`dpo_beta` or `orpo_lambda`", _beta),
    "dpo_cpo_loss_type": Key("sigmoid", "`preference_loss`; refused for dpop", _loss),
    "reference_model_path": Key(None, "refused unless it is the model itself", _reference),
    "reward_scaling": refused(1.0, "ORPO's reward is not scaled", "leave it out"),
    "sft_loss_type": refused("nll", "SFT has one loss", "leave it out"),
    "qat_enable": refused(False, "weights are not quantised in training", "leave it out"),
    "load_in_4bits": _quantises("4 bits"),
    "load_in_6bits": _quantises("6 bits"),
    "load_in_8bits": _quantises("8 bits"),
    "load_in_mxfp4": _quantises("mxfp4"),
    "efficient_long_context": ignored(False, "segments are chosen by memory"),
    "recurrence_chunk_size": ignored(64, "segments are chosen by memory"),
    "fuse": ignored(True, "an adapter is kept beside the model"),
    "lm_studio_name": ignored(None, "an adapter is kept beside the model"),
    **{
        name: ignored(default, "it belongs to a method or loss that is not here")
        for name, default in {
            "delta": 50.0,
            "dsla_loss": "dpo",
            "latent_weight": 0.1,
            "latent_margin": 0.05,
            "latent_gamma": 10.0,
            "latent_variant": "both",
            "latent_pooling": "answer_mean",
            "latent_layer": "final",
            "lambda_mse_target": 0.05,
            "tau_mse_target": 1.0,
            "lambda_mse": 0.4,
            "clip_epsilon_logits": 2.0,
            "alpha": 1e-5,
        }.items()
    },
    **{
        name: ignored(default, _ONLINE)
        for name, default in {
            "judge": None,
            "judge_config": {},
            "group_size": 4,
            "epsilon": 1e-4,
            "epsilon_high": None,
            "max_completion_length": 512,
            "temperature": 0.8,
            "reward_weights": None,
            "reward_functions": None,
            "reward_functions_file": None,
            "grpo_loss_type": "grpo",
            "importance_sampling_level": "token",
            "klpo_route": "token",
            "klpo_kl_estimator": "mc",
            "klpo_mc_samples": 128,
            "klpo_top_k": 128,
            "klpo_tail_floor": 1e-6,
        }.items()
    },
    **{
        name: ignored(default, "weights are not quantised in training")
        for name, default in {
            "qat_bits": 8,
            "qat_group_size": 64,
            "qat_mode": "affine",
            "qat_start_step": 1,
            "qat_interval": 1,
        }.items()
    },
}
