"""A process that begins a run, or takes it up, and dies by SIGKILL at the moment that it is told.

Deaths: `write` at the n-th line of the record, with half of it written; `fsync` and `rename` before
or after the n-th call; `save` with half of the n-th file of arrays written; `validate` between the
rows of a validation. `power` is an `fsync` that also takes what the record had never flushed.
A death by `time` is the parent's doing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parents[1] / "golden" / "llama"
STEPS = 12


@dataclass(frozen=True)
class Death:
    """How a victim dies: at the n-th call of a kind, or after so many seconds."""

    kind: str
    after: float
    late: bool = False


def main() -> int:
    """Do what the only argument says."""
    told = json.loads(sys.argv[1])
    executioner = Executioner(Death(**told["death"]) if told["death"] else None)
    from trainer_core import backend

    backend.prepare()
    from trainer_core.config_io import load_config
    from trainer_core.run import train

    executioner.arm()
    run = Path(told["output"]) / "r"
    if is_over(run):  # it was killed on its way out
        return 0
    if (run / "config.yaml").exists():
        config = load_config(None, {"resume": str(run)})
    else:
        shutil.rmtree(told["output"], ignore_errors=True)  # it died before it had begun
        config = load_config(None, config_of(told["output"], told["method"]))
    train(config, print)
    if told["tally"]:
        Path(told["tally"]).write_text(json.dumps(executioner.calls))
    return 0


def is_over(run: Path) -> bool:
    """Whether a run has said that it is done."""
    from trainer_core.events import Finished
    from trainer_core.runfolder import RunFolder, read_events

    record = RunFolder(run).events
    return record.exists() and any(isinstance(e, Finished) for e in read_events(record)[-1:])


def config_of(output: str, method: str) -> dict[str, Any]:
    """A short run with dropout, validation, answers and checkpoints."""
    return {
        "model": str(GOLDEN),
        "data": str(GOLDEN / "preference.jsonl"),
        "method": method,
        "prompt_format": "raw",
        "valid_fraction": 0.4,
        "dropout": 0.1,
        "rank": 2,
        "iters": STEPS,
        "save_every": 3,
        "steps_per_eval": 2,
        "sample_prompts": ["the cat"],
        "sample_tokens": 3,
        "learning_rate": 1e-3,
        "output": output,
        "run_name": "r",
    }


class Executioner:
    """Counts what writes and judges, and kills this process at the right call."""

    def __init__(self, death: Death | None) -> None:
        self.calls: Counter[str] = Counter()
        self._death = death
        self._record: tuple[Path, int] | None = None

    def arm(self) -> None:
        """Put wrappers around everything that may be fatal."""
        from trainer_core import checkpoint, loop
        from trainer_core.runfolder import EventLog

        os.fsync = self._around("fsync", os.fsync)
        Path.replace = self._around("rename", Path.replace)
        checkpoint.mx.save_safetensors = self._saving(checkpoint.mx.save_safetensors)
        loop.evaluate = self._judging(loop.evaluate)
        EventLog.append = self._writing(EventLog.append)
        EventLog.sync = self._flushing(EventLog.sync)

    def _around(self, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            fatal = self._is_time(kind)
            if fatal and self._death is not None and not self._death.late:
                self._die()
            result = real(*args)
            if fatal:
                self._die()
            return result

        return call

    def _saving(self, real: Callable[..., None]) -> Callable[..., None]:
        def save(path: str, *rest: Any) -> None:
            real(path, *rest)
            if self._is_time("save"):
                os.truncate(path, Path(path).stat().st_size // 2)
                self._die()

        return save

    def _judging(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def evaluate(*args: Any, between: Callable[[int], bool]) -> Any:
            def dying(done: int) -> bool:
                if self._is_time("validate"):
                    self._die()
                return between(done)

            return real(*args, between=dying)

        return evaluate

    def _writing(self, real: Callable[..., None]) -> Callable[..., None]:
        def append(log: Any, event: Any) -> None:
            before = os.fstat(log._file.fileno()).st_size
            if self._record is None:
                self._record = (Path(log._file.name), before)
            real(log, event)
            if self._is_time("write"):
                after = os.fstat(log._file.fileno()).st_size
                os.truncate(log._file.fileno(), (before + after) // 2)
                self._die()

        return append

    def _flushing(self, real: Callable[..., None]) -> Callable[..., None]:
        def sync(log: Any) -> None:
            real(log)
            self._record = (Path(log._file.name), os.fstat(log._file.fileno()).st_size)

        return sync

    def _is_time(self, kind: str) -> bool:
        self.calls[kind] += 1
        if self._death is None:
            return False
        wanted = "fsync" if self._death.kind == "power" else self._death.kind
        return wanted == kind and self.calls[kind] == self._death.after

    def _die(self) -> None:
        if self._death is not None and self._death.kind == "power" and self._record is not None:
            os.truncate(*self._record)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
