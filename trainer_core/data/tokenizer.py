"""A model's tokenizer and chat template behind one interface, for training and generation.

Encoding of a conversation is the same in both: the template's text without the tokenizer's own
additions, and exactly one BOS where the tokenizer itself puts one before plain text.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.data.chat import Chat, chat_of
from trainer_core.data.example import Turn, as_turns
from trainer_core.data.template import ChatTemplate, Note, TemplateRefusal
from trainer_core.data.template_trial import try_out
from trainer_core.data.turns import parse_tools, parse_turns
from trainer_core.errors import DataError, ModelError

# Texts to encode before a continuation, tried in this order. Tokenizers in the manner of
# SentencePiece put a space before a text; a control character takes it, and nothing merges with it.
_ANCHORS = ("", "\x02", "\n", ".")
_PROBES = ("hello", " hello", "\nhello", "\n\nhello", "42", "Ünï", "{", '"a')

IMPORTING = threading.RLock()
"""Held while transformers is imported: it imports its parts as they are asked for, in circles."""

MessageList = Sequence[Mapping[str, Any]] | Sequence[Turn]


class ChatTokenizer:
    """Token ids from text and conversations, and back.

    Attributes:
        hf: the transformers tokenizer underneath.
        bos_id: id of the BOS token, or None.
        eos_id: the token that ends a plain text, or None.
        stop_ids: every token that ends an answer: eos_id, those of the model's config and
            generation config, and the end-of-turn token of the chat template.
        adds_bos: True if the tokenizer itself puts BOS before plain text.
    """

    def __init__(
        self,
        hf: Any,
        *,
        stop_ids: Sequence[int] = (),
        prompt_format: str = "chat",
        chat: Chat | None = None,
    ) -> None:
        self.hf = hf
        self.chat = chat or Chat()
        self._sources = self.chat.template or hf.chat_template
        self.prompt_format = prompt_format
        self.bos_id: int | None = hf.bos_token_id
        self.eos_id: int | None = (
            hf.eos_token_id if hf.eos_token_id is not None else next(iter(stop_ids), None)
        )
        self._backend = getattr(hf, "backend_tokenizer", None) or getattr(hf, "_tokenizer", None)
        plain = list(hf("a", add_special_tokens=True)["input_ids"])
        self.adds_bos = self.bos_id is not None and plain[:1] == [self.bos_id]
        self.special_ids = frozenset(hf.all_special_ids) | frozenset(
            index for index, token in hf.added_tokens_decoder.items() if token.special
        )
        found = {*stop_ids, self.eos_id, self.end_of_turn_id}
        self.stop_ids: frozenset[int] = frozenset(i for i in found if i is not None)

    def __len__(self) -> int:
        """Number of tokens, added ones included."""
        return len(self.hf)

    @property
    def pad_id(self) -> int:
        """An id to fill up batches with. Masks never look at it."""
        for candidate in (self.hf.pad_token_id, self.eos_id):
            if candidate is not None:
                return int(candidate)
        return 0

    @cached_property
    def has_chat_template(self) -> bool:
        """Whether there is a chat template: the model's, or one that was named."""
        return bool(self._sources)

    @cached_property
    def template(self) -> ChatTemplate:
        """The chat template.

        Raises:
            ModelError: the model has none, or it fails on the plainest conversation.
        """
        return self._template_of("default")

    @cached_property
    def tool_template(self) -> ChatTemplate:
        """The template for conversations with tools; the same one for nearly every model."""
        sources = self._sources
        return (
            self._template_of("tool_use")
            if isinstance(sources, dict) and "tool_use" in sources
            else self.template
        )

    def _template_of(self, name: str) -> ChatTemplate:
        sources = self._sources
        source = (
            (sources.get(name) or next(iter(sources.values())))
            if isinstance(sources, dict)
            else sources
        )
        if not source:
            raise ModelError(
                "the model has no chat template",
                "with prompt_format chat its template turns a conversation into text",
                "use an instruct version of the model, name a template with chat_template, or set "
                "prompt_format to raw",
            )
        variables = {**self.hf.special_tokens_map, **self.chat.values}
        try_out(source, variables)
        template = ChatTemplate(source, variables)
        try:
            template.render(as_turns("a", "user"), generation_prompt=True)
            template.render((*as_turns("a", "user"), *as_turns("b", "assistant")))
        except TemplateRefusal as refusal:
            raise ModelError(
                "the chat template does not work",
                str(refusal),
                "name another one with chat_template, or set prompt_format to raw",
            ) from refusal
        return template

    @cached_property
    def end_of_turn_id(self) -> int | None:
        """The special token that the template puts right after an answer, if it puts one."""
        if self.prompt_format == "raw" or not self.has_chat_template:
            return None
        ids = (
            self.encode_continuation(self.template.turn_ending) if self.template.turn_ending else []
        )
        return ids[0] if ids and ids[0] in self.special_ids else None

    @property
    def template_source(self) -> str | None:
        """Source of the chat template that is used for conversations without tools, or None."""
        return self.template.source if self.has_chat_template else None

    @property
    def notes(self) -> list[Note]:
        """Warnings (code, message, what to try) about what the template could not take so far."""
        made = self.__dict__
        templates = [made[key] for key in ("template", "tool_template") if key in made]
        found = {code: note for template in templates for code, note in template.notes.items()}
        foreign = self._foreign_marks() if self.chat.template and templates else []
        if foreign:
            marks = ", ".join(foreign[:4])
            found["template_marks"] = (
                "template_marks",
                f"the model has no token of its own for {marks}, which the chat template writes",
                "choose the template that belongs to the model, if there is one",
            )
        return list(found.values())

    def _foreign_marks(self) -> list[str]:
        """What looks like a special token in the template's text but is none of this model's."""
        text = self.template.render((*as_turns("a", "user"), *as_turns("b", "assistant")))
        marks = dict.fromkeys(re.findall(r"<\|?[a-z_]+\|?>|\[/?[A-Z_]{3,}\]", text))
        return [mark for mark in marks if len(self.encode_continuation(mark)) != 1]

    def encode(self, text: str) -> list[int]:
        """Ids of a plain text, with BOS if the tokenizer itself adds it and the text lacks it."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` for many texts at once."""
        return [self._one_bos(ids) for ids in self._plain_many(texts)]

    def encode_continuation(self, text: str) -> list[int]:
        """Ids of a text that follows other text: no BOS, and no space that only a start gets."""
        return self.encode_continuations([text])[0]

    def encode_continuations(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode_continuation` for many texts at once."""
        anchor, length = self._anchor
        return [ids[length:] for ids in self._plain_many([anchor + text for text in texts])]

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """The text of ids, exactly as the tokens stand for it."""
        return str(
            self.hf.decode(
                [int(i) for i in ids],
                skip_special_tokens=skip_special,
                clean_up_tokenization_spaces=False,
            )
        )

    def render_prompt(self, messages: MessageList, tools: Any = None) -> str:
        """The text a model is given to answer a conversation, up to the header of its answer.

        Args:
            messages: {"role", "content"} objects, or turns.
            tools: tool definitions, or None.

        Raises:
            ModelError: the model has no working chat template.
            DataError: the template does not take this conversation.
        """
        turns = tuple(
            m if isinstance(m, Turn) else parse_turns([m], "messages")[0] for m in messages
        )
        turns, definitions = self.opened(turns), parse_tools(tools)
        template = self.tool_template if definitions else self.template
        try:
            return template.render(*template.adapt(turns, definitions), generation_prompt=True)
        except TemplateRefusal as refusal:
            raise DataError(
                "the chat template does not take this conversation", str(refusal)
            ) from refusal

    def opened(self, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        """The turns with the system prompt of the configuration before them, if they have none."""
        if self.chat.system is None or (turns and turns[0].role == "system"):
            return turns
        return (Turn("system", self.chat.system), *turns)

    def prompt_ids(self, messages: MessageList, tools: Any = None) -> list[int]:
        """Ids of `render_prompt`."""
        return self.encode(self.render_prompt(messages, tools))

    def question_ids(self, question: str) -> list[int]:
        """Ids of a question: a user turn, or plain text with prompt_format raw or no template."""
        if self.prompt_format == "raw" or not self.has_chat_template:
            return self.encode(question)
        return self.prompt_ids([{"role": "user", "content": question}])

    def _one_bos(self, ids: list[int]) -> list[int]:
        if self.bos_id is None:
            return ids
        while ids[:2] == [self.bos_id, self.bos_id]:
            ids = ids[1:]
        return [self.bos_id, *ids] if self.adds_bos and ids[:1] != [self.bos_id] else ids

    def _plain_many(self, texts: Sequence[str]) -> list[list[int]]:
        if self._backend is None:
            return [list(self.hf(text, add_special_tokens=False)["input_ids"]) for text in texts]
        return [
            e.ids for e in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        ]

    @cached_property
    def _anchor(self) -> tuple[str, int]:
        """Text to put before a continuation so that it comes out exact, and its tokens."""
        before = self._plain_many(["x:"])[0]
        start = self.decode(before)
        for anchor in _ANCHORS:
            lead = self._plain_many([anchor])[0] if anchor else []
            whole = self._plain_many([anchor + probe for probe in _PROBES])
            if all(
                ids[: len(lead)] == lead
                and self.decode([*before, *ids[len(lead) :]]) == start + probe
                for ids, probe in zip(whole, _PROBES, strict=True)
            ):
                return anchor, len(lead)
        return "", 0


def load_tokenizer(folder: Path, config: RunConfig) -> ChatTokenizer:
    """The tokenizer in a model folder. Never touches the network and never runs the folder's code.

    Raises:
        ModelError: the folder has no tokenizer that can be used.
        ConfigError: the chat template that is named cannot be read.
    """
    if not folder.is_dir():
        raise ModelError(f"there is no model folder at {folder}", "", "check the path of `model`")
    try:
        changed = max((p.stat().st_mtime_ns for p in folder.glob("*.json")), default=0)
        hf = _read(folder, changed, threading.get_ident())
    # transformers raises many kinds of errors for broken files; all of them mean the same to the
    # user.
    except Exception as error:
        reason = str(error).strip().split("\n")[0][:300] or type(error).__name__
        raise ModelError(
            f"the tokenizer in {folder} cannot be loaded",
            reason,
            "copy or download the whole model folder again",
        ) from error
    return ChatTokenizer(
        hf,
        stop_ids=_stop_ids(folder, len(hf)),
        prompt_format=config.prompt_format,
        chat=chat_of(config),
    )


@lru_cache(maxsize=4)
def _read(folder: Path, changed: int, thread: int) -> Any:  # noqa: ARG001 - a new one for each
    """The tokenizer of transformers, kept for the next call from the same thread.

    Reading it stops every Python thread for a tenth of a second, so the app does it before a run
    begins, and the run finds it here. Two threads must not use one at a time: it is changed by
    being used.
    """
    with IMPORTING:
        from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(
        str(folder), local_files_only=True, trust_remote_code=False
    )


def _stop_ids(folder: Path, size: int) -> list[int]:
    """End tokens that the model's own files name, the generation config's first."""
    found: list[int] = []
    for name in ("generation_config.json", "config.json"):
        try:
            values = json.loads((folder / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{folder / name} cannot be read", str(error), "download the model again"
            ) from error
        if not isinstance(values, dict):
            raise ModelError(f"{folder / name} holds no object", "", "download the model again")
        for part in (values, values.get("text_config")):
            if not isinstance(part, dict):
                continue
            named = part.get("eos_token_id")
            found += [
                i for i in (named if isinstance(named, list) else [named]) if isinstance(i, int)
            ]
    return list(dict.fromkeys(i for i in found if 0 <= i < size))
