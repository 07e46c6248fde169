"""Answers from a model, with or without an adapter, through mlx-lm's own generation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_core import backend, memory
from trainer_core.config import RunConfig
from trainer_core.data.chat import chat_options
from trainer_core.data.tokenizer import ChatTokenizer, load_tokenizer
from trainer_core.errors import TrainerError
from trainer_core.model.find import resolve_model
from trainer_core.model.load import load_model
from trainer_core.model.open_policy import open_with_adapter

if TYPE_CHECKING:
    import mlx.nn as nn


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
        prompts: questions. The chat template is put around them, the one that the adapter was
            trained with if it keeps it, and its system prompt; or nothing with `raw`.
        adapter: an adapter folder of mlx-lm or PEFT.
        max_tokens: longest answer.
        temperature: 0 always takes the likeliest token.
        seed: of the sampling.
        raw: take the prompts as they are.

    Raises:
        ModelError: the model or adapter cannot be loaded.
        TrainerError: a prompt is empty.
    """
    backend.prepare()
    device = backend.start_device()
    folder = resolve_model(model)
    taught = chat_options(adapter) if adapter is not None else {}
    asked: dict[str, Any] = {"prompt_format": "raw"} if raw else taught
    config = RunConfig(model=model, data="sample", **asked)
    tokenizer = load_tokenizer(folder, config)
    needs = memory.estimate(
        folder, config.model_copy(update={"max_seq_length": 512}), kind=device.kind
    )
    weights = backend.resolve_weights(
        "auto", needs, device.kind, backend.available_bytes(device)
    ).weights
    if adapter is None:
        network = load_model(folder, weights).model
    else:
        network = open_with_adapter(folder, adapter, weights).model
    for prompt in prompts:
        pieces = stream(
            network, tokenizer, prompt, max_tokens=max_tokens, temperature=temperature, seed=seed
        )
        yield Answer(prompt, "".join(pieces))


def stream(
    network: nn.Module,
    tokenizer: ChatTokenizer,
    prompt: str,
    *,
    max_tokens: int = 256,
    temperature: float = 0.0,
    seed: int = 0,
) -> Iterator[str]:
    """The pieces of an answer as they come.

    Args:
        network: a loaded model, adapter included.
        tokenizer: the model's.
        prompt: a question.
        max_tokens: longest answer.
        temperature: 0 always takes the likeliest token.
        seed: of the sampling, used if temperature is above 0.

    Raises:
        TrainerError: there is nothing to answer.
    """
    import mlx.core as mx
    from mlx_lm.generate import generate_step
    from mlx_lm.sample_utils import make_sampler

    question = tokenizer.question_ids(prompt)
    if not question:
        raise TrainerError("the prompt is empty", try_this="write a prompt of one letter or more")
    if temperature > 0:
        mx.random.seed(seed)
    ids: list[int] = []
    shown = ""
    tokens: Iterator[tuple[Any, Any]] = generate_step(
        mx.array(question),
        network,
        max_tokens=max_tokens,
        sampler=make_sampler(temp=temperature),
    )
    for token, _ in tokens:
        if int(token) in tokenizer.stop_ids:
            break
        ids.append(int(token))
        text = tokenizer.decode(ids, skip_special=True)
        # A character whose bytes are not all there yet decodes to U+FFFD; wait for the rest.
        if not text.endswith("�"):
            yield text[len(shown) :]
            shown = text
    rest = tokenizer.decode(ids, skip_special=True)
    if len(rest) > len(shown):
        yield rest[len(shown) :]
