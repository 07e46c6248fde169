"""The one notice above the plots: what went wrong, or what is ready, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QObject, Signal

from app.viewmodels.wording import count, duration, sentence_case
from trainer_core.events import Finished, Warned

NoticeLevel = Literal["info", "warning", "error", "success"]
NoticeAction = Literal[
    "show_log",
    "open_log_file",
    "export",
    "open_run",
    "continue_run",
    "isolate_run",
    "go_runs",
    "fit",
    "copy_diagnostics",
]


@dataclass(frozen=True, slots=True)
class Notice:
    """What to tell: a title of a few words, a sentence or two, and the actions that help."""

    level: NoticeLevel
    title: str
    text: str = ""
    actions: tuple[NoticeAction, ...] = ()


def error_notice(what: str, why: str, try_this: str, *, memory: bool = False) -> Notice:
    """A failure as what, why, and what to do; with `memory` also the way to need less of it."""
    sentences = [
        sentence_case(part.strip().rstrip(".")) + "." for part in (why, try_this) if part.strip()
    ]
    title = sentence_case(what.rstrip("."))
    first: tuple[NoticeAction, ...] = ("fit",) if memory else ()
    return Notice("error", title, " ".join(sentences), (*first, "show_log", "open_log_file"))


def imported_notice(name: str, warnings: Sequence[Warned]) -> Notice:
    """Another trainer's file was read: the first thing to tell of it, and how many more."""
    first, *rest = (sentence_case(warning.message.rstrip(".")) + "." for warning in warnings)
    more = f" {count(len(rest), 'more note')} in the log." if rest else ""
    return Notice("info", f"Read {name}", first + more, ("show_log",))


def finished_notice(event: Finished) -> Notice:
    """The end of a run that left an adapter."""
    after = f"after {count(event.steps, 'step')} in {duration(event.seconds)}"
    best = (
        "" if event.best_step is None else f" The best validation was at step {event.best_step:,}."
    )
    saved = f"The adapter is saved in {event.adapter}."
    actions: tuple[NoticeAction, ...] = ("export", "open_run")
    match event.reason:
        case "done":
            return Notice("success", f"Training done {after}", saved + best, actions)
        case "early_stop":
            return Notice(
                "success",
                f"Stopped early {after}",
                f"Validation no longer improved. {saved}{best}",
                actions,
            )
        case _:
            return Notice("info", f"Stopped {after}", saved + best, actions)


class NoticeViewModel(QObject):
    """The notice on show, if any.

    Signals:
        changed: another notice, or none.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.notice: Notice | None = None

    def show(self, notice: Notice) -> None:
        """Put this notice in the place of the one before."""
        self.notice = notice
        self.changed.emit()

    def dismiss(self) -> None:
        """Take the notice away."""
        if self.notice is not None:
            self.notice = None
            self.changed.emit()
