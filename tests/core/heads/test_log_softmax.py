"""Both ways to the log softmax at the targets, a GPU's and a CPU's, against plain numpy."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from trainer_core.heads.log_softmax import picked_log_softmax

RANDOM = np.random.default_rng(0)
LOGITS = 4 * RANDOM.standard_normal((5, 90))
TARGETS = RANDOM.integers(0, 90, 5)


@pytest.mark.parametrize("device", [mx.cpu, mx.gpu])
def test_values_and_gradients(device: mx.DeviceType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(device))
    weights = RANDOM.standard_normal(5)

    def loss(logits: mx.array) -> tuple[mx.array, mx.array]:
        logps = picked_log_softmax(logits, mx.array(TARGETS.astype(np.int32)))
        return (logps * mx.array(weights.astype(np.float32))).sum(), logps

    (_, logps), gradient = mx.value_and_grad(loss)(mx.array(LOGITS.astype(np.float32)))
    softmax = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(logps, np.log(softmax[range(5), TARGETS]), atol=1e-5)
    wanted = weights[:, None] * (np.eye(90)[TARGETS] - softmax)
    np.testing.assert_allclose(gradient, wanted, atol=1e-6)


def test_bfloat16_logits_are_summed_in_float32_on_a_cpu() -> None:
    logits = mx.zeros((1, 3000), dtype=mx.bfloat16)
    logp = picked_log_softmax(logits, mx.array([7]))
    assert logp.dtype == mx.float32
    assert logp.item() == pytest.approx(-np.log(3000), rel=1e-6)
