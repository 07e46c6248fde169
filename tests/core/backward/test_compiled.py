"""Compiled ranges and bucketed lengths give what eager ranges and exact lengths give."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from tests.core.backward.test_paths import check, objective_of, one_step
from tests.core.engine import FAMILIES, random_pairs, relative, small_policy
from trainer_core.backward.compiled import CompiledRanges
from trainer_core.backward.layer_kinds import kind_of
from trainer_core.backward.segmented import Segmented


@pytest.fixture(autouse=True)
def _functions_run_as_they_are() -> None:
    """As on any CPU: MLX's compiler is off, because every kernel would wait for g++."""
    mx.disable_compile()


@pytest.fixture
def compiler() -> Iterator[None]:
    """MLX's compiler, as on a GPU."""
    mx.enable_compile()
    yield
    mx.disable_compile()


@pytest.mark.parametrize(("size", "prefix"), [(1, True), (2, False)])
@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_ranges_are_exact(golden: Path, family: str, size: int, prefix: bool) -> None:
    policy = small_policy(golden / family, head="fused", share_prefix=prefix)
    wanted = one_step(policy, Segmented(size), "orpo")
    compiled = Segmented(size, CompiledRanges(), ahead=2)
    check(one_step(policy, compiled, "orpo"), wanted)
    # Again, now from functions that are there already.
    check(one_step(policy, compiled, "orpo"), wanted)


@pytest.mark.parametrize("bucket", [4, 64])
@pytest.mark.parametrize("prefix", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_bucketed_lengths_are_exact(golden: Path, family: str, prefix: bool, bucket: int) -> None:
    policy = small_policy(golden / family, head="fused", share_prefix=prefix)
    bucketed = replace(policy, bucket=bucket)
    for method in ("sft", "orpo"):
        wanted = one_step(policy, Segmented(2), method)
        check(one_step(bucketed, Segmented(2), method), wanted)


def test_buckets_leave_few_lengths(golden: Path) -> None:
    policy = replace(small_policy(golden / "llama", share_prefix=True), bucket=8)
    objective = objective_of("orpo")
    widths = set()
    for example in random_pairs(30, longest=60):
        for stream in policy.streams([objective.score(example)]):
            widths |= {state.stream.shape[1] for state in stream.embed()}
    # A prompt shorter than the bucket keeps its length.
    assert {width % 8 for width in widths if width > 8} == {0}


@pytest.mark.usefixtures("compiler")
def test_nothing_of_one_step_is_baked_in(golden: Path) -> None:
    """New adapter arrays and another row of the same shape reach a function made before.

    Its first layers have sliding windows shorter than the row, so masks are arrays.
    """
    policy = small_policy(golden / "gemma3", head="fused", share_prefix=True)
    objective = objective_of("orpo")
    ranges = CompiledRanges()
    first = random_pairs(1, longest=40)[0]
    other = replace(first, chosen=_renumbered(first.chosen), rejected=_renumbered(first.rejected))
    for number, example in enumerate([first, other]):
        for layer in policy.adapter.layers.values():
            layer.lora_b = layer.lora_b + 0.01 * number
        rows = [objective.score(example)]
        results = [
            way(policy, objective, rows, objective.totals(rows), None, 1)[2]
            for way in (Segmented(1, ranges), Segmented(1))
        ]
        assert relative(*results) < 1e-6
        if number == 0:
            made = ranges.compilations
    assert ranges.compilations == made


def test_layers_of_one_kind_share_functions(golden: Path) -> None:
    policy = small_policy(golden / "llama", head="fused")
    layers = policy.stack.layers
    assert len({kind_of(layer) for layer in layers}) == 1
    ranges = CompiledRanges()
    one_step(policy, Segmented(1, ranges), "sft", count=1)
    # Forward, backward, and the backward of the first layer, which has no cotangent below.
    assert ranges.compilations == 3 < 2 * len(layers)


def test_layers_that_differ_are_of_different_kinds(golden: Path) -> None:
    layers = small_policy(golden / "gemma3").stack.layers
    sliding = [bool(layer.self_attn.is_sliding) for layer in layers]
    kinds = [kind_of(layer) for layer in layers]
    assert len(set(sliding)) == 2
    for a, kind in zip(sliding, kinds, strict=True):
        assert all((other == kind) <= (b == a) for b, other in zip(sliding, kinds, strict=True))


def test_the_number_of_functions_is_bounded(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_core.backward.compiled._MOST_FUNCTIONS", 4)
    policy = small_policy(golden / "llama", head="fused", share_prefix=True)
    ranges = CompiledRanges()
    wanted = one_step(policy, Segmented(1), "orpo")
    check(one_step(policy, Segmented(1, ranges), "orpo"), wanted)
    assert ranges.compilations > 4
    assert len(ranges._functions) == 4


def _renumbered(sequence: object) -> object:
    ids = (np.array(sequence.ids) + 1) % 256  # type: ignore[attr-defined]
    return replace(sequence, ids=ids.astype(np.int32))  # type: ignore[type-var]
