"""Where the answers lie in the text of a conversation.

A conversation is cut at the borders of what is trained, so that each part can be encoded on its
own: the tokens before an answer are then exactly those that a model sees when it is asked for that
answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from trainer_core.data.example import BadRow, Example, Turn, as_turns
from trainer_core.data.template import ChatTemplate, TemplateRefusal

LossOn = Literal["assistant", "last", "everything"]
Tools = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a row's text, and whether it is trained."""

    text: str
    trained: bool


@dataclass(frozen=True, slots=True)
class RenderedRow:
    """A row to be trained by SFT.

    Attributes:
        pieces: the text in order.
        answer: index of the piece with which the last answer begins; 0 if there is no prompt.
        notes: codes of warnings, see `NOTES`.
    """

    pieces: tuple[Piece, ...]
    answer: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RenderedPair:
    """A pair whose two texts are `prompt + chosen` and `prompt + rejected`."""

    prompt: str
    chosen: str
    rejected: str
    notes: tuple[str, ...] = ()


NOTES = {
    "history_rewritten": (
        "the chat template writes earlier turns differently once others follow, so only the last "
        "answer is trained in {count} rows",
        "set loss_on to last to make that the rule for every row",
    ),
    "generation_prompt": (
        "the chat template ends a prompt differently from how it writes a finished answer, so in "
        "{count} rows the answer begins where the two still agree",
        "",
    ),
}


def render_row(example: Example, template: ChatTemplate, loss_on: LossOn) -> RenderedRow:
    """The text of a conversation in pieces, with what `loss_on` selects marked as trained.

    Raises:
        BadRow: the template refuses the conversation, or its answer cannot be found in the text.
    """
    turns = as_turns(example.prompt, "user") + as_turns(example.chosen, "assistant")
    turns, tools = template.adapt(_without_ending(turns, template), example.tools)
    answers = [index for index, turn in enumerate(turns) if turn.role == "assistant"]
    text, marks = _whole(template, turns, tools)
    start, notes = _start(template, turns[: answers[-1]], tools, text, turns[answers[-1]])
    if loss_on == "everything":
        body = text.rstrip() if template.turn_ending else text
        return RenderedRow((Piece(text[:start], True), Piece(body[start:], True)), 1, notes)
    spans = [span for span in marks if loss_on == "assistant" or span[0] >= start]
    if not spans:
        last = _span_of(template, turns, answers[-1], tools, text, start)
        earlier = (
            _earlier(template, turns, answers[:-1], tools, text) if loss_on == "assistant" else []
        )
        if earlier is None:
            earlier, notes = [], (*notes, "history_rewritten")
        spans = [*earlier, last]
    return _in_pieces(text, [_with_ending(template, text, *span) for span in spans], notes)


def render_pair(example: Example, template: ChatTemplate) -> RenderedPair:
    """The text of a pair: one prompt, and what the template makes of each answer.

    Raises:
        BadRow: the template refuses the conversation, or does not write one prompt for both
            answers.
    """
    assert example.rejected is not None
    prompt, tools = template.adapt(as_turns(example.prompt, "user"), example.tools)
    found: list[tuple[str, str]] = []
    notes: set[str] = set()
    for answer in (example.chosen, example.rejected):
        turns, _ = template.adapt(_without_ending(as_turns(answer, "assistant"), template), ())
        text, _ = _whole(template, prompt + turns, tools)
        start, noted = _start(template, prompt, tools, text, turns[0])
        notes.update(noted)
        end = _with_ending(template, text, start, len(text))[1]
        found.append((text[:start], text[start:end]))
    (before, chosen), (other, rejected) = found
    if before != other:
        raise BadRow(
            "the chat template writes the prompt differently for the two answers", _TEMPLATE_HINT
        )
    return RenderedPair(before, chosen, rejected, tuple(notes))


_TEMPLATE_HINT = "set prompt_format to raw, or use a model with a simpler template"


def _without_ending(turns: tuple[Turn, ...], template: ChatTemplate) -> tuple[Turn, ...]:
    """Take off an end-of-turn mark that an answer brings along; the template adds its own."""
    ending = template.turn_ending
    if not ending or not any(turn.content.rstrip().endswith(ending) for turn in turns):
        return turns
    return tuple(
        Turn(turn.role, turn.content.rstrip().removesuffix(ending), turn.extra)
        if turn.role == "assistant"
        else turn
        for turn in turns
    )


def _whole(
    template: ChatTemplate, turns: Sequence[Turn], tools: Tools
) -> tuple[str, list[tuple[int, int]]]:
    try:
        if template.has_markers:
            text, marks = template.render_marked(turns, tools)
            return text, [span for span in marks if text[span[0] : span[1]].strip()]
        return template.render(turns, tools), []
    except TemplateRefusal as refusal:
        roles = ", ".join(turn.role for turn in turns[:6])
        raise BadRow(
            f"the chat template refuses the turns {roles}: {refusal}", _TEMPLATE_HINT
        ) from refusal


def _start(
    template: ChatTemplate, before: Sequence[Turn], tools: Tools, text: str, answer: Turn
) -> tuple[int, tuple[str, ...]]:
    """Where an answer starts in the whole text: after its header, as a model is given it.

    Raises:
        BadRow: the answer is not to be found.
    """
    asked = _prompt(template, before, tools, generation_prompt=True)
    if asked is not None and text.startswith(asked):
        return len(asked), ()
    history = _prompt(template, before, tools, generation_prompt=False)
    if history is not None and text.startswith(history):
        header = template.answer_header
        agreed = header if text.startswith(header, len(history)) else ""
        return len(history) + len(agreed), ("generation_prompt",)
    content = answer.content.strip()
    at = text.rfind(content) if content else -1
    if at < 0:
        raise BadRow("the chat template leaves the answer out or rewrites it", _TEMPLATE_HINT)
    return at, ("history_rewritten",)


def _prompt(
    template: ChatTemplate, turns: Sequence[Turn], tools: Tools, *, generation_prompt: bool
) -> str | None:
    """Text of the first turns, or None if the template does not take them alone."""
    try:
        return template.render(turns, tools, generation_prompt=generation_prompt)
    except TemplateRefusal:
        return None


def _span_of(
    template: ChatTemplate, turns: Sequence[Turn], index: int, tools: Tools, text: str, start: int
) -> tuple[int, int]:
    """Range of the answer at `index`, which starts at `start`."""
    if index == len(turns) - 1:
        return start, len(text)
    upto = _prompt(template, turns[: index + 1], tools, generation_prompt=False)
    if upto is not None and text.startswith(upto):
        return start, len(upto)
    content = turns[index].content.strip()
    return start, text.index(content, start) + len(content) if content in text[start:] else len(
        text
    )


def _earlier(
    template: ChatTemplate, turns: Sequence[Turn], answers: Sequence[int], tools: Tools, text: str
) -> list[tuple[int, int]] | None:
    """Ranges of earlier answers, or None if any of them stands differently in the whole text."""
    spans: list[tuple[int, int]] = []
    for index in answers:
        upto = _prompt(template, turns[: index + 1], tools, generation_prompt=False)
        asked = _prompt(template, turns[:index], tools, generation_prompt=True)
        if upto is None or asked is None or not text.startswith(upto):
            return None
        if text.startswith(asked):
            start = len(asked)
        else:
            history = _prompt(template, turns[:index], tools, generation_prompt=False)
            if history is None or not text.startswith(history):
                return None
            header = template.answer_header
            start = len(history) + (len(header) if text.startswith(header, len(history)) else 0)
        spans.append((start, len(upto)))
    return spans


def _with_ending(template: ChatTemplate, text: str, start: int, end: int) -> tuple[int, int]:
    """The range with the end-of-turn mark inside, and the white space after it outside."""
    body = text[start:end].rstrip()
    end = start + len(body)
    ending = template.turn_ending
    if ending and not body.endswith(ending):
        after = text[end:]
        if after.lstrip().startswith(ending):
            end += len(after) - len(after.lstrip()) + len(ending)
    return start, end


def _in_pieces(text: str, spans: Sequence[tuple[int, int]], notes: tuple[str, ...]) -> RenderedRow:
    pieces: list[Piece] = []
    at = 0
    for start, end in spans:
        pieces += [Piece(text[at:start], False), Piece(text[start:end], True)]
        at = end
    return RenderedRow(tuple(pieces), len(pieces) - 1, notes)
