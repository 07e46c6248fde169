"""Adapter folders on disk: mlx-lm's layout written and read, PEFT's layout read.

The arrays are named by module path in both; PEFT keeps A as [r, inputs] and B as [outputs, r],
ours and mlx-lm's are the transposes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx

from trainer_core.errors import ModelError

WEIGHTS = "adapters.safetensors"
CONFIG = "adapter_config.json"
_PEFT_WEIGHTS = "adapter_model.safetensors"


@dataclass(frozen=True, slots=True)
class AdapterSpec:
    """The shape of an adapter: what `lora.attach` needs to make it again.

    `keys` are names inside a block, such as self_attn.q_proj; the last `num_layers` blocks have
    them. `kind` is lora, dora or full, whose arrays are the model's own: it has no rank, and -1
    stands for more than all blocks.
    """

    rank: int
    scale: float
    dropout: float
    keys: tuple[str, ...]
    num_layers: int
    kind: str = "lora"


def write_adapter(
    folder: Path, parameters: dict[str, mx.array], spec: AdapterSpec, extra: dict[str, Any]
) -> None:
    """Write adapters.safetensors and adapter_config.json.

    Args:
        folder: an existing folder; `runfolder.replaced_folder` makes it appear whole or not at all.
        parameters: name -> array as in `Adapter.parameters`.
        spec: its shape.
        extra: further facts for the config, such as the model; mlx-lm ignores what it does not
            know.
    """
    mx.save_safetensors(str(folder / WEIGHTS), parameters, {"format": "mlx"})
    config = {
        "fine_tune_type": spec.kind,
        "num_layers": spec.num_layers,
        **extra,
    }
    if spec.kind != "full":
        config["lora_parameters"] = {
            "rank": spec.rank,
            "scale": spec.scale,
            "dropout": spec.dropout,
            "keys": list(spec.keys),
        }
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    (folder / CONFIG).write_text(text, encoding="utf-8")


def read_spec(folder: Path, blocks: int) -> AdapterSpec:
    """The shape of the adapter in a folder of either layout.

    Args:
        folder: the adapter's folder.
        blocks: number of blocks of the model, which is what -1 stands for.

    Raises:
        ModelError: it is not an adapter folder, or of a type that cannot be used.
    """
    config = _read_config(folder)
    if "peft_type" in config and not (folder / WEIGHTS).exists():
        return _peft_spec(folder, config, blocks)
    kind = config.get("fine_tune_type", "lora")
    if kind not in ("lora", "dora", "full"):
        raise ModelError(
            f"the adapter in {folder} is of type {kind}", "it must be lora, dora or full"
        )
    try:
        if kind == "full":
            return AdapterSpec(0, 0.0, 0.0, (), int(config["num_layers"]), kind)
        lora: Any = config["lora_parameters"]
        layers = int(config["num_layers"])
        keys = lora.get("keys") or _keys_of(_names(folder / WEIGHTS))
        return AdapterSpec(
            rank=int(lora["rank"]),
            scale=float(lora["scale"]),
            dropout=float(lora.get("dropout", 0.0)),
            keys=tuple(sorted(_inside_block(key) for key in keys)),
            num_layers=blocks if layers < 1 or layers > blocks else layers,
            kind=kind,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _misused(folder, error) from None


def read_parameters(folder: Path) -> dict[str, mx.array]:
    """Name -> float32 array of the adapter in a folder of either layout.

    Raises:
        ModelError: the weights are missing or broken.
    """
    file = folder / WEIGHTS
    if file.exists():
        return {name: a.astype(mx.float32) for name, a in _load(file).items()}
    found: dict[str, mx.array] = {}
    for name, array in _load(folder / _PEFT_WEIGHTS).items():
        path, leaf = _peft_name(name)
        array = array.reshape(-1) if leaf == "m" else array.T
        found[f"{path}.{leaf}"] = array.astype(mx.float32)
    return found


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{folder} is not an adapter folder",
            f"it has no {CONFIG}",
            "name the folder that holds it",
        ) from None
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder / CONFIG} cannot be read", str(error)) from None
    if not isinstance(config, dict):
        raise ModelError(f"{folder / CONFIG} cannot be read", "it does not hold a JSON object")
    return config


def _peft_spec(folder: Path, config: dict[str, Any], blocks: int) -> AdapterSpec:
    for key in ("rank_pattern", "alpha_pattern", "modules_to_save"):
        if config.get(key):
            raise ModelError(
                f"the PEFT adapter in {folder} uses {key}", "this cannot be imported yet"
            )
    if config.get("peft_type") != "LORA":
        raise ModelError(
            f"the PEFT adapter in {folder} is of type {config.get('peft_type')}",
            "only LORA is supported",
        )
    names = {".".join(_peft_name(name)) for name in _names(folder / _PEFT_WEIGHTS)}
    numbers = {int(part) for name in names for part in name.split(".") if part.isdigit()}
    try:
        rank = int(config["r"])
        root = rank**0.5 if config.get("use_rslora") else rank
        return AdapterSpec(
            rank=rank,
            scale=float(config["lora_alpha"]) / root,
            dropout=float(config.get("lora_dropout", 0.0)),
            keys=tuple(sorted(_keys_of(names))),
            num_layers=blocks - min(numbers, default=0),
            kind="dora" if config.get("use_dora") else "lora",
        )
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise _misused(folder, error) from None


def _peft_name(name: str) -> tuple[str, str]:
    """(our path, our leaf) of base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight."""
    path, _, rest = name.removeprefix("base_model.model.").partition(".lora_")
    if rest.removesuffix(".weight") == "magnitude_vector":
        return path, "m"
    if rest not in ("A.weight", "B.weight"):
        raise ModelError(
            f"the PEFT adapter holds {name}", "only LoRA and DoRA on linear layers can be imported"
        )
    return path, f"lora_{rest[0].lower()}"


def _keys_of(names: set[str]) -> set[str]:
    return {_inside_block(name.rsplit(".", 1)[0]) for name in names}


def _inside_block(path: str) -> str:
    """self_attn.q_proj for model.layers.3.self_attn.q_proj; names inside a block stay."""
    parts = path.split(".")
    for index, part in enumerate(parts):
        if part.isdigit() and index > 0 and index + 1 < len(parts):
            return ".".join(parts[index + 1 :])
    return path


def _names(file: Path) -> set[str]:
    from safetensors import safe_open

    try:
        with safe_open(file, framework="np") as opened:
            return set(opened.keys())
    except Exception as error:  # noqa: BLE001 - the library's error type differs between versions
        raise _unreadable(file, error) from None


def _load(file: Path) -> dict[str, mx.array]:
    if not file.exists():
        raise ModelError(f"{file.parent} is not an adapter folder", f"it has no {file.name}")
    try:
        arrays: Any = mx.load(str(file))
        mx.eval(arrays)
    except (RuntimeError, ValueError) as error:
        raise _unreadable(file, error) from None
    return arrays


def _misused(folder: Path, error: Exception) -> ModelError:
    return ModelError(
        f"{folder / CONFIG} is not a LoRA configuration", f"it lacks or misuses {error}"
    )


def _unreadable(file: Path, error: Exception) -> ModelError:
    if not file.exists():
        return ModelError(f"{file.parent} is not an adapter folder", f"it has no {file.name}")
    return ModelError(
        f"{file} cannot be read", " ".join(str(error).split()), "copy or train it again"
    )
