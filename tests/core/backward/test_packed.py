"""Sequences packed into one row against the same sequences side by side."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import pytest

from tests.core.backward.test_paths import check, objective_of, one_step
from tests.core.engine import FAMILIES, random_pairs, small_policy
from trainer_core.backward.autograd import whole_graph
from trainer_core.backward.choose import Backward
from trainer_core.backward.segmented import Segmented
from trainer_core.model.attention import attention_in_force
from trainer_core.model.load import load_model
from trainer_core.model.open_stack import open_stack
from trainer_core.objectives.rows import ScoredRow
from trainer_core.policy import Policy
from trainer_core.streams.packed import PackedStream

PATHS = (whole_graph, Segmented(1), Segmented(2))
# Gemma 2 has an attention of its own, which would see across sequences.
PACKING = [family for family in FAMILIES if family != "gemma2"]


def packed(policy: Policy, tokens: int = 1000) -> Policy:
    return replace(policy, pack_tokens=tokens, packs=True)


@pytest.fixture
def rows() -> list[ScoredRow]:
    return [objective_of("sft").score(example) for example in random_pairs(5, longest=60)]


@pytest.mark.parametrize("path", PATHS, ids=["whole", "segments of 1", "segments of 2"])
@pytest.mark.parametrize("family", PACKING)
def test_gradients_are_those_of_rows_side_by_side(
    golden: Path, family: str, path: Backward
) -> None:
    wanted = one_step(small_policy(golden / family), whole_graph, "sft", count=5, size=5)
    got = one_step(packed(small_policy(golden / family, head="fused")), path, "sft", 5, 5)
    check(got, wanted)


@pytest.mark.parametrize("path", PATHS, ids=["whole", "segments of 1", "segments of 2"])
def test_dropout_draws_the_same_masks(golden: Path, path: Backward) -> None:
    policy = small_policy(golden / "llama", dropout=0.3)
    wanted = one_step(policy, whole_graph, "sft", count=5, size=5)
    check(one_step(packed(policy), path, "sft", count=5, size=5), wanted)


@pytest.mark.parametrize("kind", ["sdpa", "blocked"])
def test_packs_hold_what_the_limit_allows(golden: Path, kind: str, rows: list[ScoredRow]) -> None:
    lengths = [len(row.chosen.ids) for row in rows]
    policy = packed(small_policy(golden / "gemma3"), tokens=max(lengths) + min(lengths))
    assert 1 < len(policy.streams(rows)) < 5
    assert all(isinstance(stream, PackedStream) for stream in policy.streams(rows))
    assert sum(map(len, policy.groups(rows))) == 5
    plain = replace(policy, pack_tokens=0)
    wanted = one_step(plain, whole_graph, "sft", count=5, size=5)
    with attention_in_force(kind) if kind == "blocked" else nullcontext():
        check(one_step(policy, Segmented(1), "sft", count=5, size=5), wanted)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_self_check_knows_who_packs(golden: Path, family: str) -> None:
    loaded = load_model(golden / family)
    checked = open_stack(loaded.model, loaded.config["model_type"])
    assert checked.packs == (family in PACKING)


def test_side_by_side_where_the_model_does_not_pack(golden: Path, rows: list[ScoredRow]) -> None:
    policy = replace(small_policy(golden / "gemma2"), pack_tokens=1000)
    wanted = one_step(replace(policy, pack_tokens=0), whole_graph, "sft", count=5, size=5)
    assert not any(isinstance(stream, PackedStream) for stream in policy.streams(rows))
    check(one_step(policy, Segmented(1), "sft", count=5, size=5), wanted)


def test_mlx_is_left_as_it_was(golden: Path) -> None:
    before = mx.fast.rope, mx.fast.scaled_dot_product_attention
    one_step(packed(small_policy(golden / "llama")), Segmented(1), "sft", count=2, size=2)
    assert (mx.fast.rope, mx.fast.scaled_dot_product_attention) == before
