"""The sample project's rows: enough, distinct, short against padded, and readable by the engine."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from trainer_core.config import RunConfig
from trainer_core.config_io import load_config
from trainer_core.data.load import read_rows, sample_data

RESOURCES = Path(__file__).resolve().parents[2] / "resources"
SAMPLE = RESOURCES / "sample"
FILES = ("preference/train", "preference/valid", "sft/train", "sft/valid", "held_out")
PRESETS = sorted((RESOURCES / "presets").glob("*.yaml"))


def rows(name: str) -> list[dict[str, Any]]:
    lines = (SAMPLE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def pairs() -> list[dict[str, Any]]:
    return rows("preference/train") + rows("preference/valid")


def questions(name: str) -> list[str]:
    """Every question of a file, each turn of a dialogue counted, letters and digits only."""
    found: list[str] = []
    for row in rows(name):
        turns = [m["content"] for m in row.get("messages", ()) if m["role"] == "user"]
        found += turns or [row.get("prompt") or row["question"]]
    return [" ".join(words(text)) for text in found]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def texts(value: Any) -> list[str]:
    """All strings inside a row."""
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value
    return [text for part in inner for text in texts(part)]


@pytest.mark.parametrize("name", FILES)
def test_counts_are_those_of_the_readme(name: str) -> None:
    count = dict(zip(FILES, (160, 24, 168, 24, 10), strict=True))[name]
    assert len(rows(name)) == count
    readme = (SAMPLE / "README.md").read_text(encoding="utf-8")
    assert f"| `{name}.jsonl` | {count} |" in readme


def test_no_question_stands_twice_in_any_file() -> None:
    seen: dict[str, str] = {}
    for name in FILES:
        for question in questions(name):
            assert question not in seen, f"{question}: {name} and {seen[question]}"
            seen[question] = name


def test_held_out_facts_are_in_no_training_question_or_answer() -> None:
    """No training row gives a held-out fact away where its question is about the same thing."""
    trained = [" ".join(words(" ".join(texts(row)))) for name in FILES[:4] for row in rows(name)]
    for row in rows("held_out"):
        subject = [word for word in words(row["question"]) if len(word) > 3 and word not in COMMON]
        for accepted in row["accept"]:
            fact = " ".join(words(accepted))
            for text in trained:
                together = re.search(rf"\b{fact}\b", text) and all(
                    re.search(rf"\b{word}\b", text) for word in subject
                )
                assert not together, f"{row['question']}: {text}"


COMMON = {"what", "which", "known", "does", "stand", "spoken", "through", "person", "first"}


def test_chosen_answers_are_one_short_sentence() -> None:
    for row in pairs():
        chosen = row["chosen"]
        assert len(chosen.split()) <= 20
        assert chosen[-1] in '."'
        assert not re.search(r"[.!?] +[A-Z]", chosen), chosen


def test_rejected_answers_are_several_times_as_long() -> None:
    ratios = [len(row["rejected"].split()) / len(row["chosen"].split()) for row in pairs()]
    assert min(ratios) > 2.5
    assert mean(ratios) > 6
    assert all(30 <= len(row["rejected"].split()) <= 80 for row in pairs())


def test_rejected_answers_are_not_made_from_a_template() -> None:
    openings = [tuple(words(row["rejected"])[:6]) for row in pairs()]
    assert len(set(openings)) == len(openings)
    endings = [tuple(words(row["rejected"])[-6:]) for row in pairs()]
    assert len(set(endings)) == len(endings)
    runs: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for number, row in enumerate(pairs()):
        spoken = words(row["rejected"])
        for start in range(len(spoken) - 9):
            runs[tuple(spoken[start : start + 10])].add(number)
    assert [run for run, used in runs.items() if len(used) > 1] == []


def test_no_two_rows_are_nearly_the_same() -> None:
    for key in ("prompt", "rejected"):
        bags = [(row[key], frozenset(words(row[key]))) for row in pairs()]
        for (a, left), (b, right) in combinations(bags, 2):
            assert len(left & right) / len(left | right) < 0.75, (a, b)


def test_both_answers_of_a_pair_share_their_fact() -> None:
    """The padded answer is correct too: numbers and names of the short one stand in it."""
    for row in pairs():
        spoken = re.findall(r"\w+", row["chosen"])
        facts = {w.lower() for w in spoken if w[0].isdigit()}
        facts |= {w.lower() for w in spoken[1:] if w[0].isupper()}
        assert facts <= set(words(row["rejected"])), row


@pytest.mark.parametrize("name", FILES)
def test_text_is_clean(name: str) -> None:
    raw = (SAMPLE / f"{name}.jsonl").read_bytes()
    assert raw.endswith(b"}\n")
    assert b"\r" not in raw
    assert not raw.startswith(b"\xef\xbb\xbf")
    for text in texts(rows(name)):
        assert text == unicodedata.normalize("NFC", text)
        assert text == text.strip()
        assert "  " not in text
        assert not {c for c in text if unicodedata.category(c).startswith("C")}, text
        assert not set("“”‘’…") & set(text), text


@pytest.mark.parametrize(
    ("method", "train", "valid"), [("orpo", 160, 24), ("dpo", 160, 24), ("sft", 168, 24)]
)
def test_the_engine_reads_every_row(method: str, train: int, valid: int) -> None:
    raw = read_rows(RunConfig.model_validate({"model": "m", "data": "sample", "method": method}))
    assert (len(raw.train), len(raw.valid), raw.problems) == (train, valid, [])


def test_sample_config_trains_the_sample() -> None:
    config = load_config(SAMPLE / "sample.yaml")
    assert (config.model, config.data, config.method, config.iters) == (
        "sample",
        "sample",
        "orpo",
        60,
    )
    assert sample_data(config.method) == SAMPLE / "preference"


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_presets_load_with_a_model_and_data(path: Path) -> None:
    head = path.read_text(encoding="utf-8").splitlines()[:2]
    assert head[0].startswith("# name: ")
    assert head[1].startswith("# description: ")
    config = load_config(path, {"model": "sample", "data": "sample"})
    assert read_rows(config).problems == []


def test_there_are_presets() -> None:
    names = ["careful", "long-context", "low-memory", "preference", "quick-try"]
    assert [path.stem for path in PRESETS] == names
