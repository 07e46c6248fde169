"""Two functions that need care in float32."""

from __future__ import annotations

import math

import mlx.core as mx

CEILING = -1e-7


def log1mexp(x: mx.array) -> mx.array:
    """log(1 - exp(x)) for x < 0, after Maechler 2012, "Accurately computing log(1 - exp(-|a|))".

    Two branches meet at -ln 2. x is held below `CEILING`; beyond it the gradient is zero. Each
    branch gets an argument that is safe for it, so that no NaN leaks from the branch that is not
    taken.
    """
    x = mx.minimum(x, CEILING)
    near = x > -math.log(2)
    by_expm1 = mx.log(-mx.expm1(mx.where(near, x, -0.5)))
    by_log1p = mx.log1p(-mx.exp(mx.where(near, -1.0, x)))
    return mx.where(near, by_expm1, by_log1p)


def softplus(x: mx.array) -> mx.array:
    """log(1 + exp(x)) without overflow."""
    return mx.logaddexp(x, mx.zeros_like(x))
