"""Which linear layers of a model get an adapter."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any

import mlx.nn as nn

from trainer_core.errors import ConfigError, ModelError

# Routers choose experts, or mix streams (Gemma 3n's altup, whose weights its own code reads); a
# low-rank update there changes the routing, not the answer.
_ROUTERS = re.compile(r"(^|\.)(router|gate|shared_expert_gate|wg|altup)(\.|$)")

# One fused layer holds what other models keep apart, so the parts' names find it too.
_FUSED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "query_key_value": ("q_proj", "k_proj", "v_proj"),
}


@dataclass(frozen=True, slots=True)
class Targets:
    """Paths of the layers to adapt, their names inside a block, and what should be said."""

    paths: list[str]
    keys: list[str]
    num_layers: int
    warnings: list[str] = field(default_factory=list)


def choose(model: nn.Module, target_modules: str | list[str], num_layers: int) -> Targets:
    """The layers to adapt.

    Args:
        model: a model of mlx-lm, with its blocks in `model.layers`.
        target_modules: `auto`, or names such as q_proj or self_attn.q_proj.
        num_layers: the last n blocks; -1 means all.

    Raises:
        ConfigError: a name matches nothing, or there are fewer blocks than num_layers.
    """
    blocks = blocks_of(model)
    if num_layers > len(blocks):
        raise ConfigError(
            f"num_layers is {num_layers}",
            f"the model has {len(blocks)} layers",
            f"use -1 for all, or 1 to {len(blocks)}",
            key="num_layers",
        )
    count = len(blocks) if num_layers == -1 else num_layers
    prefix = block_path(model)
    linears: list[tuple[int, str]] = []
    for number in range(len(blocks) - count, len(blocks)):
        for name, module in blocks[number].named_modules():
            if isinstance(module, (nn.Linear, nn.QuantizedLinear)):
                linears.append((number, name))
    linears.sort()
    wanted, warnings = _wanted(linears, target_modules, count)
    experts = {
        name
        for block in blocks[-count:]
        for name, module in block.named_modules()
        if type(module).__name__ in ("SwitchLinear", "QuantizedSwitchLinear")
    }
    if experts and target_modules == "auto":
        warnings.append(
            "the experts of this model stay as they are; only its other linears are adapted"
        )
    chosen = [(number, name) for number, name in linears if name in wanted]
    return Targets(
        paths=[f"{prefix}.{number}.{name}" for number, name in chosen],
        keys=sorted({name for _, name in chosen}),
        num_layers=count,
        warnings=warnings,
    )


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The model's blocks, first to last."""
    blocks: Any = model.layers
    return list(blocks)


def block_path(model: nn.Module) -> str:
    """Path of the list of blocks, such as model.layers or language_model.model.layers.

    Raises:
        ModelError: the model does not keep its blocks in a plain list.
    """
    first = blocks_of(model)[0]
    for path, module in model.named_modules():
        if module is first:
            return path.rsplit(".", 1)[0]
    raise ModelError("the layers of this model were not found", try_this="choose another model")


def _wanted(
    linears: list[tuple[int, str]], target_modules: str | list[str], count: int
) -> tuple[set[str], list[str]]:
    names = {name for _, name in linears}
    trainable = {name for name in names if not _ROUTERS.search(name)}
    if target_modules == "auto":
        return trainable, []
    wanted: set[str] = set()
    warnings: list[str] = []
    for asked in target_modules:
        hits = {name for name in names if _matches(name, asked)}
        if not hits:
            last = sorted({name.rsplit(".", 1)[-1] for name in names})
            near = difflib.get_close_matches(asked, last, 1)
            raise ConfigError(
                f"target_modules names {asked!r}, which matches no linear layer of this model",
                try_this=(f"did you mean {near[0]}? " if near else "")
                + f"it has {', '.join(last)}",
                key="target_modules",
            )
        blocks = {number for number, name in linears if name in hits}
        if len(blocks) < count:
            warnings.append(f"{asked} is in {len(blocks)} of the {count} layers")
        wanted |= hits
    return wanted, warnings


def _matches(name: str, asked: str) -> bool:
    if name == asked or name.endswith(f".{asked}"):
        return True
    last = name.rsplit(".", 1)[-1]
    return asked.rsplit(".", 1)[-1] in _FUSED.get(last, ())
