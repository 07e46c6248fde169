"""A model's chat template: rendering, and what it can and cannot take.

Templates differ in whether they accept a system turn, tool calls, tool definitions and tool
answers. Each ability is tried once on a small conversation; what a template refuses or silently
drops is written into the text of another turn, and `notes` says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from trainer_core.data.example import Turn

_MARKED = re.compile(r"\{%-?\+?\s*generation\s*-?\+?%\}")
_ASKED = "burnish-question"
_SAID = "burnish-answer"
_TOLD = "burnish-instruction"

Note = tuple[str, str, str]


class TemplateRefusal(Exception):
    """The template raised an error for a conversation. The message is the template's own reason."""


class ChatTemplate:
    """Renders turns with a Jinja chat template in transformers' sandbox.

    Args:
        source: the Jinja source.
        variables: what the template may read besides the turns, such as `bos_token`.
    """

    def __init__(self, source: str, variables: Mapping[str, Any]) -> None:
        self.source = source
        self.has_markers = _MARKED.search(source) is not None
        self.notes: dict[str, Note] = {}
        self._variables = dict(variables)

    def render(
        self,
        turns: Sequence[Turn],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        generation_prompt: bool = False,
    ) -> str:
        """The text of the turns; `generation_prompt` adds the header of an assistant turn.

        Raises:
            TemplateRefusal: the template does not take these turns.
        """
        return self._render(turns, tools, generation_prompt, marked=False)[0]

    def render_marked(
        self, turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]] = ()
    ) -> tuple[str, list[tuple[int, int]]]:
        """The text, and the character ranges inside the template's generation markers.

        Raises:
            TemplateRefusal: the template does not take these turns.
        """
        return self._render(turns, tools, False, marked=True)

    def _render(
        self,
        turns: Sequence[Turn],
        tools: Sequence[Mapping[str, Any]],
        generation_prompt: bool,
        *,
        marked: bool,
    ) -> tuple[str, list[tuple[int, int]]]:
        from transformers.utils.chat_template_utils import render_jinja_template

        try:
            texts, marks = render_jinja_template(
                conversations=[[turn.as_message() for turn in turns]],
                tools=[dict(tool) for tool in tools] or None,
                chat_template=self.source,
                add_generation_prompt=generation_prompt,
                return_assistant_tokens_mask=marked,
                **self._variables,
            )
        except ImportError:
            raise
        # A template is a program of the model's author; whatever it raises means that it refuses
        # these turns.
        except Exception as error:
            raise TemplateRefusal(
                str(error).strip().split("\n")[0] or type(error).__name__
            ) from error
        spans = [(int(start), int(end)) for start, end in marks[0]] if marked else []
        return texts[0], spans

    def adapt(
        self, turns: tuple[Turn, ...], tools: Sequence[Mapping[str, Any]]
    ) -> tuple[tuple[Turn, ...], tuple[Mapping[str, Any], ...]]:
        """Turns and tools in a form that this template can take."""
        tools = tuple(tools)
        if any("tool_calls" in turn.extra for turn in turns) and not self._takes_tool_calls:
            turns = tuple(_call_as_text(turn) for turn in turns)
            self._note(
                "tool_calls_as_text", "does not write tool calls, so they are trained as JSON text"
            )
        if any(turn.role == "tool" for turn in turns) and not self._takes_tool_answers:
            turns = tuple(
                Turn("user", turn.content) if turn.role == "tool" else turn for turn in turns
            )
            self._note(
                "tool_answers_as_user",
                "does not take tool answers, so they are given as user turns",
            )
        if tools and not self._takes_tools:
            turns, tools = _with_system(turns, _tools_as_text(tools)), ()
            self._note(
                "tools_in_system",
                "does not write tool definitions, so they stand in the system text",
            )
        if any("reasoning_content" in turn.extra for turn in turns):
            key = self._reasoning_key
            turns = tuple(_with_reasoning(turn, key) for turn in turns)
            if key is None:
                self._note(
                    "reasoning_as_text",
                    "does not write reasoning, so it stands before the answer in <think> tags",
                )
        if turns and turns[0].role == "system" and not self.takes_system:
            turns = _fold_system(turns)
            self._note(
                "system_folded", "takes no system turn, so its text opens the first user turn"
            )
        return turns, tools

    def _note(self, code: str, what: str) -> None:
        self.notes[code] = (code, f"the model's chat template {what}", "")

    @cached_property
    def takes_system(self) -> bool:
        """Whether a system turn reaches the text."""
        return self._shows([Turn("system", _TOLD), Turn("user", _ASKED)], (), _TOLD)

    @cached_property
    def _takes_tools(self) -> bool:
        return self._shows([Turn("user", _ASKED)], (_tool(_TOLD),), _TOLD)

    @cached_property
    def _takes_tool_calls(self) -> bool:
        return self._shows(
            [Turn("user", _ASKED), _calling(_TOLD)], (_tool(_TOLD + "-other"),), _TOLD
        )

    @cached_property
    def _takes_tool_answers(self) -> bool:
        calling = _calling(_TOLD) if self._takes_tool_calls else Turn("assistant", _SAID)
        answer = Turn("tool", _SAID + "-tool", {"name": _TOLD, "tool_call_id": "call00001"})
        return self._shows([Turn("user", _ASKED), calling, answer], (), _SAID + "-tool")

    @cached_property
    def _reasoning_key(self) -> str | None:
        """The name under which the template reads what was thought before the last answer."""
        for key in ("reasoning_content", "thinking", "reasoning"):
            turns = [Turn("user", _ASKED), Turn("assistant", _SAID, {key: _TOLD})]
            if self._shows(turns, (), _TOLD):
                return key
        return None

    def _shows(self, turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]], what: str) -> bool:
        try:
            text = self.render(turns, tools)
        except TemplateRefusal:
            return False
        return re.search(re.escape(what) + r"(?!-other)", text) is not None

    @cached_property
    def answer_header(self) -> str:
        """What stands before an answer, as far as a prompt and a finished turn agree on it."""
        asked = [Turn("user", _ASKED)]
        before = self.render(asked)
        prompt = self.render(asked, generation_prompt=True)
        whole = self.render([*asked, Turn("assistant", _SAID)])
        if not (prompt.startswith(before) and whole.startswith(before) and _SAID in whole):
            return ""
        header = whole[len(before) : whole.index(_SAID)]
        return _shared(prompt[len(before) :], header)

    @cached_property
    def turn_ending(self) -> str:
        """What the template writes after an answer, stripped; often one special token."""
        turns = [Turn("user", _ASKED), Turn("assistant", _SAID)]
        ending = self.render(turns).rpartition(_SAID)[2].strip()
        if ending:
            return ending
        try:
            longer = self.render([*turns, Turn("user", _TOLD)])
        except TemplateRefusal:
            return ""
        middle = longer.partition(_SAID)[2].partition(_TOLD)[0]
        opening = self.render([Turn("user", _TOLD)]).partition(_TOLD)[0]
        return middle.removesuffix(opening).strip() if middle.endswith(opening) else ""


def _shared(first: str, second: str) -> str:
    count = 0
    while count < min(len(first), len(second)) and first[count] == second[count]:
        count += 1
    return first[:count]


def _fold_system(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    told, rest = turns[0].content, list(turns[1:])
    for index, turn in enumerate(rest):
        if turn.role == "user":
            rest[index] = Turn("user", f"{told}\n\n{turn.content}", turn.extra)
            return tuple(rest)
    return (Turn("user", told), *rest)


def _with_system(turns: tuple[Turn, ...], text: str) -> tuple[Turn, ...]:
    if turns and turns[0].role == "system":
        return (Turn("system", f"{turns[0].content}\n\n{text}", turns[0].extra), *turns[1:])
    return (Turn("system", text), *turns)


def _with_reasoning(turn: Turn, key: str | None) -> Turn:
    """The turn with its reasoning under another key, or without one in the text."""
    thought = turn.extra.get("reasoning_content")
    if thought is None or key == "reasoning_content":
        return turn
    extra = {name: value for name, value in turn.extra.items() if name != "reasoning_content"}
    if key is not None:
        return Turn(turn.role, turn.content, {**extra, key: thought})
    return Turn(turn.role, f"<think>\n{thought}\n</think>\n\n{turn.content}", extra)


def _call_as_text(turn: Turn) -> Turn:
    calls = turn.extra.get("tool_calls")
    if not calls:
        return turn
    lines = [
        f"<tool_call>\n{json.dumps(call['function'], ensure_ascii=False)}\n</tool_call>"
        for call in calls
    ]
    extra = {key: value for key, value in turn.extra.items() if key != "tool_calls"}
    return Turn(turn.role, "\n".join([turn.content, *lines] if turn.content else lines), extra)


def _tools_as_text(tools: Sequence[Mapping[str, Any]]) -> str:
    lines = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
    return f"Tools that may be called, one per line:\n{lines}"


def _tool(name: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {"place": {"type": "string", "description": "a place"}},
    }
    function = {"name": name, "description": "looks something up", "parameters": parameters}
    return {"type": "function", "function": function}


def _calling(name: str) -> Turn:
    call = {
        "type": "function",
        "id": "call00001",
        "function": {"name": name, "arguments": {"place": "here"}},
    }
    return Turn("assistant", "", {"tool_calls": [call]})
