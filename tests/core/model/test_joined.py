"""A prompt and two answers in one row of tokens, against prompt and answers apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from tests.core.backward.test_paths import check, objective_of, one_step
from tests.core.engine import random_pairs, small_policy
from tests.core.tiny import tiny_model
from trainer_core.backward.autograd import whole_graph
from trainer_core.backward.choose import Backward
from trainer_core.backward.compiled import CompiledRanges
from trainer_core.backward.segmented import Segmented
from trainer_core.model.joined import join
from trainer_core.model.load import load_model
from trainer_core.model.open_stack import open_stack

PATHS = (whole_graph, Segmented(2), Segmented(1, CompiledRanges()))


@pytest.fixture(autouse=True)
def _functions_run_as_they_are() -> None:
    mx.disable_compile()


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "phi3", "granite", "qwen3_moe"])
def test_models_with_plain_masks_join(family: str) -> None:
    assert open_stack(tiny_model(family), family).joins


@pytest.mark.parametrize("family", ["gemma2", "gemma3", "gemma4"])
def test_own_attention_windows_and_shared_keys_do_not(golden: Path, family: str) -> None:
    loaded = load_model(golden / family)
    checked = open_stack(loaded.model, loaded.config["model_type"])
    assert not checked.prefix
    assert not checked.joins


@pytest.mark.parametrize("bucket", [1, 8])
@pytest.mark.parametrize("path", PATHS, ids=["whole", "segments", "compiled"])
@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_gradients_are_exact(golden: Path, family: str, path: Backward, bucket: int) -> None:
    wanted = one_step(small_policy(golden / family), whole_graph, "orpo")
    policy = small_policy(golden / family, head="fused", share_prefix=True)
    joined = replace(policy, joined=True, bucket=bucket)
    objective = objective_of("orpo")
    for example in random_pairs(3):
        (stream,) = joined.streams([objective.score(example)])
        assert len(stream.embed()) == 1
    check(one_step(joined, path, "orpo"), wanted)


def test_a_mask_that_is_an_array_is_not_joined(golden: Path) -> None:
    stack = small_policy(golden / "gemma3").stack
    long, short = mx.arange(30)[None], mx.arange(4)[None]
    answers = mx.concatenate([short, short])
    assert join(stack.embed(long, offset=0), stack.embed(answers, offset=30)) is None
    assert join(stack.embed(short, offset=0), stack.embed(answers, offset=4)) is not None


def test_mlx_is_left_as_it_was(golden: Path) -> None:
    before = mx.fast.rope, mx.fast.scaled_dot_product_attention
    policy = replace(small_policy(golden / "llama", share_prefix=True), joined=True)
    one_step(policy, Segmented(1), "orpo", count=1)
    assert (mx.fast.rope, mx.fast.scaled_dot_product_attention) == before


def test_long_rows_run_apart(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = replace(small_policy(golden / "llama", share_prefix=True), joined=True)
    row = objective_of("orpo").score(random_pairs(1)[0])
    (stream,) = policy.streams([row])
    assert len(stream.embed()) == 1
    monkeypatch.setattr("trainer_core.streams.pair._LONGEST_JOINED", 5)
    assert len(stream.embed()) == 2
