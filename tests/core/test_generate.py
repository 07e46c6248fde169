"""Answers: those of mlx-lm's own generation, cut at the end token, whole in every alphabet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import mlx_lm
import pytest

from tests.core.engine import small_policy
from trainer_core.config import RunConfig
from trainer_core.data.chat import chat_files
from trainer_core.data.tokenizer import ChatTokenizer, load_tokenizer
from trainer_core.errors import TrainerError
from trainer_core.generate import Answer, generate
from trainer_core.model import answers
from trainer_core.model.adapter_files import read_spec, write_adapter
from trainer_core.model.answers import stream


@pytest.fixture
def adapter(golden: Path, tmp_path: Path) -> Path:
    """An adapter that changes what the model says."""
    parameters = small_policy(golden / "llama").adapter.parameters()
    strong = {name: a * 8 if name.endswith("b") else a for name, a in parameters.items()}
    folder = tmp_path / "adapter"
    folder.mkdir()
    write_adapter(folder, strong, read_spec(golden / "llama" / "init_adapter", 4), {})
    return folder


def tokenizer(golden: Path, prompt_format: str = "raw") -> ChatTokenizer:
    config = RunConfig(model="m", data="d", prompt_format=prompt_format)  # type: ignore[arg-type]
    return load_tokenizer(golden / "llama", config)


def test_greedy_answers_are_mlx_lms(golden: Path, adapter: Path) -> None:
    import mlx_lm

    network, wrapper = mlx_lm.load(str(golden / "llama"), adapter_path=str(adapter))[:2]
    for prompt in ("the cat sat", "on a mat"):
        theirs = mlx_lm.generate(network, wrapper, prompt, max_tokens=24)
        (ours,) = generate(
            str(golden / "llama"), [prompt], adapter=adapter, max_tokens=24, raw=True
        )
        assert ours == Answer(prompt, theirs)
    plain = next(generate(str(golden / "llama"), ["the cat sat"], max_tokens=24, raw=True))
    assert plain.text != theirs


def test_chat_prompts_go_through_the_template(golden: Path) -> None:
    rendered = "<|im_start|>user\nfast cat<|im_end|>\n<|im_start|>assistant\n"
    (chat,) = generate(str(golden / "llama"), ["fast cat"], max_tokens=12)
    (raw,) = generate(str(golden / "llama"), [rendered], max_tokens=12, raw=True)
    assert chat.text == raw.text


def test_an_adapter_is_asked_as_it_was_taught(golden: Path, adapter: Path) -> None:
    model = str(golden / "llama")
    taught = RunConfig(model="m", data="d", system_prompt="cat sat")
    template = "{% for m in messages %}{{ m.content }} {% endfor %}"
    for name, text in chat_files(template, taught).items():
        (adapter / name).write_text(text)
    (chat,) = generate(model, ["on a mat"], adapter=adapter, max_tokens=16)
    (raw,) = generate(model, ["cat sat on a mat "], adapter=adapter, max_tokens=16, raw=True)
    assert chat.text == raw.text
    network, _ = mlx_lm.load(model, adapter_path=str(adapter))[:2]
    assert network is not None


class Speaks:
    """A model of which only the tokens that generation draws from it matter."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ids: list[int]) -> None:
        def steps(*_: object, max_tokens: int, **__: object) -> Iterator[tuple[mx.array, None]]:
            for token in ids[:max_tokens]:
                yield mx.array(token), None

        monkeypatch.setattr(answers, "generate_step", steps)


@pytest.mark.parametrize(
    "text",
    ["plain", "naïve café", "日本語", "👩‍👩‍👧 and 🙂", "العربية", "\ufffd kept", " two  "],
)
def test_pieces_join_to_the_whole_text(
    golden: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    # The golden tokenizer has one token a byte, so every letter above ASCII comes in parts.
    own = tokenizer(golden)
    ids = own.question_ids(text)
    Speaks(monkeypatch, ids)
    pieces = list(stream(object(), own, "x", max_tokens=500))  # type: ignore[arg-type]
    assert "".join(pieces) == text
    assert all(pieces)
    if "\ufffd" not in text:
        assert not any("\ufffd" in piece for piece in pieces)


def test_a_text_cut_inside_a_letter_shows_what_there_is(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tokenizer(golden)
    Speaks(monkeypatch, own.question_ids("ok é")[:-1])
    assert "".join(stream(object(), own, "x")) == "ok \ufffd"  # type: ignore[arg-type]


def test_stops_at_each_of_the_models_end_tokens(
    golden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tokenizer(golden)
    assert own.stop_ids
    for stop in own.stop_ids:
        Speaks(monkeypatch, [*own.question_ids("ab"), stop, *own.question_ids("cd")])
        assert "".join(stream(object(), own, "x")) == "ab"  # type: ignore[arg-type]


def test_max_tokens_is_the_most_there_is(golden: Path) -> None:
    (answer,) = generate(str(golden / "llama"), ["the cat"], max_tokens=3, raw=True)
    assert len(tokenizer(golden).question_ids(answer.text)) <= 3


def test_sampling_follows_its_seed(golden: Path) -> None:
    texts = [
        next(
            generate(
                str(golden / "llama"), ["the"], max_tokens=16, temperature=1.0, seed=seed, raw=True
            )
        ).text
        for seed in (5, 5, 6)
    ]
    assert texts[0] == texts[1] != texts[2]


def test_an_empty_prompt_is_an_error_that_says_so(golden: Path) -> None:
    with pytest.raises(TrainerError, match="empty"):
        list(generate(str(golden / "llama"), [""], max_tokens=3, raw=True))


def test_an_adapter_of_another_model_is_refused(golden: Path, adapter: Path) -> None:
    with pytest.raises(TrainerError, match="does not fit this model"):
        list(generate(str(golden / "gemma4"), ["x"], adapter=adapter, raw=True))
