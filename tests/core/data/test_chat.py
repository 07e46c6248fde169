"""Chat templates that are named, their values, the system prompt, and what an adapter keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainer_core.config import RunConfig
from trainer_core.data.chat import (
    CHAT_FILE,
    Chat,
    built_in_templates,
    chat_files,
    chat_of,
    chat_options,
    read_template,
)
from trainer_core.data.example import Turn
from trainer_core.data.load import read_rows, tokenise
from trainer_core.data.template import ChatTemplate
from trainer_core.data.tokenizer import ChatTokenizer, load_tokenizer
from trainer_core.errors import ConfigError, ModelError

Make = Callable[..., ChatTokenizer]

SYSTEM, ASK = Turn("system", "Be brief."), Turn("user", "Hi?")
SAID, MORE = Turn("assistant", "Hello."), Turn("user", "And?")
TALK = (ASK, SAID, MORE)

# What the formats' own documentation gives for: user, assistant, user, then the answer's header;
# and the start of the same conversation with a system turn.
FORMATS = {
    "chatml": (
        "<|im_start|>user\nHi?<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n"
        "<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi?<|im_end|>\n",
    ),
    "llama3": (
        "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nAnd?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi?<|eot_id|>",
    ),
    "gemma": (
        "<bos><start_of_turn>user\nHi?<end_of_turn>\n<start_of_turn>model\nHello.<end_of_turn>\n"
        "<start_of_turn>user\nAnd?<end_of_turn>\n<start_of_turn>model\n",
        "<bos><start_of_turn>user\nBe brief.\n\nHi?<end_of_turn>\n",
    ),
    "mistral": (
        "<s>[INST] Hi? [/INST] Hello.</s>[INST] And? [/INST]",
        "<s>[INST] Be brief.\n\nHi? [/INST]",
    ),
    "phi3": (
        "<|user|>\nHi?<|end|>\n<|assistant|>\nHello.<|end|>\n<|user|>\nAnd?<|end|>\n"
        "<|assistant|>\n",
        "<|system|>\nBe brief.<|end|>\n<|user|>\nHi?<|end|>\n",
    ),
    "zephyr": (
        "<|user|>\nHi?</s>\n<|assistant|>\nHello.</s>\n<|user|>\nAnd?</s>\n<|assistant|>\n",
        "<|system|>\nBe brief.</s>\n<|user|>\nHi?</s>\n",
    ),
    "alpaca": (
        "Below is an instruction that describes a task. Write a response that appropriately "
        "completes the request.\n\n### Instruction:\nHi?\n\n### Response:\nHello.\n\n"
        "### Instruction:\nAnd?\n\n### Response:\n",
        "Be brief.\n\n### Instruction:\nHi?\n\n",
    ),
}


def test_every_built_in_template_is_checked_here() -> None:
    assert built_in_templates() == sorted(FORMATS)
    helped = RunConfig.model_fields["chat_template"].description or ""
    assert all(name in helped for name in FORMATS)


@pytest.mark.parametrize("name", FORMATS)
def test_built_in_templates_write_the_public_formats(name: str) -> None:
    template = ChatTemplate(read_template(name), {})
    asked, opened = FORMATS[name]
    assert template.render(TALK, generation_prompt=True) == asked
    assert template.render((SYSTEM, ASK)) == opened


@pytest.mark.parametrize("name", FORMATS)
def test_every_answer_is_found_in_built_in_templates(
    make_tokenizer: Make, tmp_path: Path, name: str
) -> None:
    tokenizer = make_tokenizer("bytes", read_template(name), eos="</s>", bos=True)
    rows = {"messages": [turn.as_message() for turn in (SYSTEM, *TALK, Turn("assistant", "So."))]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(rows) + "\n")
    config = RunConfig(model="m", data=str(tmp_path / "rows.jsonl"), valid_fraction=0)
    (row,) = tokenise(read_rows(config), config, tokenizer).train
    trained = tokenizer.decode([i for i, on in zip(*_pair(row), strict=True) if on])
    ending = {"chatml": "<|im_end|>", "llama3": "<|eot_id|>", "gemma": "<end_of_turn>"}
    mark = ending.get(name, "<|end|>" if name == "phi3" else "</s>")
    said = "".join(trained.split()).removesuffix("</s>").removesuffix(mark)
    assert said == f"Hello.{mark}So."
    assert "And?" not in trained


def _pair(row: Any) -> tuple[list[int], list[bool]]:
    return row.chosen.ids.tolist(), row.chosen.trained.tolist()


def test_templates_come_from_files(tmp_path: Path) -> None:
    plain = tmp_path / "mine.jinja"
    plain.write_text("{{ messages }}", encoding="utf-8-sig")
    held = tmp_path / "tokenizer_config.json"
    held.write_text(json.dumps({"chat_template": "{{ x }}"}))
    assert read_template(str(plain)) == "{{ messages }}"
    assert read_template(str(held)) == "{{ x }}"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("chatlm", None, "no built-in template of that name"),
        ("a\0b", None, "no built-in template"),
        ("empty.jinja", "", "empty"),
        ("x.json", "{", "not valid JSON"),
        ("x.json", '{"chat_template": []}', "no text under chat_template"),
        ("big.jinja", "x" * (1 << 21), "more than 1 MB"),
    ],
)
def test_templates_that_cannot_be_read(
    tmp_path: Path, name: str, content: str | None, said: str
) -> None:
    path = name
    if content is not None:
        (tmp_path / name).write_text(content)
        path = str(tmp_path / name)
    with pytest.raises(ConfigError, match=said) as raised:
        read_template(path)
    assert raised.value.key == "chat_template"


def test_a_named_template_with_values_and_a_system_prompt(golden: Path, tmp_path: Path) -> None:
    source = tmp_path / "t.jinja"
    source.write_text(
        "{{ mood }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    config = RunConfig(
        model="m",
        data="d",
        chat_template=str(source),
        template_kwargs={"mood": "calm"},
        system_prompt="Be kind.",
    )
    tokenizer = load_tokenizer(golden / "llama", config)
    assert tokenizer.render_prompt([ASK]) == "calm[system]Be kind.[user]Hi?[assistant]"
    own = tokenizer.render_prompt([SYSTEM, ASK])
    assert own == "calm[system]Be brief.[user]Hi?[assistant]"
    # The tokenizer of transformers is shared and stays as it was.
    other = load_tokenizer(golden / "llama", RunConfig(model="m", data="d"))
    assert "im_start" in other.render_prompt([ASK])


def test_rows_without_a_system_turn_get_the_prompt(make_tokenizer: Make, tmp_path: Path) -> None:
    turns = [ASK.as_message(), SAID.as_message()]
    rows = [{"messages": turns}, {"messages": [SYSTEM.as_message(), *turns]}, {"text": "plain"}]
    rows.append({"prompt": "Hi?", "completion": "Hello."})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = RunConfig(model="m", data=str(tmp_path / "rows.jsonl"), valid_fraction=0)
    tokenizer = make_tokenizer()
    tokenizer.chat = Chat(system="Be kind.")
    made = tokenise(read_rows(config), config, tokenizer)
    texts = [tokenizer.decode(row.chosen.ids.tolist()) for row in made.train]
    assert [text.count("Be kind.") for text in texts] == [1, 0, 0, 1]
    assert all("Hello.<|im_end|>" in text for text in texts[:2])


def test_marks_that_the_model_does_not_know_are_told(golden: Path) -> None:
    config = RunConfig(model="m", data="d", chat_template="llama3")
    tokenizer = load_tokenizer(golden / "llama", config)
    tokenizer.render_prompt([ASK])
    (note,) = [note for note in tokenizer.notes if note[0] == "template_marks"]
    assert "<|eot_id|>" in note[1]
    native = load_tokenizer(golden / "llama", RunConfig(model="m", data="d"))
    native.render_prompt([ASK])
    assert native.notes == []


def test_an_adapter_keeps_how_it_was_taught(tmp_path: Path) -> None:
    config = RunConfig(
        model="m", data="d", system_prompt="Be kind.", template_kwargs={"a": [1, "é"]}
    )
    for name, text in chat_files("{{ template }}", config).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = RunConfig(model="m", data="d", **chat_options(tmp_path))
    chat = chat_of(found)
    assert chat == Chat("{{ template }}", {"a": [1, "é"]}, "Be kind.")


def test_an_adapter_taught_on_raw_text(tmp_path: Path) -> None:
    files = chat_files("{{ t }}", RunConfig(model="m", data="d", prompt_format="raw"))
    assert list(files) == [CHAT_FILE]
    (tmp_path / CHAT_FILE).write_text(files[CHAT_FILE])
    assert chat_options(tmp_path) == {"prompt_format": "raw"}


def test_an_adapter_that_says_nothing_or_nonsense(tmp_path: Path) -> None:
    assert chat_options(tmp_path) == {}
    (tmp_path / CHAT_FILE).write_text("[]")
    with pytest.raises(ModelError, match="cannot be read"):
        chat_options(tmp_path)
