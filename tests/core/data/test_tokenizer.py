from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer_core.config import RunConfig
from trainer_core.data.tokenizer import ChatTokenizer, load_tokenizer
from trainer_core.errors import DataError, ModelError

Make = Callable[..., ChatTokenizer]
Configure = Callable[..., RunConfig]

USER = [{"role": "user", "content": "hi"}]


@pytest.fixture
def folder(tmp_path: Path, golden: Path) -> Path:
    """A model folder without weights."""
    made = tmp_path / "model"
    made.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json"):
        shutil.copyfile(golden / "llama" / name, made / name)
    return made


def test_golden_folder(folder: Path, configure: Configure) -> None:
    tokenizer = load_tokenizer(folder, configure())
    assert len(tokenizer) == 259
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.pad_id) == (None, 258, 256)
    assert tokenizer.stop_ids == {258}
    assert tokenizer.end_of_turn_id == 258
    assert (
        tokenizer.render_prompt(USER) == "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert tokenizer.decode(tokenizer.prompt_ids(USER)) == tokenizer.render_prompt(USER)


def test_stop_tokens_of_the_generation_config(folder: Path, configure: Configure) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 258, 999]}))
    assert load_tokenizer(folder, configure()).stop_ids == {7, 258}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tokenizer.json", "{", "cannot be loaded"),
        ("tokenizer.json", None, "cannot be loaded"),
        ("tokenizer_config.json", "[", "cannot be loaded"),
        ("generation_config.json", "{", "generation_config.json cannot be read"),
        ("generation_config.json", "[]", "generation_config.json holds no object"),
        ("chat_template.jinja", "{% if", "chat template does not work"),
        ("chat_template.jinja", "{{ raise_exception('no') }}", "does not work: no"),
    ],
)
def test_broken_folders(
    folder: Path, configure: Configure, name: str, content: str | None, said: str
) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    with pytest.raises(ModelError, match=said) as raised:
        load_tokenizer(folder, configure())
    assert raised.value.try_this


def test_missing_folder(tmp_path: Path, configure: Configure) -> None:
    with pytest.raises(ModelError, match="no model folder"):
        load_tokenizer(tmp_path / "none", configure())


def test_code_in_a_folder_is_not_run(folder: Path, configure: Configure, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\nclass Evil: pass\n")
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    settings["auto_map"] = {"AutoTokenizer": ["evil.Evil", None]}
    settings["tokenizer_class"] = "Evil"
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with contextlib.suppress(ModelError):
        load_tokenizer(folder, configure())
    assert not mark.exists()


@pytest.mark.parametrize("kind", ["bytes", "sentencepiece", "legacy"])
@pytest.mark.parametrize("text", ["hello", " hello", "\nhello", "  ", "42", "ünï🙂", '{"a": 1}'])
def test_continuations_are_exact(make_tokenizer: Make, kind: str, text: str) -> None:
    tokenizer = make_tokenizer(kind, adds_bos=True)
    before = tokenizer.encode("the capital of")
    after = tokenizer.encode_continuation(text)
    assert tokenizer.bos_id not in after
    assert tokenizer.decode([*before, *after]) == tokenizer.decode(before) + text


@pytest.mark.parametrize("kind", ["bytes", "sentencepiece", "legacy"])
@pytest.mark.parametrize("template", ["chatml", "strict", "rounds"])
def test_prompt_ids_are_those_of_transformers_with_one_bos(
    make_tokenizer: Make, kind: str, template: str
) -> None:
    tokenizer = make_tokenizer(kind, template, adds_bos=True, eos="</s>")
    theirs = tokenizer.hf.apply_chat_template(USER, add_generation_prompt=True, return_dict=False)
    ours = tokenizer.prompt_ids(USER)
    has_bos = theirs[0] == tokenizer.bos_id
    assert ours == (theirs if has_bos else [tokenizer.bos_id, *theirs])
    assert ours.count(tokenizer.bos_id) == 1


def test_a_question_without_template_or_in_raw_is_plain(make_tokenizer: Make) -> None:
    for tokenizer in (make_tokenizer(template=None), make_tokenizer(prompt_format="raw")):
        assert tokenizer.decode(tokenizer.question_ids("hi")) == "hi"
    assert "<|im_start|>" in (chat := make_tokenizer()).decode(chat.question_ids("hi"))


def test_prompts_a_template_refuses(make_tokenizer: Make) -> None:
    tokenizer = make_tokenizer(template="strict", bos=True)
    with pytest.raises(DataError, match="must alternate"):
        tokenizer.render_prompt([*USER, *USER])
    folded = tokenizer.render_prompt([{"role": "system", "content": "Be brief."}, *USER])
    assert "Be brief.\n\nhi" in folded


def test_a_template_for_tools_of_its_own(make_tokenizer: Make) -> None:
    tokenizer = make_tokenizer()
    plain = tokenizer.hf.chat_template
    tokenizer.hf.chat_template = {
        "default": plain,
        "tool_use": "TOOLS {{ tools | tojson }}" + plain,
    }
    made = ChatTokenizer(tokenizer.hf)
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    assert made.render_prompt(USER, [tool]).startswith("TOOLS [")
    assert not made.render_prompt(USER).startswith("TOOLS")
