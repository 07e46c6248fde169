from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainer_core.config import RunConfig
from trainer_core.data.load import read_rows, tokenise
from trainer_core.data.tokenizer import ChatTokenizer, load_tokenizer
from trainer_core.data.types import Dataset, Sequence, TokenisedExample
from trainer_core.errors import DataError, ModelError

Make = Callable[..., ChatTokenizer]
Run = Callable[..., Dataset]

QUESTION, ANSWER = "What is the capital of France?", "Paris"
SINGLE = {"prompt": QUESTION, "completion": ANSWER}
PAIR = {"prompt": QUESTION, "chosen": "Paris.", "rejected": "It is Paris, I think."}
ROUNDS = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": "more"},
        {"role": "assistant", "content": "sure"},
    ]
}
KINDS = ("bytes", "sentencepiece", "legacy")


def spans(tokenizer: ChatTokenizer, sequence: Sequence) -> list[str]:
    """Text of each run of trained tokens, as it stands in the whole text."""
    runs = itertools.groupby(range(len(sequence)), key=lambda t: bool(sequence.trained[t]))
    found = []
    for on, run in runs:
        places = list(run)
        if on:
            before = tokenizer.decode(sequence.ids[: places[0]].tolist())
            upto = tokenizer.decode(sequence.ids[: places[-1] + 1].tolist())
            found.append(upto[len(before) :])
    return found


def whole(tokenizer: ChatTokenizer, sequence: Sequence) -> str:
    return tokenizer.decode(sequence.ids.tolist())


def check(row: TokenisedExample, limit: int = 2048) -> None:
    """What holds for every row there is."""
    for sequence in filter(None, (row.chosen, row.rejected)):
        assert sequence.ids.dtype == np.int32
        assert sequence.trained.dtype == np.bool_
        assert sequence.ids.shape == sequence.trained.shape
        assert 2 <= len(sequence) <= limit
        assert not sequence.trained[0]
        assert sequence.trained.any()
    if row.rejected is not None:
        p = row.prompt_length
        assert p >= 1
        assert row.chosen.ids[:p].tolist() == row.rejected.ids[:p].tolist()
        for sequence in (row.chosen, row.rejected):
            assert not sequence.trained[:p].any()
            assert sequence.trained[p:].all()
            assert len(sequence) > p
        assert row.chosen.ids.tolist() != row.rejected.ids.tolist()


# --- the golden folders, against TRL ---


@pytest.mark.parametrize("method", ["sft", "dpo"])
def test_token_counts_are_those_of_trl(golden: Path, method: str) -> None:
    """TRL logs the tokens it has seen; the sum over our rows must run along with it."""
    folder = golden / "llama"
    config = RunConfig(
        model=str(folder),
        data=str(folder / "preference.jsonl"),
        method=method,  # type: ignore[arg-type]
        prompt_format="raw",
        valid_fraction=0,
    )
    made = tokenise(read_rows(config), config, load_tokenizer(folder, config))
    steps = json.loads((folder / f"golden_{method}.json").read_text())["steps"]
    seen = list(itertools.accumulate(row.tokens for row in made.train))
    assert seen == [step["num_tokens"] for step in steps]


def test_raw_rows_of_the_golden_folder(golden: Path) -> None:
    folder = golden / "qwen3"
    config = RunConfig(
        model=str(folder),
        data=str(folder / "preference.jsonl"),
        method="orpo",
        prompt_format="raw",
        valid_fraction=0,
    )
    tokenizer = load_tokenizer(folder, config)
    made = tokenise(read_rows(config), config, tokenizer)
    values = [json.loads(line) for line in (folder / "preference.jsonl").read_text().splitlines()]
    assert [row.source.line for row in made.train] == list(range(1, 13))
    for row, value in zip(made.train, values, strict=True):
        check(row)
        assert row.rejected is not None
        assert spans(tokenizer, row.chosen) == [value["chosen"]]
        assert spans(tokenizer, row.rejected) == [value["rejected"]]
        assert whole(tokenizer, row.chosen) == value["prompt"] + value["chosen"]
        assert row.chosen.ids[-1] == row.rejected.ids[-1] == tokenizer.eos_id == 258


# --- raw text ---


@pytest.mark.parametrize("kind", KINDS)
def test_raw_end_token_is_added_once(make_tokenizer: Make, tokenised: Run, kind: str) -> None:
    tokenizer = make_tokenizer(kind, prompt_format="raw")
    lacking = tokenised(tokenizer, {"prompt": "hello", "completion": " world"}).train[0]
    having = tokenised(tokenizer, {"prompt": "hello", "completion": " world<|im_end|>"}).train[0]
    assert spans(tokenizer, lacking.chosen) == [" world<|im_end|>"]
    assert lacking.chosen.ids.tolist() == having.chosen.ids.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adds_bos", [False, True])
def test_raw_bos_only_where_the_tokenizer_adds_it(
    make_tokenizer: Make, tokenised: Run, kind: str, adds_bos: bool
) -> None:
    tokenizer = make_tokenizer(kind, prompt_format="raw", adds_bos=adds_bos, bos=True)
    row = tokenised(tokenizer, PAIR, method="dpo").train[0]
    check(row)
    assert row.chosen.ids.tolist().count(tokenizer.bos_id) == int(adds_bos)
    prompt = tokenizer.hf(QUESTION)["input_ids"]
    assert row.chosen.ids[: row.prompt_length].tolist() == list(prompt)


SEAMS = [
    ("a\n", "\nb"),
    ("the ", " capital"),
    ("hel", "lo"),
    ("12", "34"),
    ("cap", "ital of"),
    ("x ", "y"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("prompt", "answer"), SEAMS)
def test_the_border_never_falls_inside_a_token(
    make_tokenizer: Make, tokenised: Run, kind: str, prompt: str, answer: str
) -> None:
    """The prompt's tokens are those the model is given, even where the whole text would merge."""
    tokenizer = make_tokenizer(kind, prompt_format="raw")
    pair = {"prompt": prompt, "chosen": answer, "rejected": "no"}
    row = tokenised(tokenizer, pair, method="orpo").train[0]
    check(row)
    assert row.chosen.ids[: row.prompt_length].tolist() == tokenizer.encode(prompt)
    assert spans(tokenizer, row.chosen) == [answer + "<|im_end|>"]
    assert whole(tokenizer, row.chosen) == prompt + answer + "<|im_end|>"


def test_text_rows_are_trained_whole(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer(adds_bos=True, template=None, eos="</s>")
    row = tokenised(tokenizer, {"text": "hello there"}).train[0]
    assert whole(tokenizer, row.chosen) == "<s>hello there</s>"
    assert spans(tokenizer, row.chosen) == ["hello there</s>"]
    assert row.prompt_length == 0


def test_text_row_of_one_token_has_nothing_to_learn(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer(template=None, eos=None)
    made = tokenised(tokenizer, {"text": "x"}, {"text": "xy zz"})
    assert (made.rows, made.rows_skipped, len(made.train)) == (2, 1, 1)
    assert (made.problems[0].line, made.train[0].row) == (1, 1)
    assert "nothing is left to learn" in made.problems[0].what
    assert [code for code, _, _ in made.warnings] == ["no_end_token"]


# --- conversations ---


@pytest.mark.parametrize("kind", KINDS)
def test_answer_and_end_of_turn_are_trained_once(
    make_tokenizer: Make, tokenised: Run, kind: str
) -> None:
    tokenizer = make_tokenizer(kind)
    row = tokenised(tokenizer, SINGLE).train[0]
    check(row)
    assert spans(tokenizer, row.chosen) == ["Paris<|im_end|>"]
    assert row.chosen.ids[: row.prompt_length].tolist() == tokenizer.question_ids(QUESTION)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("loss_on", "trained"),
    [("assistant", ["hi<|im_end|>", "sure<|im_end|>"]), ("last", ["sure<|im_end|>"])],
)
def test_rounds(
    make_tokenizer: Make, tokenised: Run, kind: str, loss_on: str, trained: list[str]
) -> None:
    for template in ("chatml", "marked"):
        tokenizer = make_tokenizer(kind, template)
        made = tokenised(tokenizer, ROUNDS, loss_on=loss_on)
        assert [s.strip() for s in spans(tokenizer, made.train[0].chosen)] == trained
        assert not made.warnings


def test_everything_leaves_out_only_the_first_token_and_template_space(
    make_tokenizer: Make, tokenised: Run
) -> None:
    tokenizer = make_tokenizer()
    row = tokenised(tokenizer, ROUNDS, loss_on="everything").train[0]
    text = whole(tokenizer, row.chosen)
    assert text.endswith("sure<|im_end|>")
    untrained = [tokenizer.decode([i]) for i in row.chosen.ids[~row.chosen.trained].tolist()]
    assert untrained == ["<|im_start|>", *["\n"] * 4]


def test_end_of_turn_in_the_answer_is_not_doubled(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer()
    row = tokenised(tokenizer, {"prompt": QUESTION, "completion": "Paris<|im_end|>\n"}).train[0]
    assert spans(tokenizer, row.chosen) == ["Paris<|im_end|>"]


def test_turns_after_the_last_answer_are_cut_off(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer()
    row = tokenised(
        tokenizer, {"messages": [*ROUNDS["messages"], {"role": "user", "content": "bye"}]}
    ).train[0]
    assert spans(tokenizer, row.chosen) == ["hi<|im_end|>", "sure<|im_end|>"]
    assert "bye" not in whole(tokenizer, row.chosen)


@pytest.mark.parametrize("kind", KINDS)
def test_pair(make_tokenizer: Make, tokenised: Run, kind: str) -> None:
    tokenizer = make_tokenizer(kind, adds_bos=True)
    row = tokenised(tokenizer, PAIR, method="orpo").train[0]
    check(row)
    assert row.rejected is not None
    assert spans(tokenizer, row.chosen) == ["Paris.<|im_end|>"]
    assert spans(tokenizer, row.rejected) == ["It is Paris, I think.<|im_end|>"]
    assert row.chosen.ids.tolist().count(tokenizer.bos_id) == 1


def test_sft_takes_the_better_answer_of_a_pair(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer()
    row = tokenised(tokenizer, PAIR, method="sft").train[0]
    assert row.rejected is None
    assert spans(tokenizer, row.chosen) == ["Paris.<|im_end|>"]


@pytest.mark.parametrize("adds_bos", [False, True])
def test_one_bos_when_template_and_tokenizer_both_add_it(
    make_tokenizer: Make, tokenised: Run, adds_bos: bool
) -> None:
    tokenizer = make_tokenizer(template="strict", bos=True, adds_bos=adds_bos)
    row = tokenised(tokenizer, SINGLE).train[0]
    assert row.chosen.ids.tolist().count(tokenizer.bos_id) == 1
    assert row.chosen.ids[0] == tokenizer.bos_id
    assert spans(tokenizer, row.chosen) == ["Paris<end_of_turn>"]
    assert tokenizer.end_of_turn_id in tokenizer.stop_ids


@pytest.mark.parametrize(
    ("template", "ending"), [("strict", "<end_of_turn>"), ("deaf", "<|im_end|>")]
)
def test_system_text_reaches_a_template_that_refuses_or_drops_it(
    make_tokenizer: Make, tokenised: Run, template: str, ending: str
) -> None:
    tokenizer = make_tokenizer(template=template, bos=True)
    made = tokenised(tokenizer, ROUNDS)
    assert "Be brief.\n\nhello" in whole(tokenizer, made.train[0].chosen)
    assert spans(tokenizer, made.train[0].chosen) == [f"hi{ending}", f"sure{ending}"]
    assert [code for code, _, _ in made.warnings] == ["system_folded"]


def test_rows_that_a_template_refuses(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer(template="strict", bos=True)
    twice = {"messages": [*ROUNDS["messages"][1:3], ROUNDS["messages"][2]]}
    with pytest.raises(DataError, match=r"1 of 2 rows.*rows\.jsonl:2: .*must alternate"):
        tokenised(tokenizer, SINGLE, twice)
    made = tokenised(tokenizer, SINGLE, twice, bad_rows="skip")
    assert (made.rows, made.rows_skipped, len(made.train)) == (2, 1, 1)


def test_history_that_is_rewritten_is_not_trained(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer(template="rewriting")
    made = tokenised(tokenizer, ROUNDS)
    assert spans(tokenizer, made.train[0].chosen) == ["<think></think>sure<|im_end|>"]
    ((code, message, hint),) = made.warnings
    assert code == "history_rewritten"
    assert "1 rows" in message
    assert "loss_on" in hint


def test_generation_prompt_that_is_no_prefix(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer(template="thinking")
    made = tokenised(tokenizer, SINGLE, {"prompt": QUESTION, "completion": "<b>Paris</b>"})
    assert spans(tokenizer, made.train[0].chosen) == ["Paris<|im_end|>"]
    assert spans(tokenizer, made.train[1].chosen) == ["<b>Paris</b><|im_end|>"]
    assert made.train[0].prompt_length == made.train[1].prompt_length
    assert [code for code, _, _ in made.warnings] == ["generation_prompt"]
    pair = tokenised(tokenizer, PAIR, method="dpo").train[0]
    check(pair)
    assert spans(tokenizer, pair.chosen) == ["Paris.<|im_end|>"]


def test_template_without_special_tokens_gets_an_end_token(
    make_tokenizer: Make, tokenised: Run
) -> None:
    tokenizer = make_tokenizer(template="plain", eos="</s>")
    row = tokenised(tokenizer, ROUNDS).train[0]
    assert spans(tokenizer, row.chosen) == ["hi", "sure</s>"]


def test_template_with_eos_around_every_round(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer(template="rounds", bos=True, eos="</s>")
    rounds = {"messages": ROUNDS["messages"][1:]}
    row = tokenised(tokenizer, rounds).train[0]
    assert spans(tokenizer, row.chosen) == [" hi </s>", " sure </s>"]


def test_tokenizer_without_eos_takes_the_end_of_turn_of_its_template(
    make_tokenizer: Make, tokenised: Run
) -> None:
    tokenizer = make_tokenizer(eos=None)
    made = tokenised(tokenizer, SINGLE)
    assert spans(tokenizer, made.train[0].chosen) == ["Paris<|im_end|>"]
    assert not made.warnings
    assert tokenizer.pad_id == 0


def test_no_template(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer(template=None)
    with pytest.raises(ModelError, match=r"no chat template.*prompt_format to raw"):
        tokenised(tokenizer, SINGLE)
    assert tokenised(tokenizer, {"text": "hello there"}).train


def test_tools_that_a_template_ignores_are_written_as_text(
    make_tokenizer: Make, tokenised: Run
) -> None:
    tokenizer = make_tokenizer()
    row = {
        "conversations": [
            {"from": "human", "value": "Weather?"},
            {"from": "function_call", "value": '{"name": "look", "arguments": {"at": "Rome"}}'},
            {"from": "observation", "value": "sun"},
            {"from": "gpt", "value": "Sunny."},
        ],
        "tools": '[{"name": "look", "parameters": {}}]',
    }
    made = tokenised(tokenizer, row)
    assert spans(tokenizer, made.train[0].chosen) == [
        '<tool_call>\n{"name": "look", "arguments": {"at": "Rome"}}\n</tool_call><|im_end|>',
        "Sunny.<|im_end|>",
    ]
    assert '"parameters": {}' in whole(tokenizer, made.train[0].chosen)
    assert {code for code, _, _ in made.warnings} == {"tool_calls_as_text", "tools_in_system"}


# --- length ---

LONG = "the capital of France is Paris " * 4


@pytest.mark.parametrize("prompt_format", ["raw", "chat"])
@given(
    prompt=st.integers(1, 30),
    chosen=st.integers(1, 30),
    rejected=st.integers(1, 30),
    limit=st.integers(16, 80),
    adds_bos=st.booleans(),
)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_truncation_of_pairs(
    make_tokenizer: Make,
    tokenised: Run,
    prompt_format: str,
    prompt: int,
    chosen: int,
    rejected: int,
    limit: int,
    adds_bos: bool,
) -> None:
    """DESIGN's rule for `overlong`, checked against the same rows without a limit."""
    tokenizer = make_tokenizer(prompt_format=prompt_format, adds_bos=adds_bos, bos=True)
    row = {"prompt": "p" * prompt, "chosen": "c" * chosen, "rejected": "r" * rejected}
    (full,) = tokenised(tokenizer, row, method="orpo").train
    (cut,) = tokenised(tokenizer, row, method="orpo", max_seq_length=limit).train
    assert full.rejected is not None
    assert cut.rejected is not None
    check(cut, limit)
    before = full.prompt_length
    answers = [s.ids[before:].tolist() for s in (full.chosen, full.rejected)]
    longest = max(map(len, answers))
    floor = min(before, 8 + adds_bos)
    kept = before if before + longest <= limit else max(floor, limit - longest)
    assert cut.prompt_length == kept
    prompt_ids = full.chosen.ids[:before].tolist()
    bos = prompt_ids[:1] if adds_bos else []
    assert cut.chosen.ids[:kept].tolist() == (
        prompt_ids if kept == before else bos + prompt_ids[before - kept + len(bos) :]
    )
    for sequence, answer in zip((cut.chosen, cut.rejected), answers, strict=True):
        assert sequence.ids[kept:].tolist() == answer[: limit - kept]
    assert cut.truncated == (before + longest > limit)


@given(
    prompt=st.integers(1, 60),
    answer=st.integers(1, 60),
    limit=st.integers(16, 80),
    loss_on=st.sampled_from(["assistant", "last", "everything"]),
)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_truncation_of_sft_rows(
    make_tokenizer: Make, tokenised: Run, prompt: int, answer: int, limit: int, loss_on: str
) -> None:
    tokenizer = make_tokenizer()
    row = {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "p" * prompt},
            {"role": "assistant", "content": "c" * answer},
        ]
    }
    (full,) = tokenised(tokenizer, row, loss_on=loss_on).train
    (cut,) = tokenised(tokenizer, row, loss_on=loss_on, max_seq_length=limit).train
    check(cut, limit)
    before, said = full.prompt_length, len(full.chosen) - full.prompt_length
    kept = before if before + said <= limit else max(min(before, 8), limit - said)
    assert cut.prompt_length == kept
    lost = before - kept
    assert cut.chosen.ids.tolist() == full.chosen.ids.tolist()[lost : lost + limit]
    expected = full.chosen.trained[lost : lost + limit].copy()
    expected[0] = False
    assert cut.chosen.trained.tolist() == expected.tolist()
    assert cut.truncated == (before + said > limit)


def test_overlong_rows_can_be_dropped(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer()
    rows = [{"prompt": "hi", "completion": "x"}, {"prompt": LONG, "completion": LONG}]
    made = tokenised(tokenizer, *rows, max_seq_length=40, overlong="drop")
    assert (made.rows, made.rows_skipped, made.rows_truncated) == (2, 1, 0)
    assert "max_seq_length 40" in made.problems[0].what
    kept = tokenised(tokenizer, *rows, max_seq_length=40)
    assert (kept.rows, kept.rows_skipped, kept.rows_truncated) == (2, 0, 1)


def test_answers_that_are_the_same_once_cut(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer()
    made = tokenised(
        tokenizer,
        {"prompt": "hi", "chosen": LONG + "yes", "rejected": LONG + "no"},
        PAIR,
        method="dpo",
        max_seq_length=24,
    )
    assert len(made.train) == 1
    assert "the same within max_seq_length" in made.problems[0].what


# --- any conversation, any template ---

CONTENT = st.text(min_size=1, max_size=12).filter(lambda t: t.strip() and max(t) < "\ud800")


@given(
    turns=st.lists(CONTENT, min_size=2, max_size=6).filter(lambda t: len(t) % 2 == 0),
    template=st.sampled_from(["chatml", "strict", "deaf", "thinking", "marked", "plain", "rounds"]),
    kind=st.sampled_from(KINDS),
    adds_bos=st.booleans(),
    loss_on=st.sampled_from(["assistant", "last", "everything"]),
)
@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_answer_is_trained_and_nothing_else(
    make_tokenizer: Make,
    tokenised: Run,
    turns: list[str],
    template: str,
    kind: str,
    adds_bos: bool,
    loss_on: str,
) -> None:
    tokenizer = make_tokenizer(kind, template, adds_bos=adds_bos, bos=True, eos="</s>")
    roles = itertools.cycle(("user", "assistant"))
    messages = [
        {"role": role, "content": content} for role, content in zip(roles, turns, strict=False)
    ]
    (row,) = tokenised(tokenizer, {"messages": messages}, loss_on=loss_on).train
    check(row)
    if adds_bos:
        assert row.chosen.ids[0] == tokenizer.bos_id
    if loss_on == "everything":
        return
    answers = turns[1::2] if loss_on == "assistant" else turns[-1:]
    ends = {"chatml": "<|im_end|>", "strict": "<end_of_turn>", "rounds": "</s>"}
    if kind == "bytes" and template in ends:
        found = spans(tokenizer, row.chosen)
        assert [s.removesuffix(ends[template]).strip() for s in found] == [
            a.strip() for a in answers
        ]
        assert all(s.endswith(ends[template]) for s in found)


def test_the_room_is_free_of_mlx() -> None:
    import subprocess
    import sys

    code = (
        "import sys, trainer_core.data.load, trainer_core.data.batches, trainer_core.data.stats, "
        "trainer_core.data.tokenizer; from transformers import AutoTokenizer; "
        "assert not [m for m in sys.modules if m.split('.')[0] in ('mlx', 'mlx_lm', 'PySide6')]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
