"""From a configuration as asked to one in which every `auto` is settled; nothing is loaded yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer_core import backend, memory
from trainer_core.config import RunConfig, refused, resolve
from trainer_core.errors import ConfigError, ModelError
from trainer_core.events import Warned
from trainer_core.model.find import read_config

_FROM_WARM_START = ("rank", "scale", "target_modules", "num_layers")


@dataclass(frozen=True, slots=True)
class Plan:
    """A resolved configuration, and what should be said about how it was resolved."""

    config: RunConfig
    warnings: list[Warned] = field(default_factory=list)


def make_plan(config: RunConfig, folder: Path, longest: int | None = None) -> Plan:
    """Settle every `auto` that does not need the model itself.

    Args:
        config: as asked for.
        folder: the model's folder.
        longest: tokens of the longest row if known, for the memory estimate.

    Raises:
        ConfigError: an explicit value cannot be honoured.
        ModelError: the model or warm-start folder is broken.
        OutOfMemoryError: the explicit weights do not fit.
    """
    config = resolve(config)
    update: dict[str, Any] = {"head": "fused" if config.head == "auto" else config.head}
    if config.segment_size == "auto":
        update["segment_size"] = 0
    elif config.segment_size != 0:
        raise refused(config, "segment_size", "the segmented backward is not part of this version")
    if config.prefix_sharing == "auto":
        update["prefix_sharing"] = "off"
    if config.attention == "auto":
        update["attention"] = "sdpa"
    if config.warm_start:
        update |= _from_warm_start(config, folder)
    config = config.model_copy(update=update)
    needs = memory.estimate(folder, config, longest)
    policy = backend.resolve_weights(
        config.weights, needs, backend.device().kind, memory.available_bytes()
    )
    warnings = [policy.warning] if policy.warning is not None else []
    return Plan(config.model_copy(update={"weights": policy.weights}), warnings)


def count_blocks(folder: Path) -> int:
    """Number of blocks that a model's config.json states."""
    config = read_config(folder)
    for part in (config, config.get("text_config") or {}):
        for key in ("num_hidden_layers", "n_layers", "n_layer", "num_layers"):
            if isinstance(part.get(key), int):
                return part[key]
    raise ModelError(f"{folder / 'config.json'} does not say how many layers the model has")


def _from_warm_start(config: RunConfig, folder: Path) -> dict[str, Any]:
    """The adapter's own shape. A different one that the user asked for is an error."""
    from trainer_core.model.adapter_files import read_spec

    adapter = Path(str(config.warm_start)).expanduser()
    spec = read_spec(adapter, count_blocks(folder))
    own: dict[str, Any] = {
        "rank": spec.rank,
        "scale": spec.scale,
        "target_modules": list(spec.keys),
        "num_layers": spec.num_layers,
    }
    for name in _FROM_WARM_START:
        asked = getattr(config, name)
        if name not in config.model_fields_set or asked in (own[name], "auto", -1):
            continue
        if name == "target_modules" and _same_targets(asked, spec.keys):
            continue
        raise ConfigError(
            f"{name} is {asked}, but the adapter in {adapter} has {own[name]}",
            "a warm start keeps the adapter's shape",
            f"leave {name} out",
            key=name,
        )
    return own


def _same_targets(asked: list[str], keys: tuple[str, ...]) -> bool:
    return {a.rsplit(".", 1)[-1] for a in asked} == {k.rsplit(".", 1)[-1] for k in keys}
