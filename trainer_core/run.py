"""train(): a run from its configuration to its final adapter, top to bottom."""

from __future__ import annotations

import contextlib
import errno
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from trainer_core import backend
from trainer_core.config import RunConfig
from trainer_core.config_io import load_config
from trainer_core.control import Control
from trainer_core.data.load import RawData, read_rows
from trainer_core.data.token_cache import tokenise_once
from trainer_core.data.tokenizer import ChatTokenizer, load_tokenizer
from trainer_core.data.types import Dataset
from trainer_core.errors import OutOfMemoryError, TrainerError
from trainer_core.events import Data, Event, Failed, Finished, Stage, Started, Warned
from trainer_core.length_guess import guess_lengths
from trainer_core.model.find import resolve_model
from trainer_core.plan import Plan, make_plan
from trainer_core.resume import (
    Session,
    clear_unfinished,
    refuse_nothing_left,
    take_up,
    without_start,
)
from trainer_core.run_lock import locked
from trainer_core.runfolder import EventLog, RunFolder

Tell = Callable[[Event], None]


def train(
    config: RunConfig,
    emit: Tell,
    control: Control | None = None,
    notes: Sequence[Warned] = (),
) -> Finished:
    """Train as configured.

    Args:
        config: the run.
        emit: receives every event, in the thread that called `train`.
        control: wishes from outside; None if there will be none.
        notes: warnings that come with the configuration, told after `started`.

    Returns:
        The last event. The adapter is in its folder `adapter`, also after a stop.

    Raises:
        TrainerError: the user's input or machine is at fault; a `failed` event went out before.
        Exception: a fault of ours; a `failed` event went out before.
    """
    control = control or Control()
    with ExitStack() as stack:
        try:
            preparation = backend.prepare()
            device = backend.start_device()
            if config.resume:
                config = load_config(None, config.model_dump(exclude_unset=True))
                # Held before anything is read, so that nothing is read that another process writes.
                stack.enter_context(locked(Path(str(config.resume)).expanduser()))
                session = take_up(config)
                asked = without_start(config, session)
            else:
                asked, session = config, None
            folder = resolve_model(config.model, emit)
            raw = read_rows(config)
            plan = make_plan(asked, folder, guess_lengths(raw, config))
            if session is None:
                session = Session(RunFolder.create(plan.asked))
                stack.enter_context(locked(session.run.path))
            run = session.run
            log = stack.enter_context(EventLog(run.events))
        except Exception as error:
            emit(_failed(error))
            raise

        def tell(event: Event) -> None:
            if event in session.told:  # a warning that is in the record already
                return
            emit(event)
            if isinstance(event, Stage) and event.stage == "save":
                log.sync()
            if not event.passing:
                log.append(event)

        try:
            warnings = [*notes, *preparation.warnings(device), *plan.warnings]
            return _train(
                _Start(plan, config.warm_start, folder, raw, session, warnings), tell, control
            )
        except Exception as error:
            fault = _full_disk(error, run) or _out_of_memory(error) or error
            with contextlib.suppress(OSError):  # a full disk does not take the record of it either
                tell(_failed(fault))
            trained = run.adapter.exists() or run.best.exists() or run.checkpoints.exists()
            if not session.resumed and not trained:
                # Nothing was trained, so there is nothing worth a place among the runs.
                shutil.rmtree(run.path, ignore_errors=True)
            if fault is error:
                raise
            raise fault from error


@dataclass(frozen=True, slots=True)
class _Start:
    """What is settled before anything is loaded.

    Attributes:
        plan: the resolved configuration.
        warm_start: what the run began with, though one that goes on does not read it again.
        folder: the model's folder.
        raw: the rows.
        session: the run's folder, and what was before.
        warnings: to be told first.
    """

    plan: Plan
    warm_start: str | None
    folder: Path
    raw: RawData
    session: Session
    warnings: Sequence[Warned]

    def recorded(self, config: RunConfig) -> RunConfig:
        """A configuration as the run's record has it, with which the run would begin anew."""
        return config.model_copy(update={"warm_start": self.warm_start, "resume": None})


def _train(start: _Start, tell: Tell, control: Control) -> Finished:
    """The run itself, in its folder."""
    from trainer_core.assemble import assemble
    from trainer_core.loop import fit
    from trainer_core.model.attention import attention_in_force
    from trainer_core.passport import check_unchanged, origin_of, write_passport
    from trainer_core.reference import with_reference

    began = time.monotonic()
    session, run = start.session, start.session.run
    _begin(start, tell)
    tokenizer, dataset = _prepare_data(start, tell)
    origin = origin_of(start.folder, start.raw.files, dataset)
    if session.resumed:
        for warning in check_unchanged(run, origin):
            tell(warning)
    tell(Stage("load", "Loading the model"))
    job = assemble(start.plan, start.folder, dataset, tokenizer, run, tell)
    refuse_nothing_left(session, job.total)
    config = start.recorded(job.config)
    run.write_config(config)
    write_passport(run, config, origin)
    checkpoint = job.keeper.restore(session.step) if session.step else None
    if session.resumed:
        job.keeper.forget_later(session.step, checkpoint and checkpoint.state["best_step"])
    with attention_in_force(job.config.attention):
        if job.objective.needs_reference:
            job = with_reference(job, run, tell, control, resumed=checkpoint is not None)
        outcome = fit(job, tell, control, checkpoint)
    tell(Stage("save", "Saving the adapter"))
    adapter = job.keeper.save_final(outcome.steps)
    if not job.valid:  # nothing tells which step was best, so the last one counts as it
        job.keeper.save_best(outcome.steps)
        outcome.best_step = outcome.steps
    finished = Finished(
        reason=outcome.reason,
        steps=outcome.steps,
        adapter=str(adapter),
        run=str(run.path),
        seconds=time.monotonic() - began + (checkpoint.state["seconds"] if checkpoint else 0.0),
        best_step=outcome.best_step,
    )
    write_passport(run, config, origin, finished)
    tell(finished)
    return finished


def _begin(start: _Start, tell: Tell) -> None:
    """Say what begins, and what should be known of it."""
    from trainer_core.passport import versions

    session = start.session
    if session.resumed:
        clear_unfinished(session.run)
    tell(
        Started(
            run=str(session.run.path),
            config=start.recorded(start.plan.config).model_dump(mode="json"),
            device=backend.device_name(),
            versions=versions(),
            session=session.number,
            resumed_from=session.step if session.resumed else None,
        )
    )
    for warning in [*start.warnings, *session.warnings]:
        tell(warning)


def _prepare_data(start: _Start, tell: Tell) -> tuple[ChatTokenizer, Dataset]:
    tell(Stage("data", "Tokenising the rows"))
    config = start.plan.config
    tokenizer = load_tokenizer(start.folder, config)
    dataset = tokenise_once(
        start.raw,
        config,
        start.folder,
        tokenizer,
        progress=lambda share: tell(Stage("data", "Tokenising the rows", share)),
    )
    tell(
        Data(
            rows=dataset.rows,
            rows_used=len(dataset.train),
            rows_skipped=dataset.rows_skipped,
            rows_truncated=dataset.rows_truncated,
            tokens=dataset.tokens,
            supervised_tokens=dataset.supervised_tokens,
            longest=dataset.longest,
            valid_rows=len(dataset.valid),
        )
    )
    for code, message, try_this in dataset.warnings:
        tell(Warned(code, message, try_this))
    return tokenizer, dataset


def _failed(error: Exception) -> Failed:
    if isinstance(error, TrainerError):
        return Failed(error.what, error.why, error.try_this)
    return Failed(
        "the training engine stopped on a fault of its own",
        f"{type(error).__name__}: {error}",
        "please report it with the log",
    )


def _full_disk(error: Exception, run: RunFolder) -> TrainerError | None:
    """The system's refusal to write, wherever it came, as an error that says what to do."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return TrainerError(
            f"cannot write to {run.path}",
            error.strerror or "the disk is full",
            "make room on the disk or choose another runs folder; what was saved is intact",
        )
    return None


def _out_of_memory(error: Exception) -> OutOfMemoryError | None:
    """The error that MLX's allocator raises, as one that says what to do."""
    text = str(error).lower()
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and any(sign in text for sign in ("unable to allocate", "out of memory", "[malloc"))
    ):
        return OutOfMemoryError(
            "the run does not fit in memory",
            str(error),
            "lower the batch size or the sequence length, or choose a smaller model",
        )
    return None
