"""The process in which one contender is measured: `python -m tests.bench.child TASK RESULT`."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.bench.task import Task


def main() -> None:
    """Read a task, run it, write the result."""
    task = Task.load(Path(sys.argv[1]))
    if task.fast_blas:
        from trainer_core import backend

        backend.prepare()  # before MLX is imported, for every contender
    with tempfile.TemporaryDirectory() as scratch:
        if task.package == "burnish":
            from tests.bench.ours import run
        else:
            from tests.bench.rivals import run
        result = run(task, Path(scratch))
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result.process = kilobytes if sys.platform == "darwin" else 1024 * kilobytes
    Path(sys.argv[2]).write_text(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
