"""What a session needs of the configuration form."""

from __future__ import annotations

from typing import Protocol

from trainer_core.config import RunConfig


class RunForm(Protocol):
    """A form that describes a run."""

    @property
    def problems(self) -> dict[str, str]:
        """Option -> what is wrong."""
        ...

    @property
    def status(self) -> str:
        """The first problem as a sentence."""
        ...

    def config(self) -> RunConfig | None:
        """The run, or None while something is wrong."""
        ...
