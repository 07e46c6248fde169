"""mlx-lm's LoRA trainer, version 0.32.2: every key of its configuration."""

from __future__ import annotations

from typing import Any

from trainer_core.foreign.keys import Key, Reading, ignored, refused, same
from trainer_core.foreign.shared_keys import SHARED


def _column(ours: str, default: str) -> Key:
    def take(value: Any, _: Reading) -> dict[str, Any]:
        return {} if value == default else {"columns": {ours: value}}

    return Key(default, f"`columns`: the column that is {ours}", take)


MLX_LM: dict[str, Key] = {
    **SHARED,
    "fine_tune_type": same("fine_tune_type", "lora"),
    "batch_size": same("batch_size", 4),
    "iters": same("iters", 1000),
    "num_layers": Key(16, SHARED["num_layers"].told, SHARED["num_layers"].take),
    "lora_parameters": Key(
        {"rank": 8, "dropout": 0.0, "scale": 20.0},
        SHARED["lora_parameters"].told,
        SHARED["lora_parameters"].take,
    ),
    "grad_accumulation_steps": same("grad_accumulation_steps", 1),
    "prompt_feature": _column("prompt", "prompt"),
    "completion_feature": _column("completion", "completion"),
    "chat_feature": _column("messages", "messages"),
    "text_feature": _column("text", "text"),
    "hf_dataset": refused(
        None, "data is read from local files", "download it and set data to a file"
    ),
    "report_to": ignored(None, "every report is in the run folder's events.jsonl"),
    "project_name": ignored(None, "every report is in the run folder's events.jsonl"),
    "clear_cache_threshold": ignored(0, "the cache is bounded by itself"),
    "trust_remote_code": ignored(False, "code that comes with a tokenizer is not run"),
}
