"""How gradients become new values, one rule for each value of `optimizer`, with torch's numbers.

MLX's own rules are taken where they agree with torch's. Its Adafactor and its Muon do not: other
floors and another step size in the one, decay added to the gradient in the other.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mx
from mlx.optimizers import SGD, Adam, AdamW, Optimizer

from trainer_core.config import RunConfig

_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


class Adafactor(Optimizer):
    """Adafactor, arXiv:1804.04235, as `torch.optim.Adafactor` has it.

    Matrices keep the second moment of their rows and columns only. The step is the rate times the
    root mean square of the parameter, which is taken as at least `floor`.

    Args:
        learning_rate: of the next step; no step is longer than 1 / sqrt(step).
        weight_decay: decoupled, times the rate.
        floor: torch's second epsilon.
        beta2_decay: exponent of the step by which the moving average lengthens.
    """

    def __init__(
        self,
        learning_rate: float,
        weight_decay: float = 0.0,
        floor: float = 1e-3,
        beta2_decay: float = -0.8,
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.weight_decay = weight_decay
        self.floor = floor
        self.beta2_decay = beta2_decay

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        """Second moments of zero."""
        if parameter.ndim > 1:
            shape = parameter.shape
            state["row"] = mx.zeros((*shape[:-1], 1), dtype=parameter.dtype)
            state["column"] = mx.zeros((*shape[:-2], 1, shape[-1]), dtype=parameter.dtype)
        else:
            state["v"] = mx.zeros_like(parameter)

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        """The parameter after this step."""
        rate = self.learning_rate.astype(gradient.dtype)
        step = self.step.astype(mx.float32)
        new = (step**self.beta2_decay).astype(gradient.dtype)
        longest = mx.minimum(rate, mx.rsqrt(step)).astype(gradient.dtype)
        size = mx.maximum(self.floor, _rms(parameter)) * longest
        tiny = float(mx.finfo(gradient.dtype).eps)
        squared = mx.square(gradient)
        if gradient.ndim > 1:
            row = state["row"] = _towards(state["row"], squared.mean(-1, keepdims=True), new)
            column = state["column"] = _towards(
                state["column"], squared.mean(-2, keepdims=True), new
            )
            moment = (row @ column) / mx.maximum(row.mean(-2, keepdims=True), tiny)
        else:
            moment = state["v"] = _towards(state["v"], squared, new)
        update = mx.rsqrt(mx.maximum(moment, tiny * tiny)) * gradient
        update = update / mx.maximum(1.0, _rms(update))
        return parameter * (1 - rate * self.weight_decay) - size * update


class Muon(Optimizer):
    """Muon, Jordan 2024 (kellerjordan.github.io/posts/muon), as `torch.optim.Muon` has it.

    The momentum of a matrix is made orthogonal by five Newton-Schulz iterations, here in the
    gradient's own precision, where torch takes bfloat16.

    Args:
        learning_rate: of the next step.
        weight_decay: decoupled, times the rate.
        inputs_first: whether matrices are [inputs, outputs], as LoRA's are, and not
            [outputs, inputs]; the step of a matrix that widens is longer.
        momentum: Nesterov's.
    """

    def __init__(
        self,
        learning_rate: float,
        weight_decay: float = 0.0,
        inputs_first: bool = True,
        momentum: float = 0.95,
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.weight_decay = weight_decay
        self.inputs_first = inputs_first
        self.momentum = momentum

    def init_single(self, parameter: mx.array, state: dict[str, Any]) -> None:
        """A momentum of zero."""
        state["m"] = mx.zeros_like(parameter)

    def apply_single(
        self, gradient: mx.array, parameter: mx.array, state: dict[str, Any]
    ) -> mx.array:
        """The matrix after this step."""
        rate = self.learning_rate.astype(gradient.dtype)
        momentum = state["m"] = _towards(state["m"], gradient, 1 - self.momentum)
        update = orthogonal(_towards(gradient, momentum, self.momentum))
        outputs, inputs = parameter.shape[::-1] if self.inputs_first else parameter.shape
        stretch = max(1.0, outputs / inputs) ** 0.5
        return parameter * (1 - rate * self.weight_decay) - rate * stretch * update


def orthogonal(matrix: mx.array) -> mx.array:
    """A matrix [m, n] with the same singular vectors and singular values near 1."""
    a, b, c = _NEWTON_SCHULZ
    rows, columns = matrix.shape
    x = matrix.T if rows > columns else matrix
    x = x / mx.maximum(mx.linalg.norm(x), 1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if rows > columns else x


def make_rule(config: RunConfig, *, matrix: bool) -> Optimizer:
    """The rule that the option `optimizer` names.

    Args:
        config: rate, decay, betas and epsilon.
        matrix: whether the arrays have two dimensions; Muon leaves the others to AdamW.
    """
    rate = config.learning_rate
    assert rate is not None, "the configuration is resolved before training"
    decay, betas, eps = config.weight_decay, list(config.adam_betas), config.adam_eps
    match config.optimizer:
        case "adam":
            return Adam(rate, betas, eps, bias_correction=True)
        case "sgd":
            return SGD(rate, weight_decay=decay)
        case "adafactor":
            return Adafactor(rate, decay)
        case "muon" if matrix:
            return Muon(rate, decay)
    # MLX's default leaves the bias in, which would not give the numbers of the paper or of torch.
    return AdamW(rate, betas, eps, decay, bias_correction=True)


def _rms(x: mx.array) -> mx.array:
    return mx.sqrt(mx.square(x).mean())


def _towards(start: mx.array, end: mx.array, share: mx.array | float) -> mx.array:
    return start + share * (end - start)
