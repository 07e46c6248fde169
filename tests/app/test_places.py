"""Steps along tokens and time, by hand-made numbers."""

from __future__ import annotations

import numpy as np
import pytest

from app.viewmodels.places import Places


@pytest.fixture
def places() -> Places:
    made = Places()
    made.append(1, 100, 2.0, 0.5)
    made.append(2, 300, 1.0, 1.0)
    made.append(4, 700, 3.0, 2.0)
    return made


def test_steps_lie_at_their_tokens_and_their_time(places: Places) -> None:
    steps = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    assert places.x_of(steps, "step").tolist() == [0, 1, 2, 3, 4]
    assert places.x_of(steps, "tokens").tolist() == [0, 100, 300, 500, 700]
    # Step 3 was not reported; it counts as taking as long as step 4.
    assert places.x_of(steps, "time").tolist() == [0, 2, 3, 6, 9]


@pytest.mark.parametrize("axis", ["step", "tokens", "time"])
def test_a_place_leads_back_to_its_step(places: Places, axis: str) -> None:
    for step in (0.0, 1.0, 1.5, 3.0, 4.0):
        x = float(places.x_of(np.array([step]), axis)[0])  # type: ignore[arg-type]
        assert places.step_of(x, axis) == pytest.approx(step)  # type: ignore[arg-type]


def test_a_step_that_comes_again_replaces_what_followed(places: Places) -> None:
    places.append(2, 250, 5.0, 1.0)
    assert places.steps.tolist() == [1, 2]
    assert places.x_of(np.array([2.0]), "tokens").tolist() == [250]
    assert places.x_of(np.array([2.0]), "time").tolist() == [7]


def test_many_steps_keep_their_places() -> None:
    places = Places()
    for step in range(1, 1001):
        places.append(step, 10 * step, 0.5, step / 100)
    assert places.x_of(np.array([1000.0]), "tokens").tolist() == [10_000]
    assert places.x_of(np.array([1000.0]), "time").tolist() == [500]
