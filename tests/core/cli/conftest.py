"""The command line as a user meets it: a process of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Ran:
    """What a command left: exit code, standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def environment(dirs: Path) -> dict[str, str]:
    """The environment of a child: homes of its own, and the repository on the path."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}


@pytest.fixture
def burnish(environment, tmp_path):
    """Run `python -m trainer_core` in an empty folder."""

    def call(*arguments: object, **options) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "trainer_core", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=200,
            **options,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def config(golden: Path, tmp_path: Path) -> Path:
    """A small ORPO run on the llama of the golden numbers."""
    path = tmp_path / "run.yaml"
    path.write_text(
        f"model: {golden / 'llama'}\n"
        f"data: {golden / 'llama' / 'preference.jsonl'}\n"
        "method: orpo\n"
        f"warm_start: {golden / 'llama' / 'init_adapter'}\n"
        "prompt_format: raw\n"
        "valid_fraction: 0\n"
        "shuffle: false\n"
        "iters: 3\n"
        "learning_rate: 1e-3\n"
        "lr_schedule: constant\n"
        "weight_decay: 0\n"
        "weights: keep\n"
        f"output: {tmp_path / 'runs'}\n",
        encoding="utf-8",
    )
    return path
