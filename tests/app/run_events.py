"""Events as a run tells them, for tests of what shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trainer_core.events import Checkpoint, Data, Event, Finished, Stage, Started, Step, Validation

PAIR = {
    "nll": 1.9,
    "odds_loss": 0.7,
    "accuracy": 0.5,
    "margin": 0.1,
}


def started(run: Path, *, method: str = "orpo", iters: int = 10, **more: Any) -> Started:
    config = {"method": method, "iters": iters, "steps_per_eval": 5, "model": "sample"}
    return Started(
        run=str(run),
        config=config,
        device="Test processor (CPU)",
        versions={"mlx": "0.32.4"},
        **more,
    )


def step(number: int, *, seconds: float = 1.0, loss: float = 2.0, **more: Any) -> Step:
    values: dict[str, Any] = {
        "grad_norm": 1.0,
        "learning_rate": 1e-4,
        "tokens_per_s": 1240.4,
        "supervised_tokens_per_s": 300.0,
        "peak_memory_bytes": 1_240_000_000,
        "tokens": 100 * number,
        "epoch": number / 10,
        "logps_chosen": -1.0,
        "logps_rejected": -2.0,
        **PAIR,
        **more,
    }
    return Step(step=number, loss=loss, seconds=seconds, **values)


def validation(
    number: int, *, loss: float = 1.5, best: bool = True, seconds: float = 3.0
) -> Validation:
    return Validation(
        step=number, loss=loss, rows_used=24, rows_skipped=0, seconds=seconds, best=best, **PAIR
    )


def finished(run: Path, *, reason: str = "done", steps: int = 10) -> Finished:
    return Finished(reason, steps, str(run / "adapter"), str(run), 75.0, 5)


def whole_run(run: Path, steps: int = 10) -> list[Event]:
    return [
        started(run, iters=steps),
        Stage("data", "Tokenising the rows"),
        Data(160, 158, 2, 3, 22_000, 9_000, 311, 24),
        Stage("train", "Training"),
        validation(0),
        *(step(number) for number in range(1, steps + 1)),
        validation(steps, loss=1.2),
        Checkpoint(steps, str(run / "best"), best=True),
        finished(run, steps=steps),
    ]
