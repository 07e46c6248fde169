"""The check of a stack is remembered for the same model and versions, and for nothing else."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from trainer_core.model import verdict
from trainer_core.model.load import load_model
from trainer_core.model.open_stack import CheckedStack, open_stack
from trainer_core.model.verdict import open_stack_once

IDS = mx.array([[5, 80, 90, 100, 3, 7]])
TARGETS = ["model.layers.0.self_attn.q_proj"]


@pytest.fixture
def checks(dirs: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Model types that were really checked, with an empty cache to begin with."""
    done: list[str] = []

    def counting(model: Any, model_type: str) -> CheckedStack:
        done.append(model_type)
        return open_stack(model, model_type)

    monkeypatch.setattr(verdict, "open_stack", counting)
    return done


def kept(dirs: Path) -> list[Path]:
    return sorted(dirs.rglob("stacks/*.json"))


@pytest.mark.parametrize("family", ["llama", "gemma4"])
def test_the_second_opening_is_the_first_without_a_check(
    golden: Path, dirs: Path, checks: list[str], family: str
) -> None:
    first = open_stack_once(load_model(golden / family), TARGETS)
    loaded = load_model(golden / family)
    second = open_stack_once(loaded, TARGETS)
    assert len(checks) == len(kept(dirs)) == 1
    for name in ("whole", "segments", "prefix", "blocks", "joins", "packs", "vocabulary"):
        assert getattr(second, name) == getattr(first, name)
    assert type(second.stack) is type(first.stack)
    hidden = second.stack.hidden(IDS)[0]
    assert mx.array_equal(second.stack.project(hidden), loaded.model(IDS)[0])
    block = second.stack.project_block(hidden, 10, 20)
    assert mx.allclose(block, loaded.model(IDS)[0][:, 10:20], atol=1e-5)


def test_whatever_decides_the_result_makes_it_another(
    golden: Path, tmp_path: Path, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    open_stack_once(load_model(golden / "llama"), TARGETS)
    open_stack_once(load_model(golden / "llama"), [*TARGETS, "model.layers.1.mlp.up_proj"])
    open_stack_once(load_model(golden / "llama", "bfloat16"), TARGETS)
    assert len(checks) == 3
    model = tmp_path / "model"
    shutil.copytree(golden / "llama", model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "rope_theta": 5000.0}))
    open_stack_once(load_model(model), TARGETS)
    assert len(checks) == 4
    monkeypatch.setattr(verdict, "_version", lambda name: "99" if name == "mlx" else "1")
    open_stack_once(load_model(golden / "llama"), TARGETS)
    assert len(checks) == 5


def test_an_objection_is_found_again(
    golden: Path, dirs: Path, checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer_core.model.open_stack.GradientCheck.prefix", lambda _: False)
    for _ in range(2):
        assert open_stack_once(load_model(golden / "llama"), TARGETS).prefix
    assert len(checks) == 2
    assert kept(dirs) == []


def test_a_model_with_its_own_code_is_checked_each_time(golden: Path, checks: list[str]) -> None:
    for _ in range(2):
        loaded = load_model(golden / "llama")
        loaded.config["model_file"] = "mine.py"
        open_stack_once(loaded, TARGETS)
    assert len(checks) == 2


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", "\x00", "null"),
        *(
            f'{{"head": {head}, "joins": {joins}, "packs": true, "blocks": "", "vocabulary": {v}}}'
            for head, joins, v in (
                ('"lm_head"', "1", "256"),
                ('"no"', "true", "256"),
                ('"model.embed_tokens"', "true", "7"),
                ('"model.norm"', "true", '"x"'),
            )
        ),
        '{"head": "lm_head", "joins": true, "packs": 1, "blocks": "", "vocabulary": 256}',
    ],
)
def test_a_broken_record_is_ignored_and_replaced(
    golden: Path, dirs: Path, checks: list[str], caplog: pytest.LogCaptureFixture, text: str
) -> None:
    open_stack_once(load_model(golden / "llama"), TARGETS)
    (file,) = kept(dirs)
    good = file.read_text()
    file.write_text(text)
    with caplog.at_level(logging.WARNING):
        checked = open_stack_once(load_model(golden / "llama"), TARGETS)
    assert (checked.whole, checked.segments, checked.prefix) == ("", "", "")
    assert len(checks) == 2
    assert "checked again" in caplog.text
    assert file.read_text() == good


@pytest.mark.parametrize("name", ["private_folder", "write_atomically"])
def test_a_cache_that_cannot_be_written_is_only_logged(
    golden: Path,
    checks: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(verdict, name, full)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert open_stack_once(load_model(golden / "llama"), TARGETS).segments == ""
    assert len(checks) == 2
    assert "No space left" in caplog.text
