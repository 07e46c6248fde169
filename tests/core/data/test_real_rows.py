"""Real data through the sample model's tokenizer: counts, and masks read back as text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer_core.config import RunConfig
from trainer_core.data.load import read_rows, tokenise
from trainer_core.data.tokenizer import ChatTokenizer, load_tokenizer
from trainer_core.data.types import Dataset, Sequence
from trainer_core.errors import ModelError

Configure = Callable[..., RunConfig]


@pytest.fixture(scope="module")
def smollm() -> Path:
    from trainer_core.model.sample_model import ensure_sample_model

    try:
        return ensure_sample_model()
    except ModelError as error:
        pytest.skip(error.what)


def trained(tokenizer: ChatTokenizer, sequence: Sequence) -> list[str]:
    runs: list[list[int]] = []
    for place, (token, on) in enumerate(zip(sequence.ids, sequence.trained, strict=True)):
        if on and (place == 0 or not sequence.trained[place - 1]):
            runs.append([])
        if on:
            runs[-1].append(int(token))
    return [tokenizer.decode(run) for run in runs]


def test_real_sharegpt_pairs(smollm: Path, shared_data: Path, configure: Configure) -> None:
    data = shared_data / "preference_sharegpt.json"
    config = configure(data, method="orpo", max_seq_length=8192)
    tokenizer = load_tokenizer(smollm, config)
    made = tokenise(read_rows(config), config, tokenizer)
    assert (made.rows, made.rows_skipped, made.rows_truncated) == (150, 0, 0)
    for row, value in zip(made.train, json.loads(data.read_text()), strict=True):
        assert row.rejected is not None
        assert trained(tokenizer, row.chosen) == [value["chosen"]["value"] + "<|im_end|>"]
        assert trained(tokenizer, row.rejected) == [value["rejected"]["value"] + "<|im_end|>"]
        prompt = tokenizer.decode(row.chosen.ids[: row.prompt_length].tolist())
        assert prompt.endswith("<|im_end|>\n<|im_start|>assistant\n")
        assert all(turn["value"] in prompt for turn in value["conversations"])


def test_real_alpaca_rows(smollm: Path, shared_data: Path, configure: Configure) -> None:
    data = shared_data / "alpaca.json"
    config = configure(data, max_seq_length=8192)
    tokenizer = load_tokenizer(smollm, config)
    made = tokenise(read_rows(config), config, tokenizer)
    assert (made.rows, made.rows_skipped) == (400, 0)
    for row, value in zip(made.train, json.loads(data.read_text()), strict=True):
        assert trained(tokenizer, row.chosen) == [value["output"] + "<|im_end|>"]


def test_real_tool_calls(smollm: Path, shared_data: Path, configure: Configure) -> None:
    data = shared_data / "toolcall_sharegpt.json"
    config = configure(data, max_seq_length=8192)
    tokenizer = load_tokenizer(smollm, config)
    made = tokenise(read_rows(config), config, tokenizer)
    for row, value in zip(made.train, json.loads(data.read_text()), strict=True):
        said = trained(tokenizer, row.chosen)
        turns = [t for t in value["conversations"] if t["from"] in ("gpt", "function_call")]
        assert len(said) == len(turns)
        for text, turn in zip(said, turns, strict=True):
            if turn["from"] == "gpt":
                assert text == turn["value"] + "<|im_end|>"
            else:
                assert json.loads(turn["value"])["name"] in text


@pytest.mark.parametrize(
    "name", ["preference_implicit_text.jsonl", "preference_implicit_chat.jsonl"]
)
def test_real_implicit_pairs(
    smollm: Path, shared_data: Path, configure: Configure, name: str
) -> None:
    config = configure(shared_data / name, method="dpo", max_seq_length=8192)
    tokenizer = load_tokenizer(smollm, config)
    made = tokenise(read_rows(config), config, tokenizer)
    values = [json.loads(line) for line in (shared_data / name).read_text().splitlines()]
    assert (made.rows, made.rows_skipped) == (40, 0)
    for row, value in zip(made.train, values, strict=True):
        (said,) = trained(tokenizer, row.chosen)
        answer = said.removesuffix("<|im_end|>")
        whole = (
            value["chosen"] if isinstance(value["chosen"], str) else value["chosen"][-1]["content"]
        )
        assert answer
        assert whole.strip().endswith(answer.strip())


def test_our_ids_are_those_of_transformers(
    smollm: Path, shared_data: Path, configure: Configure
) -> None:
    """Cutting a row at the borders of its answers must not change how it is encoded."""
    config = configure(shared_data / "alpaca.json", max_seq_length=8192)
    tokenizer = load_tokenizer(smollm, config)
    raw = read_rows(config)
    made = tokenise(raw, config, tokenizer)
    for example, row in zip(raw.train[:100], made.train[:100], strict=True):
        messages = [
            {"role": "user", "content": example.prompt},
            {"role": "assistant", "content": example.chosen},
        ]
        theirs = tokenizer.hf.apply_chat_template(messages, return_dict=False)
        assert theirs[: len(row.chosen)] == row.chosen.ids.tolist()
        assert tokenizer.decode(theirs[len(row.chosen) :]).strip() == ""


NAMES = [
    ("alpaca.json", "sft", 400),
    ("toolcall_sharegpt.json", "sft", 60),
    ("preference_sharegpt.json", "sft", 150),
    ("preference_sharegpt.json", "dpo", 150),
    ("preference_implicit_text.jsonl", "orpo", 40),
    ("preference_implicit_chat.jsonl", "orpo", 40),
]


def lengths(made: Dataset) -> list[int]:
    return [
        max(len(row.chosen), len(row.rejected) if row.rejected is not None else 0)
        for row in made.train
    ]


@pytest.mark.parametrize("longest", [128, 512])
@pytest.mark.parametrize(("name", "method", "rows"), NAMES)
def test_real_rows_are_cut_where_they_are_too_long(
    smollm: Path,
    shared_data: Path,
    configure: Configure,
    name: str,
    method: str,
    rows: int,
    longest: int,
) -> None:
    whole = configure(shared_data / name, method=method, max_seq_length=100_000)
    short = configure(shared_data / name, method=method, max_seq_length=longest)
    drop = configure(shared_data / name, method=method, max_seq_length=longest, overlong="drop")
    tokenizer = load_tokenizer(smollm, whole)
    raw = read_rows(whole)
    uncut = tokenise(raw, whole, tokenizer)
    assert (uncut.rows, uncut.rows_skipped, uncut.rows_truncated) == (rows, 0, 0)
    too_long = sum(length > longest for length in lengths(uncut))
    assert 0 < too_long < rows or longest == 128
    cut = tokenise(raw, short, tokenizer)
    assert cut.rows == rows
    assert cut.rows_truncated + cut.rows_skipped == too_long
    assert max(lengths(cut)) <= longest
    assert all(row.supervised_tokens > 0 for row in cut.train)
    if too_long < rows:
        kept = tokenise(raw, drop, tokenizer)
        assert (len(kept.train), kept.rows_truncated) == (rows - too_long, 0)


@pytest.mark.parametrize("loss_on", ["last", "everything"])
@pytest.mark.parametrize("name", ["alpaca.json", "toolcall_sharegpt.json"])
def test_real_rows_are_trained_where_loss_on_says(
    smollm: Path, shared_data: Path, configure: Configure, name: str, loss_on: str
) -> None:
    config = configure(shared_data / name, max_seq_length=8192, loss_on=loss_on)
    tokenizer = load_tokenizer(smollm, config)
    made = tokenise(read_rows(config), config, tokenizer)
    for row, value in zip(made.train, json.loads((shared_data / name).read_text()), strict=True):
        said = trained(tokenizer, row.chosen)
        if loss_on == "everything":
            left_out = [t for t, on in enumerate(row.chosen.trained) if not on]
            assert left_out[0] == 0  # which nothing predicts
            ids = row.chosen.ids.tolist()
            # Of white space after an end of turn, nothing can be learned.
            assert {tokenizer.decode(ids[t - 1 : t + 1]) for t in left_out[1:]} == {"<|im_end|>\n"}
            continue
        turns = value.get("conversations")
        answer = turns[-1] if turns else {"from": "gpt", "value": value["output"]}
        assert answer["from"] == "gpt"
        assert said == [answer["value"] + "<|im_end|>"]
