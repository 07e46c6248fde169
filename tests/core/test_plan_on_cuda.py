"""What `auto` takes on a CUDA device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from tests.core.engine import golden_config
from trainer_core import backend, memory
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
        ("sft", {}, 0),
        ("sft", {"batch_size": 4}, 0),
        ("sft", {"segment_size": 1}, 1),
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


@pytest.mark.parametrize(("longest", "size"), [(1025, 0), (1026, 1)])
def test_only_short_rows_are_worth_the_whole_graph(
    golden: Path, tmp_path: Path, longest: int, size: int
) -> None:
    """The last token of a row predicts nothing, so 1,024 tokens run."""
    folder = golden / "llama"
    config = golden_config(folder, "sft", tmp_path, max_seq_length=2048)
    assert make_plan(config, folder, longest).config.segment_size == size


def test_only_a_quarter_of_the_memory_is_for_the_whole_graph(
    golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = golden / "llama"
    config = golden_config(folder, "sft", tmp_path)
    whole = config.model_copy(update={"segment_size": 0, "head": "fused"})
    needs = memory.estimate(folder, whole, 64, "cuda").total("keep")
    for factor, size in ((4.9, 0), (4.5, 1)):  # 0.85 of a quarter of what is free may be planned
        free = int(factor * needs)
        monkeypatch.setattr(backend, "available_bytes", lambda _where, free=free: free)
        assert make_plan(config, folder, 64).config.segment_size == size
