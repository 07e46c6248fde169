"""Events as JSON lines, as the design's table of events has them."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trainer_core.events import (
    EVENTS,
    Checkpoint,
    Data,
    Event,
    Failed,
    Finished,
    Paused,
    Resumed,
    Sample,
    SamplePiece,
    Stage,
    Started,
    Step,
    Validation,
    Warned,
    from_json_line,
    to_json_line,
)

STEP = Step(
    step=3,
    loss=1.5,
    grad_norm=0.25,
    learning_rate=1e-4,
    tokens_per_s=100.0,
    supervised_tokens_per_s=40.0,
    peak_memory_bytes=1024,
    seconds=0.5,
    tokens=64,
    epoch=0.5,
    odds_loss=0.7,
)

ONE_OF_EACH: list[Event] = [
    Started(run="r", config={"rank": 4}, device="cpu", versions={"mlx": "1"}, resumed_from=2),
    Stage("load", "Loading", 0.5),
    Data(10, 9, 1, 2, 300, 100, 40, 3),
    STEP,
    Validation(3, 1.5, 9, 0, 0.5, True, accuracy=0.5),
    Sample(3, "Why?", "Because."),
    SamplePiece(3, "Why?", "Be", base=True),
    Checkpoint(3, "/x", True),
    Paused(3),
    Resumed(3),
    Warned("code", "message", "hint"),
    Failed("what", "why", "hint"),
    Finished("done", 3, "/a", "/r", 1.5, 2),
]


def test_every_event_of_the_design_is_here():
    names = (
        "started stage data step validation sample checkpoint paused resumed warned failed finished"
        " sample_piece"
    )
    assert set(EVENTS) == set(names.split())
    assert {e.name for e in ONE_OF_EACH} == set(EVENTS)


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda e: e.name)
def test_a_line_reads_back_as_the_event(event):
    line = to_json_line(event)
    assert "\n" not in line
    assert json.loads(line)["event"] == event.name
    assert from_json_line(line) == event


def test_names_are_those_of_the_design():
    record = json.loads(to_json_line(STEP))
    assert record["or"] == 0.7
    assert "odds_loss" not in record
    assert "accuracy" not in record  # does not apply: absent, not null
    assert json.loads(to_json_line(ONE_OF_EACH[0]))["schema"] == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_null_and_named(value):
    step = Step(1, value, 1.0, 1e-4, 1.0, 1.0, 1, 1.0, 1, 1.0, odds_loss=value)
    line = to_json_line(step)
    record = json.loads(line, parse_constant=pytest.fail)  # strict JSON: no NaN, no Infinity
    assert record["loss"] is None
    assert record["nonfinite"] == ["loss", "or"]
    back = from_json_line(line)
    assert isinstance(back, Step)
    assert math.isnan(back.loss)
    assert math.isnan(back.odds_loss)


@example(prompt="\ud800", text="\udcff\u2028")
@given(prompt=st.text(), text=st.text())
def test_any_text_stays_on_one_line(prompt, text):
    event = Sample(1, prompt, text)
    line = to_json_line(event)
    assert len(line.encode().split(b"\n")) == 1
    assert from_json_line(line) == event


def test_fields_and_events_of_a_newer_version_are_left_out():
    assert from_json_line('{"event": "paused", "step": 1, "mood": "calm"}') == Paused(1)
    assert from_json_line('{"event": "telepathy"}') is None


@pytest.mark.parametrize("line", ["", "[]", "3", "{", '{"event": "paused"}'])
def test_a_line_that_is_no_event_is_an_error(line):
    with pytest.raises(ValueError, match=r"JSON|paused|Expecting"):
        from_json_line(line)
