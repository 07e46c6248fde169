"""Tokenizers and templates with the oddities of real ones, and rows on disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from trainer_core.config import RunConfig
from trainer_core.data.load import read_rows, tokenise
from trainer_core.data.tokenizer import ChatTokenizer
from trainer_core.data.types import Dataset

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"

CORPUS = [
    "The capital of France is Paris. What is the capital of Spain?",
    "hello there, hello world\n\nyes and no\n\n42 is a number, 1234 too",
    "Human: how are you?\n\nAssistant: I am fine, thank you.",
] * 4

SPECIALS = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<turn>", "<end_of_turn>", "<pad>"]

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

TEMPLATES = {
    "chatml": CHATML,
    # Writes BOS itself, knows no system turn and only two roles that take turns.
    "strict": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
        "{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Roles must alternate user/assistant') }}{% endif %}"
        "<turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
        "{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
        "{% if add_generation_prompt %}<turn>model\n{% endif %}"
    ),
    # Leaves the system turn out without a word.
    "deaf": (
        "{% for m in messages %}{% if m['role'] != 'system' %}<|im_start|>{{ m['role'] }}\n"
        "{{ m['content'] }}<|im_end|>\n{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    # Takes the reasoning out of every answer but the last.
    "rewriting": (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
        "{% if m['role'] == 'assistant' and not loop.last %}"
        "{{ m['content'].split('</think>')[-1] }}"
        "{% elif m['role'] == 'assistant' and '</think>' not in m['content'] %}"
        "<think></think>{{ m['content'] }}{% else %}{{ m['content'] }}{% endif %}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    # A prompt opens the reasoning, a finished answer has none.
    "thinking": (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
    ),
    # Generation markers that leave the end-of-turn token outside.
    "marked": (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['role'] == 'assistant' %}"
        "{% generation %}{{ m['content'] }}{% endgeneration %}{% else %}{{ m['content'] }}"
        "{% endif %}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    ),
    # Plain words, no special token anywhere.
    "plain": (
        "{% for m in messages %}{{ '### ' + m['role'] + ':\n' + m['content'] + '\n\n' }}"
        "{% endfor %}"
        "{% if add_generation_prompt %}{{ '### assistant:\n' }}{% endif %}"
    ),
    # Like Llama 2: system inside the first user turn, BOS and EOS around every round.
    "rounds": (
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ bos_token + '[INST] ' + m['content']"
        " + ' [/INST]' }}{% elif m['role'] == 'assistant' %}"
        "{{ ' ' + m['content'] + ' ' + eos_token }}"
        "{% endif %}{% endfor %}"
    ),
}


def _byte_level(adds_bos: bool) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(CORPUS, trainer)
    return _with_bos(made) if adds_bos else made


def _sentencepiece_like(adds_bos: bool, *, legacy: bool) -> Tokenizer:
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=[*SPECIALS, "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
    )
    if legacy:
        made.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
        made.decoder = decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
    else:
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        made.decoder = decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
    made.train_from_iterator(CORPUS, trainer)
    return _with_bos(made) if adds_bos else made


def _with_bos(made: Tokenizer) -> Tokenizer:
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", made.token_to_id("<s>"))]
    )
    return made


@pytest.fixture(scope="session")
def make_tokenizer() -> Callable[..., ChatTokenizer]:
    """Builds a tokenizer: kind, template, which special tokens it names."""

    def make(
        kind: str = "bytes",
        template: str | None = "chatml",
        *,
        adds_bos: bool = False,
        bos: bool = False,
        eos: str | None = "<|im_end|>",
        pad: bool = False,
        prompt_format: str = "chat",
        stop_ids: tuple[int, ...] = (),
    ) -> ChatTokenizer:
        base = (
            _byte_level(adds_bos)
            if kind == "bytes"
            else _sentencepiece_like(adds_bos, legacy=kind == "legacy")
        )
        hf = PreTrainedTokenizerFast(
            tokenizer_object=base,
            bos_token="<s>" if bos or adds_bos else None,
            eos_token=eos,
            pad_token="<pad>" if pad else None,
        )
        hf.chat_template = TEMPLATES.get(template, template) if template else None
        return ChatTokenizer(hf, stop_ids=stop_ids, prompt_format=prompt_format)

    return make


Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes rows as JSON lines and returns the file."""

    def put(*rows: Any, name: str = "rows.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return path

    return put


@pytest.fixture(scope="session")
def templates() -> dict[str, str]:
    """The templates by name."""
    return TEMPLATES


def config(data: Path | str = "unused", **options: Any) -> RunConfig:
    """A configuration without validation rows unless asked for."""
    return RunConfig(**{"model": "unused", "data": str(data), "valid_fraction": 0, **options})


@pytest.fixture
def configure() -> Callable[..., RunConfig]:
    """`config` for test modules."""
    return config


@pytest.fixture
def tokenised(write: Write) -> Callable[..., Dataset]:
    """Rows straight to a data set, with a given tokenizer and options."""

    def make(tokenizer: ChatTokenizer, *rows: Any, **options: Any) -> Dataset:
        options = {"prompt_format": tokenizer.prompt_format, **options}
        settings = config(write(*rows), **options)
        return tokenise(read_rows(settings), settings, tokenizer)

    return make


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real data that lies beside the repository; tests skip where it does not."""
    if not SHARED.is_dir():
        pytest.skip("real data sets are not beside the repository")
    return SHARED
