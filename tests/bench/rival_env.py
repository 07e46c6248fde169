"""A Python environment with mlx-lm-lora, whose dependencies Burnish does not want."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

# With what the child process itself imports, so that the rivals get the same MLX and BLAS.
PACKAGES = (
    "mlx-lm-lora==5.10.2",
    "mlx-lm==0.32.2",
    "mlx[cpu]==0.32.4" if sys.platform == "linux" else "mlx==0.32.4",
    "ngsolve-openblas>=0.3.33; sys_platform == 'linux' and platform_machine == 'x86_64'",
    "cmeel-openblas>=0.3.31; sys_platform == 'linux' and platform_machine == 'aarch64'",
    "numpy>=2",
    "platformdirs>=4.3",
    "psutil>=6",
    "pydantic>=2.10,<3",
    "PyYAML>=6",
)


def rival_python(folder: Path) -> str:
    """The environment's interpreter; the environment is made if it is not there yet."""
    python = folder.absolute() / "bin" / "python"
    done = folder / "complete"
    if not done.exists():
        print(f"making an environment with {PACKAGES[0]} in {folder}", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
        done.touch()
    return str(python)
