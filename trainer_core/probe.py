"""Two real steps on the longest rows, to measure what a run needs before it is started."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx

from trainer_core import backend
from trainer_core.assemble import assemble
from trainer_core.config import RunConfig
from trainer_core.control import Control
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.data.types import Dataset, TokenisedExample
from trainer_core.events import Event, Step
from trainer_core.loop import fit
from trainer_core.memory import longest_of
from trainer_core.memory.lengths import pieces_of
from trainer_core.model.attention import attention_in_force
from trainer_core.plan import make_plan
from trainer_core.reference import with_reference
from trainer_core.runfolder import RunFolder

_STEPS = 2


@dataclass(frozen=True, slots=True)
class Probed:
    """What the two steps needed.

    Attributes:
        peak: MLX's peak in bytes, weights included.
        seconds: of the second step.
        config: as it ran, every `auto` settled.
    """

    peak: int
    seconds: float
    config: RunConfig


def probe(
    config: RunConfig,
    folder: Path,
    dataset: Dataset,
    tokenizer: ChatTokenizer,
    tell: Callable[[Event], None] | None = None,
    control: Control | None = None,
) -> Probed | None:
    """Train two steps on the rows that need most, leave nothing behind, and say what they needed.

    The second step has the optimiser's moments in memory, which the first one makes.

    Args:
        config: the run.
        folder: the model.
        dataset: its rows; those with the most tokens fill the steps.
        tokenizer: the model's.
        tell: told of warnings.
        control: for a stop.

    Returns:
        None if it was stopped.

    Raises:
        TrainerError: the run could not be started or does not fit.
    """
    control = control or Control()

    def say(event: Event) -> None:
        if tell is not None:
            tell(event)

    backend.start_device()
    rows = _hardest(dataset.train, config)
    update = {"iters": _STEPS, "epochs": None, "early_stop_patience": 0, "steps_per_report": 1}
    steps: list[Step] = []

    def see(event: Event) -> None:
        if isinstance(event, Step):
            steps.append(event)
        else:
            say(event)

    with tempfile.TemporaryDirectory() as scratch:
        short = config.model_copy(update={**update, "output": scratch, "run_name": None})
        plan = make_plan(short, folder, longest_of(dataset.train, short))
        run = RunFolder.create(plan.config)
        few = replace(dataset, train=rows, valid=[])
        job = assemble(plan, folder, few, tokenizer, run, say)
        with attention_in_force(job.config.attention):
            if job.objective.needs_reference:
                job = with_reference(job, run, say, control)
            fit(job, see, control, keep_last=False)
        settled = job.config
        del job
    mx.clear_cache()
    if len(steps) < _STEPS:
        return None
    return Probed(max(step.peak_memory_bytes for step in steps), steps[-1].seconds, settled)


def _hardest(rows: Sequence[TokenisedExample], config: RunConfig) -> list[TokenisedExample]:
    """As many rows as two steps take, the one with the most tokens over and over if need be."""

    def tokens(row: TokenisedExample) -> int:
        return max(pieces_of(lengths, config, 1).tokens for lengths in longest_of([row], config))

    count = config.batch_size * config.grad_accumulation_steps
    ordered = sorted(rows, key=tokens, reverse=True)
    if config.packing:
        count = _packed(ordered, count, config.max_seq_length)
    ordered = ordered[:count]
    filled = [ordered[index % len(ordered)] for index in range(count)]
    return [replace(row, row=number) for number, row in enumerate(filled)]


def _packed(ordered: Sequence[TokenisedExample], count: int, limit: int) -> int:
    """How many of these rows fill `count` packed rows, at most all of them for each."""
    lengths = [len(row.chosen) for row in ordered]
    wanted = count * min(limit, sum(lengths))
    number = filled = 0
    while not number or filled + lengths[number % len(lengths)] <= wanted:
        filled += lengths[number % len(lengths)]
        number += 1
    return number
