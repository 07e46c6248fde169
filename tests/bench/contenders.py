"""Who takes part in a comparison, and on rows of which sizes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.bench.task import Row, random_pair, random_sequence

LOWEST = {"segment_size": 1, "chunk_size": 64}
LOW = {"segment_size": 2, "chunk_size": 128}
ORACLE = {"segment_size": 0, "prefix_sharing": "off", "head": "full"}


@dataclass(frozen=True, slots=True)
class Contender:
    """One trainer with its settings. See `task.Task` for package and options."""

    name: str
    package: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Size:
    """Rows of one step: `text` is T or BxT for SFT, where T tokens are predicted, PxR for pairs."""

    text: str
    pairs: bool

    def rows(self, vocabulary: int) -> list[Row]:
        """Random rows of this size."""
        numbers = [int(number) for number in self.text.split("x")]
        if self.pairs:
            prompt, answer = numbers
            return [random_pair(prompt, answer, vocabulary)]
        count, tokens = numbers if len(numbers) == 2 else (1, numbers[0])
        # Rows of one batch differ in length, as they do in life.
        lengths = [tokens - tokens * n // (2 * count) for n in range(count)]
        return [random_sequence(length, vocabulary, n) for n, length in enumerate(lengths)]


def contenders(method: str, gpu: bool, two_forwards: bool = True) -> list[Contender]:
    """Burnish's ways and its rivals for sft, orpo, orpo-full or dpo.

    ORPO is compared with the nll of mlx-lm-lora, which covers the answers only; orpo-full is what
    Burnish, TRL and the paper do, which no rival does.
    """
    scope = {"sft_scope": "response"} if method == "orpo" else {}
    reference = {"dpo_reference": "base"} if method == "dpo" else {}
    own = {**scope, **reference}
    found = [Contender("Burnish", "burnish", own)]
    if not gpu:
        found.append(Contender("Burnish, segments of 2, chunk 128", "burnish", {**own, **LOW}))
        found.append(Contender("Burnish, segments of 1, chunk 64", "burnish", {**own, **LOWEST}))
    if method != "sft" and two_forwards:
        oracle = {**own, **ORACLE}
        found.append(Contender("whole graph, two forwards, full head", "burnish", oracle))
    rival = {"sft": "mlx-lm", "orpo": "mlx-lm-lora", "dpo": "mlx-lm-lora"}.get(method)
    if rival:
        checkpoint = {"grad_checkpoint": True}
        found.append(Contender(rival, rival))
        found.append(Contender(f"{rival}, grad_checkpoint", rival, checkpoint))
    return found


def default_sizes(method: str, gpu: bool) -> list[str]:
    """Sizes that end in about two minutes."""
    if method == "sft":
        return ["1024", "4096"] if gpu else ["512", "4x256"]
    return ["1024x512", "4096x1024"] if gpu else ["256x128", "512x256"]


def default_model(method: str, gpu: bool) -> str:
    """The shape that is measured by default."""
    if gpu:
        return "qwen3-0.6b"
    return "llama-8" if method == "sft" else "llama-16"
