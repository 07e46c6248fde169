"""train(): a run from its configuration to its final adapter, top to bottom."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from trainer_core import backend, memory
from trainer_core.config import RunConfig
from trainer_core.config_io import load_config
from trainer_core.control import Control
from trainer_core.data.load import read_rows
from trainer_core.data.token_cache import tokenise_once
from trainer_core.data.tokenizer import ChatTokenizer, load_tokenizer
from trainer_core.data.types import Dataset
from trainer_core.disk import check_room, saved_bytes
from trainer_core.events import Data, Event, Finished, Stage, Started, Warned
from trainer_core.faults import failed_event, full_disk, out_of_memory
from trainer_core.length_guess import guess_lengths
from trainer_core.model.find import resolve_model
from trainer_core.plan import make_plan
from trainer_core.resume import (
    Session,
    clear_unfinished,
    refuse_nothing_left,
    take_up,
    without_start,
)
from trainer_core.run_lock import locked
from trainer_core.runfolder import EventLog, RunFolder, runs_folder
from trainer_core.start import Start

if TYPE_CHECKING:
    from trainer_core.job import Job

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
            lengths = guess_lengths(raw, config)
            plan = make_plan(asked, folder, lengths)
            if session is None:
                needs = memory.estimate(folder, plan.config, lengths, device.kind)
                check_room(runs_folder(config), saved_bytes(plan.config, needs))
                session = Session(RunFolder.create(plan.asked))
                stack.enter_context(locked(session.run.path))
            run = session.run
            log = stack.enter_context(EventLog(run.events))
        except Exception as error:
            emit(failed_event(error))
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
                Start(plan, config.warm_start, folder, raw, session, warnings), tell, control
            )
        except Exception as error:
            fault = full_disk(error, run) or out_of_memory(error) or error
            with contextlib.suppress(OSError):  # a full disk does not take the record of it either
                tell(failed_event(fault))
            trained = run.adapter.exists() or run.best.exists() or run.checkpoints.exists()
            if not session.resumed and not trained:
                # Nothing was trained, so there is nothing worth a place among the runs.
                shutil.rmtree(run.path, ignore_errors=True)
            if fault is error:
                raise
            raise fault from error


def _train(start: Start, tell: Tell, control: Control) -> Finished:
    """The run itself, in its folder."""
    from trainer_core.passport import check_unchanged, origin_of, write_passport
    from trainer_core.pausing import fit_with_pauses
    from trainer_core.ready import Maker

    began = time.monotonic()
    session, run = start.session, start.session.run
    _begin(start, tell)
    tokenizer, dataset = _prepare_data(start, tell)
    origin = origin_of(start.folder, start.raw.files, dataset)
    if session.resumed:
        for warning in check_unchanged(run, origin):
            tell(warning)

    def settle(job: Job) -> None:
        """Write what is known for good once the model is there."""
        refuse_nothing_left(session, job.total)
        config = start.recorded(job.config)
        run.write_config(config)
        write_passport(run, config, origin)

    make = Maker(start, tokenizer, dataset, settle, tell, control)
    ready, outcome = fit_with_pauses(make, session.step, tell, control)
    job = ready.job
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
        seconds=time.monotonic() - began + make.seconds_before,
        best_step=outcome.best_step,
    )
    write_passport(run, start.recorded(job.config), origin, finished)
    tell(finished)
    return finished


def _begin(start: Start, tell: Tell) -> None:
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


def _prepare_data(start: Start, tell: Tell) -> tuple[ChatTokenizer, Dataset]:
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
