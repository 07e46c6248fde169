"""Runs as their folders tell of them, made by the app or on the command line; bodies of tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.reading.background import Task
from trainer_core.errors import TrainerError
from trainer_core.events import (
    Data,
    Event,
    Failed,
    Finished,
    Started,
    Step,
    Validation,
    from_json_line,
)
from trainer_core.run_lock import is_locked
from trainer_core.runfolder import RunFolder, read_events, write_atomically

NOTES = "notes.json"
LIVE_S = 120.0
"""A run without end and lock whose record grew within this time counts as going on."""

_STEP = b'{"event": "step"'


@dataclass(frozen=True, slots=True)
class RunNotes:
    """What a person wrote about a run: `notes.json` in its folder."""

    title: str = ""
    text: str = ""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run at a glance.

    Attributes:
        folder: its folder.
        config: as it ran, every `auto` settled.
        device: what it ran on.
        state: running, done, stopped, early_stop, failed or interrupted.
        began: when, as seconds since the epoch.
        steps: optimiser steps taken.
        loss: training loss of the last step.
        best_loss: validation loss at the best step, or None without validation.
        best_step: the step with the best validation.
        seconds: how long it took, once it ended.
        rows: training rows, once known.
        failure: why it failed.
        notes: what a person wrote.
        changed: when its record last grew, as seconds since the epoch.
    """

    folder: Path
    config: Mapping[str, Any]
    device: str = ""
    state: str = "interrupted"
    began: float = 0.0
    steps: int = 0
    loss: float | None = None
    best_loss: float | None = None
    best_step: int | None = None
    seconds: float | None = None
    rows: int | None = None
    failure: str = ""
    notes: RunNotes = field(default_factory=RunNotes)
    changed: float = 0.0

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.notes.title or self.folder.name

    @property
    def method(self) -> str:
        """sft, dpo or orpo."""
        return str(self.config.get("method", ""))

    @property
    def model(self) -> str:
        """The model, without the folders before it."""
        return Path(str(self.config.get("model", ""))).name

    @property
    def data(self) -> str:
        """The data, without the folders before it."""
        return Path(str(self.config.get("data", ""))).name

    def checkpoints(self) -> list[tuple[str, Path]]:
        """Adapters that it left, each with a name: final, best, and those of steps."""
        run = RunFolder(self.folder)
        found = [("final", run.adapter), ("best", run.best)]
        found += [(f"step {n:,}", run.checkpoint(n)) for n in reversed(run.checkpoint_steps())]
        return [(name, path) for name, path in found if path.is_dir()]

    def mentions(self, words: str) -> bool:
        """Whether all of these words are somewhere in its name, notes, tags or settings."""
        said = [self.title, self.folder.name, self.notes.text, *self.notes.tags, self.state]
        said += [self.method, str(self.config.get("model")), str(self.config.get("data"))]
        text = " ".join(said).lower()
        return all(word in text for word in words.lower().split())


Known = Mapping[Path, RunRecord]


def scan_runs(task: Task, parents: Sequence[Path], known: Known) -> list[RunRecord]:
    """All runs in these folders, the newest first.

    Args:
        task: asked now and then whether it is still wanted.
        parents: folders of run folders; one that is not there has none.
        known: records from before, which are kept where nothing changed.
    """
    found: dict[Path, RunRecord] = {}
    for folder in _folders(parents):
        task.check()
        record = read_record(folder, known.get(folder))
        if record is not None:
            found[folder] = record
    return sorted(found.values(), key=lambda record: record.began, reverse=True)


def _folders(parents: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for parent in dict.fromkeys(parents):
        try:
            found += [path for path in parent.iterdir() if (path / "events.jsonl").is_file()]
        except OSError:  # a disk that is not there now
            continue
    return found


def read_record(folder: Path, before: RunRecord | None = None) -> RunRecord | None:
    """A run at a glance, or None if the folder tells of none.

    Args:
        folder: a run folder.
        before: what it told before; taken again if its record did not grow since.
    """
    run = RunFolder(folder)
    try:
        stat = run.events.stat()
        notes = read_notes(folder)
        if before is not None and before.changed == stat.st_mtime and before.state != "running":
            return before if before.notes == notes else replace(before, notes=notes)
        events = list(_glance(run.events))
    except OSError:
        return None
    return _record(folder, events, notes, stat.st_mtime)


def _glance(path: Path) -> Iterable[Event]:
    """All events but the steps, of which only the last one is read: runs have many."""
    last = b""
    with path.open("rb") as file:
        for line in file:
            if line.startswith(_STEP):
                last = line
            elif line.strip():
                yield from _event(line)
    yield from _event(last)


def _event(line: bytes) -> Iterable[Event]:
    try:
        event = from_json_line(line.decode()) if line else None
    except ValueError:  # half a line that a crash left, or one that is being written
        return
    if event is not None:
        yield event


def _record(
    folder: Path, events: Sequence[Event], notes: RunNotes, changed: float
) -> RunRecord | None:
    facts: dict[str, Any] = {}
    bests: list[Validation] = []
    for event in events:
        match event:
            case Started():
                facts.update(config=event.config, device=event.device, state="", failure="")
                bests = [best for best in bests if not event.undoes(best)]
            case Data():
                facts["rows"] = event.rows_used
            case Step():
                facts.update(steps=event.step, loss=event.loss)
            case Validation(best=True):
                bests.append(event)
            case Failed():
                facts.update(state="failed", failure=event.what)
            case Finished():
                facts.update(state=event.reason, seconds=event.seconds, steps=event.steps)
            case _:
                pass
    if "config" not in facts:
        return None
    if bests:
        facts.update(best_loss=bests[-1].loss, best_step=bests[-1].step)
    if not facts["state"]:
        facts["state"] = "running" if _goes_on(folder, changed) else "interrupted"
    began = _began(folder, changed)
    return RunRecord(folder=folder, notes=notes, changed=changed, began=began, **facts)


def _goes_on(folder: Path, changed: float) -> bool:
    """Whether a process is at a run: it holds its lock, or where there is none, has just told."""
    held = is_locked(folder)
    return time.time() - changed < LIVE_S if held is None else held


def _began(folder: Path, otherwise: float) -> float:
    """When a run began: its name says it, unless it was given one; then its settings' file."""
    try:
        return time.mktime(time.strptime(folder.name[:17], "%Y-%m-%d-%H%M%S"))
    except ValueError:
        config = RunFolder(folder).config
        return config.stat().st_mtime if config.exists() else otherwise


def read_notes(folder: Path) -> RunNotes:
    """What a person wrote about a run; nothing where the file is missing or spoilt."""
    try:
        stored = json.loads((folder / NOTES).read_text(encoding="utf-8"))
        tags = tuple(str(tag) for tag in stored.get("tags", ()))
        return RunNotes(str(stored.get("title", "")), str(stored.get("text", "")), tags)
    except (OSError, ValueError, AttributeError, TypeError):
        return RunNotes()


def write_notes(folder: Path, notes: RunNotes) -> None:
    """Keep what a person wrote about a run.

    Raises:
        TrainerError: the folder takes no file.
    """
    stored = {"title": notes.title, "text": notes.text, "tags": list(notes.tags)}
    try:
        write_atomically(folder / NOTES, json.dumps(stored, ensure_ascii=False, indent=2) + "\n")
    except OSError as error:
        raise TrainerError(
            f"the notes of {folder.name} cannot be kept", error.strerror or str(error)
        ) from None


def read_run(task: Task, folder: Path) -> list[Event]:
    """All events of a run as its history reads.

    Raises:
        TrainerError: its record cannot be read.
    """
    task.check()
    return read_events(RunFolder(folder).events)
