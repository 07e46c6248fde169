"""What is settled of a session before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer_core.config import RunConfig
from trainer_core.data.load import RawData
from trainer_core.events import Warned
from trainer_core.plan import Plan
from trainer_core.resume import Session


@dataclass(frozen=True, slots=True)
class Start:
    """A session that is about to begin.

    Attributes:
        plan: the resolved configuration.
        warm_start: what the run began with, though one that goes on does not read it again.
        folder: the model's folder.
        raw: the rows.
        session: the run's folder, and what was before.
        warnings: to be told first.
    """

    plan: Plan
    warm_start: str | None
    folder: Path
    raw: RawData
    session: Session
    warnings: Sequence[Warned]

    def recorded(self, config: RunConfig) -> RunConfig:
        """A configuration as the run's record has it, with which the run would begin anew."""
        return config.model_copy(update={"warm_start": self.warm_start, "resume": None})
