"""The one form that every shape of row is brought into before it meets a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from trainer_core.data.types import Source

PromptFormat = Literal["chat", "raw"]

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation.

    Attributes:
        role: one of `ROLES`.
        content: its text; empty only for an assistant turn that calls a tool.
        extra: what a template may want besides, such as `tool_calls`, `name` or
            `reasoning_content`, which is what the assistant thought before it answered.
    """

    role: str
    content: str
    extra: Mapping[str, Any] = field(default_factory=dict)

    def as_message(self) -> dict[str, Any]:
        """The turn as chat templates expect it."""
        return {"role": self.role, "content": self.content, **self.extra}


@dataclass(frozen=True, slots=True)
class Example:
    """One usable row.

    A conversation is `prompt` followed by `chosen`; `chosen` starts at its last assistant turn, or
    for a preference pair wherever the two answers begin. A row of plain text has an empty prompt.

    Attributes:
        source: file and line.
        shape: name of the detected shape, as shown to the user.
        prompt: text, or turns.
        chosen: text if the prompt is text, else turns.
        rejected: the worse answer of a pair, in the form of `chosen`.
        tools: definitions of the tools the conversation may call, in the JSON form of chat
            templates.
    """

    source: Source
    shape: str
    prompt: str | tuple[Turn, ...]
    chosen: str | tuple[Turn, ...]
    rejected: str | tuple[Turn, ...] | None = None
    tools: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_text(self) -> bool:
        """True for a row of plain text, which has no prompt and is trained whole."""
        return self.shape == "text"

    @property
    def is_pair(self) -> bool:
        """True if the row has a preferred and a rejected answer."""
        return self.rejected is not None

    @property
    def characters(self) -> int:
        """Length of the longest sequence that the row makes, as text."""
        answers = [_characters(self.chosen)]
        if self.rejected is not None:
            answers.append(_characters(self.rejected))
        return _characters(self.prompt) + max(answers)

    @property
    def answer_characters(self) -> tuple[int, int]:
        """Lengths of the two answers of a pair as text; the second is 0 without one."""
        rejected = 0 if self.rejected is None else _characters(self.rejected)
        return _characters(self.chosen), rejected

    @property
    def prompt_characters(self) -> int:
        """Length of the prompt as text."""
        return _characters(self.prompt)


def as_turns(part: str | tuple[Turn, ...], role: str) -> tuple[Turn, ...]:
    """Turns of a prompt or an answer; text becomes one turn of `role`."""
    return (Turn(role, part),) if isinstance(part, str) else part


def _characters(part: str | tuple[Turn, ...]) -> int:
    return len(part) if isinstance(part, str) else sum(len(turn.content) for turn in part)


class BadRow(Exception):
    """A row that cannot be used: what is wrong, and a hint. Never leaves the data package."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
