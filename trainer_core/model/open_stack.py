"""Choose the stack of a model and check it against the model itself before anything trusts it.

Twice: hidden states on the model as it is, with all its layers; and hidden states and gradients on
a float32 copy of its first layers, where rounding hides nothing. Sliding windows are cut for both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import mlx.core as mx
import mlx.nn as nn

from trainer_core.model.check_adapter import adapter_on, new_adapter, random_values
from trainer_core.model.families.gemma4 import Gemma4Stack
from trainer_core.model.families.gpt_neox import GptNeoxStack
from trainer_core.model.first_layers import first_layers, layers_of_every_kind, narrow_windows
from trainer_core.model.joined import runs_joined
from trainer_core.model.lora import Adapter
from trainer_core.model.self_check import (
    GradientCheck,
    Rows,
    after_prompt,
    by_themselves,
    continued,
    in_ranges,
    joined,
    packed,
    rows_of_pair,
    same,
)
from trainer_core.model.stack import LayerStack
from trainer_core.model.targets import block_path

_STACKS: dict[str, type[LayerStack]] = {
    "gemma4_text": Gemma4Stack,
    "gemma4": Gemma4Stack,
    "gpt_neox": GptNeoxStack,
}

# Both the prompt and what follows it reach past a window.
_LONG = rows_of_pair(25, 15)
_SHORT = rows_of_pair(5, 3)

_WHOLE = "its hidden states and its head do not come apart"
_SEGMENTS = "its layers cannot be run apart from the model"
_PREFIX = "its layers do not continue from a shared prompt"
_BLOCKS = "its head's rows are not its vocabulary"


@dataclass(frozen=True, slots=True)
class CheckedStack:
    """A stack, and what it cannot do with the reason, or empty strings.

    Attributes:
        stack: the model's parts.
        whole: why hidden states and head do not come apart.
        segments: why its layers cannot be run in ranges.
        prefix: why a prompt cannot be shared by two answers.
        blocks: why the head cannot be cut into blocks of the vocabulary.
        joins: whether prompt and answers can run in one row, see `joined`.
        packs: whether sequences of their own can, see `in_a_row`.
        vocabulary: number of tokens of the head, if it can.
    """

    stack: LayerStack
    whole: str = ""
    segments: str = ""
    prefix: str = ""
    blocks: str = ""
    joins: bool = False
    packs: bool = False
    vocabulary: int = 0


def open_stack(model: nn.Module, model_type: str = "") -> CheckedStack:
    """The stack of a model.

    Args:
        model: a model of mlx-lm, with an adapter or without.
        model_type: of its config.json.
    """
    stack = make_stack(model, model_type)
    with narrow_windows(model):
        small = _copy_of(model, stack)
        # What a copy shows need not be shown again by the model itself, which costs more.
        checked = _values(stack, model, _LONG) if small is None else _briefly(stack, model, _SHORT)
        if checked.segments:
            return checked
        if small is not None:
            return _gradients(_on_the_copy(checked, small[1], _LONG), small[0], small[1])
        adapter = adapter_on(model)
        if adapter is None:
            return checked
        with random_values(adapter):
            return _gradients(checked, adapter, stack)


def make_stack(model: nn.Module, model_type: str) -> LayerStack:
    """The stack that a model of this type should have, not yet checked."""
    return _STACKS.get(model_type, LayerStack)(model, block_path(model))


def unchecked(model: nn.Module) -> CheckedStack:
    """The stack of a model that is only used whole, so that nothing needs a check."""
    stack = LayerStack(model, block_path(model))
    stack.whole = True
    why = "it was opened for use, not for training"
    return CheckedStack(stack, why, why, why, why)


def _copy_of(model: nn.Module, stack: LayerStack) -> tuple[Adapter, LayerStack] | None:
    """A small copy of a model with an adapter on it, if the model allows one."""
    if stack.whole:
        return None
    try:
        state = stack.embed(_LONG.ids)
        count = layers_of_every_kind(stack.layers, state.arguments)
        vocabulary = stack.project(stack.hidden(_LONG.ids[:1, :1])[0]).shape[-1]
        copied = first_layers(model, stack.block_path, count, vocabulary)
        if copied is None:
            return None
        adapter = new_adapter(copied)
        small = type(stack)(copied, stack.block_path)
        mx.eval(small.hidden(_LONG.ids))
    except Exception:  # noqa: BLE001 - a foreign model that cannot be cut short is checked as it is
        return None
    return adapter, small


def _briefly(stack: LayerStack, model: nn.Module, rows: Rows) -> CheckedStack:
    """The same as `_values` in half the time, if nothing is wrong and a copy shows the rest.

    A prompt and its continuation by single layers go through every part of the stack.
    """
    one = Rows(rows.ids[:1], rows.prompt)
    found: list[mx.array] = []

    def logits() -> tuple[mx.array, mx.array]:
        found[:] = [continued(stack, one)]
        return stack.project(found[0][0]), _logits(model, one.ids)

    if stack.whole or not same(logits):
        return _values(stack, model, rows)
    vocabulary = _find_head(stack, model, found[0][0, :4])
    return CheckedStack(stack, blocks="" if vocabulary else _BLOCKS, vocabulary=vocabulary)


def _values(stack: LayerStack, model: nn.Module, rows: Rows) -> CheckedStack:
    """What the logits and hidden states of the model as it is allow."""
    one = Rows(rows.ids[:1], rows.prompt)
    hidden: list[mx.array] = []

    def logits(way: Callable[[], mx.array]) -> Callable[[], tuple[mx.array, mx.array]]:
        def both() -> tuple[mx.array, mx.array]:
            hidden[:] = [way()]
            return stack.project(hidden[0][0]), wanted

        return both

    wanted = _logits(model, one.ids)
    # A forward less than both ways to the hidden states: if ranges give the logits, both are right.
    apart = not stack.whole and same(logits(lambda: in_ranges(stack, one)))
    if not apart and (stack.whole or not same(logits(lambda: stack.hidden(one.ids)))):
        stack.whole = True
        return CheckedStack(stack, _WHOLE, _WHOLE, _WHOLE, _WHOLE)
    vocabulary = _find_head(stack, model, hidden[0][0, :4])
    checked = CheckedStack(stack, blocks="" if vocabulary else _BLOCKS, vocabulary=vocabulary)
    if not apart:
        return replace(checked, segments=_SEGMENTS, prefix=_SEGMENTS)
    return _after_prompt(checked, stack, one, hidden[0])


def _on_the_copy(checked: CheckedStack, stack: LayerStack, rows: Rows) -> CheckedStack:
    """What is left of a result after the hidden states of the copy were compared."""
    hidden = stack.hidden(rows.ids)
    if not same(lambda: (in_ranges(stack, rows), hidden)):
        return replace(checked, segments=_SEGMENTS, prefix=_SEGMENTS)
    return _after_prompt(checked, stack, rows, hidden)


def _after_prompt(
    checked: CheckedStack, stack: LayerStack, rows: Rows, hidden: mx.array
) -> CheckedStack:
    if checked.prefix or same(lambda: (after_prompt(stack, rows), hidden[:, rows.prompt :])):
        return checked
    return replace(checked, prefix=_PREFIX)


def _gradients(checked: CheckedStack, adapter: Adapter, stack: LayerStack) -> CheckedStack:
    """What is left of a result after gradients were compared."""
    if checked.segments:
        return checked
    check = GradientCheck(adapter, stack, _LONG)
    if not check.segments():
        return replace(checked, segments=_SEGMENTS, prefix=_SEGMENTS)
    checked = replace(
        checked, packs=same(lambda: (packed(stack, _LONG), by_themselves(stack, _LONG)))
    )
    if checked.prefix or not check.prefix():
        return replace(checked, prefix=checked.prefix or _PREFIX)
    return replace(checked, joins=_joins(stack))


def _joins(stack: LayerStack) -> bool:
    if not runs_joined(stack):
        return False
    return same(lambda: (joined(stack, _LONG), after_prompt(stack, _LONG)))


def _find_head(stack: LayerStack, model: nn.Module, hidden: mx.array) -> int:
    """Find the module whose rows are the vocabulary, tell the stack, and return their number."""
    wanted = stack.project(hidden)
    vocabulary = wanted.shape[-1]
    middle = vocabulary // 2
    for path, module in model.named_modules():
        weight = module.get("weight")
        # An untied model has two such modules; the check tells the head from the embedding.
        if not isinstance(weight, mx.array) or weight.ndim != 2 or len(weight) != vocabulary:
            continue
        if path.startswith(f"{stack.block_path}."):
            continue
        stack.head = module
        if same(lambda: (stack.project_block(hidden, 1, middle), wanted[:, 1:middle])):
            return vocabulary
    stack.head = None
    return 0


def _logits(model: nn.Module, ids: mx.array) -> mx.array:
    network: object = model
    return network(ids)[0]  # type: ignore[operator]
