from __future__ import annotations

from app.viewmodels.edit_history import EditHistory


def test_edits_with_one_tag_in_a_row_are_one_step() -> None:
    history: EditHistory[str] = EditHistory()
    history.record("a", "x")
    history.record("ab", "x")
    history.record("abc", "y")
    assert history.undo("now") == "abc"
    assert history.undo("abc") == "a"
    assert history.undo("a") is None
    assert not history.can_undo


def test_a_new_edit_ends_what_can_be_done_again() -> None:
    history: EditHistory[str] = EditHistory()
    history.record("a", "x")
    assert history.undo("b") == "a"
    assert history.redo("a") == "b"
    assert history.undo("b") == "a"
    history.record("a", "x")
    assert not history.can_redo
    assert history.undo("c") == "a"


def test_an_edit_after_an_undo_is_a_step_of_its_own() -> None:
    history: EditHistory[str] = EditHistory()
    history.record("a", "x")
    history.record("b", "y")
    history.undo("c")
    history.record("b", "y")
    assert history.undo("d") == "b"
    assert history.undo("b") == "a"


def test_the_past_is_bounded() -> None:
    history: EditHistory[int] = EditHistory()
    for number in range(500):
        history.record(number, str(number))
    steps = 0
    while history.undo(-1) is not None:
        steps += 1
    assert steps == 200


def test_edits_without_a_tag_are_steps_of_their_own() -> None:
    history: EditHistory[str] = EditHistory()
    history.record("a", "")
    history.record("b", "")
    assert history.undo("c") == "b"
    history.record("b", "")
    assert history.undo("d") == "b"
    assert history.undo("b") == "a"
    assert not history.can_undo
