"""The folder of one run: where things are, how they get there safely, and its record of events.

Nothing in a run folder is ever half written: files and folders are made under a temporary name,
flushed to the disk and renamed. The event record alone grows in place, line by line.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from io import FileIO
from pathlib import Path
from tempfile import mkdtemp, mkstemp
from types import TracebackType
from typing import Self

from platformdirs import user_data_path

from trainer_core import config_io
from trainer_core.config import RunConfig
from trainer_core.errors import TrainerError
from trainer_core.events import Event, Sample, Started, from_json_line, to_json_line

CHECKPOINT_FORMAT = 2
"""What `state.json` says of itself; a checkpoint of another one is not gone on from."""


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """Names of what a checkpoint has besides the adapter in mlx-lm's layout."""

    path: Path

    @property
    def state(self) -> Path:
        """The state of the loop."""
        return self.path / "state.json"

    @property
    def moments(self) -> Path:
        """The optimiser's arrays."""
        return self.path / "optimizer.safetensors"

    @property
    def exact(self) -> Path:
        """The trained arrays, where mlx-lm's layout has them padded or multiplied."""
        return self.path / "parameters.safetensors"

    @property
    def parameters(self) -> Path:
        """The trained arrays as they are."""
        return self.exact if self.exact.exists() else self.path / "adapters.safetensors"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Names of everything in a run folder."""

    path: Path

    @property
    def config(self) -> Path:
        """What ran, every `auto` resolved."""
        return self.path / "config.yaml"

    @property
    def events(self) -> Path:
        """Every event of every session, one JSON line each."""
        return self.path / "events.jsonl"

    @property
    def adapter(self) -> Path:
        """The adapter as the run ended."""
        return self.path / "adapter"

    @property
    def best(self) -> Path:
        """The adapter with the best validation."""
        return self.path / "best"

    @property
    def best_before(self) -> Path:
        """The best adapter that the last checkpoint knows of, while `best` is of a later step."""
        return self.path / ".best-before"

    @property
    def checkpoints(self) -> Path:
        """The folder of `step-N` folders."""
        return self.path / "checkpoints"

    @property
    def row_losses(self) -> Path:
        """The validation loss of every row by itself."""
        return self.path / "row_losses.jsonl"

    @property
    def reference(self) -> Path:
        """DPO's reference log-probabilities of every row."""
        return self.path / "reference.safetensors"

    @property
    def passport(self) -> Path:
        """Versions, hashes, seed and results."""
        return self.path / "passport.json"

    def checkpoint(self, step: int) -> Path:
        """The folder of the checkpoint after `step` updates."""
        return self.checkpoints / f"step-{step}"

    def checkpoint_steps(self) -> list[int]:
        """Steps that have a checkpoint, in order."""
        found = [re.fullmatch(r"step-(\d+)", p.name) for p in self.checkpoints.glob("step-*")]
        return sorted(int(match[1]) for match in found if match)

    def write_config(self, config: RunConfig) -> None:
        """Write config.yaml."""
        write_atomically(self.config, config_io.dump_yaml(config))

    @classmethod
    def create(cls, config: RunConfig) -> Self:
        """Make a new run folder with its config.yaml.

        It is called `run_name`, or date, time, method and model; if that exists, -2, -3 and so on
        is added.

        Raises:
            TrainerError: the folder cannot be made.
        """
        parent = runs_folder(config)
        name = config.run_name or _name(config)
        try:
            parent.mkdir(parents=True, exist_ok=True)
            run = cls(_make_distinct(parent.absolute(), name))
            run.write_config(config)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise TrainerError(
                f"cannot make a run folder in {parent}", why, "Choose another `output`"
            ) from None
        return run


def runs_folder(config: RunConfig) -> Path:
    """Where the run folder of a configuration is made."""
    return Path(config.output).expanduser() if config.output else default_runs_folder()


def default_runs_folder() -> Path:
    """Where runs go if `output` is empty; it need not exist yet."""
    return user_data_path("burnish", appauthor=False) / "runs"


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that at any moment the old or the new content is there, never a part."""
    handle, temporary = mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    _sync(path.parent)


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Give an empty folder to fill; on a clean exit it becomes `path`, in place of what was there.

    If the block raises, `path` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield fresh
        fresh.chmod(0o755)
        for file in fresh.rglob("*"):
            _sync(file)
        _sync(fresh)
        if path.exists():
            # A folder cannot be renamed over a full one.
            aside = Path(mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
            path.replace(aside)
            fresh.replace(path)
            shutil.rmtree(aside)
        else:
            fresh.replace(path)
        _sync(path.parent)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


class EventLog:
    """Appends events to a run's record. Every line is handed to the system at once."""

    def __init__(self, path: Path) -> None:
        self._file: FileIO = path.open("ab+", buffering=0)
        if self._file.tell() > 0:
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":
                # A crash left half a line; the next event must not be glued to it.
                self._file.write(b"\n")

    def append(self, event: Event) -> None:
        """Write one event, or nothing of it.

        Raises:
            OSError: the disk does not take it.
        """
        line = to_json_line(event).encode() + b"\n"
        end = self._file.tell()
        try:
            if self._file.write(line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self._file.truncate(end)
            raise

    def sync(self) -> None:
        """Flush to the disk, before anything is written that counts on what was told."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Flush to the disk and close."""
        if not self._file.closed:
            self.sync()
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def read_events(path: Path) -> list[Event]:
    """The events of a run as its history reads: the latest session's value for every step.

    What an earlier session did after the step that a later one resumed from was undone, and is left
    out, except for its warnings; so is how it ended. Half a line that a crash left, and kinds of a
    newer version, are passed over.

    Raises:
        TrainerError: the file cannot be read, or a line in the middle is damaged.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TrainerError(f"cannot read {path}", error.strerror or type(error).__name__) from None
    kept: list[Event] = []
    torn: int | None = None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            event = from_json_line(line.decode())
        except ValueError:
            if torn is not None:
                break
            torn = number
            continue
        if torn is not None and not isinstance(event, Started):
            break
        torn = None
        if isinstance(event, Started) and event.resumed_from is not None:
            kept = [earlier for earlier in kept if not event.undoes(earlier)]
        if event is not None:
            kept.append(event)
    else:
        return _latest(kept)
    raise TrainerError(
        f"{path}, line {torn}: damaged", "it is not an event", "Was the file edited?"
    )


def _latest(events: Sequence[Event]) -> list[Event]:
    """Of answers that a stop cut short and the next session gave again, the later ones."""
    answers: dict[tuple[int, str, bool | None], Event] = {}
    sessions = sum(isinstance(event, Started) for event in events)
    if sessions < 2:
        return list(events)
    for event in events:
        if isinstance(event, Sample):
            answers[event.step, event.prompt, event.base] = event
    last = set(map(id, answers.values()))
    return [event for event in events if not isinstance(event, Sample) or id(event) in last]


def _name(config: RunConfig) -> str:
    model = re.sub(r"[^\w.-]+", "-", Path(config.model).name).strip("-.") or "model"
    return f"{datetime.now():%Y-%m-%d-%H%M%S}-{config.method}-{model[:60]}"


def _make_distinct(parent: Path, name: str) -> Path:
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir()
        except FileExistsError:
            number += 1
        else:
            return path


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
