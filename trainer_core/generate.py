"""Answers from a model, with or without an adapter, through mlx-lm's own generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer_core import backend, memory
from trainer_core.config import RunConfig
from trainer_core.data.chat import chat_options
from trainer_core.data.tokenizer import load_tokenizer
from trainer_core.model.answers import Answering, stream
from trainer_core.model.find import resolve_model
from trainer_core.model.load import load_model
from trainer_core.model.open_policy import open_with_adapter


@dataclass(frozen=True, slots=True)
class Answer:
    """A prompt and what the model made of it."""

    prompt: str
    text: str


def generate(
    model: str,
    prompts: Sequence[str],
    *,
    adapter: Path | None = None,
    max_tokens: int = 256,
    temperature: float = 0.0,
    seed: int = 0,
    raw: bool = False,
) -> Iterator[Answer]:
    """Answer prompts one after the other.

    Args:
        model: as in the option `model`.
        prompts: questions; see `open_answering` for what is put around them.
        adapter: an adapter folder of mlx-lm or PEFT.
        max_tokens: longest answer.
        temperature: 0 always takes the likeliest token.
        seed: of the sampling.
        raw: take the prompts as they are.

    Raises:
        ModelError: the model or adapter cannot be loaded.
        TrainerError: a prompt is empty.
    """
    words = {"prompt_format": "raw"} if raw else None
    opened = open_answering(model, adapter, words=words)
    for prompt in prompts:
        pieces = stream(
            opened.network,
            opened.tokenizer,
            prompt,
            max_tokens=max_tokens,
            temperature=temperature,
            seed=seed,
        )
        yield Answer(prompt, "".join(pieces))


def open_answering(
    model: str,
    adapter: Path | None = None,
    *,
    words: Mapping[str, Any] | None = None,
    alone: bool = False,
) -> Answering:
    """Load a model that can be asked.

    What is put around a prompt is what the adapter was trained with, if it keeps that: a chat
    template, and a system prompt. Otherwise it is the model's own template.

    Args:
        model: as in the option `model`.
        adapter: an adapter folder of mlx-lm or PEFT.
        words: options of `RunConfig` that say what is put around a prompt instead.
        alone: leave the adapter's weights out, and keep its words.

    Raises:
        ModelError: the model or adapter cannot be loaded.
    """
    backend.prepare()
    device = backend.start_device()
    folder = resolve_model(model)
    taught = chat_options(adapter) if adapter is not None else {}
    config = RunConfig(model=model, data="sample", **(taught if words is None else words))
    tokenizer = load_tokenizer(folder, config)
    needs = memory.estimate(
        folder, config.model_copy(update={"max_seq_length": 512}), kind=device.kind
    )
    weights = backend.resolve_weights(
        "auto", needs, device.kind, backend.available_bytes(device)
    ).weights
    if adapter is None or alone:
        return Answering(load_model(folder, weights).model, tokenizer)
    opened = open_with_adapter(folder, adapter, weights)
    return Answering(opened.model, tokenizer, opened.adapter, base=opened.spec.kind != "full")
