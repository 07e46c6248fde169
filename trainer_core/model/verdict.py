"""Remember that a model's stack was found right, so that the next run need not check it again.

What the check finds follows from the model's code and shapes, not from its weights: so the key is
config.json with the versions of everything that runs it. Only a verdict without any objection is
kept: an objection may be due to something that passes, such as too little memory, and is better
found again than believed for ever.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from trainer_core.model.load import LoadedModel
from trainer_core.model.open_stack import CheckedStack, make_stack, open_stack
from trainer_core.private_folder import private_folder, write_atomically

_LOG = logging.getLogger(__name__)
_PACKAGES = ("burnish", "mlx", "mlx-lm")

_FOLDER = "stacks"


def open_stack_once(loaded: LoadedModel, targets: Sequence[str]) -> CheckedStack:
    """`open_stack`, or what it found before for the same configuration, versions and targets.

    Args:
        loaded: the model, with its adapter or without.
        targets: paths of the adapted layers.
    """
    model_type = str(loaded.config.get("model_type"))
    file = _file(loaded, targets)
    if file is not None and (found := _read(file, loaded.model, model_type)) is not None:
        return found
    checked = open_stack(loaded.model, model_type)
    if file is not None and not (checked.whole or checked.segments or checked.prefix):
        _write(file, checked, loaded.model)
    return checked


def _file(loaded: LoadedModel, targets: Sequence[str]) -> Path | None:
    """Where the verdict of this model is or would be; None if it cannot be kept."""
    # A model that brings its own code may do anything anew.
    if "model_file" in loaded.config:
        return None
    try:
        digest = hashlib.sha256((loaded.folder / "config.json").read_bytes())
        facts = [
            platform.platform(),
            str(mx.default_device()),
            *(f"{name} {_version(name)}" for name in _PACKAGES),
            *sorted({str(array.dtype) for _, array in _arrays(loaded.model)}),
            *sorted(targets),
        ]
        digest.update("\n".join(facts).encode())
        # In a checkout the version stays while the code changes.
        for source in sorted(Path(__file__).parent.rglob("*.py")):
            digest.update(source.read_bytes())
        return private_folder(_FOLDER) / f"{digest.hexdigest()[:32]}.json"
    except OSError as error:
        _LOG.warning("the check of the model's layers is not remembered: %s", error)
        return None


def _read(file: Path, model: nn.Module, model_type: str) -> CheckedStack | None:
    """A verdict that was kept, on the stack of this model."""
    try:
        kept: Any = json.loads(file.read_text(encoding="utf-8"))
        head, blocks, vocabulary = kept["head"], kept["blocks"], kept["vocabulary"]
        joins, packs = kept["joins"], kept["packs"]
        if not (isinstance(joins, bool) and isinstance(packs, bool) and isinstance(blocks, str)):
            raise ValueError("its values are of other kinds")
        stack = make_stack(model, model_type)
        stack.head = dict(model.named_modules())[head] if vocabulary else None
        if stack.head is not None and len(stack.head["weight"]) != vocabulary:
            raise ValueError("it is of another vocabulary")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _LOG.warning("%s is ignored, the model's layers are checked again: %r", file, error)
        return None
    return CheckedStack(stack, blocks=blocks, joins=joins, packs=packs, vocabulary=vocabulary)


def _write(file: Path, checked: CheckedStack, model: nn.Module) -> None:
    head = next((path for path, m in model.named_modules() if m is checked.stack.head), "")
    kept = {
        "head": head,
        "joins": checked.joins,
        "packs": checked.packs,
        "blocks": checked.blocks,
        "vocabulary": checked.vocabulary,
    }
    try:
        write_atomically(file, (json.dumps(kept) + "\n").encode())
    except OSError as error:
        _LOG.warning("the check of the model's layers is not remembered: %s", error)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _arrays(model: nn.Module) -> list[tuple[str, mx.array]]:
    flat: Any = tree_flatten(model.parameters())
    return flat
