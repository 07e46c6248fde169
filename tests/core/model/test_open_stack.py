"""The stack of a model against the model itself, and the doubt about stacks that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from tests.core import tiny
from tests.core.engine import FAMILIES
from trainer_core.model.load import load_model
from trainer_core.model.open_stack import open_stack

IDS = mx.random.randint(0, 90, (2, 37), key=mx.random.key(7))


def check(model: Any, model_type: str) -> None:
    checked = open_stack(model, model_type)
    assert (checked.whole, checked.segments, checked.prefix) == ("", "", "")
    stack = checked.stack
    wanted = np.array(model(IDS))
    hidden = stack.hidden(IDS)
    logits = stack.project(hidden.reshape(-1, hidden.shape[-1])).reshape(wanted.shape)
    np.testing.assert_allclose(np.array(logits), wanted, atol=1e-5)
    np.testing.assert_array_equal(np.array(model(IDS)), wanted)  # all parts are back in place
    for size in (1, 2):
        state = stack.embed(IDS)
        for start in range(0, len(stack), size):
            state = stack.run(state, start, min(start + size, len(stack)))
        np.testing.assert_allclose(np.array(stack.final(state.stream)), np.array(hidden), atol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_golden_models_come_apart(golden: Path, family: str) -> None:
    loaded = load_model(golden / family)
    check(loaded.model, loaded.config["model_type"])


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_models_of_mlx_lm_come_apart(family: str) -> None:
    check(tiny.tiny_model(family), family)


def test_a_tied_head_comes_apart_too() -> None:
    check(tiny.tiny_model("llama", tie_word_embeddings=True), "llama")


def test_half_precision_models_come_apart() -> None:
    model = tiny.tiny_model("llama")
    model.set_dtype(mx.bfloat16)
    checked = open_stack(model, "llama")
    assert (checked.whole, checked.segments, checked.prefix) == ("", "", "")


class Peeks(nn.Module):
    """A llama whose logits depend on the ids by a way round the hidden states."""

    def __init__(self) -> None:
        super().__init__()
        llama: Any = tiny.tiny_model("llama")
        self.model, self.lm_head = llama.model, llama.lm_head

    @property
    def layers(self) -> list[nn.Module]:
        return self.model.layers

    def __call__(self, ids: mx.array) -> mx.array:
        return self.lm_head(self.model(ids) + ids[..., None])


def test_a_model_that_does_not_come_apart_is_used_whole() -> None:
    model = Peeks()
    checked = open_stack(model, "llama")
    assert checked.whole
    assert checked.segments
    assert checked.prefix
    hidden = checked.stack.hidden(IDS)
    assert mx.array_equal(checked.stack.project(hidden[0]), model(IDS)[0])


class Twice(nn.Module):
    """Stands in for the inner llama: runs its last layer a second time."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.embed_tokens, self.layers, self.norm = inner.embed_tokens, inner.layers, inner.norm

    def __call__(self, ids: mx.array, *_: Any) -> mx.array:
        h = self.embed_tokens(ids)
        for layer in [*self.layers, self.layers[-1]]:
            h = layer(h, "causal", None)
        return self.norm(h)


def test_a_model_that_uses_a_layer_twice_is_not_cut_into_segments() -> None:
    model: Any = tiny.tiny_model("llama")
    model.model = Twice(model.model)
    checked = open_stack(model, "llama")
    assert checked.whole == ""
    assert checked.segments
    assert checked.prefix
