"""Whichever way a script reaches the engine, the fast BLAS is there before MLX."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux needs a BLAS loaded")
@pytest.mark.parametrize(
    "first",
    [
        "from trainer_core import train",
        "from trainer_core.generate import generate",
        "from trainer_core.export.mlx import export_adapter",
        "from trainer_core.model.load import load_model",
        "from trainer_core.playground import Playground",
    ],
)
def test_the_fast_blas_comes_before_mlx(first: str) -> None:
    code = (
        f"{first}\n"
        "from trainer_core.backend import prepare\n"
        "import mlx.core\n"
        "done = prepare()\n"
        "assert done.blas is not None, done\n"
        "assert str(done.blas) in open('/proc/self/maps').read()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux needs a BLAS loaded")
def test_an_mlx_that_came_first_is_told_of() -> None:
    code = (
        "import mlx.core\n"
        "from trainer_core.backend import prepare\n"
        "print(prepare().slow_cpu.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "mlx was imported before trainer_core" in done.stdout, done.stderr
