"""Undo and redo for a form: whole states, with a run of edits of one field as one step."""

from __future__ import annotations

from typing import Generic, TypeVar

State = TypeVar("State")

_LIMIT = 200


class EditHistory(Generic[State]):
    """States before each edit, and those that were undone."""

    def __init__(self) -> None:
        self._past: list[State] = []
        self._future: list[State] = []
        self._last_tag = ""

    def record(self, before: State, tag: str) -> None:
        """Remember the state before an edit. Edits in a row with the same tag are one step.

        An edit without a tag is a step of its own.
        """
        self._future.clear()
        if not tag or tag != self._last_tag:
            self._past.append(before)
            del self._past[:-_LIMIT]
        self._last_tag = tag

    def undo(self, current: State) -> State | None:
        """The state to go back to, or None."""
        return self._move(self._past, self._future, current)

    def redo(self, current: State) -> State | None:
        """The state that was undone last, or None."""
        return self._move(self._future, self._past, current)

    @property
    def can_undo(self) -> bool:
        """Whether there is an edit to take back."""
        return bool(self._past)

    @property
    def can_redo(self) -> bool:
        """Whether an edit was taken back."""
        return bool(self._future)

    def _move(self, source: list[State], target: list[State], current: State) -> State | None:
        self._last_tag = ""
        if not source:
            return None
        target.append(current)
        return source.pop()
