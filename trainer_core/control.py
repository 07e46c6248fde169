"""What the outside may ask of a running engine: stop, pause, save, sample.

The engine looks at its `Control` between optimiser steps. Every method may be called from any
thread.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """Prompts to answer at the next step boundary with the adapter as it stands.

    Attributes:
        prompts: questions.
        max_tokens: longest answer.
        temperature: 0 always takes the likeliest token.
        seed: of the sampling; every answer starts from it.
        beside_base: answer with the base model first, then with the adapter.
        streamed: tell the pieces of an answer as they come, too.
    """

    prompts: tuple[str, ...]
    max_tokens: int = 128
    temperature: float = 0.0
    seed: int = 0
    beside_base: bool = False
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """Prompts for a model with an adapter, or for the model alone.

    Attributes:
        model: as in the option `model`.
        adapter: an adapter folder of mlx-lm or PEFT, or None.
        request: the prompts, and how to answer them.
        words: options of `RunConfig` that say what is put around a prompt; None for what the
            adapter was trained with.
    """

    model: str
    adapter: Path | None
    request: SampleRequest
    words: Mapping[str, Any] | None = None


class Control:
    """Thread-safe wishes for one run, read by the loop at step boundaries.

    `stop` ends after the current step and saves; `stop now` also gives up the step in hand and any
    validation, still leaving a loadable adapter.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._stop_now = threading.Event()
        self._save = threading.Event()
        self._running = threading.Event()
        self._running.set()
        self._wish = threading.Event()
        self._samples: deque[SampleRequest] = deque()
        self._silent = threading.Event()

    def stop(self) -> None:
        """End after the current step. A second call means `stop_now`."""
        if self._stop.is_set():
            self._stop_now.set()
        self._stop.set()
        self._running.set()
        self._wish.set()

    def stop_now(self) -> None:
        """End as soon as the engine can, without finishing the step."""
        self._stop.set()
        self._stop_now.set()
        self._running.set()
        self._wish.set()

    def pause(self) -> None:
        """Wait at the next step boundary until `resume` or a stop; other wishes are served."""
        self._running.clear()

    def resume(self) -> None:
        """Go on after a pause."""
        self._running.set()
        self._wish.set()

    def save_now(self) -> None:
        """Write a checkpoint at the next step boundary."""
        self._save.set()
        self._wish.set()

    def sample(self, prompts: list[str], max_tokens: int = 128) -> None:
        """Answer these prompts at the next step boundary."""
        self.ask(SampleRequest(tuple(prompts), max_tokens))

    def ask(self, request: SampleRequest) -> None:
        """Answer a request at the next step boundary."""
        self._silent.clear()
        self._samples.append(request)
        self._wish.set()

    def hush(self) -> None:
        """Answer nothing more: what was asked is forgotten, an answer in hand ends as it is."""
        self._samples.clear()
        self._silent.set()

    @property
    def stopping(self) -> bool:
        """True once a stop of either kind was asked for."""
        return self._stop.is_set()

    @property
    def stopping_now(self) -> bool:
        """True once the step in hand should be given up."""
        return self._stop_now.is_set()

    @property
    def paused(self) -> bool:
        """True while a pause is asked for."""
        return not self._running.is_set()

    @property
    def answering(self) -> bool:
        """Whether an answer in hand should go on."""
        return not (self._silent.is_set() or self.stopping)

    @property
    def silent(self) -> bool:
        """True from `hush` until the next question."""
        return self._silent.is_set()

    def wait_while_paused(self) -> None:
        """Block while paused, until there is something to do: resume, stop, save or sample."""
        if self.paused:
            self._wish.wait()
        self._wish.clear()

    @property
    def asked(self) -> bool:
        """Whether a sample request waits."""
        return bool(self._samples)

    def take_save(self) -> bool:
        """True once per `save_now`."""
        asked = self._save.is_set()
        self._save.clear()
        return asked

    def take_sample(self) -> SampleRequest | None:
        """The oldest sample request not yet taken, if any."""
        return self._samples.popleft() if self._samples else None
