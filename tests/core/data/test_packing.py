"""Packed rows: every row once, within the limit, little room left; and updates over them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainer_core.config import RunConfig
from trainer_core.data.batches import windows
from trainer_core.data.packing import pack, unpacked
from trainer_core.data.types import Sequence, Source, TokenisedExample
from trainer_core.data.updates import updates


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=200),
    st.integers(1, 80),
    st.one_of(st.none(), st.integers(0, 9)),
)
def test_every_row_once_within_the_limit(lengths: list[int], limit: int, seed: int | None) -> None:
    packs = pack(lengths, limit, seed=seed)
    assert sorted(row for rows in packs for row in rows) == list(range(len(lengths)))
    for rows in packs:
        assert len(rows) == 1 or sum(lengths[row] for row in rows) <= limit


def test_the_fullest_row_that_has_room_is_taken() -> None:
    assert pack([6, 5, 4, 5, 7], 10, seed=None) == [[0, 2], [1, 3], [4]]


def test_little_room_is_left() -> None:
    lengths = [int(n) for n in np.random.default_rng(1).integers(20, 400, 1000)]
    packs = pack(lengths, 2048, seed=3)
    assert sum(lengths) / (2048 * len(packs)) > 0.97


def test_windows_name_the_rows_in_packed_rows() -> None:
    made = windows(3, batch_size=2, shuffle=False, epochs=1)
    packs = [[4, 0], [2], [1, 3]]
    assert [w.micro_batches for w in unpacked(made, packs)] == [((4, 0, 2),), ((1, 3),)]


def test_an_epoch_of_packed_rows_visits_every_row() -> None:
    rows = []
    for number, length in enumerate([9, 3, 8, 2, 7, 6, 1, 5]):
        ids = np.zeros(length, dtype=np.int32)
        rows.append(TokenisedExample(number, Source("f", 1), Sequence(ids, ids > 0)))
    config = RunConfig(model="m", data="d", packing=True, max_seq_length=16, batch_size=2, epochs=2)
    made, total = updates(config, rows)
    found = list(made(1))
    assert len(found) == total == 4  # 41 tokens fill three rows of 16, two of them at a time
    for epoch in (found[:2], found[2:]):
        assert sorted(row for window in epoch for row in window.rows) == list(range(8))
    assert found[1].epoch == 1
    assert list(made(3)) == found[2:]
