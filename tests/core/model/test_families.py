"""Every family: gradients of its fast paths, its line in docs/families.md, and the self-check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import mlx.core as mx
import mlx.nn as nn
import pytest

from tests.core import family_table
from tests.core.catalogue import CATALOGUE, family_model
from tests.core.engine import random_pairs, relative
from tests.core.tiny import tiny_model
from trainer_core.backward.autograd import whole_graph
from trainer_core.backward.choose import Backward
from trainer_core.backward.segmented import Segmented
from trainer_core.config import Method, RunConfig
from trainer_core.errors import ModelError
from trainer_core.heads.flash import VocabularyBlocks
from trainer_core.heads.head import Head, HeadKind
from trainer_core.model.lora import Adapter, attach
from trainer_core.model.open_stack import CheckedStack, open_stack, unchecked
from trainer_core.model.prefix_cache import Position
from trainer_core.model.targets import choose
from trainer_core.model.trainable import check_trainable
from trainer_core.objectives.objective import make_objective
from trainer_core.policy import Policy

VOCABULARY = 90
METHODS: tuple[Method, ...] = ("sft", "dpo", "orpo")
HEADS: tuple[HeadKind, ...] = ("full", "chunked", "fused", "flash")

# One of each way to be irregular: windows, shared keys, experts, latent keys, parallel blocks, a
# head inside, recurrence. The others are `long`.
SOME = (
    "llama with windows",
    "gemma3_text",
    "gemma4_text",
    "gpt_oss",
    "cohere2",
    "qwen3_moe",
    "deepseek_v3",
    "gpt_neox",
    "phi3",
    "lfm2",
)


@pytest.fixture(autouse=True, scope="module")
def plain_kernels() -> Iterator[None]:
    """Compiling dozens of small kernels takes longer than running them."""
    mx.disable_compile()
    yield
    mx.enable_compile()


def adapted(name: str) -> tuple[nn.Module, Adapter]:
    model = family_model(name)
    adapter = attach(model, choose(model, "auto", -1).paths, rank=2, scale=1.0)
    keys = mx.random.split(mx.random.key(4), len(adapter.layers))
    for key, layer in zip(keys, adapter.layers.values(), strict=True):
        layer.lora_b = 0.1 * mx.random.normal(layer.lora_b.shape, key=key)
    return model, adapter


def gradients(
    policy: Policy, backward: Backward, method: Method, count: int, size: int
) -> dict[str, mx.array]:
    """Of one step over `count` rows in micro-batches of `size`."""
    objective = make_objective(RunConfig(model="m", data="d", method=method))
    rows = [objective.score(e) for e in random_pairs(count, longest=60, vocabulary=VOCABULARY)]
    assert max(len(row.chosen.ids) for row in rows) > 20  # beyond the windows
    reference = {row.example.row: (-20.0, -21.0) for row in rows} if method == "dpo" else None
    totals = objective.totals(rows)
    summed: dict[str, mx.array] = {}
    for start in range(0, count, size):
        part = rows[start : start + size]
        _, _, found = backward(policy, objective, part, totals, reference, 1)
        summed = {n: g + summed[n] if summed else g for n, g in found.items()}
        mx.eval(summed)
    return summed


def fast_paths(checked: CheckedStack, method: Method) -> list[tuple[Backward, bool]]:
    """Backward and prefix sharing: all that a model allows."""
    paths: list[tuple[Backward, bool]] = []
    if not checked.whole:
        paths.append((whole_graph, False))
    if not checked.segments:
        paths += [(Segmented(1), False), (Segmented(2), False)]
    if not checked.prefix and method != "sft":
        paths += [(Segmented(1), True), (Segmented(2), True), (whole_graph, True)]
    return paths


# Everything by the long tests; three that differ in all by the others.
STEPS = [
    pytest.param(method, count, marks=() if short else pytest.mark.long)
    for method in METHODS
    for count in (1, 3)
    for short in [(count == 1) == (method == "orpo")]
]


@pytest.mark.parametrize(("method", "count"), STEPS)
@pytest.mark.parametrize(
    "name", [n if n in SOME else pytest.param(n, marks=pytest.mark.long) for n in CATALOGUE]
)
def test_gradients_are_those_of_the_whole_model(name: str, method: Method, count: int) -> None:
    model, adapter = adapted(name)
    whole = unchecked(model).stack
    plain = Policy(whole, adapter, Head("full", whole.project, 1))
    wanted = gradients(plain, whole_graph, method, count, count)
    checked = open_stack(model, name.split()[0])
    stack = checked.stack
    blocks = VocabularyBlocks(stack.project_block, checked.vocabulary, block=40)
    # Every case begins with another head, so that all of them meet each path.
    first = METHODS.index(method) + count
    for number, (backward, prefix) in enumerate(fast_paths(checked, method), first):
        kind = HEADS[number % 4]
        if kind == "flash" and checked.blocks:
            kind = "fused"
        policy = Policy(stack, adapter, Head(kind, stack.project, 7, blocks), prefix)
        size = min(count, 1 + number % 3)
        distance = relative(gradients(policy, backward, method, count, size), wanted)
        assert distance < 2e-5, (kind, backward, prefix, size, distance)
    if checked.packs and method == "sft":
        fused = Head("fused", stack.project, 7, blocks)
        for backward in (whole_graph, Segmented(2)):
            packed = Policy(stack, adapter, fused, pack_tokens=1000, packs=True)
            distance = relative(gradients(packed, backward, method, count, count), wanted)
            assert distance < 2e-5, ("packed", backward, distance)


def test_the_page_says_what_is_so() -> None:
    assert family_table.PAGE.read_text(encoding="utf-8") == family_table.page(), (
        "write it anew with `python -m tests.core.family_table`"
    )
    resource = family_table.resource(family_table.PAGE.read_text(encoding="utf-8"))
    assert family_table.RESOURCE.read_text(encoding="utf-8") == resource


@pytest.mark.parametrize("name", CATALOGUE)
def test_routers_and_experts_are_left_alone(name: str) -> None:
    model = family_model(name)
    modules: dict[str, Any] = dict(model.named_modules())
    for path in choose(model, "auto", -1).paths:
        assert isinstance(modules[path], nn.Linear)
        assert modules[path].weight.shape[0] != 4 or "proj" in path  # of four experts
        assert not {"router", "gate", "shared_expert_gate"} & set(path.split("."))


class Wrapped(nn.Module):
    """A layer of llama that does as another one, but for what a test breaks."""

    use_sliding = False

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer


class IgnoresOffset(Wrapped):
    def __call__(self, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        if cache is not None:
            cache.offset = 0
        return self.layer(x, mask, cache)


class PassesOnASecret(Wrapped):
    """Gives the next layer its output by a way round the stream."""

    secret: ClassVar[list[mx.array]] = []

    def __call__(self, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        y = self.layer(x, mask, cache)
        if self.secret and self.secret[0].shape == y.shape:
            y = y + 0.5 * self.secret[0]
        self.secret[:] = [y]
        return y


class Forgets(Wrapped):
    """The first layer: what an earlier forward left is not for this one."""

    def __call__(self, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        PassesOnASecret.secret.clear()
        return self.layer(x, mask, cache)


def broken_llama(kind: type[Wrapped]) -> Any:
    model: Any = tiny_model("llama")
    first, *others = model.model.layers
    model.model.layers = [Forgets(first), *(kind(layer) for layer in others)]
    return model


def test_a_layer_that_ignores_its_place_shares_no_prompt() -> None:
    checked = open_stack(broken_llama(IgnoresOffset), "llama")
    assert (checked.whole, checked.segments) == ("", "")
    assert "prompt" in checked.prefix


def test_a_layer_that_acts_on_the_next_behind_the_stream_is_not_run_apart() -> None:
    checked = open_stack(broken_llama(PassesOnASecret), "llama")
    assert checked.segments
    assert checked.prefix


def test_gradients_find_what_hidden_states_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_core.model.open_stack.GradientCheck.segments", lambda _: True)
    monkeypatch.setattr("trainer_core.model.open_stack.GradientCheck.prefix", lambda _: True)
    assert open_stack(broken_llama(PassesOnASecret), "llama").segments == ""


def test_a_wrong_window_is_seen_although_the_model_has_a_wide_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide = {"sliding_window": 4096, "layer_types": ["sliding_attention", "full_attention"] * 2}
    model: Any = tiny_model("llama", num_hidden_layers=4, **wide)
    assert open_stack(model, "llama").prefix == ""
    assert model.model.sliding_window == 4096

    def without(self: Position, length: int, **_: Any) -> str | None:
        return None if length == 1 else "causal"

    monkeypatch.setattr(Position, "make_mask", without)
    checked = open_stack(model, "llama")
    assert checked.segments == ""
    assert checked.prefix


def test_a_model_too_large_to_copy_is_checked_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer_core.model.open_stack.first_layers", lambda *_: None)
    model = broken_llama(PassesOnASecret)
    attach(model, choose(model, "auto", -1).paths, rank=2, scale=1.0)
    assert open_stack(model, "llama").segments
    model, adapter = adapted("gemma4_text")
    before = adapter.parameters()
    checked = open_stack(model, "gemma4_text")
    assert (checked.segments, checked.prefix) == ("", "")
    assert all(mx.array_equal(array, before[n]) for n, array in adapter.parameters().items())


@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16])
def test_rounding_is_no_difference(dtype: mx.Dtype) -> None:
    for name in ("gemma3_text", "gemma4_text"):
        model, _ = adapted(name)
        model.set_dtype(dtype)
        checked = open_stack(model, name)
        assert (checked.whole, checked.segments, checked.prefix) == ("", "", "")


def test_a_quantised_model_is_copied_too() -> None:
    model = tiny_model("llama", hidden_size=64, intermediate_size=64, vocab_size=128)
    nn.quantize(model, group_size=32, bits=4)
    checked = open_stack(model, "llama")
    assert (checked.whole, checked.segments, checked.prefix, checked.blocks) == ("", "", "", "")


class Stops(Wrapped):
    def __call__(self, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        return mx.stop_gradient(self.layer(x, mask, cache))


class Overflows(Wrapped):
    def __call__(self, x: mx.array, mask: Any = None, cache: Any = None) -> mx.array:
        return self.layer(x, mask, cache) * float("inf")


@pytest.mark.parametrize(("kind", "says"), [(Stops, "zero"), (Overflows, "not a number")])
def test_a_model_that_cannot_be_trained_is_refused(kind: type[Wrapped], says: str) -> None:
    model = broken_llama(kind)
    adapter = attach(model, choose(model, "auto", -1).paths, rank=2, scale=1.0)
    before = adapter.parameters()
    with pytest.raises(ModelError, match=says):
        check_trainable(model, adapter)
    assert all(array is before[name] for name, array in adapter.parameters().items())
