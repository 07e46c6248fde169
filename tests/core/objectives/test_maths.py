"""log1mexp and softplus against the closed forms in double precision."""

from __future__ import annotations

import math

import mlx.core as mx
import pytest

from trainer_core.objectives.maths import CEILING, log1mexp, softplus

POINTS = [-1e-6, -1e-4, -0.01, -0.3, -0.69, -math.log(2), -0.7, -1.0, -5.0, -20.0, -60.0]


@pytest.mark.parametrize("x", POINTS)
def test_log1mexp_is_the_closed_form(x: float) -> None:
    x = float(mx.array(x, dtype=mx.float32))  # what float32 makes of the point
    wanted = math.log(-math.expm1(x)) if x > -0.5 else math.log1p(-math.exp(x))
    assert float(log1mexp(mx.array(x))) == pytest.approx(wanted, rel=2e-6, abs=1e-30)


@pytest.mark.parametrize("x", POINTS)
def test_log1mexp_has_the_closed_forms_gradient(x: float) -> None:
    x = float(mx.array(x, dtype=mx.float32))
    wanted = math.exp(x) / math.expm1(x)
    assert float(mx.grad(log1mexp)(mx.array(x))) == pytest.approx(wanted, rel=2e-5, abs=1e-30)


@pytest.mark.parametrize("x", [0.0, -1e-9, CEILING / 2])
def test_beyond_the_ceiling_the_value_is_finite_and_the_gradient_zero(x: float) -> None:
    assert float(log1mexp(mx.array(x))) == pytest.approx(math.log(1e-7), rel=1e-3)
    assert float(mx.grad(log1mexp)(mx.array(x))) == 0


@pytest.mark.parametrize("x", [-200.0, -1.0, 0.0, 3.0, 200.0])
def test_softplus_does_not_overflow(x: float) -> None:
    wanted = max(x, 0) + math.log1p(math.exp(-abs(x)))
    assert float(softplus(mx.array(x))) == pytest.approx(wanted, rel=1e-6)
