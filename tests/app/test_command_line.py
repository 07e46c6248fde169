"""The copied command, taken apart by a shell's rules and read by the command line itself."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from app.viewmodels.command_line import command_of
from trainer_core.config import RunConfig
from trainer_core.config_io import load_config


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"method": "orpo", "orpo_lambda": 0.25, "iters": 60, "packing": False},
        {"data": "/tmp/it's a file.jsonl", "columns": {"prompt": "the question"}},
        {"adam_betas": (0.8, 0.95), "target_modules": ["q_proj", "v_proj"], "shuffle": False},
        {"learning_rate": 1e-5, "segment_size": 2, "num_layers": 4},
    ],
)
def test_it_makes_the_same_run(options: dict[str, Any]) -> None:
    config = RunConfig(**{"model": "sample", "data": "sample", **options})
    words = shlex.split(command_of(config))
    assert words[:4] == ["python", "-m", "trainer_core", "train"]
    assert words[4::2] == ["--set"] * len(words[5::2])
    assert load_config(None, words[5::2]) == config
