"""Builds a tokenizer folder from the vocabulary, merges and chat template in a GGUF file.

GGUF names the pre-tokenizer but does not describe it, so only the kind that the sample model has
is made: byte-level BPE in which every digit stands alone (`smollm`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from trainer_core.errors import ModelError
from trainer_core.model.gguf_llama import GgufFile

_CONTROL = 3  # GGUF's token type of special tokens


def write_tokenizer(gguf: GgufFile, folder: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json.

    Raises:
        ModelError: the vocabulary is of another kind.
    """
    build_tokenizer(gguf).save(str(folder / "tokenizer.json"))
    text = json.dumps(_tokenizer_config(gguf), ensure_ascii=False, indent=2)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")


def build_tokenizer(gguf: GgufFile) -> Tokenizer:
    """The tokenizer, with its special tokens marked as such."""
    kind = (gguf.value("tokenizer.ggml.model"), gguf.value("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise ModelError(
            "the GGUF file cannot be used", f"its tokenizer is of the kind {kind[0]}/{kind[1]}"
        )
    tokens: list[str] = gguf.value("tokenizer.ggml.tokens")
    # A byte-level piece never holds a plain space, so a space separates the two halves of a merge.
    merges = [tuple(merge.split(" ")) for merge in gguf.value("tokenizer.ggml.merges")]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # type: ignore[assignment]
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, gguf.value("tokenizer.ggml.token_type"), strict=True)
            if kind == _CONTROL
        ]
    )
    return tokenizer


def _tokenizer_config(gguf: GgufFile) -> dict[str, Any]:
    tokens: list[str] = gguf.value("tokenizer.ggml.tokens")

    def special(name: str) -> str:
        return tokens[gguf.value(f"tokenizer.ggml.{name}_token_id")]

    return {
        # The generic class takes tokenizer.json as it is; a model's own would split its own way.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": special("bos"),
        "eos_token": special("eos"),
        "pad_token": special("padding"),
        "unk_token": special("unknown"),
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": gguf.value("llama.context_length"),
        "chat_template": gguf.value("tokenizer.chat_template"),
    }
