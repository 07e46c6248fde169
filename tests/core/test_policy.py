"""Scoring rows: how sequences are grouped, and that grouping changes no number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.engine import FAMILIES, random_pairs, small_policy
from trainer_core import backend
from trainer_core.backward.segmented import Segmented
from trainer_core.config import RunConfig
from trainer_core.data.types import Sequence, Source, TokenisedExample
from trainer_core.objectives.objective import make_objective
from trainer_core.streams.padded import pad_groups


def long_pair(row: int, length: int) -> TokenisedExample:
    """Answers of this many random tokens after a prompt of one."""
    random = np.random.default_rng(row)
    ids = random.integers(0, 256, (2, length)).astype(np.int32)
    sequences = [Sequence(side, np.arange(length) > 0) for side in ids]
    return TokenisedExample(row, Source("rows", row + 1), sequences[0], sequences[1], 0)


def peak(work: Callable[[], object]) -> int:
    """Bytes that a piece of work takes at most beside what is there before."""
    backend.limit_memory(backend.device())
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(work())
    return mx.get_peak_memory() - before


ORPO = make_objective(RunConfig(model="m", data="d", method="orpo"))


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=40))
def test_groups_are_a_partition_with_little_padding(lengths: list[int]) -> None:
    groups = pad_groups(lengths, 0.15)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    for group in groups:
        cells = max(lengths[index] for index in group) * len(group)
        assert sum(lengths[index] for index in group) >= 0.85 * cells - 1e-9


def test_equal_lengths_run_together() -> None:
    assert pad_groups([7] * 6, 0.15) == [[0, 1, 2, 3, 4, 5]]
    assert pad_groups([100, 1, 99], 0.15) == [[0, 2], [1]]


def test_groups_can_be_kept_small() -> None:
    assert pad_groups([7] * 6, 0.15, most_tokens=21) == [[0, 1, 2], [3, 4, 5]]
    assert pad_groups([50, 49, 7, 7], 0.15, most_tokens=20) == [[0], [1], [2, 3]]


@pytest.mark.parametrize("method", ["sft", "dpo"])
def test_scoring_long_rows_needs_no_more_than_training_on_one(golden: Path, method: str) -> None:
    """Validation takes four rows, DPO's reference eight; neither may be the run's peak."""
    if mx.default_device() != mx.Device(mx.cpu):
        pytest.skip("attention holds all its scores on a CPU")
    policy = small_policy(golden / "llama", head="fused", chunk=64)
    objective = make_objective(RunConfig(model="m", data="d", method=method))  # type: ignore[arg-type]
    rows = [objective.score(long_pair(number, 700)) for number in range(8)]
    first = {0: (-1.0, -2.0)} if method == "dpo" else None
    totals = objective.totals(rows[:1])
    trained = peak(lambda: Segmented(1)(policy, objective, rows[:1], totals, first, 1))
    scored = peak(lambda: [row.chosen for row in policy.values(rows)])
    assert scored <= trained


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
