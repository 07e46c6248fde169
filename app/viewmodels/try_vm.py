"""Asking: whom, with which settings, and when."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.reading.runs import RunRecord
from app.viewmodels.config_vm import ConfigViewModel
from app.viewmodels.exchanges import Exchange, Side
from app.viewmodels.number_text import show_number
from app.viewmodels.runs_vm import RunsViewModel
from app.viewmodels.session import Session
from trainer_core.config import without_inapplicable
from trainer_core.control import Question, SampleRequest

THE_RUN = "run"
NO_ADAPTER = "base"
MOST_RUNS = 100

_WORDS = ("prompt_format", "chat_template", "template_kwargs", "system_prompt")


@dataclass(frozen=True, slots=True)
class Source:
    """Whom to ask.

    Attributes:
        key: `run`, `base`, or the folder of a run or adapter.
        title: its name for people.
        model: as in the option `model`.
        adapters: name and folder of the adapters to choose from, the likeliest first.
    """

    key: str
    title: str
    model: str
    adapters: tuple[tuple[str, Path], ...] = ()


class TryViewModel(QObject):
    """Whom to ask and how.

    Attributes:
        temperature, max_tokens, seed: of the answers.

    Signals:
        changed: sources, the chosen one, or whether asking is possible.
    """

    changed = Signal()

    def __init__(
        self,
        session: Session,
        runs: RunsViewModel,
        form: ConfigViewModel,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session = session
        self._runs = runs
        self._form = form
        self._extra: list[Source] = []
        self._trained: list[Source] = []
        self._wanted = ""
        self._adapter = ""
        self.temperature = 0.0
        self.max_tokens = 256
        self.seed = 0
        self.exchanges = session.exchanges
        session.run.changed.connect(self._on_run_changed)
        runs.changed.connect(self._on_runs_changed)
        form.changed.connect(self.changed)
        self.exchanges.added.connect(lambda _: self.changed.emit())
        self.exchanges.changed.connect(lambda _: self.changed.emit())
        self._was_active = False

    @property
    def sources(self) -> list[Source]:
        """Whom one can ask: the run that is going on, folders, runs, and the form's model."""
        found: list[Source] = []
        run = self._session.run
        if run.active:
            found.append(Source(THE_RUN, "The run, as it stands", ""))
        found += self._extra
        current = str(run.run_folder) if run.active else ""
        found += [source for source in self._trained if source.key != current]
        model = str(self._form.values.get("model") or "")
        if model:
            found.append(Source(NO_ADAPTER, f"No adapter: {Path(model).name}", model))
        return found

    @property
    def source(self) -> Source | None:
        """Whom one asks."""
        sources = self.sources
        chosen = next((source for source in sources if source.key == self._wanted), None)
        return chosen or (sources[0] if sources else None)

    @property
    def adapter(self) -> tuple[str, Path] | None:
        """The chosen adapter of the source, by name and folder."""
        source = self.source
        if source is None or not source.adapters:
            return None
        named = (pair for pair in source.adapters if pair[0] == self._adapter)
        return next(named, source.adapters[0])

    @property
    def obstacle(self) -> str:
        """Why nothing can be asked now, or an empty string."""
        source = self.source
        if source is None:
            return "Choose a model first, on the Model page or in the form."
        if self.exchanges.waiting is not None:
            return "Wait for the answer, or stop it."
        if self._session.run.active and source.key != THE_RUN:
            return "While a run is going on, it is the one to ask: the memory is its own."
        if self._session.export_running:
            return "An adapter is being exported."
        return ""

    @property
    def fixed(self) -> list[str]:
        """The prompts that the form's run answers at every validation."""
        value = self._form.values.get("sample_prompts")
        return list(value) if isinstance(value, list) else []

    def wake(self) -> None:
        """The page is on show: see which runs there are."""
        self._runs.look()

    def choose(self, key: str) -> None:
        """Ask someone else."""
        self._wanted = key
        self.changed.emit()

    def choose_adapter(self, name: str) -> None:
        """Ask with another adapter of the run."""
        self._adapter = name
        self.changed.emit()

    def add_folder(self, folder: Path) -> None:
        """Ask with the adapter in a folder, on the form's model."""
        model = str(self._form.values.get("model") or "")
        source = Source(str(folder), folder.name, model, ((folder.name, folder),))
        self._extra = [s for s in self._extra if s.key != source.key]
        self._extra.insert(0, source)
        self.choose(source.key)

    def ask(self, prompt: str) -> bool:
        """Put a question.

        Returns:
            Whether it was put.
        """
        source, adapter = self.source, self.adapter
        if self.obstacle or source is None or not prompt.strip():
            return False
        beside = source.key != NO_ADAPTER
        request = SampleRequest(
            prompts=(prompt,),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            seed=self.seed,
            beside_base=beside,
            streamed=True,
        )
        of_run = source.key == THE_RUN
        note = "Answered after the step in hand" if of_run else "Waiting for the engine"
        self.exchanges.add(
            Exchange(prompt, self._how(), Side() if beside else None, of_run=of_run, note=note)
        )
        if of_run:
            self._session.ask_run(request)
        else:
            folder = adapter[1] if adapter else None
            words = self._form_words() if source.key == NO_ADAPTER else None
            self._session.ask(Question(source.model, folder, request, words))
        return True

    def stop(self) -> None:
        """End the answer in hand."""
        waiting = self.exchanges.waiting
        self._session.hush()
        if waiting is not None and waiting.of_run and not waiting.tuned.begun:
            self.exchanges.end("Stopped")

    def ask_always(self, prompt: str) -> None:
        """Have the form's run answer this prompt at every validation, or no longer."""
        prompt = " ".join(prompt.split())
        if prompt:
            kept = [text for text in self.fixed if text != prompt]
            if len(kept) == len(self.fixed):
                kept.append(prompt)
            self._form.set_value("sample_prompts", "\n".join(kept))

    def _form_words(self) -> dict[str, Any]:
        """What the form puts around a prompt."""
        values = without_inapplicable(self._form.values)
        return {key: values[key] for key in _WORDS if values.get(key) is not None}

    def _how(self) -> str:
        source, adapter = self.source, self.adapter
        parts = [source.title if source else ""]
        if adapter and adapter[0] != parts[0]:
            parts.append(adapter[0])
        if self.temperature:
            parts.append(f"temperature {show_number(self.temperature)}, seed {self.seed}")
        return f" {chr(0xB7)} ".join(parts)

    def _on_runs_changed(self) -> None:
        self._trained = [
            Source(str(r.folder), r.title, str(r.config.get("model", "")), adapters)
            for r in (self._runs.records or [])[:MOST_RUNS]
            if (adapters := _adapters(r))
        ]
        self.changed.emit()

    def _on_run_changed(self) -> None:
        active = self._session.run.active
        if active != self._was_active:
            self._was_active = active
            self._wanted = "" if active else str(self._session.run.run_folder or self._wanted)
            if not active:
                self._runs.look()
        self.changed.emit()


def _adapters(record: RunRecord) -> tuple[tuple[str, Path], ...]:
    found = record.checkpoints()
    return tuple(sorted(found, key=lambda pair: pair[0] != "best"))
