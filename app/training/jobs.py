"""What the engine thread can be asked to do. The engine is imported here, inside `run`, only."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from app.training.messages import JobKind
from trainer_core.config import RunConfig
from trainer_core.control import Control, Question
from trainer_core.errors import TrainerError
from trainer_core.events import Event, Failed, Finished, Paused, Resumed, Stage
from trainer_core.runfolder import RunFolder, read_events

if TYPE_CHECKING:
    from trainer_core.backend import Machine
    from trainer_core.playground import Playground

ENGINE = (
    "trainer_core.run",
    "trainer_core.assemble",
    "trainer_core.loop",
    "trainer_core.passport",
    "trainer_core.model.sample_model",
    "trainer_core.export.mlx",
    "trainer_core.playground",
    "mlx_lm.utils",
    "mlx_lm.tuner.utils",
    "mlx_lm.models.llama",
)
"""What a run imports, in the order of a run."""


class Job(Protocol):
    """One piece of work of the engine thread."""

    @property
    def kind(self) -> JobKind:
        """What it is, for the window."""
        ...

    def run(self, emit: Callable[[Event], None]) -> object:
        """Do it in the calling thread and return plain values.

        Raises:
            TrainerError: something the user can mend.
        """
        ...


class TrainJob(Job, Protocol):
    """A job that can be stopped."""

    @property
    def control(self) -> Control:
        """Wishes for the run; may be used from any thread."""
        ...


class WarmUp:
    """Import the engine while the user still reads the form, so that Start does not wait for it."""

    kind: JobKind = "warm-up"

    def __init__(self, model: str = "") -> None:
        self.model = model

    def run(self, emit: Callable[[Event], None]) -> Machine:
        """Import, and read the tokenizer of `model` if it is there; no array is made.

        Returns:
            What runs are planned for.
        """
        from trainer_core import backend

        backend.prepare()
        from trainer_core.data.tokenizer import IMPORTING

        with IMPORTING:
            for name in ENGINE:
                importlib.import_module(name)
            # transformers imports its parts when they are first asked for.
            from transformers import AutoTokenizer, PreTrainedTokenizerFast  # noqa: F401

        # A model that cannot be used is the run's to report, once it is asked for.
        with contextlib.suppress(TrainerError):
            self._read_tokenizer()
        return backend.this_machine()

    def _read_tokenizer(self) -> None:
        from trainer_core.data.tokenizer import load_tokenizer
        from trainer_core.model.find import resolve_model
        from trainer_core.model.sample_model import is_complete, sample_model_folder

        # The sample model is made by the first run, which says so.
        made = self.model != "sample" or is_complete(sample_model_folder())
        if self.model and made:
            load_tokenizer(resolve_model(self.model), RunConfig(model=self.model, data="sample"))


class Train:
    """A run from its configuration to its adapter. `control` may be used from any thread."""

    kind: JobKind = "train"

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.control = Control()

    def run(self, emit: Callable[[Event], None]) -> object:
        """Train; the result is the `Finished` event. A run that goes on tells its past first."""
        from trainer_core import backend

        backend.prepare()
        if self.config.resume:
            for event in past(Path(self.config.resume)):
                emit(event)
        if self.config.isolation == "process":
            from trainer_core.isolation.parent import train_in_process

            return train_in_process(self.config, emit, self.control)
        from trainer_core.run import train

        return train(self.config, emit, self.control)


def past(folder: Path) -> list[Event]:
    """What a run has told until now, but for how it ended.

    Raises:
        TrainerError: its record cannot be read.
    """
    record = RunFolder(folder.expanduser()).events
    told = read_events(record) if record.exists() else []
    return [event for event in told if not isinstance(event, Failed | Finished | Paused | Resumed)]


class Export:
    """Write a run's adapter as mlx-lm reads it, and prove that it gives the same logits."""

    kind: JobKind = "export"

    def __init__(self, source: Path, out: Path) -> None:
        self.source = source
        self.out = out

    def run(self, emit: Callable[[Event], None]) -> object:
        """Export; the result is the engine's `ExportReport`."""
        from trainer_core import backend

        backend.prepare()
        from trainer_core.export.mlx import export_adapter

        return export_adapter(self.source, self.out, emit)


class Asking:
    """Makes the jobs that ask, which share one loaded model, and the job that gives it back."""

    def __init__(self) -> None:
        self._playground: Playground | None = None

    def ask(self, question: Question) -> Ask:
        """The job that answers a question."""
        return Ask(self, question)

    def release(self) -> Release:
        """The job that gives the memory back."""
        return Release(self)

    def playground(self) -> Playground:
        """The engine's side; made and used in the engine thread."""
        if self._playground is None:
            from trainer_core.playground import Playground

            self._playground = Playground()
        return self._playground

    def forget(self) -> None:
        """Empty the engine's side, in the engine thread."""
        if self._playground is not None:
            self._playground.release()


class Ask:
    """Answer a question. `control.hush` ends it, from any thread."""

    kind: JobKind = "ask"

    def __init__(self, asking: Asking, question: Question) -> None:
        self.question = question
        self.control = Control()
        self._asking = asking

    def run(self, emit: Callable[[Event], None]) -> None:
        """Answer; the answers go out as events."""
        from trainer_core import backend

        backend.prepare()
        self._asking.playground().ask(self.question, emit, self.control)


class Release:
    """Give the memory of the model that was asked back, as before a run."""

    kind: JobKind = "release"

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def run(self, emit: Callable[[Event], None]) -> None:
        """Give it back."""
        self._asking.forget()


class Probe:
    """Take two real steps on the hardest rows, and say what they needed."""

    kind: JobKind = "probe"

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.control = Control()

    def run(self, emit: Callable[[Event], None]) -> object:
        """Measure; the result is (bytes at the peak, seconds a step), or None if stopped."""
        from trainer_core import backend

        backend.prepare()
        from trainer_core.data.load import read_rows
        from trainer_core.data.token_cache import tokenise_once
        from trainer_core.data.tokenizer import load_tokenizer
        from trainer_core.model.find import resolve_model
        from trainer_core.probe import probe

        config = self.config
        emit(Stage("data", "Reading the rows"))
        folder = resolve_model(config.model, emit)
        tokenizer = load_tokenizer(folder, config)
        dataset = tokenise_once(read_rows(config), config, folder, tokenizer)
        emit(Stage("train", "Taking two steps"))
        found = probe(config, folder, dataset, tokenizer, emit, self.control)
        return (found.peak, found.seconds) if found else None
