"""Questions asked before and after, and the judgement of answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trainer_core.cli.questions import Question, questions
from trainer_core.config import RunConfig
from trainer_core.data.load import sample_data


@pytest.mark.parametrize(
    ("accept", "answer", "right"),
    [
        ("Au", "The symbol of gold is Au.", True),
        ("Au", "It is an austere metal.", False),
        ("Au", "au", True),
        ("H2O", "Water is H2O, of course", True),
        ("100", "At 1000 degrees", False),
        ("Neil Armstrong", "That was neil armstrong!", True),
        ("C++", "It is C++", True),
    ],
)
def test_a_right_answer_holds_the_word_as_a_whole(accept: str, answer: str, right: bool) -> None:
    assert Question("?", (accept,)).right(answer) is right


def test_the_sample_asks_what_it_does_not_train() -> None:
    asked = questions(RunConfig(model="sample", data="sample", method="orpo"), 100)
    assert len(asked) == 10
    assert all(question.accept for question in asked)
    for kind in ("sft", "preference"):
        trained = (
            sample_data("orpo" if kind == "preference" else "sft") / "train.jsonl"
        ).read_text()
        assert [q.text for q in asked if q.text in trained] == []


def write(folder: Path, name: str, *prompts: object) -> None:
    rows = [json.dumps({"prompt": p, "completion": "yes"}) for p in prompts]
    (folder / name).write_text("\n".join(rows))


def test_other_data_gives_its_validation_rows(tmp_path: Path) -> None:
    write(tmp_path, "train.jsonl", "trained?")
    write(tmp_path, "valid.jsonl", "held out?", "this too?", "and this?")
    config = RunConfig(model="m", data=str(tmp_path))
    assert questions(config, 2) == [Question("held out?"), Question("this too?")]
    assert questions(config, 0) == []


def test_without_validation_the_training_rows_are_asked(tmp_path: Path) -> None:
    turns = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "well"},
        {"role": "user", "content": "last"},
    ]
    row = {"prompt": turns, "completion": [{"role": "assistant", "content": "yes"}]}
    (tmp_path / "train.jsonl").write_text(json.dumps(row))
    config = RunConfig(model="m", data=str(tmp_path), valid_fraction=0)
    assert questions(config, 5) == [Question("last")]
