"""Changes that make a run need less memory, the least harmful first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer_core.config import PREFERENCE, RunConfig
from trainer_core.memory.estimate import estimate
from trainer_core.memory.lengths import Lengths


@dataclass(frozen=True, slots=True)
class Advice:
    """One change of the configuration.

    Attributes:
        change: options and their new values.
        cost: what it costs: time, or data.
        total: bytes that the run then needs, with all earlier changes made too.
    """

    change: dict[str, Any]
    cost: str
    total: int


def advise(
    folder: Path,
    config: RunConfig,
    precision: str,
    rows: Sequence[Lengths],
    kind: str,
    room: int | None = None,
    measured: int | None = None,
) -> list[Advice]:
    """Changes, each on top of those before it, that lower the estimate.

    First those that only cost time and leave every gradient as it is, then those that change what
    is trained, and last those that lose data. What would not lower the estimate is left out.

    Args:
        folder: the model.
        config: resolved, as it would run.
        precision: of the weights, see `MemoryEstimate.total`.
        rows: the longest rows.
        kind: of the device.
        measured: the peak of two real steps, see `probe`, by which estimates are corrected.
        room: end with the first change after which the run fits in so many bytes; None names all.
    """
    now = estimate(folder, config, rows, kind)
    weights, total = now.weights(precision), now.total(precision)
    factor = 1.0
    if measured is not None:
        factor, total = max(measured - weights, 0) / (total - weights), measured
    found: list[Advice] = []
    for lossless in (True, True, False):  # what helps little at first may help after the others
        for change, cost in _lossless(config, kind) if lossless else _lossy(config, rows):
            if room is not None and total <= room:
                return found
            changed = config.model_copy(update=change)
            cut = [_cut(row, changed.max_seq_length) for row in rows]
            above = estimate(folder, changed, cut, kind).total(precision) - weights
            needs = weights + int(factor * above)
            if needs < total:
                found.append(Advice(change, cost, needs))
                config, rows, total = changed, cut, needs
    return found


def _lossless(config: RunConfig, kind: str) -> Iterator[tuple[dict[str, Any], str]]:
    """What changes no gradient."""
    slower = "slower, the same gradients"
    full = config.fine_tune_type == "full"  # which has one way to run
    if config.prefix_sharing == "off" and config.method in PREFERENCE and not full:
        yield {"prefix_sharing": "on"}, "faster, the same gradients"
    if config.head in ("full", "chunked") and not full:
        yield {"head": "fused"}, "faster, the same gradients"
    if config.batch_size > 1 and config.segment_size == 0:
        rows = config.batch_size * config.grad_accumulation_steps
        split = {"batch_size": 1, "grad_accumulation_steps": rows}
        yield split, "the same gradients, one row after the other"
    if full and not config.grad_checkpoint:
        yield {"grad_checkpoint": True}, slower
    for size in () if full else (8, 4, 2, 1):
        if config.segment_size in ("auto", 0) or size < int(config.segment_size):
            yield {"segment_size": size}, slower
    if config.chunk_size > 128 and not full:
        yield {"chunk_size": 128}, slower
    if config.head != "flash" and not full:
        yield {"head": "flash"}, slower
    if kind == "cpu" and config.attention != "blocked":
        yield {"attention": "blocked"}, slower


def _lossy(config: RunConfig, rows: Sequence[Lengths]) -> Iterator[tuple[dict[str, Any], str]]:
    """What trains less, then what leaves out data."""
    if config.fine_tune_type == "full":
        change = {"fine_tune_type": "lora", "head": "fused"}
        yield change, "an adapter is trained instead of all weights"
    elif config.rank > 8:
        yield {"rank": 8}, "a smaller adapter, which learns less"
    longest = max((row.sequence for row in rows), default=config.max_seq_length)
    for length in (4096, 2048, 1024, 512):
        if length < longest:
            yield {"max_seq_length": length}, "longer rows are cut"


def _cut(row: Lengths, length: int) -> Lengths:
    """A row after truncation: a pair's prompt is cut first, down to 8 tokens."""
    over = max(row.sequence - length, 0)
    sequence = row.sequence - over
    trained = None if row.trained is None else min(row.trained, sequence)
    prompt = min(row.prompt, max(row.prompt - over, 8))
    return Lengths(sequence, prompt, trained, min(row.packed, length))
