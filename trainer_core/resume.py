"""The sessions of a run: its first, and those that take it up where its last checkpoint left it."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from trainer_core.config import RunConfig
from trainer_core.errors import TrainerError
from trainer_core.events import Event, Finished, Started, Warned
from trainer_core.runfolder import CHECKPOINT_FORMAT, CheckpointFiles, RunFolder, read_events


@dataclass(frozen=True, slots=True)
class Session:
    """A session of a run.

    Attributes:
        run: its folder.
        number: counts from 1.
        resumed: whether the run had begun before.
        step: of the checkpoint that it goes on from; 0 begins at the start.
        told: warnings of earlier sessions.
        warnings: what should be told of how it was taken up.
    """

    run: RunFolder
    number: int = 1
    resumed: bool = False
    step: int = 0
    told: tuple[Warned, ...] = ()
    warnings: list[Warned] = field(default_factory=list)


def take_up(config: RunConfig) -> Session:
    """The next session of the run that `resume` names. Nothing is changed yet.

    Args:
        config: the run's own, with what changes.

    Raises:
        TrainerError: the run has ended for good, its record cannot be read, or it has checkpoints
            but none that is whole.
    """
    run = RunFolder(Path(str(config.resume)).expanduser().absolute())
    events = read_events(run.events) if run.events.exists() else []
    _refuse_ended(run, config, events)
    numbers = [event.session for event in events if isinstance(event, Started)]
    told = tuple(event for event in events if isinstance(event, Warned))
    step, warnings = _newest_whole(run)
    return Session(run, max(numbers, default=0) + 1, True, step, told, warnings)


def clear_unfinished(run: RunFolder) -> None:
    """Remove what a process that was killed left half written."""
    for folder in (run.path, run.checkpoints):
        for path in folder.glob(".*.*") if folder.exists() else ():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def without_start(config: RunConfig, session: Session) -> RunConfig:
    """The configuration without what only the first step of a run reads."""
    return config.model_copy(update={"warm_start": None}) if session.step else config


def refuse_nothing_left(session: Session, total: int) -> None:
    """Raise an error if the run has more steps already than it is to have.

    One that has them all, but was killed before it had said so, still has its adapter to save.
    """
    if session.step > total:
        raise _nothing_left(session.run, f"it is at step {session.step} of {total}")


def _refuse_ended(run: RunFolder, config: RunConfig, events: list[Event]) -> None:
    last = events[-1] if events else None
    if not isinstance(last, Finished):
        return
    if last.reason == "early_stop":
        raise TrainerError(
            f"{run.path.name} has ended",
            "validation no longer improved",
            "start a new run with warm_start on one of its adapters",
        )
    ran = next(event.config for event in reversed(events) if isinstance(event, Started))
    if last.reason == "done" and all(
        ran.get(name) == getattr(config, name) for name in ("iters", "epochs")
    ):
        raise _nothing_left(run, f"it took its {last.steps} steps")


def _nothing_left(run: RunFolder, why: str) -> TrainerError:
    return TrainerError(f"{run.path.name} is done", why, "give more iters or epochs to go on")


def _newest_whole(run: RunFolder) -> tuple[int, list[Warned]]:
    """The step of the newest checkpoint that can be read; 0 if there is none."""
    warnings: list[Warned] = []
    for step in reversed(run.checkpoint_steps()):
        path = run.checkpoint(step)
        why = _damage(path, step)
        if not why:
            return step, warnings
        warnings.append(Warned("checkpoint", f"{path} is passed over: {why}"))
    if warnings:
        raise TrainerError(
            f"no checkpoint of {run.path} can be read",
            warnings[0].message,
            "start a new run with warm_start on its best adapter",
        )
    return 0, []


def _damage(folder: Path, step: int) -> str:
    """What is wrong with a checkpoint; empty if nothing is."""
    files = CheckpointFiles(folder)
    try:
        state: Any = json.loads(files.state.read_text(encoding="utf-8"))
        for file in (files.parameters, files.moments):
            with safe_open(file, framework="np"):  # refuses a file that is cut short
                pass
        same = state["format"] == CHECKPOINT_FORMAT and state["step"] == step
    except KeyError:
        same = False
    except (OSError, ValueError, TypeError, SafetensorError) as error:
        return " ".join(str(error).split())
    return "" if same else f"{files.state.name} is not of this version"
