"""From a configuration as asked to one in which every `auto` is settled; nothing is loaded yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainer_core import backend, memory
from trainer_core.config import PREFERENCE, RunConfig, resolve
from trainer_core.errors import ConfigError, ModelError
from trainer_core.events import Warned
from trainer_core.model.find import read_config

# What `segment_size: auto` tries, from the fastest to the one that needs the least memory.
_SEGMENTS = (0, 8, 4, 2, 1)

# Tokens of a row up to which a GPU waits for launches more than it computes, so that the second
# forward of segments costs time.
_LAUNCH_BOUND = 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """A resolved configuration, and what should be said about how it was resolved.

    Attributes:
        config: every `auto` settled; what only the model can tell may still fall back.
        asked: as the user wrote it, where `auto` may fall back and anything else may not.
        warnings: for the user.
    """

    config: RunConfig
    asked: RunConfig
    warnings: list[Warned] = field(default_factory=list)


def make_plan(
    config: RunConfig,
    folder: Path,
    longest: int | Sequence[memory.Lengths] | None = None,
    machine: backend.Machine | None = None,
) -> Plan:
    """Settle every `auto` that does not need the model itself.

    Args:
        config: as asked for.
        folder: the model's folder.
        longest: see `memory.estimate`.
        machine: what it is planned for; this one by default, for which MLX is asked.

    Raises:
        ConfigError: an explicit value cannot be honoured.
        ModelError: the model or warm-start folder is broken.
        OutOfMemoryError: the explicit weights do not fit.
    """
    config = resolve(config)
    asked = config
    if config.warm_start:
        config = config.model_copy(update=_from_warm_start(config, folder))
    full = config.fine_tune_type == "full"
    update: dict[str, Any] = {}
    if config.head == "auto":
        update["head"] = "full" if full else "fused"
    if config.prefix_sharing == "auto":
        shares = config.method in PREFERENCE and not config.grad_checkpoint and not full
        update["prefix_sharing"] = "on" if shares else "off"
    if config.attention == "auto":
        update["attention"] = "sdpa"  # until the estimate says otherwise
    config = config.model_copy(update=update)
    machine = machine or backend.this_machine()
    kind, available = machine.kind, machine.available

    def choose(way: _Way) -> tuple[backend.WeightPolicy, bool]:
        """The weights that go with this way, and whether the run then fits."""
        sized = config.model_copy(update={"segment_size": way.segment, "attention": way.attention})
        needs = memory.estimate(folder, sized, longest, kind)
        if full:
            policy = _trained_weights(asked.weights, needs, available)
        else:
            policy = backend.resolve_weights(asked.weights, needs, kind, available)
        fits = backend.fits(needs.total(policy.weights), int(available * way.share))
        return policy, policy.warning is None and fits

    ways = _ways(asked, config, kind, _longest(config, longest))
    way = next((way for way in ways if choose(way)[1]), ways[-1])
    size, attention = way.segment, way.attention
    policy, _ = choose(way)
    warnings = [policy.warning] if policy.warning is not None else []
    if way.because_of_memory:
        warnings.append(_segments_chosen(size, available))
    if config.grad_checkpoint and config.method in PREFERENCE and asked.prefix_sharing == "auto":
        warnings.append(_prompts_not_shared())
    if attention != config.attention:
        warnings.append(_blocked_chosen(available))
    update = {"segment_size": size, "attention": attention, "weights": policy.weights}
    return Plan(config.model_copy(update=update), asked, warnings)


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to run the backward pass, and the share of the free memory that it may plan with."""

    segment: int
    attention: str
    share: float = 1.0
    because_of_memory: bool = False


def _ways(asked: RunConfig, config: RunConfig, kind: backend.Kind, longest: int) -> list[_Way]:
    """What may be taken, best first."""
    if config.grad_checkpoint or (config.fine_tune_type == "full" and asked.segment_size == "auto"):
        return [_Way(0, config.attention)]
    if isinstance(asked.segment_size, int):
        sizes = [_Way(asked.segment_size, config.attention)]
    elif kind == "cuda" and not config.dropout:
        # Single compiled layers beat a graph that is built anew, in any memory. SFT's graph is
        # compiled as a whole, which is faster still where the device waits for launches.
        sizes = [_Way(1, config.attention)]
        if config.method == "sft" and longest - 1 <= _LAUNCH_BOUND:
            sizes.insert(0, _Way(0, config.attention, share=0.25))
    else:
        sizes = [_Way(n, config.attention, because_of_memory=n > 0) for n in _SEGMENTS]
    if asked.attention != "auto" or kind != "cpu":
        return sizes
    # Only a CPU's attention backward is quadratic, and only what does not fit is worth slowing.
    return [*sizes, *(replace(way, attention="blocked") for way in sizes)]


def _longest(config: RunConfig, longest: int | Sequence[memory.Lengths] | None) -> int:
    """Tokens of the longest row that runs."""
    if longest is None or isinstance(longest, int):
        return longest or config.max_seq_length
    return max((row.packed or row.sequence for row in longest), default=config.max_seq_length)


def count_blocks(folder: Path) -> int:
    """Number of blocks that a model's config.json states."""
    config = read_config(folder)
    for part in (config, config.get("text_config") or {}):
        for key in ("num_hidden_layers", "n_layers", "n_layer", "num_layers"):
            if isinstance(part.get(key), int):
                return part[key]
    raise ModelError(f"{folder / 'config.json'} does not say how many layers the model has")


def _trained_weights(
    asked: str, needs: memory.MemoryEstimate, available: int
) -> backend.WeightPolicy:
    """The precision of weights that are trained themselves: float32 if the run then fits.

    Raises:
        ModelError: they are quantised.
    """
    if needs.quantised:
        raise ModelError(
            "a quantised model cannot be fully fine-tuned",
            "its weights are packed integers, which have no room for what is learned",
            "choose the model in bfloat16 or float32, or fine_tune_type lora",
        )
    widened = backend.fits(needs.total("float32"), available) if asked == "auto" else False
    if asked == "float32" or widened:
        return backend.WeightPolicy("float32")
    half = asked == "bfloat16" or needs.dtype != "F32"
    warning = _steps_rounded() if half else None
    safe = asked == "bfloat16" or (asked == "auto" and needs.dtype == "F16")
    return backend.WeightPolicy("bfloat16" if safe else "keep", warning)


def _steps_rounded() -> Warned:
    return Warned(
        "half_weights",
        "the trained weights have 16 bits, so that steps of less than a 256th of a weight are lost",
        "use weights: float32 if there is memory for it, or fine_tune_type: lora",
    )


def _segments_chosen(size: int, available: int) -> Warned:
    return Warned(
        "segments",
        f"the backward pass goes in segments of {size} layers, to fit in the "
        f"{available / 1e9:.1f} GB that are free",
        "a smaller sequence length or batch size leaves room for a faster way",
    )


def _prompts_not_shared() -> Warned:
    return Warned(
        "fallback",
        "prefix_sharing is off: gradient checkpointing runs both answers with their prompt",
        "segment_size: 1 in place of grad_checkpoint shares prompts and needs less memory",
    )


def _blocked_chosen(available: int) -> Warned:
    return Warned(
        "blocked_attention",
        f"attention goes by blocks of queries, which is slower, to fit in the "
        f"{available / 1e9:.1f} GB that are free",
        "a smaller sequence length leaves room for the faster one",
    )


def _from_warm_start(config: RunConfig, folder: Path) -> dict[str, Any]:
    """The adapter's own shape. A different one that the user asked for is an error."""
    from trainer_core.model.adapter_files import read_spec

    adapter = Path(str(config.warm_start)).expanduser()
    spec = read_spec(adapter, count_blocks(folder))
    own: dict[str, Any] = {"fine_tune_type": spec.kind, "num_layers": spec.num_layers}
    if spec.kind != "full":
        own |= {"rank": spec.rank, "scale": spec.scale, "target_modules": list(spec.keys)}
    elif config.dpo_reference == "base":
        raise ConfigError(
            "dpo_reference = base cannot be used",
            f"the weights in {adapter} take the base model's place",
            "choose dpo_reference start",
            key="dpo_reference",
        )
    for name in own:
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
