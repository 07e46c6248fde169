"""Asks trained adapters and their base models, and keeps the last one loaded for the next prompt.

Holds arrays, so it is used in the engine thread only, and emptied there before a run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer_core.control import Control, Question
from trainer_core.errors import ModelError
from trainer_core.events import Event, Stage
from trainer_core.generate import open_answering
from trainer_core.model.answers import Answering

Tell = Callable[[Event], None]


class Playground:
    """A model, with an adapter or without, that answers one request after the other."""

    def __init__(self) -> None:
        self._opened: Answering | None = None
        self._key: tuple[Any, ...] = ()

    def ask(self, question: Question, emit: Tell, control: Control) -> None:
        """Answer a question.

        Args:
            question: whom to ask what.
            emit: receives `stage`, `sample_piece` and `sample` events.
            control: `hush` or a stop ends the answer in hand.

        Raises:
            ModelError: the model or adapter cannot be loaded.
            TrainerError: a prompt is empty.
        """

        def wanted() -> bool:
            return control.answering

        request = question.request
        opened = self._open(question, emit)
        if request.beside_base and not opened.base:
            # All its weights were trained, so the base model has to be loaded by itself.
            base = self._open(question, emit, alone=True)
            for prompt in request.prompts:
                for event in base.one(request, prompt, 0, wanted, base=True):
                    emit(event)
            opened = self._open(question, emit)
        for event in opened.answer(request, 0, wanted):
            emit(event)

    def release(self) -> None:
        """Give the model's memory back."""
        self._opened, self._key = None, ()
        import mlx.core as mx

        mx.clear_cache()

    def _open(self, question: Question, emit: Tell, *, alone: bool = False) -> Answering:
        model, adapter, words = question.model, question.adapter, question.words
        key = (model, adapter, _changed(adapter), repr(words), alone)
        if self._opened is None or self._key != key:
            self.release()
            emit(Stage("load", "Loading the model"))
            self._opened = open_answering(model, adapter, words=words, alone=alone)
            self._key = key
        return self._opened


def _changed(adapter: Path | None) -> int:
    """When the adapter's weights were last written: those of a run that goes on are replaced."""
    if adapter is None:
        return 0
    try:
        return max(file.stat().st_mtime_ns for file in adapter.glob("*.safetensors"))
    except (OSError, ValueError):
        raise ModelError(
            f"there is no adapter in {adapter}", "", "choose another adapter of the run"
        ) from None
