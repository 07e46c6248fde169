"""What a table says of one key of another trainer's configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer_core.events import Warned


class Refusal(Exception):
    """A value that cannot be honoured here.

    Args:
        why: one clause.
        try_this: what to do instead.
    """

    def __init__(self, why: str, try_this: str) -> None:
        super().__init__(why)
        self.why = why
        self.try_this = try_this


@dataclass(slots=True)
class Reading:
    """A file that is being read.

    Attributes:
        values: every key of the trainer, with its default where the file is silent.
        key: the one that is being taken.
        warnings: what should be told.
    """

    values: Mapping[str, Any]
    key: str = ""
    warnings: list[Warned] = field(default_factory=list)

    def warn(self, message: str, try_this: str = "") -> None:
        """Something is not as it was in the other trainer."""
        self.warnings.append(Warned("foreign", message, try_this))


Take = Callable[[Any, Reading], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Key:
    """One key.

    Attributes:
        default: the other trainer's.
        told: what becomes of it, for the page.
        take: from its value to our options.
    """

    default: Any
    told: str
    take: Take


def same(ours: str, default: Any) -> Key:
    """The key is one of ours, perhaps under another name."""
    return Key(default, f"`{ours}`", lambda value, _: {ours: value})


def ignored(default: Any, why: str) -> Key:
    """The key does nothing here, which is told if it is set to something."""

    def take(value: Any, reading: Reading) -> dict[str, Any]:
        if value != default:
            reading.warn(f"{reading.key} is ignored: {why}")
        return {}

    return Key(default, f"ignored: {why}", take)


def refused(default: Any, why: str, try_this: str) -> Key:
    """Any value but the default is refused."""

    def take(value: Any, _: Reading) -> dict[str, Any]:
        if value != default:
            raise Refusal(why, try_this)
        return {}

    return Key(default, f"refused unless {default!r}: {why}", take)
