"""The mask lens against what training itself takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from trainer_core.config import RunConfig
from trainer_core.data.lens import Fate, LensToken, look_at
from trainer_core.data.load import read_rows
from trainer_core.data.scan import scan_rows
from trainer_core.data.tokenise import tokenise_examples
from trainer_core.data.tokenizer import load_tokenizer
from trainer_core.data.types import Sequence

Configure = Callable[..., RunConfig]
FAMILIES = ("llama", "qwen3", "gemma2", "gemma3", "gemma4")


def kept(tokens: tuple[LensToken, ...]) -> list[tuple[int, bool]]:
    return [
        (index, token.fate is Fate.TRAINED)
        for token in tokens
        if token.fate is not Fate.CUT
        for index in token.ids
    ]


def as_pairs(sequence: Sequence) -> list[tuple[int, bool]]:
    return list(zip(sequence.ids.tolist(), sequence.trained.tolist(), strict=True))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("limit", [4096, 40, 24])
@pytest.mark.parametrize("method", ["sft", "orpo"])
def test_what_is_not_cut_is_what_is_trained_on(
    golden: Path, configure: Configure, family: str, method: str, limit: int
) -> None:
    folder = golden / family
    config = configure(
        folder / "preference.jsonl", model=str(folder), method=method, max_seq_length=limit
    )
    tokenizer = load_tokenizer(folder, config)
    cut = 0
    for row in scan_rows(config):
        assert row.example is not None
        made = tokenise_examples([row.example], config, tokenizer)
        seen = look_at(row.example, config, tokenizer)
        if not made.rows:
            assert seen.problem == (made.skipped + made.refused)[0].what
            continue
        (trained,) = made.rows
        assert kept(seen.prompt + seen.chosen) == as_pairs(trained.chosen)
        if trained.rejected is not None:
            assert kept(seen.prompt + seen.rejected) == as_pairs(trained.rejected)
        assert seen.kept == tuple(
            len(s) for s in (trained.chosen, trained.rejected) if s is not None
        )
        cut += sum(seen.lengths) > sum(seen.kept)
    assert (cut > 0) is (limit < 4096)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_texts_of_the_tokens_make_the_text(
    golden: Path, tmp_path: Path, configure: Configure, family: str
) -> None:
    answer = "  Grüße, 世界! 👩‍🚀 ﷽ naïve\n\n\tdone"
    data = tmp_path / "rows.jsonl"
    data.write_text(json.dumps({"prompt": "Say it: ☃", "completion": answer}) + "\n")
    folder = golden / family
    config = configure(data, model=str(folder), valid_fraction=0)
    tokenizer = load_tokenizer(folder, config)
    (example,) = read_rows(config).train
    seen = look_at(example, config, tokenizer)
    ids = [index for token in seen.prompt for index in token.ids]
    assert "".join(token.text for token in seen.prompt) == tokenizer.decode(ids)
    assert all(token.special == (token.ids[0] in tokenizer.special_ids) for token in seen.prompt)


def test_a_row_that_is_dropped_is_cut_whole(golden: Path, configure: Configure) -> None:
    folder = golden / "llama"
    config = configure(
        folder / "preference.jsonl", model=str(folder), max_seq_length=16, overlong="drop"
    )
    tokenizer = load_tokenizer(folder, config)
    example = next(iter(scan_rows(config))).example
    assert example is not None
    seen = look_at(example, config, tokenizer)
    assert "more than max_seq_length 16" in seen.problem
    assert {token.fate for token in seen.prompt} == {Fate.CUT}
    assert seen.kept == ()


def test_real_pairs_through_the_lens(shared_data: Path, golden: Path, configure: Configure) -> None:
    folder = golden / "llama"
    data = shared_data / "preference_sharegpt.json"
    config = configure(data, model=str(folder), method="orpo", max_seq_length=8192)
    tokenizer = load_tokenizer(folder, config)
    values = json.loads(data.read_text())
    rows = list(scan_rows(config))
    assert len(rows) == len(values) == 150
    for row, value in list(zip(rows, values, strict=True))[:40]:
        assert row.example is not None
        seen = look_at(row.example, config, tokenizer)
        for tokens, answer in ((seen.chosen, "chosen"), (seen.rejected, "rejected")):
            spoken = "".join(t.text for t in tokens if t.fate is Fate.TRAINED and not t.special)
            assert spoken == tokenizer.decode(
                tokenizer.encode_continuation(value[answer]["value"]), skip_special=True
            )
