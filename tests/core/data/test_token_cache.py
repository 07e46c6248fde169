"""Token ids that are remembered are those that would be made, and nothing breaks the run."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest

from tests.conftest import GOLDEN
from trainer_core.config import RunConfig
from trainer_core.data import token_cache
from trainer_core.data.load import read_rows
from trainer_core.data.token_cache import tokenise_once
from trainer_core.data.tokenizer import load_tokenizer
from trainer_core.data.types import Dataset, TokenisedExample

ROWS = [
    {"messages": [{"role": "user", "content": f"q {n}"}, {"role": "assistant", "content": "a" * n}]}
    for n in range(1, 30)
]
PAIRS = [{"prompt": f"q {n}", "chosen": "a" * n, "rejected": "no"} for n in range(1, 30)]
BAD = [{"messages": [{"role": "user", "content": "nobody answers"}]}]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that takes data sets of any size."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_, **__: str(folder))
    monkeypatch.setattr(token_cache, "_LEAST_ROWS", 1)
    return folder / "tokens"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often rows were tokenised."""
    found: list[int] = []
    real = token_cache.tokenise

    def counted(*args: Any, **more: Any) -> Dataset:
        found.append(1)
        return real(*args, **more)

    monkeypatch.setattr(token_cache, "tokenise", counted)
    return found


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(GOLDEN / "llama", folder)
    return folder


def config(model: Path, rows: list[Any], **more: Any) -> RunConfig:
    file = model.parent / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {"max_seq_length": 40, "valid_fraction": 0.2, "bad_rows": "skip", **more}
    return RunConfig.model_validate({"model": str(model), "data": str(file), **values})


def take(model: Path, asked: RunConfig) -> Dataset:
    tokenizer = load_tokenizer(model, asked)
    return tokenise_once(read_rows(asked), asked, model, tokenizer)


def plain(rows: list[TokenisedExample]) -> list[Any]:
    found = []
    for row in rows:
        sides = [side for side in (row.chosen, row.rejected) if side is not None]
        arrays = [(s.ids.tolist(), s.trained.tolist(), s.ids.dtype, s.trained.dtype) for s in sides]
        found.append((row.row, row.source, row.prompt_length, row.truncated, arrays))
    return found


@pytest.mark.parametrize(
    ("rows", "method"), [(ROWS + BAD, "sft"), (PAIRS, "orpo"), (PAIRS + ROWS[:2], "dpo")]
)
def test_the_second_time_gives_the_same(
    model: Path, cache: Path, calls: list[int], rows: list[Any], method: str
) -> None:
    asked = config(model, rows, method=method)
    first, second = take(model, asked), take(model, asked)
    assert len(calls) == 1
    assert plain(first.train) == plain(second.train)
    assert plain(first.valid) == plain(second.valid)
    for name in ("rows", "rows_skipped", "rows_truncated", "valid_rows_skipped", "problems"):
        assert getattr(first, name) == getattr(second, name), name
    assert [tuple(w) for w in first.warnings] == second.warnings
    assert first.rows_truncated > 0
    assert (first.tokens, first.longest) == (second.tokens, second.longest)


@pytest.mark.parametrize(
    "change",
    [
        {"max_seq_length": 41},
        {"loss_on": "last"},
        {"seed": 1},
        {"valid_fraction": 0.3},
        {"method": "orpo"},
        {"prompt_format": "raw"},
        {"template_kwargs": {"x": 1}},
        {"system_prompt": "Be brief."},
        {"chat_template": "chatml"},
    ],
)
def test_another_option_is_another_data_set(
    model: Path, cache: Path, calls: list[int], change: dict[str, Any]
) -> None:
    rows = [{**pair, "prompt": "q"} for pair in PAIRS]
    take(model, config(model, rows))
    take(model, config(model, rows, **change))
    assert len(calls) == 2


def test_what_changes_no_token_changes_no_key(model: Path, cache: Path, calls: list[int]) -> None:
    take(model, config(model, ROWS))
    take(model, config(model, ROWS, rank=4, iters=7, batch_size=2, learning_rate=1e-3))
    assert len(calls) == 1


def test_other_rows_or_another_tokenizer_are_seen(
    model: Path, cache: Path, calls: list[int]
) -> None:
    take(model, config(model, ROWS))
    take(model, config(model, [*ROWS[:-1], ROWS[0]]))
    assert len(calls) == 2
    settings = model / "tokenizer_config.json"
    settings.write_text(json.dumps({**json.loads(settings.read_text()), "note": 1}))
    take(model, config(model, ROWS))
    assert len(calls) == 3


def damaged(good: bytes, kind: str) -> bytes:
    return {"empty": b"", "half": good[: len(good) // 2], "other": b"x" * 100}[kind]


@pytest.mark.parametrize("kind", ["empty", "half", "other"])
def test_a_damaged_file_is_ignored_and_replaced(
    model: Path, cache: Path, calls: list[int], caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    asked = config(model, ROWS)
    first = take(model, asked)
    (file,) = cache.glob("*.safetensors")
    good = file.read_bytes()
    file.write_bytes(damaged(good, kind))
    with caplog.at_level(logging.WARNING):
        second = take(model, asked)
    assert "tokenised again" in caplog.text
    assert plain(first.train) == plain(second.train)
    assert len(calls) == 2
    assert file.read_bytes() == good


def test_arrays_that_do_not_go_together_are_ignored(
    model: Path, cache: Path, calls: list[int]
) -> None:
    from safetensors.numpy import load_file, save_file

    asked = config(model, ROWS)
    take(model, asked)
    (file,) = cache.glob("*.safetensors")
    arrays = load_file(file)
    arrays["train.lengths"] = arrays["train.lengths"] + np.int64(1)
    save_file(arrays, file, {"dataset": "{}"})
    take(model, asked)
    assert len(calls) == 2


def test_a_cache_that_cannot_be_written_is_only_logged(
    model: Path,
    cache: Path,
    calls: list[int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(token_cache, "write_atomically", full)
    asked = config(model, ROWS)
    with caplog.at_level(logging.WARNING):
        take(model, asked)
        take(model, asked)
    assert "No space left" in caplog.text
    assert len(calls) == 2


def test_the_least_recently_used_make_room(
    model: Path, cache: Path, calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed, age in ((1, 300), (2, 200), (3, 100)):
        take(model, config(model, ROWS, seed=seed))
        newest = max(cache.glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
        past = newest.stat().st_mtime - age
        os.utime(newest, (past, past))
    size = newest.stat().st_size
    take(model, config(model, ROWS, seed=1))  # used again, so the second is the oldest
    monkeypatch.setattr(token_cache, "_MOST_BYTES", int(3.5 * size))
    take(model, config(model, ROWS, seed=4))
    assert len(list(cache.glob("*.safetensors"))) == 3
    assert len(calls) == 4
    take(model, config(model, ROWS, seed=1))
    assert len(calls) == 4
    take(model, config(model, ROWS, seed=2))
    assert len(calls) == 5


def test_small_data_sets_leave_nothing(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_cache, "_LEAST_ROWS", 5000)
    take(model, config(model, ROWS))
    assert not cache.exists()
