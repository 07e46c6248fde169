"""The command that makes the run of the form without the window."""

from __future__ import annotations

import json
import shlex
from typing import Any

from trainer_core.config import RunConfig


def command_of(config: RunConfig) -> str:
    """`python -m trainer_core train --set ...` with every option that is not its default."""
    parts = ["python", "-m", "trainer_core", "train"]
    for key, value in config.model_dump(mode="json", exclude_defaults=True).items():
        parts += ["--set", f"{key}={_shown(value)}"]
    return shlex.join(parts)


def _shown(value: Any) -> str:
    """As YAML reads it on one line; JSON is YAML."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
