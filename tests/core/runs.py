"""Small whole runs through train(), for the tests of what a run does and leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np

from tests.core.engine import golden_config, small_policy
from trainer_core.config import RunConfig
from trainer_core.control import Control
from trainer_core.data.load import read_rows, tokenise
from trainer_core.data.tokenizer import load_tokenizer
from trainer_core.data.types import Dataset
from trainer_core.events import Event, Finished
from trainer_core.model.adapter_files import read_spec, write_adapter
from trainer_core.run import train
from trainer_core.runfolder import RunFolder

E = TypeVar("E", bound=Event)
GOLDEN = Path(__file__).parents[1] / "golden"


@dataclass
class Ran:
    """A run that ended by itself, and everything that it said."""

    events: list[Event] = field(default_factory=list)
    finished: Finished | None = None

    @property
    def folder(self) -> RunFolder:
        """Its run folder."""
        assert self.finished is not None
        return RunFolder(Path(self.finished.run))

    def of(self, kind: type[E]) -> list[E]:
        """Its events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def small_config(
    output: Path, method: str = "orpo", family: str = "llama", **more: Any
) -> RunConfig:
    """Three steps on a golden model, with validation."""
    values = {"iters": 3, "valid_fraction": 0.25, **more}
    return golden_config(GOLDEN / family, method, output, **values)


def fresh_config(output: Path, method: str = "orpo", **more: Any) -> RunConfig:
    """The same with a new adapter instead of the golden one."""
    given = small_config(output, method).model_dump(exclude_unset=True)
    del given["warm_start"]
    if more.get("epochs"):
        del given["iters"]
    return RunConfig(**{**given, "rank": 2, **more})


def run(
    config: RunConfig,
    control: Control | None = None,
    when: Callable[[Event], None] | None = None,
    engine: Callable[[RunConfig, Callable[[Event], None], Control | None], Finished] = train,
) -> Ran:
    """Train and collect. `when` sees every event as it comes, in the engine's thread."""
    ran = Ran()

    def emit(event: Event) -> None:
        ran.events.append(event)
        if when is not None:
            when(event)

    ran.finished = engine(config, emit, control)
    return ran


def rows_of(config: RunConfig) -> Dataset:
    """The tokenised rows of a run."""
    tokenizer = load_tokenizer(Path(config.model), config)
    return tokenise(read_rows(config), config, tokenizer)


def warm_adapter(folder: Path, family: str = "llama") -> Path:
    """An adapter with B filled, so that policy and base differ."""
    folder.mkdir()
    parameters = small_policy(GOLDEN / family).adapter.parameters()
    write_adapter(folder, parameters, read_spec(GOLDEN / family / "init_adapter", 8), {})
    return folder


def write_rows(file: Path, rows: list[dict[str, str]]) -> Path:
    """A JSON-lines file."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def token_logps(network: Any, ids: np.ndarray) -> np.ndarray:
    """float64 log-probabilities of tokens 1.. of a sequence, from the model's own logits."""
    logits = np.array(network(mx.array(ids[None]))[0], dtype=np.float64)[:-1]
    top = logits.max(-1, keepdims=True)
    normaliser = top[:, 0] + np.log(np.exp(logits - top).sum(-1))
    return logits[np.arange(len(ids) - 1), ids[1:]] - normaliser
