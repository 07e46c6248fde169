"""A task run by Burnish: planned, assembled and trained as by `trainer_core.run`, on given ids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from tests.bench.equal import adapter_values, loaded_bytes, save_gradients
from tests.bench.task import LEARNING_RATE, RANK, SCALE, Result, Row, Task, load_rows
from trainer_core import backend
from trainer_core.assemble import assemble
from trainer_core.config import RunConfig
from trainer_core.control import Control
from trainer_core.data.types import Dataset, Sequence, Source, TokenisedExample
from trainer_core.events import Event, Step, Warned
from trainer_core.job import Job
from trainer_core.loop import fit
from trainer_core.model.attention import attention_in_force
from trainer_core.plan import make_plan
from trainer_core.reference import with_reference
from trainer_core.runfolder import RunFolder

SETTINGS = ("segment_size", "head", "chunk_size", "prefix_sharing", "attention", "weights")


def run(task: Task, scratch: Path) -> Result:
    """Measure whole optimiser steps.

    Args:
        task: with a RunConfig's options.
        scratch: for the run folder.
    """
    backend.start_device()
    rows = load_rows(Path(task.rows))
    config = RunConfig(
        model=task.model,
        data="given ids",
        method=task.method,  # pyright: ignore[reportArgumentType]
        rank=RANK,
        scale=SCALE,
        learning_rate=LEARNING_RATE,
        lr_schedule="constant",
        weight_decay=0.0,
        grad_clip=0.0,
        batch_size=1 if task.one_row_a_step else len(rows),
        iters=task.warm_ups + task.steps,
        shuffle=False,
        valid_fraction=0,
        max_seq_length=max(16, *(max(len(s) for s in _sides(row)) for row in rows)),
        save_every=1_000_000,
        output=str(scratch),
    ).model_copy(update=task.options)
    dataset = Dataset([_example(n, row) for n, row in enumerate(rows)], [], len(rows), 0, 0)
    plan = make_plan(config, Path(task.model), dataset.longest)
    folder = RunFolder.create(plan.config)
    tokenizer: Any = _NoTokenizer()  # only samples would need one
    job = assemble(plan, Path(task.model), dataset, tokenizer, folder, _say)
    job.policy.adapter.assign(adapter_values(job.policy.adapter.parameters()))
    with attention_in_force(job.config.attention):
        if job.objective.needs_reference:
            job = with_reference(job, folder, _say, Control())
        if task.gradients:
            save_gradients(Path(task.gradients), _gradients(job))
        return _measure(job, task)


class _NoTokenizer:
    """Stands in for a tokenizer where rows are token ids already."""

    template_source = None


def _measure(job: Job, task: Task) -> Result:
    result = Result([], loaded_bytes(), 0, 0.0)
    result.settings = {name: getattr(job.config, name) for name in SETTINGS}
    result.settings["cache_limit"] = _cache_limit()

    def see(event: Event) -> None:
        if not isinstance(event, Step):
            return
        if event.step == 1:
            result.loss = event.loss
        if event.step > task.warm_ups:
            result.seconds.append(event.seconds)
        result.peak = max(result.peak, event.peak_memory_bytes)
        result.actives.append(mx.get_active_memory())
        result.caches.append(mx.get_cache_memory())
        print(f"step {event.step}: {event.seconds:.3f} s, loss {event.loss:.4f}", flush=True)

    fit(job, see, Control(), keep_last=False)
    return result


def _cache_limit() -> int:
    """How much MLX may keep for reuse; asking for it means setting it."""
    limit = mx.set_cache_limit(0)
    mx.set_cache_limit(limit)
    return limit


def _gradients(job: Job) -> dict[str, mx.array]:
    rows = list(job.train)
    _, _, gradients = job.backward(
        job.policy, job.objective, rows, job.objective.totals(rows), job.reference, 1
    )
    mx.eval(gradients)
    return gradients


def _example(number: int, row: Row) -> TokenisedExample:
    chosen, *others = [
        # Of a pair the answers are trained; of an SFT row, everything that can be predicted.
        Sequence(ids, np.arange(len(ids)) >= max(row.prompt, 1))
        for ids in _sides(row)
    ]
    example = TokenisedExample(number, Source("bench", number + 1), chosen)
    return replace(example, rejected=others[0], prompt_length=row.prompt) if others else example


def _sides(row: Row) -> list[np.ndarray]:
    return [row.chosen] if row.rejected is None else [row.chosen, row.rejected]


def _say(event: Event) -> None:
    if isinstance(event, Warned):
        print(f"{event.code}: {event.message}", flush=True)
