from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer_core.data.example import BadRow, Example, Turn
from trainer_core.data.formats import parse_row
from trainer_core.data.types import Source

HERE = Source("rows.jsonl", 1)
U, A, S = "user", "assistant", "system"


def parse(row: dict[str, Any], prompt_format: Any = "chat") -> Example:
    return parse_row(row, HERE, prompt_format)


def said(part: object) -> Any:
    return part if isinstance(part, str) else [(t.role, t.content) for t in part]  # type: ignore[attr-defined]


def message(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


HELLO = [message(U, "hi"), message(A, "hello")]

SFT_ROWS = [
    ({"messages": HELLO}, [(U, "hi")], [(A, "hello")]),
    (
        {"messages": [message("developer", "be nice"), *HELLO]},
        [(S, "be nice"), (U, "hi")],
        [(A, "hello")],
    ),
    ({"prompt": "hi", "completion": "hello"}, "hi", "hello"),
    ({"prompt": "hi", "response": "hello"}, "hi", "hello"),
    ({"question": "hi", "answer": "hello"}, "hi", "hello"),
    ({"query": "hi", "response": "hello"}, "hi", "hello"),
    ({"input": "hi", "output": "hello"}, "hi", "hello"),
    (
        {"prompt": [message(U, "hi")], "completion": [message(A, "hello")]},
        [(U, "hi")],
        [(A, "hello")],
    ),
    ({"prompt": [message(U, "hi")], "completion": "hello"}, [(U, "hi")], [(A, "hello")]),
    ({"instruction": "hi", "input": "", "output": "hello"}, "hi", "hello"),
    ({"instruction": "hi", "input": "there", "output": "hello"}, "hi\nthere", "hello"),
    ({"instruction": "hi", "context": "there", "response": "hello"}, "hi\nthere", "hello"),
    ({"instruction": "", "input": "hi", "output": "hello"}, "hi", "hello"),
    (
        {"instruction": "hi", "output": "hello", "system": "be nice", "history": [["a", "b"]]},
        [(S, "be nice"), (U, "a"), (A, "b"), (U, "hi")],
        [(A, "hello")],
    ),
    (
        {
            "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "hello"}],
            "system": "be nice",
        },
        [(S, "be nice"), (U, "hi")],
        [(A, "hello")],
    ),
    ({"text": "hello"}, "", "hello"),
    ({"prompt": "hi", "completion": "hello", "messages": None, "text": None}, "hi", "hello"),
    (
        {"messages": [message(U, [{"type": "text", "text": "h"}, "i"]), message(A, "hello")]},
        [(U, "hi")],
        [(A, "hello")],
    ),
    (
        {"messages": [*HELLO, message(U, "more"), message(A, "sure"), message(U, "bye")]},
        [(U, "hi"), (A, "hello"), (U, "more")],
        [(A, "sure"), (U, "bye")],
    ),
    (
        {"prompt": "\n\nHuman: hi\n\nAssistant:", "completion": " hello"},
        [(U, "hi")],
        [(A, "hello")],
    ),
]


@pytest.mark.parametrize(("row", "prompt", "chosen"), SFT_ROWS)
def test_rows_with_one_answer(row: dict[str, Any], prompt: object, chosen: object) -> None:
    example = parse(row)
    assert (said(example.prompt), said(example.chosen)) == (prompt, chosen)
    assert not example.is_pair


PAIRS = [
    ({"prompt": "hi", "chosen": "yes", "rejected": "no"}, "hi", "yes", "no"),
    ({"question": "hi", "chosen": "yes", "rejected": "no"}, "hi", "yes", "no"),
    (
        {"instruction": "hi", "input": "there", "chosen": "yes", "rejected": "no"},
        "hi\nthere",
        "yes",
        "no",
    ),
    (
        {
            "prompt": [message(U, "hi")],
            "chosen": [message(A, "yes")],
            "rejected": [message(A, "no")],
        },
        [(U, "hi")],
        [(A, "yes")],
        [(A, "no")],
    ),
    (
        {"prompt": "hi", "chosen": message(A, "yes"), "rejected": message(A, "no")},
        [(U, "hi")],
        [(A, "yes")],
        [(A, "no")],
    ),
    (
        {
            "conversations": [{"from": "human", "value": "hi"}],
            "chosen": {"from": "gpt", "value": "yes"},
            "rejected": {"from": "gpt", "value": "no"},
        },
        [(U, "hi")],
        [(A, "yes")],
        [(A, "no")],
    ),
    (
        {
            "chosen": [message(U, "hi"), message(A, "yes")],
            "rejected": [message(U, "hi"), message(A, "no")],
        },
        [(U, "hi")],
        [(A, "yes")],
        [(A, "no")],
    ),
    (
        # As in UltraFeedback: the prompt again, and the chosen conversation under messages.
        {
            "prompt": "hi",
            "messages": [message(U, "hi"), message(A, "yes")],
            "chosen": [message(U, "hi"), message(A, "yes")],
            "rejected": [message(U, "hi"), message(A, "no")],
        },
        [(U, "hi")],
        [(A, "yes")],
        [(A, "no")],
    ),
    (
        # One side goes on after an answer that both share.
        {"chosen": [*HELLO, message(U, "x"), message(A, "y")], "rejected": HELLO},
        [(U, "hi")],
        [(A, "hello"), (U, "x"), (A, "y")],
        [(A, "hello")],
    ),
    (
        {"chosen": "\n\nHuman: hi\n\nAssistant: yes", "rejected": "\n\nHuman: hi\n\nAssistant: no"},
        [(U, "hi")],
        [(A, "yes")],
        [(A, "no")],
    ),
    (
        {
            "chosen": "Human: hi\nAssistant: oh\nHuman: well\nAssistant: yes and no",
            "rejected": "Human: hi\nAssistant: oh\nHuman: well\nAssistant: yes",
        },
        [(U, "hi"), (A, "oh"), (U, "well")],
        [(A, "yes and no")],
        [(A, "yes")],
    ),
    (
        {
            "chosen": "\n\nAssistant: Be brief.\n\nHuman: hi\n\nAssistant: yes",
            "rejected": "\n\nAssistant: Be brief.\n\nHuman: hi\n\nAssistant: no",
        },
        [(S, "Be brief."), (U, "hi")],
        [(A, "yes")],
        [(A, "no")],
    ),
]


@pytest.mark.parametrize(("row", "prompt", "chosen", "rejected"), PAIRS)
def test_pairs(row: dict[str, Any], prompt: object, chosen: object, rejected: object) -> None:
    example = parse(row)
    assert example.is_pair
    assert (said(example.prompt), said(example.chosen), said(example.rejected)) == (
        prompt,
        chosen,
        rejected,
    )


def test_raw_pairs_without_prompt_split_where_they_differ() -> None:
    example = parse({"chosen": "The sky is blue.", "rejected": "The sky is up."}, "raw")
    assert (example.prompt, example.chosen, example.rejected) == ("The sky is", " blue.", " up.")


def test_raw_dialogues_split_after_the_speaker_not_inside_the_answer() -> None:
    start = "\n\nHuman: hi\n\nAssistant:"
    example = parse({"chosen": start + " I think so.", "rejected": start + " I think not."}, "raw")
    assert (example.prompt, example.chosen) == (start, " I think so.")


def test_tool_calls_and_tools() -> None:
    call = {"name": "weather", "arguments": {"place": "Rome"}}
    tool = {"name": "weather", "parameters": {"type": "object"}}
    sharegpt = parse(
        {
            "conversations": [
                {"from": "human", "value": "Weather in Rome?"},
                {"from": "function_call", "value": json.dumps(call)},
                {"from": "observation", "value": "sun"},
                {"from": "gpt", "value": "Sunny."},
            ],
            "tools": json.dumps([tool]),
        }
    )
    openai = parse(
        {
            "messages": [
                message(U, "Weather in Rome?"),
                {
                    "role": A,
                    "content": None,
                    "tool_calls": [
                        {
                            "type": "function",
                            "function": {**call, "arguments": json.dumps(call["arguments"])},
                        }
                    ],
                },
                {"role": "tool", "content": "sun"},
                message(A, "Sunny."),
            ],
            "tools": [{"type": "function", "function": tool}],
        }
    )
    assert sharegpt.prompt == openai.prompt
    assert sharegpt.tools == openai.tools == ({"type": "function", "function": tool},)
    assert sharegpt.prompt[1] == Turn(
        A, "", {"tool_calls": [{"type": "function", "function": call}]}
    )
    assert said(sharegpt.prompt)[2] == ("tool", "sun")


BAD = [
    ({}, "empty"),
    ({"foo": 1}, "not known"),
    ({"prompt": "hi"}, "no answer"),
    ({"completion": "hi"}, "no prompt"),
    ({"prompt": "hi", "completion": None}, "completion is null"),
    ({"prompt": "hi", "completion": " \n"}, "completion is empty"),
    ({"prompt": "", "completion": "x"}, "prompt is empty"),
    ({"prompt": "hi", "completion": 3}, "completion is a number"),
    ({"prompt": True, "completion": "x"}, "prompt is true or false"),
    ({"text": "  "}, "text is empty"),
    ({"text": 1.5}, "text is a number"),
    ({"text": "a\ud800b"}, "surrogate"),
    ({"messages": []}, "empty list"),
    ({"messages": "hi"}, "not a list"),
    ({"messages": ["hi"]}, "not a message"),
    ({"messages": [{"content": "hi"}]}, "no role"),
    ({"messages": [message("wizard", "hi")]}, "unknown role"),
    ({"messages": [message(3, "hi")]}, "unknown role"),
    ({"messages": [message(S, "hi")]}, "no assistant turn"),
    ({"messages": [message(U, "hi")]}, "no assistant turn"),
    ({"messages": [message(U, "hi"), message(A, "")]}, "empty"),
    ({"messages": [message(U, "hi"), message(A, None)]}, "null"),
    ({"messages": [message(U, 7), message(A, "x")]}, "a number"),
    ({"messages": [message(U, [{"type": "image_url"}]), message(A, "x")]}, "image_url"),
    (
        {
            "conversations": [
                {"from": "human", "value": "x"},
                {"from": "function_call", "value": "{"},
            ]
        },
        "not valid JSON",
    ),
    ({"messages": HELLO, "tools": "{"}, "tools is not valid JSON"),
    ({"messages": HELLO, "tools": [{"x": 1}]}, "not a tool definition"),
    ({"instruction": "a", "output": "b", "history": "x"}, "history"),
    ({"instruction": "a", "output": "b", "history": [["x"]]}, "history"),
    ({"instruction": " ", "input": "", "output": "b"}, "instruction is empty"),
    ({"prompt": "hi", "chosen": "x"}, "no rejected"),
    ({"prompt": "hi", "rejected": "x"}, "no chosen"),
    ({"prompt": "hi", "chosen": "x", "rejected": "x "}, "the same"),
    ({"prompt": "hi", "chosen": "x", "rejected": ""}, "rejected is empty"),
    ({"prompt": "hi", "chosen": "x", "rejected": 4}, "rejected is a number"),
    ({"prompt": [message(S, "hi")], "chosen": "x", "rejected": "y"}, "only system turns"),
    ({"prompt": HELLO, "chosen": "x", "rejected": "y"}, "ends with a turn of the assistant"),
    ({"chosen": HELLO, "rejected": HELLO}, "the same"),
    ({"chosen": HELLO, "rejected": [message(U, "other"), message(A, "x")]}, "share 0 turns"),
    ({"chosen": HELLO, "rejected": [message(U, "hi")]}, "no answer after them"),
    ({"chosen": [message(A, "x")], "rejected": [message(A, "y")]}, "no prompt"),
    (
        {"prompt": "other", "chosen": HELLO, "rejected": [message(U, "hi"), message(A, "x")]},
        "prompt differs",
    ),
    ({"chosen": "The sky is blue", "rejected": "The sky is green"}, "no prompt"),
    ({"chosen": "Assistant: x", "rejected": "Assistant: y"}, "no human turn"),
    ({"chosen": "Human: q\nAssistant:", "rejected": "Human: q\nAssistant: y"}, "empty"),
]


@pytest.mark.parametrize(("row", "what"), BAD)
def test_bad_rows_say_what_and_give_a_hint(row: dict[str, Any], what: str) -> None:
    with pytest.raises(BadRow) as raised:
        parse(row)
    assert what in raised.value.what
    assert raised.value.hint


def test_raw_refuses_conversations() -> None:
    with pytest.raises(BadRow, match="prompt_format raw"):
        parse({"messages": HELLO}, "raw")


@pytest.mark.parametrize(
    ("name", "count", "shape"),
    [
        ("alpaca.json", 400, "instruction and output"),
        ("preference_implicit_chat.jsonl", 40, "chosen and rejected conversations"),
        ("preference_implicit_text.jsonl", 40, "chosen and rejected dialogues"),
        ("preference_sharegpt.json", 150, "conversations with chosen and rejected"),
        ("toolcall_sharegpt.json", 60, "conversations"),
    ],
)
def test_real_files(shared_data: Path, name: str, count: int, shape: str) -> None:
    from trainer_core.data.readers import read_rows_of
    from trainer_core.data.types import Row

    examples = [
        parse_row(item.values, item.source, "chat")
        for item in read_rows_of(shared_data / name)
        if isinstance(item, Row)
    ]
    assert len(examples) == count
    assert {example.shape for example in examples} == {shape}


def test_the_three_forms_of_the_same_pairs_agree(shared_data: Path) -> None:
    """The implicit files were reshaped from the explicit one, so their answers must come back."""
    from trainer_core.data.readers import read_rows_of
    from trainer_core.data.types import Row

    def answers(name: str) -> list[tuple[str, str]]:
        found = []
        for item in list(read_rows_of(shared_data / name))[:40]:
            assert isinstance(item, Row)
            example = parse_row(item.values, item.source, "chat")
            assert example.rejected is not None
            found.append((example.chosen[0].content.strip(), example.rejected[0].content.strip()))  # type: ignore[union-attr]
        return found

    explicit = set(answers("preference_sharegpt.json")) | set(_all(shared_data))
    for name in ("preference_implicit_chat.jsonl", "preference_implicit_text.jsonl"):
        assert set(answers(name)) <= explicit


def _all(folder: Path) -> list[tuple[str, str]]:
    rows = json.loads((folder / "preference_sharegpt.json").read_text())
    return [(row["chosen"]["value"].strip(), row["rejected"]["value"].strip()) for row in rows]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "from", "value", "type", "text"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
KEYS = st.sampled_from(
    [
        *("messages", "conversations", "prompt", "completion", "response", "question", "answer"),
        *("instruction", "input", "output", "system", "history", "text", "tools"),
        *("chosen", "rejected"),
    ]
)


@given(
    row=st.dictionaries(KEYS, VALUES, max_size=5), prompt_format=st.sampled_from(["chat", "raw"])
)
@settings(max_examples=300, deadline=None)
def test_any_row_is_an_example_or_a_bad_row(row: dict[str, Any], prompt_format: str) -> None:
    try:
        example = parse(row, prompt_format)
    except BadRow:
        return
    assert example.chosen
