"""What the engine's tests share: small models with an adapter, random rows, comparisons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from trainer_core.config import RunConfig
from trainer_core.data.types import Sequence, Source, TokenisedExample
from trainer_core.heads.flash import VocabularyBlocks
from trainer_core.heads.head import Head, HeadKind
from trainer_core.model.adapter_files import read_parameters, read_spec
from trainer_core.model.load import load_model
from trainer_core.model.lora import attach
from trainer_core.model.open_stack import open_stack
from trainer_core.model.targets import choose
from trainer_core.policy import Policy

FAMILIES = ("llama", "qwen3", "gemma2", "gemma3", "gemma4")


def golden_config(folder: Path, method: str, output: Path, **more: Any) -> RunConfig:
    """The configuration of tests/golden/README.md."""
    values: dict[str, Any] = {
        "model": str(folder),
        "data": str(folder / "preference.jsonl"),
        "method": method,
        "warm_start": str(folder / "init_adapter"),
        "prompt_format": "raw",
        "valid_fraction": 0,
        "shuffle": False,
        "iters": 12,
        "learning_rate": 1e-3,
        "lr_schedule": "constant",
        "weight_decay": 0.0,
        "grad_clip": 1.0,
        "weights": "keep",
        "output": str(output),
        **more,
    }
    return RunConfig(**values)


def golden_steps(folder: Path, method: str) -> list[dict[str, float]]:
    """What TRL reported."""
    return json.loads((folder / f"golden_{method}.json").read_text())["steps"]


def small_policy(
    folder: Path,
    *,
    head: HeadKind = "full",
    chunk: int = 7,
    dropout: float = 0.0,
    seed: int | None = 1,
    share_prefix: bool = False,
) -> Policy:
    """A golden model with its adapter; with a seed, B gets values too, so that A has a gradient."""
    loaded = load_model(folder)
    spec = read_spec(folder / "init_adapter", 8)
    paths = choose(loaded.model, list(spec.keys), -1).paths
    adapter = attach(loaded.model, paths, rank=spec.rank, scale=spec.scale, dropout=dropout)
    adapter.assign(read_parameters(folder / "init_adapter"))
    if seed is not None:
        keys = mx.random.split(mx.random.key(seed), len(adapter.layers))
        for key, layer in zip(keys, adapter.layers.values(), strict=True):
            layer.lora_b = 0.05 * mx.random.normal(layer.lora_b.shape, key=key)
    checked = open_stack(loaded.model, loaded.config["model_type"])
    assert not checked.whole
    stack = checked.stack
    # Blocks that do not divide the vocabulary.
    blocks = VocabularyBlocks(stack.project_block, checked.vocabulary, block=100)
    return Policy(stack, adapter, Head(head, stack.project, chunk, blocks), share_prefix)


def random_pairs(count: int, *, longest: int = 30, vocabulary: int = 256) -> list[TokenisedExample]:
    """Pairs of random tokens with prompts and answers of many lengths."""
    random = np.random.default_rng(3)
    found = []
    for row in range(count):
        prompt = random.integers(0, vocabulary, random.integers(2, longest // 2))
        answers = [random.integers(0, vocabulary, random.integers(1, longest // 2)) for _ in "ab"]
        sequences = []
        for answer in answers:
            trained = np.zeros(len(prompt) + len(answer), dtype=np.bool_)
            trained[len(prompt) :] = True
            ids = np.concatenate([prompt, answer]).astype(np.int32)
            sequences.append(Sequence(ids, trained))
        found.append(
            TokenisedExample(row, Source("rows", row + 1), sequences[0], sequences[1], len(prompt))
        )
    return found


def relative(got: Mapping[str, mx.array], wanted: Mapping[str, mx.array]) -> float:
    """||got - wanted|| / ||wanted|| over all arrays."""
    assert set(got) == set(wanted)
    difference = sum(float(mx.square(got[name] - wanted[name]).sum()) for name in wanted)
    return (difference / sum(float(mx.square(w).sum()) for w in wanted.values())) ** 0.5
