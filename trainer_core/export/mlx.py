"""Export in mlx-lm's adapter layout, read back through mlx-lm's own loader and compared."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from trainer_core import backend, memory
from trainer_core.config import RunConfig
from trainer_core.data.chat import CHAT_FILES, chat_options
from trainer_core.data.tokenizer import load_tokenizer
from trainer_core.errors import ExportError, VerifyError
from trainer_core.events import Event, Stage
from trainer_core.export.report import ExportReport
from trainer_core.export.source import ExportSource, find_source
from trainer_core.model.adapter_files import CONFIG, WEIGHTS, read_parameters
from trainer_core.model.dora import bits_beyond_mlx_lm
from trainer_core.model.load import WeightPolicy, load_model
from trainer_core.model.open_policy import open_with_adapter
from trainer_core.model_files import read_json, read_tensors
from trainer_core.runfolder import RunFolder, replaced_folder

PROMPTS = (
    "What is the capital of France?",
    "Explain in one sentence why the sky is blue.",
    "Write a Python function that adds two numbers.",
)

# Two loads of one adapter in one precision differ by rounding only: shares of the largest logit.
_MOST_DIFFERENCE = 1e-3
_MOST_DIFFERENCE_OF_HALF = 5e-2

Logits = list[mx.array]


def export_adapter(
    run_or_adapter: Path, out: Path, emit: Callable[[Event], None] | None = None
) -> ExportReport:
    """Write an adapter for mlx-lm and prove it.

    The folder appears only once mlx-lm has loaded what it will hold and given the trained logits;
    until then what was there stays.

    Args:
        run_or_adapter: a run folder, whose final adapter is taken, or an adapter folder inside one.
        out: a folder that does not exist, is empty, or holds an earlier export.
        emit: told of progress.

    Raises:
        ExportError: the folder cannot be used.
        VerifyError: the written adapter does not give the trained logits.
        ModelError: the base model cannot be loaded.
    """
    backend.prepare()
    backend.start_device()
    tell = emit or _ignore
    source = find_source(run_or_adapter)
    out = out.expanduser().resolve()
    _check_target(out)
    _check_base(source)
    weights = _weights(source)
    tell(Stage("verify", "Answering with the trained adapter", 0.0))
    ids = _prompt_ids(source)
    trained = _trained_logits(source, weights, ids)
    try:
        with replaced_folder(out) as fresh:
            tell(Stage("save", "Writing the adapter", 0.4))
            _write(source, fresh)
            tell(Stage("verify", "Answering with the exported adapter, loaded by mlx-lm", 0.5))
            exported = _exported_logits(source, fresh, weights, ids)
            report = _compare(out, source, trained, exported)
    except OSError as error:
        why = error.strerror or str(error)
        raise ExportError(f"cannot write to {out}", why, "choose another folder") from error
    tell(Stage("verify", "The exported adapter gives the trained answers", 1.0))
    return report


def _ignore(event: Event) -> None:
    """Stands in for a listener."""


def _check_target(out: Path) -> None:
    if _belongs_to_a_run(out):
        raise ExportError(
            f"{out} holds a run's own files",
            "an export must not replace them",
            "choose another folder",
        )
    if not out.exists():
        return
    if not out.is_dir():
        raise ExportError(f"{out} is a file", try_this="choose a folder")
    strangers = sorted(
        p.name for p in out.iterdir() if p.name not in (WEIGHTS, CONFIG, *CHAT_FILES)
    )
    if strangers:
        raise ExportError(
            f"{out} is not empty", f"it holds {strangers[0]}", "choose an empty or a new folder"
        )


def _check_base(source: ExportSource) -> None:
    """Refuse what mlx-lm would load on a dequantised model only, which nobody else has."""
    config = json.loads((source.adapter / CONFIG).read_text(encoding="utf-8"))
    tensors = read_tensors(source.model, read_json(source.model / "config.json"))
    bits = [int(tensor.dtype[1:]) for tensor in tensors if tensor.dtype.startswith("Q")]
    if config.get("fine_tune_type") == "dora" and (odd := bits_beyond_mlx_lm(bits)):
        raise ExportError(
            f"mlx-lm cannot load DoRA on {source.model.name}",
            f"it has layers of {', '.join(map(str, odd))} bits",
            "use the adapter with Burnish, or train with fine_tune_type lora",
        )


def _belongs_to_a_run(out: Path) -> bool:
    """Whether `out` is a run folder, or in one of the folders where a run keeps its adapters."""
    places = {out, *out.parents}
    for run in map(RunFolder, places):
        own = {run.adapter, run.best, run.checkpoints}
        if run.events.exists() and (out == run.path or own & places):
            return True
    return False


def _write(source: ExportSource, folder: Path) -> None:
    """The adapter's files; its config names the model as mlx-lm finds it."""
    shutil.copyfile(source.adapter / WEIGHTS, folder / WEIGHTS)
    for name in CHAT_FILES:
        if (source.adapter / name).exists():
            (folder / name).write_bytes((source.adapter / name).read_bytes())
    config = json.loads((source.adapter / CONFIG).read_text(encoding="utf-8"))
    text = json.dumps({**config, "model": source.model_name}, indent=2, ensure_ascii=False)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")


def _weights(source: ExportSource) -> WeightPolicy:
    config = RunConfig(model=str(source.model), data="sample", max_seq_length=512)
    device = backend.device()
    needs = memory.estimate(source.model, config, kind=device.kind)
    available = backend.available_bytes(device)
    return backend.resolve_weights("auto", needs, device.kind, available).weights


def _prompt_ids(source: ExportSource) -> list[mx.array]:
    taught: dict[str, Any] = chat_options(source.adapter) or {"prompt_format": source.prompt_format}
    config = RunConfig(model=str(source.model), data="sample", **taught)
    tokenizer = load_tokenizer(source.model, config)
    return [mx.array([tokenizer.question_ids(prompt)]) for prompt in PROMPTS]


def _trained_logits(source: ExportSource, weights: WeightPolicy, ids: Sequence[mx.array]) -> Logits:
    return _logits(open_with_adapter(source.model, source.adapter, weights).model, ids)


def _exported_logits(
    source: ExportSource, folder: Path, weights: WeightPolicy, ids: Sequence[mx.array]
) -> Logits:
    from mlx_lm.tuner.utils import load_adapters

    network = load_model(source.model, weights).model
    try:
        network = load_adapters(network, str(folder))
        _check_arrays(network, source.adapter)
        return _logits(network, ids)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise VerifyError(
            "mlx-lm does not load the exported adapter, so nothing was written",
            " ".join(str(error).split()),
            "please report this with the log",
        ) from error


def _check_arrays(network: nn.Module, adapter: Path) -> None:
    """mlx-lm passes over names it does not know, and a short training hardly moves the logits."""
    flat: Any = tree_flatten(network.parameters())
    loaded: dict[str, mx.array] = dict(flat)
    for name, array in read_parameters(adapter).items():
        if name not in loaded or not mx.array_equal(loaded[name], array):
            raise _unlike(f"mlx-lm has no {name}, or has it with other numbers")


def _unlike(why: str) -> VerifyError:
    return VerifyError(
        "the exported adapter does not behave like the trained one, so nothing was written",
        why,
        "please report this with the log",
    )


def _logits(network: nn.Module, ids: Sequence[mx.array]) -> Logits:
    network.eval()
    found = [network(one)[0] for one in ids]
    mx.eval(found)
    return found


def _compare(out: Path, source: ExportSource, trained: Logits, exported: Logits) -> ExportReport:
    exact = all(logits.dtype == mx.float32 for logits in trained)
    most = _MOST_DIFFERENCE if exact else _MOST_DIFFERENCE_OF_HALF
    trained, exported = ([x.astype(mx.float32) for x in own] for own in (trained, exported))
    difference = max(float(mx.abs(a - b).max()) for a, b in zip(trained, exported, strict=True))
    scale = max(float(mx.abs(a).max()) for a in trained)
    same = [(a.argmax(-1) == b.argmax(-1)) for a, b in zip(trained, exported, strict=True)]
    share = float(mx.concatenate(same).astype(mx.float32).mean())
    # Written so that NaN fails.
    if not difference <= most * max(scale, 1.0):
        raise _unlike(f"a logit differs by {difference:.3g}, where the largest is {scale:.3g}")
    words = ["mlx_lm.generate", "--model", str(source.model), "--adapter-path", str(out)]
    command = shlex.join([*words, "--prompt", PROMPTS[0]])
    return ExportReport(out, PROMPTS, difference, scale, share, command)
