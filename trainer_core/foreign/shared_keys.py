"""Keys that mlx-lm's trainer and mlx-lm-lora's have in common."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from trainer_core.foreign.keys import Key, Reading, Refusal, ignored, same

_UNCORRECTED = ("adam", "adamw")

# mlx's own, where it differs from ours for the optimisers that share an option.
_DECAY = {"adamw": 0.01, "muon": 0.01, "sgd": 0.0, "adafactor": 0.0}


def _lora(value: Any, reading: Reading) -> dict[str, Any]:
    if reading.values.get("fine_tune_type", reading.values.get("train_type")) == "full":
        return {}
    if not isinstance(value, dict):
        raise Refusal("it is a mapping of rank, scale, dropout and keys", "mend it")
    known = {"rank", "scale", "dropout", "keys", "alpha"}
    if unknown := sorted(set(value) - known):
        raise Refusal(f"it has no {unknown[0]}", f"use {', '.join(sorted(known))}")
    found = {"rank": value.get("rank", 8), "scale": value.get("scale", 10.0)}
    if value.get("dropout"):
        found["dropout"] = value["dropout"]
    if value.get("keys"):
        found["target_modules"] = list(value["keys"])
    if "alpha" in value:
        reading.warn("lora_parameters.alpha is ignored, as it is there: scale counts")
    return found


def _optimiser(value: Any, reading: Reading) -> dict[str, Any]:
    name = str(value).lower()
    every = reading.values.get("optimizer_config") or {}
    settings = every.get(name) or {} if isinstance(every, dict) else every
    if not isinstance(settings, dict):
        raise Refusal("optimizer_config is a mapping of optimisers to their settings", "mend it")
    found: dict[str, Any] = {"optimizer": name}
    if name in _DECAY:
        found["weight_decay"] = _DECAY[name]
    corrected = settings.get("bias_correction", False)
    for key, given in settings.items():
        if key == "weight_decay" and name != "adam":
            found["weight_decay"] = given
        elif key == "betas" and name in _UNCORRECTED:
            found["adam_betas"] = tuple(given)
        elif key == "eps" and name in _UNCORRECTED:
            found["adam_eps"] = given
        elif key != "bias_correction" and given:
            why = f"optimizer_config.{name}.{key} has no counterpart here"
            raise Refusal(why, "take it out, or choose adamw")
    if name in _UNCORRECTED and not corrected:
        reading.warn(
            f"{name} corrects the bias of its moments here, which mlx does only when asked",
            "the first steps are smaller in comparison",
        )
    return found


def _schedule(value: Any, reading: Reading) -> dict[str, Any]:
    if value is None:
        return {"lr_schedule": "constant"}
    if not isinstance(value, dict):
        raise Refusal("it is a mapping of name and arguments", "mend it")
    name, arguments = value.get("name"), list(value.get("arguments") or [])
    if name == "cosine_decay" and len(arguments) in (2, 3):
        peak, steps, end = arguments[0], arguments[1], (arguments[2:] or [0.0])[0]
        kind = "cosine"
    elif name == "linear_schedule" and len(arguments) == 3:
        peak, end, steps = arguments
        kind = "linear"
    else:
        why = f"{name} with {len(arguments)} arguments has no counterpart here"
        raise Refusal(why, "use cosine_decay or linear_schedule")
    if end > peak:
        raise Refusal("its rate rises", "use warmup for a rising rate")
    warmup = int(value.get("warmup") or 0)
    total = reading.values.get("iters")
    if isinstance(total, int) and abs(total - warmup - steps) > 1:
        reading.warn(
            f"the rate reaches its end with the last step, {total - warmup:,} steps after warm-up, "
            f"not after {steps:,}"
        )
    if value.get("warmup_init"):
        reading.warn("warmup_init is ignored: warm-up starts at zero here")
    found: dict[str, Any] = {"lr_schedule": kind, "learning_rate": peak, "lr_floor": end / peak}
    return found | ({"warmup_steps": warmup} if warmup else {})


def _learning_rate(value: Any, reading: Reading) -> dict[str, Any]:
    return {"learning_rate": value} if reading.values.get("lr_schedule") is None else {}


def _adapter(value: Any, _: Reading) -> dict[str, Any]:
    if value is None:
        return {}
    path = PurePath(str(value))
    if path.name != "adapters.safetensors":
        raise Refusal(
            "a warm start needs a folder with adapters.safetensors and adapter_config.json",
            "name such a file, or set warm_start yourself",
        )
    return {"warm_start": str(path.parent)}


def _validation(value: Any, reading: Reading) -> dict[str, Any]:
    rows = reading.values["batch_size"]
    if not isinstance(value, int) or not isinstance(rows, int):
        raise Refusal("it is a number of batches of batch_size rows", "use whole numbers")
    return {"val_rows": value * rows if value > 0 else 0}


def _mask(value: Any, reading: Reading) -> dict[str, Any]:
    if reading.values.get("train_mode", "sft") != "sft":
        return {}
    return {"loss_on": "last" if value else "everything"}


def _layers(value: Any, _: Reading) -> dict[str, Any]:
    return {"num_layers": value if value != 0 else -1}


SHARED: dict[str, Key] = {
    "model": same("model", None),
    "data": same("data", None),
    "seed": same("seed", 0),
    "batch_size": same("batch_size", 1),
    "max_seq_length": same("max_seq_length", 2048),
    "steps_per_report": same("steps_per_report", 10),
    "steps_per_eval": same("steps_per_eval", 200),
    "save_every": same("save_every", 100),
    "grad_checkpoint": same("grad_checkpoint", False),
    "num_layers": Key(-1, "`num_layers`; 0 means all there, -1 here", _layers),
    "lora_parameters": Key(
        {"rank": 8, "dropout": 0.0, "scale": 10.0},
        "`rank`, `scale`, `dropout`, and its keys as `target_modules`",
        _lora,
    ),
    "optimizer": Key("adam", "`optimizer`, with the settings of optimizer_config", _optimiser),
    "optimizer_config": Key(
        {},
        "`weight_decay`, `adam_betas`, `adam_eps`; refused with other settings of the optimiser",
        lambda *_: {},
    ),
    "learning_rate": Key(1e-5, "`learning_rate`, unless lr_schedule has one", _learning_rate),
    "lr_schedule": Key(
        None,
        "`lr_schedule`, `lr_floor` and `warmup_steps` for cosine_decay and linear_schedule; "
        "constant where there is none; refused for others",
        _schedule,
    ),
    "resume_adapter_file": Key(None, "`warm_start` with its folder", _adapter),
    "val_batches": Key(25, "`val_rows`, that is batches x batch_size; -1 means all", _validation),
    "mask_prompt": Key(
        False, "`loss_on: last`, or everything where it is false; pairs train answers", _mask
    ),
    "adapter_path": ignored("adapters", "an adapter is saved in its run's folder"),
    "train": Key(False, "ignored: `train` always trains", lambda *_: {}),
    "test": ignored(False, "validation rows are scored instead"),
    "test_batches": ignored(500, "validation rows are scored instead"),
    "config": ignored(None, "this is the file"),
}
