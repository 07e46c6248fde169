"""Answers of a model while it trains or after: the adapter's, and the base model's beside them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_sampler

from trainer_core.control import SampleRequest
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.errors import TrainerError
from trainer_core.events import Event, Sample, SamplePiece
from trainer_core.model.lora import Adapter

Wanted = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Answering:
    """A model that can be asked.

    Attributes:
        network: the model, adapter included.
        tokenizer: the model's, with the template of the training.
        adapter: what is trained, or None for a base model.
        base: whether the adapter can be switched off to get the base model.
    """

    network: nn.Module
    tokenizer: ChatTokenizer
    adapter: Adapter | None = None
    base: bool = True

    def answer(self, request: SampleRequest, step: int, wanted: Wanted) -> Iterator[Event]:
        """Answer every prompt, each with the base model first if the request wants it.

        Args:
            request: the prompts, and how to answer them.
            step: told with every answer.
            wanted: asked after every piece; an answer that is no longer wanted ends as it is.

        Raises:
            TrainerError: a prompt is empty.
        """
        for prompt in request.prompts:
            if request.beside_base and self.base:
                yield from self.one(request, prompt, step, wanted, base=True)
            if not wanted():
                return
            yield from self.one(request, prompt, step, wanted, base=False)

    def one(
        self, request: SampleRequest, prompt: str, step: int, wanted: Wanted, *, base: bool
    ) -> Iterator[Event]:
        """Answer one prompt, with or without the adapter."""
        alone = base and self.adapter is not None
        told = True if base else None
        pieces: list[str] = []
        began = time.perf_counter()
        with self.adapter.disabled() if alone and self.adapter else nullcontext():
            for piece in stream(
                self.network,
                self.tokenizer,
                prompt,
                max_tokens=request.max_tokens,
                temperature=request.temperature,
                seed=request.seed,
            ):
                pieces.append(piece)
                if request.streamed:
                    yield SamplePiece(step, prompt, piece, told)
                if not wanted():
                    break
        text = "".join(pieces)
        tokens = len(self.tokenizer.encode_continuation(text)) if text else 0
        yield Sample(step, prompt, text, told, tokens, time.perf_counter() - began)


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
    question = tokenizer.question_ids(prompt) if prompt.strip() else []
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
