"""What `auto` takes on a CUDA device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tests.core.engine import golden_config
from trainer_core import backend
from trainer_core.plan import Plan, make_plan

FREE = 8 << 30


@pytest.fixture(autouse=True)
def _cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "device", lambda: backend.Device("cuda", "a GPU", 16 << 30))
    monkeypatch.setattr(mx, "device_info", lambda: {"free_memory": FREE})


def plan(golden: Path, tmp_path: Path, method: str, **more: Any) -> Plan:
    folder = golden / "llama"
    return make_plan(golden_config(folder, method, tmp_path, **more), folder, 64)


def test_the_free_memory_is_the_gpus() -> None:
    assert backend.available_bytes(backend.device()) == FREE + mx.get_cache_memory()


@pytest.mark.parametrize(
    ("method", "more", "size"),
    [
        ("orpo", {}, 1),
        ("orpo", {"batch_size": 4}, 1),
        ("sft", {}, 1),
        ("sft", {"batch_size": 4}, 0),
        ("orpo", {"segment_size": 3}, 3),
    ],
)
def test_segments(
    golden: Path, tmp_path: Path, method: str, more: dict[str, Any], size: int
) -> None:
    found = plan(golden, tmp_path, method, **more)
    assert found.config.segment_size == size
    assert found.config.weights == "keep"
    assert not found.warnings


def test_with_dropout_the_whole_graph_is_faster_if_it_fits(golden: Path, tmp_path: Path) -> None:
    assert plan(golden, tmp_path, "orpo", warm_start=None, dropout=0.1).config.segment_size == 0
