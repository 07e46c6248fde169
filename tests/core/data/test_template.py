from __future__ import annotations

import pytest

from trainer_core.data.example import Turn
from trainer_core.data.template import ChatTemplate, TemplateRefusal

VARIABLES = {"bos_token": "<s>", "eos_token": "</s>"}
ASKED = (Turn("system", "Be brief."), Turn("user", "hi"))
CALL = {"type": "function", "function": {"name": "look", "arguments": {"at": "Rome"}}}
CALLING = (Turn("user", "hi"), Turn("assistant", "", {"tool_calls": [CALL]}), Turn("tool", "sun"))
TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}

# Like Hermes and Qwen: tools in the system turn, calls as tagged JSON, answers in the user's turn.
WITH_TOOLS = (
    "{% if tools %}TOOLS {{ tools | tojson }}\n{% endif %}{% for m in messages %}[{{ m['role'] }}]"
    "{{ m['content'] }}{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}"
    "{{ c.function.arguments | tojson }}</call>{% endfor %}[end]\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


def make(source: str) -> ChatTemplate:
    return ChatTemplate(source, VARIABLES)


@pytest.mark.parametrize(
    ("name", "takes_system", "ending", "header"),
    [
        ("chatml", True, "<|im_end|>", "<|im_start|>assistant\n"),
        ("strict", False, "<end_of_turn>", "<turn>model\n"),
        ("deaf", False, "<|im_end|>", "<|im_start|>assistant\n"),
        ("thinking", True, "<|im_end|>", "<|im_start|>assistant\n"),
        ("marked", True, "<|im_end|>", "<|im_start|>assistant\n"),
        ("plain", True, "", "### assistant:\n"),
        ("rounds", False, "</s>", ""),
    ],
)
def test_what_a_template_does(
    templates: dict[str, str], name: str, takes_system: bool, ending: str, header: str
) -> None:
    template = make(templates[name])
    assert template.takes_system is takes_system
    assert template.turn_ending == ending
    assert template.answer_header == header


def test_end_of_turn_that_only_comes_between_turns() -> None:
    template = make(
        "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}"
        "{% if not loop.last %}</s>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    assert template.turn_ending == "</s>"


def test_nothing_changes_for_a_template_that_takes_everything() -> None:
    template = make(WITH_TOOLS)
    turns = (*ASKED[:1], *CALLING)
    assert template.adapt(turns, (TOOL,)) == (turns, (TOOL,))
    assert not template.notes
    assert '<call>look{"at": "Rome"}</call>' in template.render(turns, (TOOL,))


def test_what_a_template_cannot_take_becomes_text(templates: dict[str, str]) -> None:
    template = make(templates["strict"])
    turns, tools = template.adapt((*ASKED[:1], *CALLING), (TOOL,))
    assert tools == ()
    assert [turn.role for turn in turns] == ["user", "assistant", "user"]
    text = template.render(turns)
    assert text.index("Be brief.") < text.index('"parameters"') < text.index("hi")
    assert '<tool_call>\n{"name": "look", "arguments": {"at": "Rome"}}\n</tool_call>' in text
    assert "sun" in text
    codes = {"system_folded", "tool_calls_as_text", "tool_answers_as_user", "tools_in_system"}
    assert set(template.notes) == codes


def test_markers(templates: dict[str, str]) -> None:
    template = make(templates["marked"])
    assert template.has_markers
    turns = (*ASKED, Turn("assistant", "hello"), Turn("user", "more"), Turn("assistant", "sure"))
    text, spans = template.render_marked(turns)
    assert [text[start:end] for start, end in spans] == ["hello", "sure"]
    assert text == template.render(turns)
    assert not make(templates["chatml"]).has_markers


@pytest.mark.parametrize(
    "source",
    [
        "{{ raise_exception('never') }}",
        "{{ messages[9].content.strip() }}",
        "{{ 1 // 0 }}",
        "{% if %}",
        "{{ messages.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
    ],
)
def test_whatever_goes_wrong_in_a_template_is_a_refusal(source: str) -> None:
    with pytest.raises(TemplateRefusal):
        make(source).render(ASKED)
