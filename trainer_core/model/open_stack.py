"""Choose the stack of a model and check it against the model itself before anything trusts it."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import mlx.nn as nn

from trainer_core.model.families.gemma4 import Gemma4Stack
from trainer_core.model.prefix_cache import Capture, Continue
from trainer_core.model.stack import LayerStack, block_path

_STACKS: dict[str, type[LayerStack]] = {"gemma4_text": Gemma4Stack, "gemma4": Gemma4Stack}

_TOKENS = 40
_PROMPT = 25


@dataclass(frozen=True, slots=True)
class CheckedStack:
    """A stack, and what it cannot do with the reason, or empty strings.

    Attributes:
        stack: the model's parts.
        whole: why hidden states and head do not come apart.
        segments: why its layers cannot be run in ranges.
        prefix: why a prompt cannot be shared by two answers.
        blocks: why the head cannot be cut into blocks of the vocabulary.
        vocabulary: number of tokens of the head, if it can.
    """

    stack: LayerStack
    whole: str = ""
    segments: str = ""
    prefix: str = ""
    blocks: str = ""
    vocabulary: int = 0


def open_stack(model: nn.Module, model_type: str = "") -> CheckedStack:
    """The stack of a model.

    Args:
        model: a model of mlx-lm.
        model_type: of its config.json.
    """
    stack = _STACKS.get(model_type, LayerStack)(model, block_path(model))
    ids = mx.arange(3, 3 + _TOKENS)[None]
    if stack.whole or not _same(lambda: (stack.project(stack.hidden(ids)[0]), _logits(model, ids))):
        stack.whole = True
        why = "its hidden states and its head do not come apart"
        return CheckedStack(stack, why, why, why, why)
    vocabulary = _find_head(stack, model, ids)
    blocks = "" if vocabulary else "its head's rows are not its vocabulary"
    if not _same(lambda: (_in_ranges(stack, ids), stack.hidden(ids))):
        why = "its layers cannot be run apart from the model"
        return CheckedStack(stack, "", why, why, blocks, vocabulary)
    if not _same(lambda: (_after_prompt(stack, ids), stack.hidden(ids)[:, _PROMPT:])):
        why = "its layers do not continue from a shared prompt"
        return CheckedStack(stack, "", "", why, blocks, vocabulary)
    return CheckedStack(stack, "", "", "", blocks, vocabulary)


def _find_head(stack: LayerStack, model: nn.Module, ids: mx.array) -> int:
    """Find the module whose rows are the vocabulary, tell the stack, and return their number."""
    hidden = stack.hidden(ids)[0, :4]
    vocabulary = stack.project(hidden).shape[-1]
    middle = vocabulary // 2
    for path, module in model.named_modules():
        weight = module.get("weight")
        # An untied model has two such modules; the check tells the head from the embedding.
        if not isinstance(weight, mx.array) or weight.ndim != 2 or len(weight) != vocabulary:
            continue
        if path.startswith(f"{stack.block_path}."):
            continue
        stack.head = module
        if _same(
            lambda: (
                stack.project_block(hidden, 1, middle),
                stack.project(hidden)[:, 1:middle],
            )
        ):
            return vocabulary
    stack.head = None
    return 0


def _logits(model: nn.Module, ids: mx.array) -> mx.array:
    network: object = model
    return network(ids)[0]  # type: ignore[operator]


def _in_ranges(stack: LayerStack, ids: mx.array) -> mx.array:
    state = stack.embed(ids)
    for number in range(len(stack)):
        state = stack.run(state, number, number + 1)
    return stack.final(state.stream)


def _after_prompt(stack: LayerStack, ids: mx.array) -> mx.array:
    prompt = stack.embed(ids[:, :_PROMPT], offset=0)
    answer = stack.embed(ids[:, _PROMPT:], offset=_PROMPT)
    for number in range(len(stack)):
        capture = Capture()
        prompt = stack.run(prompt, number, number + 1, [capture])
        answer = stack.run(answer, number, number + 1, [Continue(capture, _PROMPT)])
    return stack.final(answer.stream)


def _same(make: object) -> bool:
    """Whether two ways to an array agree, to the rounding of its precision."""
    try:
        got, wanted = make()  # type: ignore[operator]
        difference = mx.abs(got - wanted).astype(mx.float32).max()
        scale = mx.abs(wanted).astype(mx.float32).max()
        mx.eval(difference, scale)
    except Exception:  # noqa: BLE001 - whatever a foreign model raises here means that it differs
        return False
    tolerance = 1e-4 if wanted.dtype == mx.float32 else 5e-2
    return bool(difference <= tolerance * scale)
