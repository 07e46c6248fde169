"""Start the processes that measure, and read what they found. MLX stays out of the parent."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.task import Result, Task

ROOT = Path(__file__).parents[2]
LIMIT_S = 540


class ChildFailed(Exception):
    """A child process ended without a result; the text is the last it said."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What MLX computes on."""

    device: str
    gpu: bool
    mlx: str


def make_model(
    name: str,
    folder: Path,
    layers: int | None = None,
    vocabulary: int | None = None,
    bits: int | None = None,
) -> Machine:
    """Write a model of `shapes`, in bfloat16 on a GPU and in float32 on a CPU."""
    given = {"layers": layers, "vocabulary": vocabulary, "bits": bits}
    more = [f"--{key}={value}" for key, value in given.items()]
    wanted = [text for text in more if not text.endswith("=None")]
    text = _run([sys.executable, "-m", "tests.bench.shapes", name, str(folder), *wanted])
    return Machine(**json.loads(text.splitlines()[-1]))


def measure(
    task: Task,
    scratch: Path,
    python: str = sys.executable,
    tell: Callable[[str], None] | None = None,
) -> Result:
    """Run one task in a process of its own.

    Args:
        task: what to measure.
        scratch: for the files between the two processes.
        python: the interpreter.
        tell: sees every line that the child prints, as it comes.

    Raises:
        ChildFailed: it ended without a result, or was ended after nine minutes.
    """
    asked, found = scratch / "task.json", scratch / "result.json"
    found.unlink(missing_ok=True)
    task.save(asked)
    _run([python, "-m", "tests.bench.child", str(asked), str(found)], tell)
    return Result(**json.loads(found.read_text()))


def has_module(python: str, name: str) -> bool:
    """Whether a Python can import a module."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({name!r}) is None)"
    done = subprocess.run([python, "-c", code], cwd=ROOT, check=False, capture_output=True)
    return done.returncode == 0


def _run(command: list[str], tell: Callable[[str], None] | None = None) -> str:
    said: list[str] = []
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as child:
        assert child.stdout is not None, "it is a pipe"
        too_long = threading.Timer(LIMIT_S, child.kill)
        too_long.start()
        for line in child.stdout:
            said.append(line.rstrip())
            if tell is not None:
                tell(said[-1])
        status = child.wait()
        too_long.cancel()
    if status:
        last = next((line.strip() for line in reversed(said) if line.strip()), "it said nothing")
        raise ChildFailed(f"{last} (exit status {status})")
    return "\n".join(said)
