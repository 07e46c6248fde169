"""LoRA on linear layers: our own layer, with keyed dropout masks and a plain multiplier.

Hu et al. 2021, arXiv:2106.09685. The layer adds scale * (x A) B; A starts uniform in
+-1/sqrt(inputs) as in mlx-lm, B starts at zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten

from trainer_core.model.dropout import DropoutSwitch, drop


class LoRALinear(nn.Module):
    """A frozen linear layer plus a trained low-rank update. `trained` names its trained arrays.

    Args:
        linear: nn.Linear or nn.QuantizedLinear.
        rank: inner width r of A [inputs, r] and B [r, outputs], both float32.
        scale: multiplies the product directly.
        key: random key for A.
        dropout: share of dropped inputs, see `dropout.drop`.
        switch: holds the dropout plan in force.
        index: number of this layer among the adapted ones, part of the dropout key.
    """

    trained: ClassVar[tuple[str, ...]] = ("lora_a", "lora_b")

    def __init__(
        self,
        linear: nn.Module,
        rank: int,
        scale: float,
        key: mx.array,
        dropout: float = 0.0,
        switch: DropoutSwitch | None = None,
        index: int = 0,
    ) -> None:
        super().__init__()
        outputs, inputs = linear_shape(linear)
        bound = 1 / math.sqrt(inputs)
        self.linear = linear
        self.lora_a = mx.random.uniform(-bound, bound, (inputs, rank), key=key)
        self.lora_b = mx.zeros((rank, outputs))
        self.scale = scale
        self.rate = dropout
        self.index = index
        self.enabled = True
        self._switch = switch or DropoutSwitch()

    def __call__(self, x: mx.array) -> mx.array:
        """Outputs [..., outputs] for inputs [..., inputs], in the dtype of x."""
        y = self.linear(x)
        if not self.enabled:
            return y
        x = self._dropped(x)
        if x.dtype == y.dtype == mx.bfloat16:
            # A product of bfloat16 and float32 would first write a float32 copy of x.
            a, b = self.lora_a.astype(x.dtype), (self.scale * self.lora_b).astype(x.dtype)
            return mx.addmm(y, x @ a, b)
        z = (x @ self.lora_a) @ self.lora_b
        return y + (self.scale * z).astype(y.dtype)

    def _dropped(self, x: mx.array) -> mx.array:
        """What the update sees of x: x itself where no dropout is in force."""
        plan = self._switch.plan
        if self.rate == 0 or plan is None:
            return x
        return drop(x, self.rate, plan, self.index)


class Adapter:
    """All adapted layers of a model, by path, and their trainable arrays.

    Attributes:
        layers: path such as model.layers.0.self_attn.q_proj -> its layer, in the model's order.
        dropout: the switch that all of them share.
    """

    def __init__(self, layers: dict[str, LoRALinear], dropout: DropoutSwitch) -> None:
        self.layers = layers
        self.dropout = dropout

    def parameters(self) -> dict[str, mx.array]:
        """Name -> array, named as in mlx-lm's adapters.safetensors."""
        found: dict[str, mx.array] = {}
        for path, layer in self.layers.items():
            found |= {f"{path}.{leaf}": layer[leaf] for leaf in layer.trained}
        return found

    def uniform(self, rank: int, scale: float) -> dict[str, mx.array]:
        """The same adapter with one rank and one multiplier, as mlx-lm's loader needs it.

        Args:
            rank: at least every layer's; what a layer lacks is zero, in A and in B.
            scale: a layer's own multiplier is put into its B.
        """
        found = self.parameters()
        for path, layer in self.layers.items():
            more = rank - layer.lora_a.shape[1]
            b = layer.lora_b if layer.scale == scale else layer.lora_b * (layer.scale / scale)
            found[f"{path}.lora_a"] = mx.pad(layer.lora_a, [(0, 0), (0, more)])
            found[f"{path}.lora_b"] = mx.pad(b, [(0, more), (0, 0)])
        return found

    def is_uniform(self, rank: int, scale: float) -> bool:
        """Whether `uniform` gives the arrays as they are."""
        return all(
            layer.scale == scale and layer.lora_a.shape[1] == rank for layer in self.layers.values()
        )

    def names(self, start: int, stop: int) -> list[str]:
        """Names of the arrays in layers start..stop-1, in the order of `parameters`."""
        found: list[str] = []
        for path, layer in self.layers.items():
            number = next((int(part) for part in path.split(".") if part.isdigit()), -1)
            if start <= number < stop:
                found += [f"{path}.{leaf}" for leaf in layer.trained]
        return found

    def assign(self, parameters: dict[str, mx.array]) -> None:
        """Put arrays in place; names and shapes are those of `parameters`."""
        for name, value in parameters.items():
            path, leaf = name.rsplit(".", 1)
            setattr(self.layers[path], leaf, value)

    @contextmanager
    def disabled(self) -> Iterator[None]:
        """The base model alone, for as long as the block runs."""
        for layer in self.layers.values():
            layer.enabled = False
        try:
            yield
        finally:
            for layer in self.layers.values():
                layer.enabled = True


def attach(
    model: nn.Module,
    paths: list[str],
    *,
    rank: int,
    scale: float,
    dropout: float = 0.0,
    seed: int = 0,
    ranks: Mapping[str, int] | None = None,
    rs_lora: bool = False,
    layer_type: type[LoRALinear] = LoRALinear,
) -> Adapter:
    """Replace the linear layers at these paths by adapted ones.

    Args:
        model: changed in place; everything but A and B stays frozen.
        paths: full module paths, see `targets.choose`.
        rank: of every layer that `ranks` lacks.
        scale: of every layer; with `rs_lora` see `multiplier`.
        dropout: of every layer.
        seed: each layer draws its A from its own key of this seed.
        ranks: path -> rank.
        rs_lora: whether the multiplier falls with the root of the rank only.
        layer_type: what they become.
    """
    modules: dict[str, Any] = dict(model.named_modules())
    keys = mx.random.split(mx.random.key(seed), max(len(paths), 2))
    switch = DropoutSwitch()
    layers: dict[str, LoRALinear] = {}
    for index, path in enumerate(paths):
        own = (ranks or {}).get(path, rank)
        by = multiplier(scale, rank, own) if rs_lora else scale
        layer = layer_type(modules[path], own, by, keys[index], dropout, switch, index)
        layer.freeze()
        layer.unfreeze(keys=list(layer.trained), recurse=False)
        layers[path] = layer
    model.update_modules(tree_unflatten(list(layers.items())))
    adapter = Adapter(layers, switch)
    mx.eval(adapter.parameters())
    return adapter


def multiplier(scale: float, rank: int, own: int) -> float:
    """What rsLoRA multiplies the product B A of a layer of rank `own` by.

    Kalajdzievski 2023, arXiv:2312.03732: alpha / sqrt(own), where alpha = scale * rank.
    """
    return scale * rank / math.sqrt(own)


def linear_shape(linear: nn.Module) -> tuple[int, int]:
    """(outputs, inputs) of a linear layer, quantised or not."""
    weight: Any = linear.weight
    outputs, inputs = weight.shape
    if isinstance(linear, nn.QuantizedLinear):
        inputs = inputs * 32 // linear.bits
    return outputs, inputs
