"""Bad input of every kind, given to a real run: one clear sentence, or a run that copes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.core.runs import GOLDEN, Ran, fresh_config, run, small_config, warm_adapter
from trainer_core.config_io import load_config
from trainer_core.errors import TrainerError
from trainer_core.events import Data, Failed

ROW = {"prompt": "the cat", "chosen": "the dog", "rejected": "a bird"}


def good(count: int = 6) -> str:
    return "".join(json.dumps({**ROW, "prompt": f"the cat {n}"}) + "\n" for n in range(count))


def with_row(row: str) -> bytes:
    """Six good rows and this one, which is on line 7."""
    return (good() + row + "\n").encode()


def pair(**values: object) -> bytes:
    return with_row(json.dumps({**ROW, **values}))


CHAT: dict[str, Any] = {"method": "sft", "prompt_format": "chat", "chat_template": "chatml"}


def chat(*turns: tuple[str, str]) -> bytes:
    messages = [{"role": role, "content": text} for role, text in turns]
    return (json.dumps({"messages": messages}) + "\n").encode()


REFUSED: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "Latin-1": (
        good().encode() + '{"prompt":"caf\xe9","chosen":"a","rejected":"b"}\n'.encode("latin-1"),
        {},
        ":7: byte 15 of the line (0xe9) is not UTF-8 (save the file as UTF-8)",
    ),
    "NUL bytes": (with_row('{"prompt":"a\0b"}'), {}, "not a text file: it contains NUL bytes"),
    "truncated JSON": (with_row('{"prompt": "a", "cho'), {}, ":7: not valid JSON at column 17"),
    "deeply nested": (with_row("[" * 99_999 + "]" * 99_999), {}, ":7: the row is nested too deep"),
    "numbers for text": (with_row('{"prompt":1,"chosen":2,"rejected":3}'), {}, "is a number, not"),
    "null for text": (pair(chosen=None), {}, ":7: the row has rejected but no chosen"),
    "empty prompt": (pair(prompt=""), {}, ":7: prompt is empty"),
    "empty answer": (pair(chosen=""), {}, ":7: chosen is empty"),
    "answer of white space": (pair(rejected=" \n"), {}, ":7: rejected is empty"),
    "equal answers": (pair(chosen="a", rejected="a"), {}, ":7: chosen and rejected are the same"),
    "only system turns": (chat(("system", "x")), CHAT, ":1: messages has no assistant turn"),
    "unknown role": (
        chat(("wizard", "x"), ("assistant", "y")),
        CHAT,
        'messages[0] has the unknown role "wizard"',
    ),
    "no rows": (b"", {}, "is empty"),
    "only blank lines": (b"\n \n", {}, "is empty"),
    "all too long": (
        "".join(json.dumps({**ROW, "prompt": "cat " * 99}) + "\n" for _ in range(3)).encode(),
        {"max_seq_length": 16, "overlong": "drop"},
        "more than max_seq_length 16 (raise max_seq_length)",
    ),
    "lone surrogate": (with_row('{"prompt":"a\\ud800b","chosen":"a","rejected":"b"}'), {}, "half"),
}

TAKEN: dict[str, tuple[bytes, dict[str, Any], tuple[int, int]]] = {
    # Rows that train and rows that validate.
    "byte order mark": (b"\xef\xbb\xbf" + good().encode(), {}, (4, 2)),
    "UTF-16": (good().encode("utf-16"), {}, (4, 2)),
    "an escaped NUL": (with_row('{"prompt":"a\\u0000b","chosen":"c","rejected":"d"}'), {}, (5, 2)),
    "one huge row": (pair(chosen="x y " * 200_000), {}, (5, 2)),
    "one row": (good(1).encode(), {}, (1, 0)),
    "fewer rows than the batch": (good(3).encode(), {"batch_size": 8}, (2, 1)),
    "validation smaller than the batch": (good().encode(), {"batch_size": 4}, (4, 2)),
    "no validation rows": (good().encode(), {"valid_fraction": 0}, (6, 0)),
    "duplicate ids": (with_row(json.dumps({**ROW, "id": 1})) * 2, {}, (10, 4)),
    "combining, right to left, joiners": (
        pair(prompt="e\u0301 \u05e9\u05dc \u202e abc", chosen="\U0001f600\u200d x"),
        {},
        (5, 2),
    ),
    "line separators inside a text": (
        with_row('{"prompt":"a\u2028b\u0085c","chosen":"d","rejected":"e"}'),
        {},
        (5, 2),
    ),
}


def trained(folder: Path, data: Path, **more: Any) -> Ran:
    method = more.pop("method", "orpo")
    given = {"iters": 2, "valid_fraction": 0.25, "data": str(data), **more}
    return run(fresh_config(folder / "runs", method, **given))


def file_of(folder: Path, content: bytes) -> Path:
    file = folder / "rows.jsonl"
    file.write_bytes(content)
    return file


def assert_one_clear_message(text: str) -> None:
    for word in ("Traceback", "pydantic", "NoneType", "Error(", "object at 0x"):
        assert word not in text


@pytest.mark.parametrize("name", REFUSED)
def test_rows_that_are_refused(tmp_path: Path, name: str) -> None:
    content, options, said = REFUSED[name]
    with pytest.raises(TrainerError) as caught:
        trained(tmp_path, file_of(tmp_path, content), **options)
    assert said in str(caught.value)
    assert "rows.jsonl" in str(caught.value)
    assert caught.value.try_this
    assert_one_clear_message(str(caught.value))
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.parametrize("name", TAKEN)
def test_rows_that_are_taken(tmp_path: Path, name: str) -> None:
    content, options, (train, valid) = TAKEN[name]
    (data,) = trained(tmp_path, file_of(tmp_path, content), **options).of(Data)
    assert (data.rows_used, data.valid_rows, data.rows_skipped) == (train, valid, 0)


@pytest.mark.parametrize("name", ["a b", "it's", '"q"', "\U0001f600 \u05e9", "n" * 180, "a\nb"])
def test_paths_of_any_kind(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    model = Path(shutil.copytree(GOLDEN / "llama", folder / "model"))
    ran = trained(folder, file_of(folder, good().encode()), model=str(model))
    assert ran.finished is not None


def test_links_that_lead_in_a_circle_and_folders_without_rows(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for data, said in ((tmp_path / "a", "no file or folder at"), (tmp_path, "has no train.jsonl")):
        with pytest.raises(TrainerError, match=said):
            trained(tmp_path, data)


def _missing_shard(model: Path) -> None:
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    (model / "model.safetensors").rename(model / names[0])
    weights = {"model.norm.weight": names[0], "lm_head.weight": names[1]}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))


def _cut_short(model: Path) -> None:
    file = model / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-500])


def _configured(**values: object) -> Callable[[Path], None]:
    def change(model: Path) -> None:
        file = model / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **values}))

    return change


def _only_pickle(model: Path) -> None:
    (model / "model.safetensors").unlink()
    (model / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n")


MODELS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "missing weights": (lambda m: (m / "model.safetensors").unlink(), "no model*.safetensors"),
    "missing shard": (_missing_shard, "model-00002-of-00002.safetensors"),
    "truncated shard": (_cut_short, "could not be loaded"),
    "wrong shape": (_configured(hidden_size=100), "Expected shape"),
    "unknown family": (_configured(model_type="nonsense"), "nonsense"),
    "own program code": (_configured(model_file="evil.py"), "never run code"),
    "pickle only": (_only_pickle, "no model*.safetensors"),
    "broken config": (lambda m: (m / "config.json").write_text("{"), "config.json cannot be read"),
    "no config": (lambda m: (m / "config.json").unlink(), "has no config.json"),
    "broken tokenizer": (lambda m: (m / "tokenizer.json").write_text("{"), "the tokenizer in"),
    "no tokenizer": (lambda m: [p.unlink() for p in m.glob("token*")], "the tokenizer in"),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_that_are_refused(tmp_path: Path, name: str) -> None:
    spoil, said = MODELS[name]
    model = Path(shutil.copytree(GOLDEN / "llama", tmp_path / "model"))
    spoil(model)
    events: list[Any] = []
    config = fresh_config(tmp_path / "runs", model=str(model), iters=2)
    with pytest.raises(TrainerError) as caught:
        run(config, when=events.append)
    assert said in str(caught.value)
    assert caught.value.try_this
    assert_one_clear_message(str(caught.value))
    assert isinstance(events[-1], Failed)
    assert not list((tmp_path / "runs").glob("*"))


def test_adapters_that_do_not_fit(tmp_path: Path) -> None:
    warm = warm_adapter(tmp_path / "warm")
    file = warm / "adapters.safetensors"
    arrays = load_file(file)
    name = next(iter(arrays))
    for others, said in (
        # Of a model with more layers, and of a wider one.
        ({n.replace("layers.3.", "layers.7."): a for n, a in arrays.items()}, "it lacks"),
        ({**arrays, name: np.concatenate([arrays[name]] * 2)}, f"{name} is"),
    ):
        save_file(others, file)
        with pytest.raises(TrainerError, match=r"the adapter in .* does not fit this model") as got:
            run(small_config(tmp_path / "runs", warm_start=str(warm)))
        assert said in got.value.why
    save_file(arrays, file)
    with pytest.raises(TrainerError, match="rank is 9, but the adapter in"):
        run(fresh_config(tmp_path / "runs", warm_start=str(warm), rank=9))


def test_a_configuration_of_a_newer_version(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("schema_version: 9\nmodel: m\ndata: d\nfrobnicate: 3\n")
    with pytest.raises(TrainerError) as caught:
        load_config(file)
    assert str(caught.value) == (
        "c.yaml, line 1: schema_version = 9 cannot be read: this version reads schema_version 1. "
        "It was written by a newer Burnish; install that."
    )
