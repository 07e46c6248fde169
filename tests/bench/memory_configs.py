"""The memory estimate judged on twelve configurations, each measured by the real loop.

    python -m tests.bench.memory_configs [--only TEXT] [--out FOLDER]

The list is fixed. The first six may be looked at when the factors in `trainer_core/memory/costs.py`
are set; the last six are held out. Each runs in a process of its own: three optimiser steps on one
batch of the longest rows. The estimate must never be low, and at most 25 % high; the command exits
with 1 if it is. A GPU has a list of its own, of larger models.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.children import make_model, measure
from tests.bench.report import Table, gigabytes
from tests.bench.shapes import SHAPES
from tests.bench.task import RANK, Row, Task, random_pair, random_sequence, save_rows
from trainer_core import memory
from trainer_core.config import RunConfig

HIGH = 1.25


@dataclass(frozen=True, slots=True)
class Judged:
    """One configuration. `size` is T or BxT for SFT and PxR, or BxPxR, for pairs."""

    model: str
    method: str
    size: str
    options: dict[str, Any] = field(default_factory=dict)
    bits: int | None = None

    @property
    def text(self) -> str:
        """For people."""
        options = ", ".join(f"{name} {value}" for name, value in self.options.items())
        bits = f", {self.bits} bit" if self.bits else ""
        return f"{self.model}{bits}, {self.method} {self.size}: {options or 'auto'}"

    def rows(self) -> list[Row]:
        """The batch."""
        numbers = [int(number) for number in self.size.split("x")]
        vocabulary = SHAPES[self.model]["vocab_size"]
        wanted = 1 if self.method == "sft" else 2
        count, *lengths = numbers if len(numbers) > wanted else [1, *numbers]
        if self.method == "sft":
            return [random_sequence(lengths[0], vocabulary, n) for n in range(count)]
        return [random_pair(lengths[0], lengths[1], vocabulary, n) for n in range(count)]


ON_A_CPU = [
    Judged("llama-8", "sft", "512"),
    Judged("llama-8", "orpo", "256x128", {"segment_size": 1, "chunk_size": 64}),
    Judged("qwen3-small", "dpo", "384x96", {"segment_size": 2}),
    Judged("gemma3-small", "sft", "2x300", {"head": "flash"}),
    Judged("qwen3-small", "sft", "1024", {"segment_size": 1, "attention": "blocked"}),
    Judged("llama-16", "orpo", "128x64", {"prefix_sharing": "off", "head": "full"}),
    Judged("qwen3-small", "orpo", "512x64"),
    Judged("llama-8", "sft", "3x200", {"head": "chunked", "chunk_size": 128}),
    Judged("gemma3-small", "orpo", "400x200", {"segment_size": 2, "head": "flash"}),
    Judged("llama-16", "sft", "768", {"segment_size": 4}),
    Judged("llama-8", "dpo", "2x200x100", {"segment_size": 1, "rank": 64}, bits=4),
    Judged("qwen3-small", "sft", "1500", {"segment_size": 1, "head": "flash", "rank": 4}),
]
ON_A_GPU = [
    Judged("qwen3-0.6b", "sft", "2048"),
    Judged("qwen3-0.6b", "orpo", "1024x512"),
    Judged("qwen3-0.6b", "orpo", "4096x1024"),
    Judged("qwen3-0.6b", "orpo", "12288x2048"),
    Judged("qwen3-0.6b", "sft", "2x1024", {"segment_size": 0}),
    Judged("qwen3-0.6b", "orpo", "1024x512", {"segment_size": 0}),
    Judged("qwen3-0.6b", "sft", "8192"),
    Judged("qwen3-0.6b", "dpo", "2048x512"),
    Judged("qwen3-0.6b", "sft", "4096", {"segment_size": 4}),
    Judged("qwen3-0.6b", "orpo", "6144x1024", {"head": "flash"}),
    Judged("qwen3-0.6b", "sft", "2048", bits=4),
    Judged("qwen3-0.6b", "dpo", "512x256", {"segment_size": 0, "prefix_sharing": "off"}),
]
HELD_OUT = 6


def judge(asked: Judged, scratch: Path) -> tuple[int, int, bool]:
    """(estimated, measured, on a GPU): bytes at the peak."""
    folder = scratch / f"{asked.model}-{asked.bits}"
    machine = make_model(asked.model, folder, bits=asked.bits)
    rows = asked.rows()
    save_rows(scratch / "rows.npz", rows)
    task = Task("burnish", asked.method, str(folder), str(scratch / "rows.npz"), asked.options)
    found = measure(task, scratch)
    longest = [memory.Lengths(max(len(r.chosen) for r in rows), max(r.prompt for r in rows))]
    settled = {key: value for key, value in found.settings.items() if key in asked_options()}
    config = RunConfig(
        model=str(folder),
        data="given ids",
        method=asked.method,  # pyright: ignore[reportArgumentType]
        rank=RANK,
        grad_clip=0.0,
        batch_size=len(rows),
        max_seq_length=max(16, longest[0].sequence),
    ).model_copy(update={**asked.options, **settled})
    needs = memory.estimate(folder, config, longest, "cuda" if machine.gpu else "cpu")
    return needs.total(config.weights), found.peak, machine.gpu


def asked_options() -> set[str]:
    """What a run settles that the estimate depends on."""
    return {"segment_size", "head", "chunk_size", "prefix_sharing", "attention", "weights"}


def main(arguments: list[str] | None = None) -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those whose text has this in it")
    parser.add_argument("--gpu", action="store_true", help="the list for a GPU")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    table = Table(
        "The memory estimate against MLX's peak, GB, weights included",
        ["configuration", "held out", "measured", "estimated", "off"],
    )
    wrong = 0
    configs = ON_A_GPU if asked.gpu else ON_A_CPU
    for number, config in enumerate(configs):
        if asked.only not in config.text:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            estimated, measured, _ = judge(config, Path(scratch))
        ratio = estimated / measured
        wrong += not 1 <= ratio <= HIGH
        held = "yes" if number >= len(configs) - HELD_OUT else ""
        row = [config.text, held, gigabytes(measured), gigabytes(estimated), f"{ratio - 1:+.0%}"]
        table.rows.append(row)
        print(" | ".join(row), flush=True)
    print(f"\n{table}")
    if asked.out:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "memory.md").write_text(str(table))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
