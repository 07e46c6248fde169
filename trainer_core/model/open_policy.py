"""Load a model and put an adapter on it: a new one, or one from a folder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import mlx.nn as nn

from trainer_core.config import RunConfig
from trainer_core.errors import ConfigError, ModelError
from trainer_core.events import Warned
from trainer_core.model.adapter_files import AdapterSpec, read_parameters, read_spec
from trainer_core.model.dora import DoRALinear, bits_beyond_mlx_lm
from trainer_core.model.full import FullWeights, as_a_whole
from trainer_core.model.load import LoadedModel, WeightPolicy, load_model
from trainer_core.model.lora import Adapter, LoRALinear, attach, multiplier
from trainer_core.model.open_stack import CheckedStack, unchecked
from trainer_core.model.targets import Targets, blocks_of, choose
from trainer_core.model.trainable import check_trainable
from trainer_core.model.verdict import open_stack_once
from trainer_core.ranks import ranks_by_bits, ranks_by_kl, spread
from trainer_core.sensitivities import read_sensitivities

_LAYERS: dict[str, type[LoRALinear]] = {"lora": LoRALinear, "dora": DoRALinear}


@dataclass(frozen=True, slots=True)
class AdaptedModel:
    """A frozen model with an adapter on it.

    Attributes:
        loaded: the base.
        adapter: its trainable part.
        spec: the adapter's shape, as it is saved.
        checked: the model's parts, and what they cannot do.
        warnings: what should be told.
    """

    loaded: LoadedModel
    adapter: Adapter
    spec: AdapterSpec
    checked: CheckedStack
    warnings: list[Warned] = field(default_factory=list)

    @property
    def model(self) -> nn.Module:
        """The model, adapter included."""
        return self.loaded.model


def open_for_training(folder: Path, config: RunConfig) -> AdaptedModel:
    """The model of a run, with a fresh adapter or the one of `warm_start`.

    Args:
        folder: the model's folder.
        config: resolved; with a warm start it already has the adapter's own shape.

    Raises:
        ModelError: the model cannot be loaded, or the adapter does not fit it.
        ConfigError: target_modules or num_layers do not fit the model.
    """
    loaded = load_model(folder, _policy(config.weights))
    warm = Path(config.warm_start).expanduser() if config.warm_start else None
    if config.fine_tune_type == "full":
        opened = _whole(loaded, config.num_layers, warm)
        check_trainable(opened.model, opened.adapter)
        return opened
    if warm is None:
        targets = choose(loaded.model, config.target_modules, config.num_layers)
    else:
        targets = _targets_of(warm, loaded.model, config.target_modules, config.num_layers)
    ranks = dict.fromkeys(targets.paths, config.rank)
    if config.rank_scaling == "by_bits":
        ranks = ranks_by_bits(targets.paths, loaded.bits, config.rank)
    elif config.rank_scaling == "by_kl":
        kl = read_sensitivities(folder)
        ranks = ranks_by_kl(targets.paths, kl, loaded.bits, config.rank)
    highest = max(ranks.values())
    by = multiplier(config.scale, config.rank, highest) if config.rs_lora else config.scale
    spec = AdapterSpec(
        rank=highest,
        scale=by,
        dropout=config.dropout,
        keys=tuple(targets.keys),
        num_layers=targets.num_layers,
        kind=config.fine_tune_type,
    )
    adapter = attach(
        loaded.model,
        targets.paths,
        rank=config.rank,
        scale=config.scale,
        dropout=spec.dropout,
        seed=config.seed,
        ranks=ranks,
        rs_lora=config.rs_lora,
        layer_type=_LAYERS[spec.kind],
    )
    if warm is not None:
        _fill(adapter, warm)
    check_trainable(loaded.model, adapter)
    checked = open_stack_once(loaded, targets.paths)
    warnings = [Warned("targets", text) for text in targets.warnings]
    if spec.kind == "dora" and (odd := bits_beyond_mlx_lm(loaded.bits.values())):
        warnings.append(_not_for_mlx_lm(odd))
    if config.rank_scaling != "constant":
        unknown = config.rank_scaling == "by_kl" and not read_sensitivities(folder)
        warnings.append(_ranks_told(ranks, unknown))
    return AdaptedModel(loaded, adapter, spec, checked, warnings)


def open_with_adapter(folder: Path, adapter: Path, weights: WeightPolicy) -> AdaptedModel:
    """A model with a trained adapter, for use rather than training.

    Raises:
        ModelError: one of the two cannot be loaded, or they do not fit.
    """
    loaded = load_model(folder, weights)
    spec = read_spec(adapter, len(blocks_of(loaded.model)))
    if spec.kind == "full":
        return _whole(loaded, spec.num_layers, adapter)
    targets = _targets_of(adapter, loaded.model, list(spec.keys), spec.num_layers)
    made = attach(
        loaded.model,
        targets.paths,
        rank=spec.rank,
        scale=spec.scale,
        layer_type=_LAYERS[spec.kind],
    )
    _fill(made, adapter)
    return AdaptedModel(loaded, made, spec, unchecked(loaded.model))


def _whole(loaded: LoadedModel, num_layers: int, warm: Path | None) -> AdaptedModel:
    """A model whose own weights are trained."""
    trained = FullWeights(loaded.model, num_layers)
    if warm is not None:
        _fill(trained, warm)
    spec = AdapterSpec(0, 0.0, 0.0, (), num_layers, "full")
    return AdaptedModel(loaded, trained, spec, as_a_whole(loaded.model))


def _targets_of(folder: Path, model: nn.Module, keys: str | list[str], num_layers: int) -> Targets:
    """Where in this model the adapter in a folder goes."""
    try:
        targets = choose(model, keys, num_layers)
    except ConfigError as error:
        raise _misfit(folder, error.what) from None
    # What `choose` has to say is for those who name the layers themselves.
    return replace(targets, warnings=[])


def _fill(adapter: Adapter, folder: Path) -> None:
    """Put a folder's arrays into an adapter, all of them or none."""
    own = adapter.parameters()
    found = read_parameters(folder)
    missing, unknown = sorted(set(own) - set(found)), sorted(set(found) - set(own))
    if missing or unknown:
        example = f"it lacks {missing[0]}" if missing else f"the model has no {unknown[0]}"
        count = len(missing) + len(unknown)
        raise _misfit(folder, f"{count} of its arrays do not match; for example {example}")
    for name, array in own.items():
        if found[name].shape != array.shape:
            raise _misfit(folder, f"{name} is {found[name].shape}, not {array.shape}")
    adapter.assign(found)


def _misfit(folder: Path, why: str) -> ModelError:
    return ModelError(
        f"the adapter in {folder} does not fit this model",
        why,
        "use the model that the adapter was trained on",
    )


def _ranks_told(ranks: dict[str, int], unknown: bool) -> Warned:
    """What rank scaling came to; without a base that tells layers apart it comes to nothing."""
    why = "the model's folder records no sensitivities, so bits decide; " if unknown else ""
    if len(set(ranks.values())) > 1:
        return Warned("ranks", f"{why}ranks: {spread(ranks)}")
    rank = next(iter(ranks.values()))
    return Warned(
        "ranks",
        f"{why}every layer has rank {rank}, because nothing tells them apart",
        "leave out rank_scaling, or choose a model of mixed quantisation",
    )


def _not_for_mlx_lm(bits: list[int]) -> Warned:
    widths = ", ".join(map(str, bits))
    return Warned(
        "dora",
        f"mlx-lm cannot load DoRA on layers of {widths} bits, which this model has",
        "fine_tune_type: lora gives an adapter that it loads",
    )


def _policy(weights: str) -> WeightPolicy:
    assert weights in ("keep", "float32", "bfloat16"), "the configuration is resolved"
    return weights  # type: ignore[return-value]
