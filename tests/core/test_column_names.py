"""Columns under other names: the proposal made from a header, and the mapping that a user gives."""

from __future__ import annotations

import pytest

from trainer_core.column_names import as_option, columns_problem, propose_columns, rename


@pytest.mark.parametrize(
    ("header", "mapping"),
    [
        ("question good bad", "{prompt: question, chosen: good, rejected: bad}"),
        ("Prompt Completion", "{prompt: Prompt, completion: Completion}"),
        ("id User_Message Assistant_Reply", "{prompt: User_Message, completion: Assistant_Reply}"),
        ("instruction context reply", "{input: context, completion: reply}"),
        ("Question Context Answer", "{instruction: Question, input: Context, completion: Answer}"),
        (
            "input accepted_response rejected_response",
            "{prompt: input, chosen: accepted_response, rejected: rejected_response}",
        ),
        (
            "prompt preferredOutput dispreferredOutput",
            "{chosen: preferredOutput, rejected: dispreferredOutput}",
        ),
        ("dialog", "{messages: dialog}"),
        (
            "system message|question|target",
            "{system: system message, prompt: question, completion: target}",
        ),
        ("Body", "{text: Body}"),
        ("winner loser", "{chosen: winner, rejected: loser}"),
        ("prompt completion", None),
        ("alpha beta", None),
        ("", None),
        ("question", None),
    ],
)
def test_a_proposal(header: str, mapping: str | None) -> None:
    names = header.split("|") if "|" in header else header.split()
    found = propose_columns(names)
    assert (found and as_option(found)) == mapping
    assert found is None or columns_problem(found) is None


def test_renaming_moves_and_keeps() -> None:
    row = {"q": "a", "prompt": "old", "rest": 1}
    assert rename(row, {"prompt": "q"}) == {"prompt": "a", "rest": 1}
    with pytest.raises(KeyError, match="chosen"):
        rename(row, {"chosen": "good"})


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, "at least one"),
        ({"question_x": "prompt"}, "wrong way round: write {prompt: question_x}"),
        ({"promt": "q"}, "nearest is prompt"),
        ({"prompt": ""}, "no column for prompt"),
        ({"prompt": "q", "completion": "q"}, "q twice"),
    ],
)
def test_a_mapping_that_means_nothing(columns: dict[str, str], said: str) -> None:
    assert said in (columns_problem(columns) or "")


def test_names_that_yaml_would_misread_are_quoted() -> None:
    assert as_option({"prompt": "0", "completion": "a: b"}) == '{prompt: "0", completion: "a: b"}'
