from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer_core.config import DEFAULT_ITERS
from trainer_core.data.batches import total_steps, windows

LENGTHS = [37 * n % 101 for n in range(40)]
SIZES = {
    "n_rows": st.integers(1, 40),
    "batch_size": st.integers(1, 9),
    "accumulation": st.integers(1, 5),
    "shuffle": st.booleans(),
    "seed": st.integers(0, 2**32 - 1),
    "grouped": st.booleans(),
}


@given(**SIZES, epochs=st.integers(1, 3))
def test_every_row_once_per_epoch(
    n_rows: int,
    batch_size: int,
    accumulation: int,
    shuffle: bool,
    seed: int,
    grouped: bool,
    epochs: int,
) -> None:
    made = list(
        windows(
            n_rows,
            batch_size=batch_size,
            accumulation=accumulation,
            shuffle=shuffle,
            seed=seed,
            epochs=epochs,
            lengths=LENGTHS[:n_rows] if grouped else None,
        )
    )
    rows = [row for window in made for row in window.rows]
    for epoch in range(epochs):
        assert sorted(rows[epoch * n_rows : (epoch + 1) * n_rows]) == list(range(n_rows))
    ends = list(itertools.accumulate(len(window.rows) for window in made))
    assert [window.epoch for window in made] == pytest.approx([end / n_rows for end in ends])
    # No window reaches into the next epoch: every multiple of n_rows is the end of one.
    assert set(range(n_rows, epochs * n_rows + 1, n_rows)) <= set(ends)
    assert all(0 < len(batch) <= batch_size for window in made for batch in window.micro_batches)
    assert all(len(window.micro_batches) <= accumulation for window in made)
    assert [window.step for window in made] == list(range(1, len(made) + 1))


@given(**SIZES, iters=st.integers(1, 60), data=st.data())
def test_a_run_can_be_taken_up_at_any_step(
    n_rows: int,
    batch_size: int,
    accumulation: int,
    shuffle: bool,
    seed: int,
    grouped: bool,
    iters: int,
    data: st.DataObject,
) -> None:
    options = {
        "lengths": LENGTHS[:n_rows] if grouped else None,
        "batch_size": batch_size,
        "accumulation": accumulation,
        "shuffle": shuffle,
        "seed": seed,
        "iters": iters,
    }
    whole = list(windows(n_rows, **options))
    assert len(whole) == iters
    first = data.draw(st.integers(1, iters))
    assert list(windows(n_rows, **options, first_step=first)) == whole[first - 1 :]


@given(n_rows=st.integers(1, 40), seed=st.integers(0, 100))
def test_the_split_into_micro_batches_does_not_change_the_rows_of_a_step(
    n_rows: int, seed: int
) -> None:
    splits = [(4, 1), (2, 2), (1, 4)]
    made = [
        [w.rows for w in windows(n_rows, batch_size=b, accumulation=a, seed=seed, iters=12)]
        for b, a in splits
    ]
    assert made[0] == made[1] == made[2]


def test_seeds_and_epochs_draw_different_orders() -> None:
    def order(seed: int) -> list[int]:
        return [w.rows[0] for w in windows(50, batch_size=1, seed=seed, epochs=2)]

    assert order(0) == order(0)
    assert order(0) != order(1)
    assert order(0)[:50] != order(0)[50:]


def test_without_shuffle_rows_come_in_file_order() -> None:
    made = list(windows(5, batch_size=2, accumulation=2, shuffle=False, iters=3))
    assert [w.micro_batches for w in made] == [((0, 1), (2, 3)), ((4,),), ((0, 1), (2, 3))]
    assert [w.epoch for w in made] == [0.8, 1.0, 1.8]


@pytest.mark.parametrize(
    ("epochs", "steps"),
    [(1, 5), (2, 10), (0.1, 1), (0.2, 1), (0.5, 3), (0.6, 3), (1.5, 8), (0.001, 1)],
)
def test_fractional_epochs(epochs: float, steps: int) -> None:
    assert total_steps(10, batch_size=2, epochs=epochs) == steps
    assert len(list(windows(10, batch_size=2, epochs=epochs))) == steps


def test_default_number_of_steps() -> None:
    assert total_steps(3, batch_size=1) == DEFAULT_ITERS


@pytest.mark.parametrize(
    "options",
    [
        {"n_rows": 0},
        {"batch_size": 0},
        {"accumulation": 0},
        {"epochs": 0.0},
        {"epochs": 1.0, "iters": 1},
    ],
)
def test_impossible_counts(options: dict[str, float]) -> None:
    good = {"n_rows": 1, "batch_size": 1, "accumulation": 1}
    with pytest.raises(ValueError, match=r"must be positive|not both"):
        total_steps(**{**good, **options})  # type: ignore[arg-type]


def padding(lengths: list[int], *, grouped: bool, epoch: int = 0) -> float:
    """Share of padding in the batches of an epoch, where each is as long as its longest row."""
    made = windows(
        len(lengths), batch_size=8, seed=1, epochs=epoch + 1, lengths=lengths if grouped else None
    )
    batches = [b for w in made if w.epoch > epoch for b in w.micro_batches]
    padded = sum(len(b) * max(lengths[row] for row in b) for b in batches)
    return 1 - sum(lengths) / padded


def test_grouping_leaves_little_padding() -> None:
    lengths = [10 + n * 7919 % 991 for n in range(512)]  # evenly spread
    assert padding(lengths, grouped=False) > 0.4
    # 256 rows, sorted, in batches of 8: each spans a 32nd of the range.
    assert padding(lengths, grouped=True) < 0.05


def test_grouped_batches_differ_between_epochs_and_mix_lengths() -> None:
    lengths = [10 + n * 7919 % 991 for n in range(512)]
    made = list(windows(512, batch_size=8, seed=1, epochs=2, lengths=lengths))
    first, second = made[:64], made[64:]
    assert {frozenset(w.rows) for w in first} != {frozenset(w.rows) for w in second}
    longest = [max(lengths[row] for row in w.rows) for w in first]
    assert longest != sorted(longest, reverse=True)


def test_without_shuffling_groups_keep_their_order() -> None:
    made = list(windows(5, batch_size=2, shuffle=False, epochs=1, lengths=[1, 9, 2, 8, 3]))
    assert [w.micro_batches for w in made] == [((1, 3),), ((4, 2),), ((0,),)]
