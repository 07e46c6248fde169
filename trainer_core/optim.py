"""The optimiser, the learning-rate schedule and gradient clipping."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import mlx.core as mx
from mlx.optimizers import Optimizer
from mlx.utils import tree_flatten

from trainer_core.config import RunConfig
from trainer_core.update_rules import make_rule

Arrays = dict[str, mx.array]


def learning_rate(
    step: int,
    *,
    peak: float,
    total: int,
    schedule: Literal["constant", "linear", "cosine"],
    warmup: int = 0,
    floor: float = 0.1,
) -> float:
    """The rate of a step.

    Warm-up step k of W gives peak * k / W. After it the rate falls from the peak to floor * peak,
    which the last step has exactly; `constant` stays at the peak. Without warm-up the first step
    is at the peak.

    Args:
        step: 1 to total.
        peak: highest rate.
        total: number of steps.
        schedule: shape of the fall.
        warmup: steps of the rise.
        floor: share of the peak at the end.
    """
    if step < warmup:
        return peak * step / warmup
    if schedule == "constant":
        return peak
    top = max(warmup, 1)
    progress = min(1.0, (step - top) / (total - top)) if total > top else 1.0 * (step > top)
    shape = 1 - progress if schedule == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return peak * (floor + (1 - floor) * shape)


_FASTER = (".lora_b", ".m")


class Optimiser:
    """The rule of the option `optimizer`, behind a fixed schedule.

    With `lora_plus_ratio`, arXiv:2402.12354, every B is updated at that multiple of the rate, and
    as in PEFT so are DoRA's lengths.

    Args:
        config: rule, rates, betas, decay and clip.
        total: number of steps of the run.
    """

    def __init__(self, config: RunConfig, total: int) -> None:
        assert config.learning_rate is not None, "the configuration is resolved before training"
        self._config = config
        self._peak = config.learning_rate
        self._total = total
        self._rules: dict[_Group, Optimizer] = {}
        self._compiled: dict[_Group, Callable[[Arrays, Arrays], Arrays]] = {}

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        return learning_rate(
            step,
            peak=self._peak,
            total=self._total,
            schedule=self._config.lr_schedule,
            warmup=self._config.warmup_steps,
            floor=self._config.lr_floor,
        )

    def update(self, parameters: Arrays, gradients: Arrays, step: int) -> Arrays:
        """The parameters after one step; nothing is changed in place."""
        updated: Arrays = {}
        for group, names in self._groups(parameters).items():
            rule = self._rule(group)
            rule.learning_rate = self.rate(step) * group.ratio
            own = {name: parameters[name] for name in names}
            apply = self._apply(group, rule, own)
            updated |= apply({name: gradients[name] for name in names}, own)
        return {name: updated[name] for name in parameters}

    def state(self) -> Arrays:
        """Moments and step count as a flat name -> array mapping, for a checkpoint."""
        flat: Arrays = {}
        for rule in self._rules.values():
            found: Any = tree_flatten(rule.state)
            flat |= dict(found)  # groups share step; the rate is set anew at every step
        return flat

    def restore(self, state: Arrays, parameters: Arrays) -> None:
        """Go on from what `state` gave.

        Args:
            state: of an optimiser with the same configuration.
            parameters: the arrays that are trained.
        """
        self._rules.clear()
        self._compiled.clear()
        shared = {name: state[name] for name in ("step", "learning_rate")}
        for group, names in self._groups(parameters).items():
            own: dict[str, Any] = dict(shared)
            for name in names:
                start = f"{name}."
                own[name] = {k[len(start) :]: a for k, a in state.items() if k.startswith(start)}
            self._rule(group).state = own

    @property
    def arrays(self) -> object:
        """Everything that has to be evaluated after an update."""
        return [rule.state for rule in self._rules.values()]

    def _groups(self, parameters: Arrays) -> dict[_Group, list[str]]:
        """The names of the arrays that go by one rule and one rate."""
        muon, ratio = self._config.optimizer == "muon", self._config.lora_plus_ratio
        groups: dict[_Group, list[str]] = {}
        for name, array in parameters.items():
            group = _Group(
                matrix=muon and array.ndim == 2, ratio=ratio if name.endswith(_FASTER) else 1.0
            )
            groups.setdefault(group, []).append(name)
        return groups

    def _rule(self, group: _Group) -> Optimizer:
        if group not in self._rules:
            self._rules[group] = make_rule(self._config, matrix=group.matrix)
        return self._rules[group]

    def _apply(
        self, group: _Group, rule: Optimizer, parameters: Arrays
    ) -> Callable[[Arrays, Arrays], Arrays]:
        """The rule as one compiled function, or thousands of small kernels would wait for Python.

        Its moments exist beforehand, because a compiled function cannot make its own state.
        """
        if group not in self._compiled:
            rule.init(parameters)  # keeps what `restore` has put there
            state = [rule.state]
            self._compiled[group] = mx.compile(rule.apply_gradients, inputs=state, outputs=state)
        return self._compiled[group]


@dataclass(frozen=True, slots=True)
class _Group:
    """Arrays that are updated alike. `ratio` multiplies the learning rate."""

    matrix: bool
    ratio: float


@mx.compile
def global_norm(gradients: Arrays) -> mx.array:
    """Euclidean norm over all gradients, float32 scalar."""
    return mx.sqrt(
        sum((mx.square(g.astype(mx.float32)).sum() for g in gradients.values()), mx.array(0.0))
    )


def clip(gradients: Arrays, norm: mx.array, limit: float) -> Arrays:
    """Gradients scaled so that their global norm is at most `limit`; 0 leaves them alone.

    The small constant in the divisor is torch's, so that both clip alike.
    """
    if limit == 0:
        return gradients
    return _scaled(gradients, mx.minimum(1.0, limit / (norm + 1e-6)))


@mx.compile
def _scaled(gradients: Arrays, factor: mx.array) -> Arrays:
    return {name: gradient * factor for name, gradient in gradients.items()}
