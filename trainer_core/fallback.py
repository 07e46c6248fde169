"""What a model cannot do: `auto` falls back with a warning, an explicit value is an error."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from trainer_core.config import RunConfig
from trainer_core.errors import ConfigError
from trainer_core.events import Warned
from trainer_core.heads.head import HeadKind
from trainer_core.model.attention import uses_mlx_attention
from trainer_core.model.open_policy import AdaptedModel
from trainer_core.option import allowed
from trainer_core.plan import Plan


def fit_to_model(plan: Plan, opened: AdaptedModel) -> tuple[RunConfig, list[Warned]]:
    """The configuration that this model can honour, and what fell back.

    Args:
        plan: resolved without knowing the model.
        opened: the model with its checks.

    Raises:
        ConfigError: an explicit value cannot be honoured.
    """
    checked = opened.checked
    update: dict[str, Any] = {"num_layers": opened.spec.num_layers}
    if opened.spec.keys:
        update["target_modules"] = list(opened.spec.keys)
    warnings: list[Warned] = []
    for name, plain, why in (
        ("head", "full", checked.whole or (checked.blocks if plan.config.head == "flash" else "")),
        ("segment_size", 0, checked.segments),
        ("prefix_sharing", "off", checked.prefix),
        ("attention", "sdpa", _why_not_blocked(opened)),
    ):
        if not why or getattr(plan.config, name) == plain:
            continue
        if getattr(plan.asked, name) != "auto":
            whose = "" if opened.spec.kind == "full" else "not with this model: "
            raise refused(plan.asked, name, whose + why)
        update[name] = plain
        warnings.append(Warned("fallback", f"{name} is {plain} for this model: {why}"))
    return plan.config.model_copy(update=update), warnings


def _why_not_blocked(opened: AdaptedModel) -> str:
    ids = mx.array([[1, 2, 3]])
    if uses_mlx_attention(lambda: opened.checked.stack.hidden(ids)):
        return ""
    return "its attention is not MLX's own"


def head_kind(head: str) -> HeadKind:
    """The head of a resolved configuration."""
    kinds: tuple[HeadKind, ...] = ("full", "chunked", "fused", "flash")
    return next(kind for kind in kinds if kind == head)


def refused(config: RunConfig, name: str, why: str) -> ConfigError:
    """The error for an explicit value that the engine cannot honour, such as a segment size.

    Args:
        config: has the value.
        name: the option.
        why: the reason, one clause.
    """
    values = allowed(RunConfig.model_fields[name])
    what = f"{name} = {getattr(config, name)} cannot be used"
    return ConfigError(what, why, f"Allowed is {values}", key=name)
