"""What an assistant thought before its answer: where it stands, and when it is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trainer_core.data.example import BadRow
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.data.turns import parse_turns
from trainer_core.data.types import Dataset

Make = Callable[..., ChatTokenizer]
Run = Callable[..., Dataset]

# As Qwen3 and others do: reasoning of the turns before the last question is dropped.
DROPS = (
    "{%- set ns = namespace(last=0) -%}{%- for m in messages -%}{%- if m.role == 'user' -%}"
    "{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}"
    "{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\n' -}}"
    "{%- if m.role == 'assistant' and loop.index0 > ns.last and m.reasoning_content -%}"
    "{{- '<think>\n' + m.reasoning_content + '\n</think>\n\n' -}}{%- endif -%}"
    "{{- m.content + '<|im_end|>\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
KEEPS = DROPS.replace(" and loop.index0 > ns.last", "").replace("reasoning_content", "thinking")


def talk(*thoughts: str) -> dict[str, Any]:
    turns: list[dict[str, str]] = []
    for number, thought in enumerate(thoughts):
        turns.append({"role": "user", "content": f"question {number}"})
        turns.append(
            {"role": "assistant", "content": f"answer {number}", "reasoning_content": thought}
        )
    return {"messages": turns}


def trained(tokenizer: ChatTokenizer, made: Dataset) -> str:
    (row,) = made.train
    kept = row.chosen.ids[row.chosen.trained].tolist()
    return tokenizer.decode(kept)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "b", "reasoning_content": "hm"},
        {"content": "b", "thinking": "hm"},
        {"content": "b", "reasoning": "hm"},
        {"content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "b"}]},
        {"content": [{"type": "reasoning", "text": "hm"}, "b"]},
    ],
)
def test_every_spelling_of_reasoning(message: dict[str, Any]) -> None:
    (turn,) = parse_turns([{"role": "assistant", **message}], "messages")
    assert (turn.content, turn.extra) == ("b", {"reasoning_content": "hm"})


def test_reasoning_that_is_no_text() -> None:
    with pytest.raises(BadRow, match="the reasoning of messages"):
        parse_turns([{"role": "assistant", "content": "b", "thinking": 3}], "messages")


def test_reasoning_of_one_answer_is_trained(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer("bytes", DROPS)
    made = tokenised(tokenizer, talk("hm"))
    assert trained(tokenizer, made) == "<think>\nhm\n</think>\n\nanswer 0<|im_end|>"
    assert made.warnings == []


def test_a_template_that_drops_earlier_reasoning_trains_the_last_answer_only(
    make_tokenizer: Make, tokenised: Run
) -> None:
    tokenizer = make_tokenizer("bytes", DROPS)
    made = tokenised(tokenizer, talk("one", "two"))
    assert trained(tokenizer, made) == "<think>\ntwo\n</think>\n\nanswer 1<|im_end|>"
    assert "history_rewritten" in [code for code, _, _ in made.warnings]
    asked_for_last = tokenised(tokenizer, talk("one", "two"), loss_on="last")
    assert asked_for_last.warnings == []


def test_a_template_that_keeps_it_trains_every_answer(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer("bytes", KEEPS)
    made = tokenised(tokenizer, talk("one", "two"))
    said = "".join(
        f"<think>\n{word}\n</think>\n\nanswer {n}<|im_end|>"
        for n, word in enumerate(["one", "two"])
    )
    assert trained(tokenizer, made) == said
    assert made.warnings == []


def test_a_template_without_reasoning_gets_it_as_text(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer("bytes", "chatml")
    made = tokenised(tokenizer, talk("hm"))
    assert trained(tokenizer, made) == "<think>\nhm\n</think>\n\nanswer 0<|im_end|>"
    assert [code for code, _, _ in made.warnings] == ["reasoning_as_text"]


def test_a_pair_with_reasoning(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer("bytes", DROPS)
    row = {"prompt": [{"role": "user", "content": "q"}]}
    for side, thought in (("chosen", "good"), ("rejected", "bad")):
        row[side] = [{"role": "assistant", "content": "a", "reasoning_content": thought}]
    made = tokenised(tokenizer, row, method="dpo")
    (pair,) = made.train
    assert pair.rejected is not None
    answers = [
        tokenizer.decode(s.ids[pair.prompt_length :].tolist()) for s in (pair.chosen, pair.rejected)
    ]
    assert answers == [f"<think>\n{t}\n</think>\n\na<|im_end|>" for t in ("good", "bad")]
