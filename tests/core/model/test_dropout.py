"""Keyed dropout: the same mask in forward and recompute, the right share, the right scale."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import pytest

from tests.core.engine import small_policy
from trainer_core.model.dropout import DropoutPlan, RowKey, drop

PLAN = DropoutPlan(0, 3, (RowKey(4, 0, 40), RowKey(9, 1, 25)))


def test_keeps_the_right_share_and_scales_what_is_kept() -> None:
    kept = drop(mx.ones((2, 40, 500)), 0.25, PLAN, 0)
    first = kept[0]
    assert sorted(set(first.reshape(-1).tolist())) == pytest.approx([0.0, 1 / 0.75])
    # 20,000 draws: the share of zeros has a standard deviation of 0.3 %.
    assert float((first == 0).mean()) == pytest.approx(0.25, abs=0.015)


def test_a_mask_depends_on_its_key_alone() -> None:
    x = mx.ones((2, 40, 16))
    together = drop(x, 0.5, PLAN, 7)
    alone = drop(x[1:, :25], 0.5, DropoutPlan(0, 3, PLAN.rows[1:]), 7)
    assert mx.array_equal(together[1, :25], alone[0])
    for other in (
        drop(x, 0.5, DropoutPlan(1, 3, PLAN.rows), 7),
        drop(x, 0.5, DropoutPlan(0, 4, PLAN.rows), 7),
        drop(x, 0.5, PLAN, 8),
    ):
        assert not mx.array_equal(together, other)


def test_a_checkpointed_recompute_draws_the_same_masks(golden: Path) -> None:
    policy = small_policy(golden / "llama", dropout=0.4)
    layer = policy.adapter.layers["model.layers.0.mlp.up_proj"]
    x = mx.random.normal((1, 12, 64), key=mx.random.key(0))
    policy.adapter.dropout.plan = DropoutPlan(0, 1, (RowKey(0, 0, 12),))

    def loss(lora_b: mx.array) -> mx.array:
        layer.lora_b = lora_b
        return mx.square(layer(x)).sum()

    start = layer.lora_b
    plain = mx.grad(loss)(start)
    recomputed = mx.grad(mx.checkpoint(loss))(start)
    layer.lora_b = start
    assert mx.array_equal(plain, recomputed)
    policy.adapter.dropout.plan = None
    assert not mx.allclose(plain, mx.grad(loss)(start))
