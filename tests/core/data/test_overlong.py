"""Rows that are too long: what is cut, in which order, and what is dropped."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.data.tokenised_rows import PAIR, Make, Run, check

LONG = "the capital of France is Paris " * 4


@pytest.mark.parametrize("prompt_format", ["raw", "chat"])
@given(
    prompt=st.integers(1, 30),
    chosen=st.integers(1, 30),
    rejected=st.integers(1, 30),
    limit=st.integers(16, 80),
    adds_bos=st.booleans(),
)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_truncation_of_pairs(
    make_tokenizer: Make,
    tokenised: Run,
    prompt_format: str,
    prompt: int,
    chosen: int,
    rejected: int,
    limit: int,
    adds_bos: bool,
) -> None:
    """DESIGN's rule for `overlong`, checked against the same rows without a limit."""
    tokenizer = make_tokenizer(prompt_format=prompt_format, adds_bos=adds_bos, bos=True)
    row = {"prompt": "p" * prompt, "chosen": "c" * chosen, "rejected": "r" * rejected}
    (full,) = tokenised(tokenizer, row, method="orpo").train
    (cut,) = tokenised(tokenizer, row, method="orpo", max_seq_length=limit).train
    assert full.rejected is not None
    assert cut.rejected is not None
    check(cut, limit)
    before = full.prompt_length
    answers = [s.ids[before:].tolist() for s in (full.chosen, full.rejected)]
    longest = max(map(len, answers))
    floor = min(before, 8 + adds_bos)
    kept = before if before + longest <= limit else max(floor, limit - longest)
    assert cut.prompt_length == kept
    prompt_ids = full.chosen.ids[:before].tolist()
    bos = prompt_ids[:1] if adds_bos else []
    assert cut.chosen.ids[:kept].tolist() == (
        prompt_ids if kept == before else bos + prompt_ids[before - kept + len(bos) :]
    )
    for sequence, answer in zip((cut.chosen, cut.rejected), answers, strict=True):
        assert sequence.ids[kept:].tolist() == answer[: limit - kept]
    assert cut.truncated == (before + longest > limit)


@given(
    prompt=st.integers(1, 60),
    answer=st.integers(1, 60),
    limit=st.integers(16, 80),
    loss_on=st.sampled_from(["assistant", "last", "everything"]),
)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_truncation_of_sft_rows(
    make_tokenizer: Make, tokenised: Run, prompt: int, answer: int, limit: int, loss_on: str
) -> None:
    tokenizer = make_tokenizer()
    row = {
        "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "p" * prompt},
            {"role": "assistant", "content": "c" * answer},
        ]
    }
    (full,) = tokenised(tokenizer, row, loss_on=loss_on).train
    (cut,) = tokenised(tokenizer, row, loss_on=loss_on, max_seq_length=limit).train
    check(cut, limit)
    before, said = full.prompt_length, len(full.chosen) - full.prompt_length
    kept = before if before + said <= limit else max(min(before, 8), limit - said)
    assert cut.prompt_length == kept
    lost = before - kept
    assert cut.chosen.ids.tolist() == full.chosen.ids.tolist()[lost : lost + limit]
    expected = full.chosen.trained[lost : lost + limit].copy()
    expected[0] = False
    assert cut.chosen.trained.tolist() == expected.tolist()
    assert cut.truncated == (before + said > limit)


def test_overlong_rows_can_be_dropped(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer()
    rows = [{"prompt": "hi", "completion": "x"}, {"prompt": LONG, "completion": LONG}]
    made = tokenised(tokenizer, *rows, max_seq_length=40, overlong="drop")
    assert (made.rows, made.rows_skipped, made.rows_truncated) == (2, 1, 0)
    assert "max_seq_length 40" in made.problems[0].what
    kept = tokenised(tokenizer, *rows, max_seq_length=40)
    assert (kept.rows, kept.rows_skipped, kept.rows_truncated) == (2, 0, 1)


def test_answers_that_are_the_same_once_cut(make_tokenizer: Make, tokenised: Run) -> None:
    tokenizer = make_tokenizer()
    made = tokenised(
        tokenizer,
        {"prompt": "hi", "chosen": LONG + "yes", "rejected": LONG + "no"},
        PAIR,
        method="dpo",
        max_seq_length=24,
    )
    assert len(made.train) == 1
    assert "the same within max_seq_length" in made.problems[0].what
