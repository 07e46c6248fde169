"""What one child process is asked to measure, and what it answers; free of MLX."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]

# LoRA on every projection, the same for every contender.
RANK, SCALE, LEARNING_RATE = 16, 2.0, 1e-5
TARGETS = [f"self_attn.{name}_proj" for name in "qkvo"]
TARGETS += [f"mlp.{name}_proj" for name in ("gate", "up", "down")]


@dataclass(frozen=True, slots=True)
class Row:
    """Token ids of one row: an SFT sequence of which everything is trained, or a pair."""

    chosen: Ids
    rejected: Ids | None = None
    prompt: int = 0

    @property
    def tokens(self) -> int:
        """Tokens as data, padding not counted and a pair's prompt counted twice."""
        return len(self.chosen) + (0 if self.rejected is None else len(self.rejected))


@dataclass(frozen=True, slots=True)
class Task:
    """One contender on one size.

    Attributes:
        package: burnish, mlx-lm or mlx-lm-lora.
        method: sft, orpo or dpo.
        model: folder of the base model.
        rows: file that `save_rows` wrote; each step takes all of its rows.
        options: a RunConfig's options for Burnish, `grad_checkpoint` for the others.
        warm_ups: steps that are not counted.
        steps: those that are.
        gradients: where to write the first step's gradients, or empty.
        fast_blas: whether a CPU gets the BLAS that Burnish uses.
        one_row_a_step: take the rows one after the other instead of all in each step.
    """

    package: str
    method: str
    model: str
    rows: str
    options: dict[str, Any] = field(default_factory=dict)
    warm_ups: int = 1
    steps: int = 3
    gradients: str = ""
    fast_blas: bool = True
    one_row_a_step: bool = False

    def save(self, path: Path) -> None:
        """Write it for the child."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Self:
        """What `save` wrote."""
        return cls(**json.loads(path.read_text()))


@dataclass(slots=True)
class Result:
    """What a child found.

    Attributes:
        seconds: of each counted step.
        active: bytes that MLX held once model and adapter were loaded.
        peak: MLX's peak during the steps, all in all.
        loss: of the first step.
        process: the process's own peak in bytes, loading included.
        settings: what Burnish's `auto` came to.
        actives: MLX's active bytes after each step.
        caches: the bytes that MLX kept for reuse after each step.
    """

    seconds: list[float]
    active: int
    peak: int
    loss: float
    process: int = 0
    settings: dict[str, Any] = field(default_factory=dict)
    actives: list[int] = field(default_factory=list)
    caches: list[int] = field(default_factory=list)

    @property
    def above(self) -> int:
        """The peak above what was loaded."""
        return self.peak - self.active


def save_rows(path: Path, rows: list[Row]) -> None:
    """Write rows for the children."""
    arrays: dict[str, Any] = {}
    for number, row in enumerate(rows):
        arrays[f"{number}.chosen"], arrays[f"{number}.prompt"] = row.chosen, row.prompt
        if row.rejected is not None:
            arrays[f"{number}.rejected"] = row.rejected
    np.savez(path, **arrays)


def load_rows(path: Path) -> list[Row]:
    """What `save_rows` wrote."""
    with np.load(path) as arrays:
        count = sum(name.endswith(".chosen") for name in arrays.files)
        return [
            Row(
                arrays[f"{n}.chosen"],
                arrays[f"{n}.rejected"] if f"{n}.rejected" in arrays.files else None,
                int(arrays[f"{n}.prompt"]),
            )
            for n in range(count)
        ]


def random_sequence(tokens: int, vocabulary: int, seed: int = 0) -> Row:
    """A row of which `tokens` are predicted, so that the model runs on as many."""
    random = np.random.default_rng(seed)
    return Row(random.integers(0, vocabulary, tokens + 1).astype(np.int32))


def random_pair(prompt: int, answer: int, vocabulary: int, seed: int = 0) -> Row:
    """A pair with a prompt in common and two answers of one length."""
    random = np.random.default_rng(seed)
    first = random.integers(0, vocabulary, prompt)
    chosen, rejected = (
        np.concatenate([first, random.integers(0, vocabulary, answer)]).astype(np.int32)
        for _ in range(2)
    )
    return Row(chosen, rejected, prompt)
