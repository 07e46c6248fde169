from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer_core.config import RunConfig
from trainer_core.data.load import BadRowsError, read_rows, sample_data, tokenise
from trainer_core.data.stats import summarise
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.errors import DataError

Configure = Callable[..., RunConfig]
Write = Callable[..., Path]
Make = Callable[..., ChatTokenizer]

GOOD = {"prompt": "hi", "completion": "hello"}
PAIR = {"prompt": "hi", "chosen": "yes", "rejected": "no"}
BAD = {"prompt": "hi", "completion": ""}


def numbered(count: int) -> list[dict[str, str]]:
    return [{"prompt": f"question {i}", "completion": f"answer {i}"} for i in range(count)]


def test_several_shapes_in_one_file(write: Write, configure: Configure) -> None:
    data = write(
        GOOD,
        {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"text": "c"},
        {"instruction": "d", "output": "e"},
        PAIR,
    )
    raw = read_rows(configure(data))
    assert raw.shapes == {
        "prompt and completion": 1,
        "messages": 1,
        "text": 1,
        "instruction and output": 1,
        "prompt, chosen and rejected": 1,
    }
    assert [example.source.line for example in raw.train] == [1, 2, 3, 4, 5]


def test_bad_rows_are_refused_with_a_count_and_the_first_ten(
    write: Write, configure: Configure
) -> None:
    data = write(*[GOOD, BAD] * 12)
    with pytest.raises(BadRowsError) as raised:
        read_rows(configure(data))
    text = str(raised.value)
    assert "12 of 24 rows in rows.jsonl cannot be used" in text
    assert f"{data}:2: completion is empty (remove the row" in text
    assert f"{data}:20:" in text
    assert f"{data}:22:" not in text
    assert "and 2 more" in text
    assert "bad_rows" in text
    assert [problem.line for problem in raised.value.problems] == list(range(2, 25, 2))


def test_bad_rows_are_skipped_and_counted(
    write: Write, configure: Configure, make_tokenizer: Make
) -> None:
    config = configure(write(GOOD, BAD, GOOD, 3), bad_rows="skip")
    raw = read_rows(config)
    assert (len(raw.train), raw.train_skipped) == (2, 2)
    made = tokenise(raw, config, make_tokenizer())
    assert (made.rows, made.rows_skipped, len(made.train)) == (4, 2, 2)
    assert [problem.line for problem in made.problems] == [2, 4]
    stats = summarise(made)
    assert (stats.rows, stats.rows_used, stats.rows_skipped) == (4, 2, 2)


def test_no_usable_row(write: Write, configure: Configure) -> None:
    with pytest.raises(BadRowsError, match=r"no row in .* can be used"):
        read_rows(configure(write(BAD, BAD), bad_rows="skip"))


@pytest.mark.parametrize("method", ["dpo", "orpo"])
def test_rows_without_pairs_do_not_fit(write: Write, configure: Configure, method: str) -> None:
    with pytest.raises(DataError) as raised:
        read_rows(configure(write(GOOD, {"text": "x"}), method=method, bad_rows="skip"))
    said = str(raised.value)
    assert f"{method} learns from pairs" in said
    assert "prompt and completion, text" in said
    assert "sft" in raised.value.try_this


def test_a_row_without_pair_among_pairs_is_a_bad_row(write: Write, configure: Configure) -> None:
    data = write(PAIR, GOOD, PAIR)
    with pytest.raises(BadRowsError, match=r"1 of 3 rows.*dpo needs chosen and rejected"):
        read_rows(configure(data, method="dpo"))
    raw = read_rows(configure(data, method="dpo", bad_rows="skip"))
    assert (len(raw.train), raw.train_skipped) == (2, 1)


def test_sft_takes_pairs(write: Write, configure: Configure) -> None:
    assert len(read_rows(configure(write(PAIR), method="sft")).train) == 1


@given(count=st.integers(1, 60), fraction=st.floats(0, 0.99), seed=st.integers(0, 2**32 - 1))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_split(write: Write, configure: Configure, count: int, fraction: float, seed: int) -> None:
    config = configure(write(*numbered(count)), valid_fraction=fraction, seed=seed)
    raw = read_rows(config)
    again = read_rows(config)
    assert (raw.train, raw.valid) == (again.train, again.valid)
    train = [example.source.line for example in raw.train]
    valid = [example.source.line for example in raw.valid]
    assert sorted(train + valid) == list(range(1, count + 1))
    assert train == sorted(train)
    assert valid == sorted(valid)
    assert train
    if fraction == 0:
        assert not valid
    elif count > 1:
        assert len(valid) == min(count - 1, max(1, round(count * fraction)))


def test_the_seed_decides_the_split(write: Write, configure: Configure) -> None:
    data = write(*numbered(40))
    splits = {
        tuple(
            e.source.line for e in read_rows(configure(data, valid_fraction=0.2, seed=seed)).valid
        )
        for seed in range(4)
    }
    assert len(splits) == 4


def test_validation_files(tmp_path: Path, write: Write, configure: Configure) -> None:
    train = write(*numbered(5), name="train.jsonl")
    write(*numbered(2), name="valid.jsonl")
    other = write(*numbered(3), name="other.jsonl")
    folder = read_rows(configure(tmp_path, valid_fraction=0.5))
    assert (len(folder.train), len(folder.valid)) == (5, 2)
    assert folder.files == (train, tmp_path / "valid.jsonl")
    named = read_rows(configure(tmp_path, valid_data=str(other)))
    assert (len(named.train), len(named.valid)) == (5, 3)
    assert {example.source.file for example in named.valid} == {str(other)}


def test_bad_validation_rows_are_counted_apart(
    write: Write, configure: Configure, make_tokenizer: Make
) -> None:
    valid = write(GOOD, BAD, name="valid.jsonl")
    config = configure(write(GOOD, BAD, BAD), valid_data=str(valid), bad_rows="skip")
    made = tokenise(read_rows(config), config, make_tokenizer())
    assert (made.rows, made.rows_skipped, made.valid_rows_skipped) == (3, 2, 1)
    stats = summarise(made)
    assert (stats.rows, stats.rows_used, stats.rows_skipped) == (5, 2, 3)
    assert (stats.train_rows, stats.valid_rows) == (1, 1)


def test_validation_rows_must_fit_the_method_too(write: Write, configure: Configure) -> None:
    valid = write(GOOD, name="valid.jsonl")
    with pytest.raises(DataError, match=r"valid\.jsonl has none"):
        read_rows(configure(write(PAIR), method="orpo", valid_data=str(valid)))


def test_progress_rises_to_one(write: Write, configure: Configure, make_tokenizer: Make) -> None:
    config = configure(write(*numbered(700)), valid_fraction=0.5)
    seen: list[float] = []
    tokenise(read_rows(config), config, make_tokenizer(), seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(seen) >= 4


def test_a_caller_can_give_up(write: Write, configure: Configure, make_tokenizer: Make) -> None:
    class Stop(Exception):
        pass

    def stop(_: float) -> None:
        raise Stop

    config = configure(write(GOOD))
    with pytest.raises(Stop):
        tokenise(read_rows(config), config, make_tokenizer(), stop)


@pytest.mark.parametrize(("method", "pairs"), [("sft", False), ("dpo", True), ("orpo", True)])
def test_sample_data(configure: Configure, method: str, pairs: bool) -> None:
    if not sample_data(method).is_dir():
        pytest.skip("the sample project is not there")
    raw = read_rows(configure("sample", method=method))
    assert len(raw.train) >= 150
    assert len(raw.valid) >= 20
    assert all(example.is_pair is pairs for example in raw.train + raw.valid)


@pytest.mark.parametrize("name", ["nowhere.jsonl", "~/nowhere.jsonl"])
def test_missing_file(configure: Configure, name: str) -> None:
    with pytest.raises(DataError, match="no file or folder"):
        read_rows(configure(name))


ROWS = st.lists(
    st.sampled_from([GOOD, BAD, PAIR, {"text": "x"}, 3, {"messages": []}, {"foo": 1}]), max_size=8
)


@given(
    rows=ROWS,
    method=st.sampled_from(["sft", "dpo", "orpo"]),
    bad_rows=st.sampled_from(["error", "skip"]),
    prompt_format=st.sampled_from(["chat", "raw"]),
)
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_counts_add_up_or_a_data_error_says_why(
    tmp_path: Path,
    configure: Configure,
    make_tokenizer: Make,
    rows: list[Any],
    method: str,
    bad_rows: str,
    prompt_format: str,
) -> None:
    data = tmp_path / "any.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = configure(
        data, method=method, bad_rows=bad_rows, prompt_format=prompt_format, valid_fraction=0.3
    )
    tokenizer = make_tokenizer(prompt_format=prompt_format)
    try:
        made = tokenise(read_rows(config), config, tokenizer)
    except DataError as error:
        caught = error
    else:
        caught = None
    if caught is not None:
        assert caught.what
        assert caught.try_this
        return
    stats = summarise(made)
    assert stats.rows == stats.rows_used + stats.rows_skipped == len(rows)
    assert len(made.problems) == stats.rows_skipped
    assert made.rows == len(made.train) + made.rows_skipped
    if method != "sft":
        assert all(row.rejected is not None for row in made.train + made.valid)


def test_columns_map_other_names(write: Write, configure: Configure, tmp_path: Path) -> None:
    data = tmp_path / "pairs.csv"
    data.write_text("question,good,bad\nhi,yes,no\nho,yes,no\n")
    with pytest.raises(BadRowsError) as raised:
        read_rows(configure(data, method="dpo"))
    said = str(raised.value)
    assert "try columns: {prompt: question, chosen: good, rejected: bad}" in said
    columns = {"prompt": "question", "chosen": "good", "rejected": "bad"}
    raw = read_rows(configure(data, method="dpo", columns=columns))
    assert [example.chosen for example in raw.train] == ["yes", "yes"]


def test_a_mapped_column_that_is_missing(write: Write, configure: Configure) -> None:
    with pytest.raises(BadRowsError, match=r"no column q, which columns names for prompt.*prompt"):
        read_rows(configure(write(GOOD), columns={"prompt": "q"}))


def test_several_files_are_one_set(tmp_path: Path, configure: Configure) -> None:
    (tmp_path / "a.csv").write_text("prompt,completion\na,b\n")
    (tmp_path / "b.jsonl").write_text(json.dumps(GOOD) + "\n")
    raw = read_rows(configure(tmp_path))
    assert [Path(example.source.file).name for example in raw.train] == ["a.csv", "b.jsonl"]
    assert raw.files == (tmp_path / "a.csv", tmp_path / "b.jsonl")
