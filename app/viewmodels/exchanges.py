"""Questions that were put to a model, and the answers as they come."""

from __future__ import annotations

from dataclasses import dataclass, field

from PySide6.QtCore import QObject, Signal

from app.viewmodels.progress_vm import STAGES
from trainer_core.events import Event, Sample, SamplePiece, Stage, Warned

MOST = 50


@dataclass(slots=True)
class Side:
    """One answer: the text so far, and once it is whole its tokens and seconds."""

    text: str = ""
    whole: bool = False
    begun: bool = False
    tokens: int | None = None
    seconds: float | None = None

    @property
    def figures(self) -> str:
        """Length and speed in words, once they are known."""
        if self.tokens is None or not self.seconds:
            return ""
        return f"{self.tokens:,} tokens, {self.tokens / self.seconds:,.0f} a second"


@dataclass(slots=True)
class Exchange:
    """A prompt and its answers.

    Attributes:
        prompt: what was asked.
        how: whom, and with which settings, in words.
        base: the base model's answer, or None if it was not asked.
        tuned: the other one.
        of_run: whether a run that is going on answers.
        over: nothing more comes.
        note: what is going on, or what went wrong.
        failed: whether the note says what went wrong.
    """

    prompt: str
    how: str
    base: Side | None
    tuned: Side = field(default_factory=Side)
    of_run: bool = False
    over: bool = False
    note: str = ""
    failed: bool = False

    @property
    def alike(self) -> bool:
        """Whether both sides say the same."""
        sides = (self.base, self.tuned)
        return all(side and side.whole for side in sides) and self.base.text == self.tuned.text  # type: ignore[union-attr]


class Exchanges(QObject):
    """The exchanges of this session, oldest first. At most one waits for its answer.

    Signals:
        added(Exchange): a question was put.
        dropped: the oldest exchange was forgotten.
        changed(Exchange): more of an answer, or its end.
    """

    added = Signal(object)
    dropped = Signal()
    changed = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.items: list[Exchange] = []
        self._dirty = False

    @property
    def waiting(self) -> Exchange | None:
        """The exchange whose answer is on its way."""
        last = self.items[-1] if self.items else None
        return last if last is not None and not last.over else None

    def add(self, exchange: Exchange) -> None:
        """A question was put."""
        self.items.append(exchange)
        self.added.emit(exchange)
        if len(self.items) > MOST:
            del self.items[0]
            self.dropped.emit()

    def take(self, event: Event) -> None:
        """Note an event of the engine; `flush` tells the view."""
        exchange = self.waiting
        if exchange is None:
            return
        match event:
            case SamplePiece(prompt=prompt) if prompt == exchange.prompt:
                side = self._side(exchange, event.base)
                side.text += event.text
                side.begun = True
                exchange.note = ""
            case Sample(prompt=prompt) if prompt == exchange.prompt:
                self._take_whole(exchange, event)
            case Stage() if not exchange.of_run:
                exchange.note = event.message or STAGES.get(event.stage, event.stage)
            case Warned(code="sample") if exchange.of_run:
                self.end(event.message)
            case _:
                return
        self._dirty = True

    def end(self, why: str = "") -> None:
        """Nothing more comes; with `why` because something went wrong."""
        exchange = self.waiting
        if exchange is not None:
            exchange.over, exchange.note, exchange.failed = True, why, bool(why)
            self._dirty = False
            self.changed.emit(exchange)

    def flush(self) -> None:
        """Tell the view once about everything taken since the last time."""
        if self._dirty:
            self._dirty = False
            self.changed.emit(self.items[-1])

    def _take_whole(self, exchange: Exchange, event: Sample) -> None:
        side = self._side(exchange, event.base)
        if exchange.of_run and event.text and not side.begun:
            return  # one of the prompts of every validation, which happens to be the same
        side.text, side.tokens, side.seconds = event.text, event.tokens, event.seconds
        side.whole = True
        if exchange.of_run and not event.base:
            exchange.over = True

    @staticmethod
    def _side(exchange: Exchange, base: bool | None) -> Side:
        if base and exchange.base is not None:
            return exchange.base
        return exchange.tuned
