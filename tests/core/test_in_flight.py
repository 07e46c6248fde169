"""The host waits for the oldest work when it is too far ahead."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import pytest

from trainer_core.in_flight import InFlight


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was started and waited for, each array by its length."""
    found: list[tuple[str, int]] = []

    def record(name: str, real: Any) -> Any:
        def call(arrays: list[mx.array]) -> None:
            found.append((name, arrays[0].size))
            real(arrays)

        return call

    monkeypatch.setattr(mx, "eval", record("wait", mx.eval))
    monkeypatch.setattr(mx, "async_eval", record("start", mx.async_eval))
    return found


def test_without_room_every_piece_is_waited_for(calls: list[tuple[str, int]]) -> None:
    flow = InFlight(0)
    for size in (1, 2):
        flow.start([mx.zeros(size)])
    assert calls == [("wait", 1), ("wait", 2)]


def test_the_oldest_is_waited_for_first(calls: list[tuple[str, int]]) -> None:
    flow = InFlight(1)
    for size in (1, 2, 3):
        flow.start([mx.zeros(size)])
    assert calls == [("start", 1), ("start", 2), ("wait", 1), ("start", 3), ("wait", 2)]


def test_one_array_can_stand_for_all(calls: list[tuple[str, int]]) -> None:
    flow = InFlight(1)
    flow.start([mx.zeros(1), mx.zeros(5)], wait_for=[mx.zeros(5)])
    flow.start([mx.zeros(2)])
    assert calls[-1] == ("wait", 5)
