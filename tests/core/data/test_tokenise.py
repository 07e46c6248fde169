"""Which tokens a row becomes, and which of them are trained."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.data.tokenised_rows import (
    KINDS,
    PAIR,
    QUESTION,
    ROUNDS,
    SINGLE,
    Make,
    Run,
    check,
    spans,
    whole,
)
from trainer_core.config import RunConfig
from trainer_core.data.load import read_rows, tokenise
from trainer_core.data.tokenizer import load_tokenizer
from trainer_core.errors import DataError, ModelError

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
