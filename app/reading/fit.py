"""How much memory the run of a form needs here, without MLX; bodies of tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from app.reading.background import Task
from app.reading.rows import Measured
from trainer_core.backend import Machine, room
from trainer_core.config import RunConfig
from trainer_core.errors import ModelError
from trainer_core.memory import Lengths, assumed, estimate, hardest
from trainer_core.memory.advice import Advice, advise

FEWEST_PROMPT = 8


@dataclass(frozen=True, slots=True)
class Fit:
    """What a run needs.

    Attributes:
        config: every `auto` settled for this machine.
        parts: bytes at the peak by part, the largest first.
        total: their sum.
        room: bytes that a run may be planned with.
        available: bytes that are free.
        advice: changes that need less, each on top of those before it; if the run does not fit,
            as many as make it fit.
        rows: what went in: counted tokens of the real rows, a guess by their characters, or the
            longest that they may have.
    """

    config: RunConfig
    parts: dict[str, int]
    total: int
    room: int
    available: int
    advice: tuple[Advice, ...]
    rows: Literal["counted", "guessed", "assumed"]

    @property
    def fits(self) -> bool:
        """Whether the run may be started with what is free."""
        return self.total <= self.room


def fit(
    task: Task,
    config: RunConfig,
    machine: Machine,
    rows: Sequence[Measured],
    measured: int | None = None,
    guess: Callable[[RunConfig, Task], Sequence[Lengths]] | None = None,
) -> Fit:
    """Estimate a run.

    Args:
        task: asked now and then whether it is still wanted.
        config: the run.
        machine: what it would run on.
        rows: the lengths of its rows, as far as they are known.
        measured: bytes that two real steps needed, by which advice is corrected.
        guess: asked for the longest row if no lengths are known; may know none either.

    Raises:
        TrainerError: the model is not there, or its folder does not tell its sizes.
    """
    from trainer_core.model.find import resolve_model
    from trainer_core.model.sample_model import is_complete, sample_model_folder
    from trainer_core.plan import make_plan

    if config.model == "sample" and not is_complete(sample_model_folder()):
        raise ModelError("the sample model is made by the first run")
    folder = resolve_model(config.model)
    # The adapter's own rank would have to be read with MLX.
    config = config.model_copy(update={"warm_start": None})
    lengths = hardest([found for row in rows if (found := _lengths(row, config))], config)
    task.check()
    guessed = [] if lengths or guess is None else list(guess(config, task))
    task.check()
    plan = make_plan(config, folder, lengths or guessed or None, machine)
    settled = plan.config
    known = lengths or guessed or [assumed(settled)]
    needs = estimate(folder, settled, known, machine.kind)
    total, space = needs.total(settled.weights), room(machine.available)
    task.check()
    advice = advise(
        folder,
        settled,
        settled.weights,
        known,
        machine.kind,
        space if (measured or total) > space else None,
        measured,
    )
    parts = needs.parts(settled.weights)
    return Fit(
        config=settled,
        parts=dict(sorted(parts.items(), key=lambda part: -part[1])),
        total=total,
        room=space,
        available=machine.available,
        advice=tuple(advice),
        rows="counted" if lengths else "guessed" if guessed else "assumed",
    )


def _lengths(row: Measured, config: RunConfig) -> Lengths | None:
    """The lengths of a row within the limit; a pair loses tokens of its prompt first."""
    if not row.lengths or row.problem:
        return None
    longest, limit = max(row.lengths), config.max_seq_length
    if len(row.lengths) == 1:
        return Lengths(min(longest, limit), trained=row.trained)
    prompt = row.prompt
    if longest > limit:
        prompt = max(prompt - (longest - limit), min(prompt, FEWEST_PROMPT))
    return Lengths(min(longest, limit), prompt)
