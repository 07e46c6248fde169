"""The sizes of a model that decide how much its training holds, from config.json and headers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.model_files import Tensor
from trainer_core.ranks import ranks_by_bits, ranks_by_kl

_ROUTER = re.compile(r"(^|\.)(router|gate|shared_expert_gate|wg|altup)(\.|$)")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.(.+)\.weight$")


@dataclass(frozen=True, slots=True)
class Geometry:
    """Sizes in elements.

    Attributes:
        layers: number of blocks.
        width: of the residual stream.
        heads: query heads.
        query: width of all queries.
        keys: width of all keys, and of all values.
        inner: width inside the feed-forward part that runs for a token.
        vocabulary: tokens.
        norms: norms of a block on the residual stream.
        head_norms: whether queries and keys are normed.
        gelu: whether the feed-forward part's gate is a GELU, of which more is kept.
        soft_cap: whether attention's scores are capped, which keeps them once more.
        adapters: adapted linear layers of a block.
        rank: of each, on average.
        magnitudes: outputs of the layers of a block whose lengths are trained, with DoRA.
    """

    layers: int
    width: int
    heads: int
    query: int
    keys: int
    inner: int
    vocabulary: int
    norms: int
    head_norms: bool
    gelu: bool
    soft_cap: bool
    adapters: float
    rank: float
    magnitudes: float = 0.0

    @property
    def kept(self) -> float:
        """Elements for each token that a layer's backward needs: inputs of products and norms."""
        query, keys = (2 + self.head_norms) * self.query, (2 + self.head_norms) * self.keys
        norms = 4 + 2 * max(self.norms - 2, 0)
        inner = (7 if self.gelu else 5) * self.inner
        return (
            norms * self.width + query + keys + inner + self.adapters * self.rank + self.magnitudes
        )

    @property
    def attending(self) -> float:
        """Elements for each token beside the scores while attention's backward runs.

        One array of the feed-forward part is still alive then.
        """
        return 6 * self.width + 4 * self.query + 4 * self.keys + self.inner

    @property
    def feeding(self) -> float:
        """Elements for each token beside `kept` while the feed-forward part's backward runs."""
        return 3 * self.inner + 2 * self.width


def geometry_of(
    shape: dict[str, Any], tensors: list[Tensor], adapted: Sequence[Adapted]
) -> Geometry:
    """The sizes of a model.

    Args:
        shape: its config.json.
        tensors: its weights.
        adapted: see `adapted_layers`.
    """
    text = shape.get("text_config") or shape
    layers = int(text.get("num_hidden_layers") or text.get("n_layer") or 0)
    width = int(text.get("hidden_size") or 0)
    heads = int(text.get("num_attention_heads") or 1)
    key_heads = int(text.get("num_key_value_heads") or heads)
    head_width = int(text.get("head_dim") or width // max(heads, 1))
    names = [found[2] for t in tensors if (found := _LAYER.search(t.name)) and found[1] == "0"]
    activation = str(text.get("hidden_act") or text.get("hidden_activation") or "")
    family = str(text.get("model_type", ""))
    return Geometry(
        layers=layers,
        width=width,
        heads=heads,
        query=heads * head_width,
        keys=key_heads * head_width,
        inner=_inner(text, width),
        vocabulary=int(
            text.get("vocab_size") or max((t.shape[0] for t in tensors if t.shape), default=0)
        ),
        norms=sum("norm" in n and not re.search(r"[qk]_norm|[qk]_layernorm", n) for n in names),
        head_norms=any(re.search(r"[qk]_(layer)?norm", name) for name in names),
        gelu="gelu" in activation or family.startswith("gemma"),
        soft_cap=bool(text.get("attn_logit_softcapping")) or family == "gemma2",
        adapters=len(adapted) / max(layers, 1),
        rank=sum(one.rank for one in adapted) / max(len(adapted), 1),
        magnitudes=sum(one.outputs for one in adapted if one.magnitude) / max(layers, 1),
    )


@dataclass(frozen=True, slots=True)
class Adapted:
    """An adapted linear layer."""

    outputs: int
    inputs: int
    rank: int
    magnitude: bool

    @property
    def parameters(self) -> int:
        """Elements of A and B, and with DoRA of m."""
        return self.rank * (self.outputs + self.inputs) + self.outputs * self.magnitude


def adapted_layers(
    tensors: list[Tensor], config: RunConfig, kl: Mapping[str, float]
) -> list[Adapted]:
    """The linears that `target_modules` and `num_layers` name.

    Args:
        tensors: a model's weights.
        config: says what is adapted, and how ranks are scaled.
        kl: what the model's folder records of its layers' sensitivities.
    """
    chosen = _chosen(tensors, config)
    paths = [tensor.name.removesuffix(".weight") for tensor in chosen]
    bits = {
        path: int(tensor.dtype[1:])
        for path, tensor in zip(paths, chosen, strict=True)
        if tensor.dtype.startswith("Q")
    }
    ranks = dict.fromkeys(paths, config.rank)
    if config.rank_scaling == "by_bits":
        ranks = ranks_by_bits(paths, bits, config.rank)
    elif config.rank_scaling == "by_kl":
        ranks = ranks_by_kl(paths, kl, bits, config.rank)
    return [
        Adapted(tensor.shape[0], tensor.shape[1], ranks[path], config.fine_tune_type == "dora")
        for path, tensor in zip(paths, chosen, strict=True)
    ]


def trained_elements(tensors: list[Tensor], config: RunConfig) -> int:
    """Elements of the weights that full fine-tuning trains."""
    layers = 1 + max((int(f[1]) for t in tensors if (f := _LAYER.search(t.name))), default=-1)
    first = layers - config.num_layers

    def trains(tensor: Tensor) -> bool:
        found = re.search(r"(?:^|\.)layers\.(\d+)\.", tensor.name)
        return config.num_layers < 0 or (found is not None and int(found[1]) >= first)

    return sum(tensor.parameters for tensor in tensors if trains(tensor))


def _chosen(tensors: list[Tensor], config: RunConfig) -> list[Tensor]:
    """Weights of the adapted linears."""
    linears: list[tuple[int, str, Tensor]] = []
    for tensor in tensors:
        found = _LAYER.search(tensor.name)
        # A mixture's experts are three-dimensional or lie under `experts`; they get no adapter.
        if found and len(tensor.shape) == 2 and ".experts." not in tensor.name:
            linears.append((int(found[1]), found[2], tensor))
    layers = 1 + max((layer for layer, _, _ in linears), default=-1)
    first = 0 if config.num_layers < 0 else layers - config.num_layers
    wanted = config.target_modules
    chosen = []
    for layer, name, tensor in linears:
        if wanted == "auto":
            named = not _ROUTER.search(name)
        else:
            named = any(f".{name}".endswith(f".{asked}") for asked in wanted)
        if layer >= first and named:
            chosen.append(tensor)
    return chosen


def _inner(text: dict[str, Any], width: int) -> int:
    """Width of the feed-forward part; of a mixture, of the experts that a token visits."""
    experts = text.get("num_experts_per_tok") or text.get("top_k_experts")
    each = text.get("moe_intermediate_size") or text.get("intermediate_size")
    each = max(each) if isinstance(each, list) else each
    if experts and each:
        shared = int(text.get("shared_expert_intermediate_size") or 0)
        return int(experts) * int(each) + shared
    return int(each or 4 * width)
