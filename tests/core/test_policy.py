"""Scoring rows: how sequences are grouped, and that grouping changes no number."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.engine import FAMILIES, random_pairs, small_policy
from trainer_core.config import RunConfig
from trainer_core.objectives.objective import make_objective
from trainer_core.streams.padded import pad_groups

ORPO = make_objective(RunConfig(model="m", data="d", method="orpo"))


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=40))
def test_groups_are_a_partition_with_little_padding(lengths: list[int]) -> None:
    groups = pad_groups(lengths)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        cells = max(lengths[index] for index in group) * len(group)
        assert sum(lengths[index] for index in group) >= 0.85 * cells - 1e-9


def test_equal_lengths_run_together() -> None:
    assert pad_groups([7] * 6) == [[0, 1, 2, 3, 4, 5]]
    assert pad_groups([100, 1, 99]) == [[0, 2], [1]]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("head", ["full", "fused"])
def test_scores_are_those_of_the_model_alone(golden: Path, family: str, head: str) -> None:
    policy = small_policy(golden / family, head=head)  # type: ignore[arg-type]
    rows = [ORPO.score(example) for example in random_pairs(5, longest=60)]

    scored, values = policy.score(rows, step=1), policy.values(rows)

    for row, one, other in zip(rows, scored, values, strict=True):
        assert (one.row, other.row) == (row, row)
        for sequence, a, b in (
            (row.chosen, one.chosen, other.chosen),
            (row.rejected, one.rejected, other.rejected),
        ):
            assert sequence is not None
            assert a is not None
            assert b is not None
            logits = np.array(policy.stack._model(mx.array(sequence.ids[None]))[0], np.float64)
            logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            wanted = logp[sequence.positions - 1, sequence.targets]
            np.testing.assert_allclose(np.array(a), wanted, atol=2e-5)
            np.testing.assert_allclose(np.array(b), wanted, atol=2e-5)


def test_dropout_is_drawn_for_a_step_only(golden: Path) -> None:
    policy = small_policy(golden / "llama", dropout=0.5)
    plain = small_policy(golden / "llama")
    rows = [ORPO.score(example) for example in random_pairs(2)]
    for got, wanted in zip(policy.values(rows), plain.values(rows), strict=True):
        np.testing.assert_allclose(np.array(got.chosen), np.array(wanted.chosen), atol=1e-6)
    first, again, next_ = (policy.score(rows, step=step) for step in (1, 1, 2))
    assert mx.array_equal(first[0].chosen, again[0].chosen)
    assert not mx.allclose(first[0].chosen, next_[0].chosen)
    assert not mx.allclose(first[0].chosen, plain.values(rows)[0].chosen)


def test_a_reference_goes_with_its_row(golden: Path) -> None:
    policy = small_policy(golden / "llama")
    rows = [ORPO.score(example) for example in random_pairs(3)]
    found = policy.values(rows, {0: (-1.0, -2.0), 2: (-3.0, -4.0)})
    assert [row.reference for row in found] == [(-1.0, -2.0), None, (-3.0, -4.0)]
