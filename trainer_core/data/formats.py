"""Which shape a row has, and the canonical `Example` it becomes. Every row is looked at on its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from trainer_core.data.dialogue import answer_turns, prompt_turns, split_dialogues, split_texts
from trainer_core.data.example import BadRow, Example, Turn, as_turns
from trainer_core.data.turns import kind_of, parse_tools, parse_turns, require_text
from trainer_core.data.types import Source

PromptFormat = Literal["chat", "raw"]

CONVERSATIONS = ("messages", "conversations", "conversation")
PROMPTS = ("prompt", "question", "query", "instruction", "input")
ANSWERS = ("completion", "response", "answer", "output")
CONTEXTS = ("input", "context")

KNOWN_SHAPES = (
    "messages, prompt and completion, instruction and output, conversations, question and answer, text, "
    "or chosen and rejected"
)

Part = str | tuple[Turn, ...]


def parse_row(values: Mapping[str, Any], source: Source, prompt_format: PromptFormat) -> Example:
    """The example that a row holds.

    Args:
        values: the JSON object. A key with null counts as absent.
        source: where it stands.
        prompt_format: `raw` takes text as it is and therefore refuses conversations.

    Raises:
        BadRow: no known shape, or a known one that is empty, contradictory or of the wrong type.
    """
    row = {key: value for key, value in values.items() if value is not None}
    example = _detect(row, values, source, prompt_format)
    if prompt_format == "raw" and not isinstance(example.prompt, str):
        raise BadRow(
            f"a row of {example.shape} cannot be used with prompt_format raw",
            "use prompt_format chat, or rows of text with a prompt and a completion",
        )
    return example


def _detect(
    row: Mapping[str, Any], values: Mapping[str, Any], source: Source, prompt_format: PromptFormat
) -> Example:
    if "chosen" in row or "rejected" in row:
        return _preference(row, source, prompt_format)
    if any(key in row for key in CONVERSATIONS):
        return _conversation(row, source)
    answer = next((key for key in ANSWERS if key in row), None)
    prompt = next((key for key in PROMPTS if key in row), None)
    if answer is not None and prompt is not None:
        return _prompt_and_answer(row, source, answer)
    if "text" in row:
        return Example(source, "text", "", _filled(row["text"], "text"))
    raise BadRow(_what_is_missing(row, values), f"a row needs {KNOWN_SHAPES}")


def _what_is_missing(row: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    nulls = [key for key in values if key not in row]
    if nulls and any(key in (*CONVERSATIONS, *PROMPTS, *ANSWERS, "text") for key in nulls):
        return f"{', '.join(nulls[:4])} {'is' if len(nulls) == 1 else 'are'} null"
    answer = next((key for key in ANSWERS if key in row), None)
    prompt = next((key for key in PROMPTS if key in row), None)
    if prompt is not None:
        return f"the row has {prompt} but no answer"
    if answer is not None:
        return f"the row has {answer} but no prompt"
    keys = ", ".join(list(row)[:6])
    return (
        f"the shape of the row is not known (its keys are {keys})" if keys else "the row is empty"
    )


def _conversation(row: Mapping[str, Any], source: Source) -> Example:
    key = next(key for key in CONVERSATIONS if key in row)
    turns = _system(row) + parse_turns(row[key], key)
    last = max((i for i, turn in enumerate(turns) if turn.role == "assistant"), default=None)
    if last is None:
        raise BadRow(
            f"{key} has no assistant turn to learn from", "add the answer, or remove the row"
        )
    shape = "messages" if key == "messages" else "conversations"
    return Example(source, shape, turns[:last], turns[last:], None, parse_tools(row.get("tools")))


def _prompt_and_answer(row: Mapping[str, Any], source: Source, answer: str) -> Example:
    prompt, shape = _prompt(row, answer)
    told = row[answer]
    if isinstance(prompt, str) and isinstance(told, str):
        return Example(source, shape, prompt, _filled(told, answer))
    chosen = _answer(told, answer)
    return Example(
        source,
        shape,
        as_turns(prompt, "user"),
        as_turns(chosen, "assistant"),
        None,
        parse_tools(row.get("tools")),
    )


def _prompt(row: Mapping[str, Any], answer: str) -> tuple[Part, str]:
    """Prompt of a row that is not a message list as a whole, and the name of the row's shape."""
    if "instruction" in row and not ("prompt" in row or "question" in row or "query" in row):
        return _alpaca_prompt(row), f"instruction and {answer}"
    key = next(key for key in PROMPTS if key in row)
    shape = f"{key} and {answer}"
    if isinstance(row[key], str):
        text = _filled(row[key], key)
        return (_system(row) + as_turns(text, "user") if _system(row) else text), shape
    turns = _system(row) + parse_turns(row[key], key)
    _check_prompt(turns, key)
    return turns, shape


def _alpaca_prompt(row: Mapping[str, Any]) -> Part:
    text = require_text(row["instruction"], "instruction")
    context = next((key for key in CONTEXTS if key in row), None)
    more = require_text(row[context], context) if context else ""
    joined = (
        f"{text}\n{more}" if text.strip() and more.strip() else (text if text.strip() else more)
    )
    asked = _filled(joined, "instruction")
    before = _system(row) + _history(row.get("history"))
    return before + as_turns(asked, "user") if before else asked


def _history(value: Any) -> tuple[Turn, ...]:
    """Earlier rounds of an Alpaca row: a list of [question, answer]."""
    if value is None or value == "":
        return ()
    turns: list[Turn] = []
    if not isinstance(value, list):
        raise BadRow(
            f"history is {kind_of(value)}, not a list", "write it as [[question, answer], ...]"
        )
    for index, round_ in enumerate(value):
        if not isinstance(round_, list) or len(round_) != 2:
            raise BadRow(
                f"history[{index}] is not a question and an answer",
                "write it as [question, answer]",
            )
        turns.append(Turn("user", _filled(round_[0], f"history[{index}][0]")))
        turns.append(Turn("assistant", _filled(round_[1], f"history[{index}][1]")))
    return tuple(turns)


def _system(row: Mapping[str, Any]) -> tuple[Turn, ...]:
    key = "system" if "system" in row else "system_prompt"
    text = require_text(row.get(key, ""), key)
    return (Turn("system", text),) if text.strip() else ()


def _preference(row: Mapping[str, Any], source: Source, prompt_format: PromptFormat) -> Example:
    for key, other in (("chosen", "rejected"), ("rejected", "chosen")):
        if key not in row:
            raise BadRow(f"the row has {other} but no {key}", "a pair needs both answers")
    tools = parse_tools(row.get("tools"))
    if _is_whole(row["chosen"]) or _is_whole(row["rejected"]):
        return _implicit_chat(row, source, tools)
    conversation = next((key for key in CONVERSATIONS if key in row), None)
    if conversation is not None:
        prompt: Part = _system(row) + parse_turns(row[conversation], conversation)
        _check_prompt(prompt, conversation)
        shape = f"{conversation} with chosen and rejected"
    elif any(key in row for key in PROMPTS):
        prompt, shape = _prompt(row, "chosen and rejected")
        shape = shape.replace(" and chosen", ", chosen")
    else:
        return _implicit_text(row, source, prompt_format)
    chosen, rejected = _answer(row["chosen"], "chosen"), _answer(row["rejected"], "rejected")
    return _pair(source, shape, prompt, chosen, rejected, tools)


def _is_whole(value: Any) -> bool:
    """True for a message list that holds more than the answer."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return False
    first = str(value[0].get("role", value[0].get("from"))).lower()
    return first in ("system", "developer", "user", "human")


def _implicit_chat(
    row: Mapping[str, Any], source: Source, tools: tuple[Mapping[str, Any], ...]
) -> Example:
    chosen, rejected = (
        parse_turns(row["chosen"], "chosen"),
        parse_turns(row["rejected"], "rejected"),
    )
    shared = 0
    while shared < min(len(chosen), len(rejected)) and chosen[shared] == rejected[shared]:
        shared += 1
    if chosen == rejected:
        raise BadRow("chosen and rejected are the same", "a pair needs two different answers")
    alike = shared
    # A shared answer followed by a longer conversation on one side still has to leave an answer on both.
    while shared and not (_answers_at(chosen, shared) and _answers_at(rejected, shared)):
        shared -= 1
    if shared == 0:
        what = "has no answer after them" if alike else "starts with other turns"
        raise BadRow(
            f"chosen and rejected share {alike} turns and one of them {what}",
            "both need the same prompt, then an answer",
        )
    prompt = chosen[:shared]
    _check_prompt(prompt, "the shared part of chosen and rejected")
    stated = row.get("prompt")
    if (
        isinstance(stated, str)
        and stated.strip()
        and not any(stated.strip() in t.content for t in prompt)
    ):
        raise BadRow("prompt differs from the first turns of chosen", "remove prompt, or mend it")
    return _pair(
        source,
        "chosen and rejected conversations",
        prompt,
        chosen[shared:],
        rejected[shared:],
        tools,
    )


def _answers_at(turns: tuple[Turn, ...], index: int) -> bool:
    return index < len(turns) and turns[index].role == "assistant"


def _implicit_text(row: Mapping[str, Any], source: Source, prompt_format: PromptFormat) -> Example:
    chosen, rejected = _filled(row["chosen"], "chosen"), _filled(row["rejected"], "rejected")
    if chosen.strip() == rejected.strip():
        raise BadRow("chosen and rejected are the same", "a pair needs two different answers")
    split = split_dialogues(chosen, rejected)
    shape = "chosen and rejected dialogues"
    if prompt_format == "raw":
        split = split or split_texts(chosen, rejected)
        if not split.prompt.strip():
            raise BadRow(
                "chosen and rejected share no prompt", "add the prompt under the key prompt"
            )
        return _pair(source, shape, split.prompt, split.chosen, split.rejected, ())
    if split is None:
        raise BadRow(
            "the row has no prompt, and its texts are not dialogues that start alike",
            'add the prompt under the key prompt, or write "Human: ... Assistant: ..."',
        )
    prompt = prompt_turns(split.prompt)
    _check_prompt(prompt, "the dialogue")
    return _pair(
        source,
        shape,
        prompt,
        answer_turns(split.chosen, "chosen"),
        answer_turns(split.rejected, "rejected"),
        (),
    )


def _pair(
    source: Source,
    shape: str,
    prompt: Part,
    chosen: Part,
    rejected: Part,
    tools: tuple[Mapping[str, Any], ...],
) -> Example:
    if not (isinstance(prompt, str) and isinstance(chosen, str) and isinstance(rejected, str)):
        prompt = as_turns(prompt, "user")
        chosen, rejected = as_turns(chosen, "assistant"), as_turns(rejected, "assistant")
    if _words(chosen) == _words(rejected):
        raise BadRow("chosen and rejected are the same", "a pair needs two different answers")
    return Example(source, shape, prompt, chosen, rejected, tools)


def _words(part: Part) -> object:
    if isinstance(part, str):
        return part.strip()
    return [(turn.role, turn.content.strip(), turn.extra) for turn in part]


def _answer(value: Any, key: str) -> Part:
    if isinstance(value, list | Mapping):
        turns = parse_turns(value, key)
        if any(turn.role == "system" for turn in turns) or turns[0].role != "assistant":
            raise BadRow(
                f"{key} does not start with an assistant turn", "put what comes before under prompt"
            )
        return turns
    return _filled(value, key)


def _check_prompt(turns: Part, where: str) -> None:
    if isinstance(turns, str):
        return
    if all(turn.role == "system" for turn in turns):
        raise BadRow(f"{where} has only system turns", "add the user's question")
    if turns[-1].role not in ("user", "tool"):
        raise BadRow(
            f"{where} ends with a turn of the {turns[-1].role}", "end it with the user's question"
        )


def _filled(value: Any, key: str) -> str:
    text = require_text(value, key)
    if not text.strip():
        raise BadRow(f"{key} is empty", "remove the row, or fill in the text")
    return text
