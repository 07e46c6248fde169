"""Models that are on this machine, and what their folders say of them; bodies of tasks."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from app.paths import resources_folder
from app.reading.background import Task
from trainer_core.errors import ModelError
from trainer_core.model_files import read_json, read_tensors

SAMPLE = "sample"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json")
_LM_STUDIO = ("~/.lmstudio/models", "~/.cache/lm-studio/models")
_DEPTH = 3
FAST_PATHS = {
    "head": "fast heads",
    "segments": "segments",
    "prefix": "shared prompts",
    "blocks": "the flash head",
    "packing": "packing into one row",
}
"""As `resources/families.json` has them, and in words."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A model at a glance.

    Attributes:
        name: what the option `model` takes: a folder, a Hugging Face id, or `sample`.
        title: its name for people.
        where: the place it was found in, in words.
        folder: its files; they need not be there for the sample model.
        size: bytes on disk.
        family: mlx-lm's name of its architecture.
        parameters: elements of all weights.
        precision: `4 bit`, `bfloat16` and the like.
        context: tokens that it was made for.
        licence: as its README names it.
        lacks: fast paths that its family does not have, None if that is not known.
        problem: why it cannot be trained, or an empty string.
        try_this: what to do about it.
    """

    name: str
    title: str
    where: str
    folder: Path
    size: int = 0
    family: str = ""
    parameters: int = 0
    precision: str = ""
    context: int | None = None
    licence: str = ""
    lacks: tuple[str, ...] | None = None
    problem: str = ""
    try_this: str = ""

    def mentions(self, words: str) -> bool:
        """Whether all of these words are somewhere in what is known of it."""
        text = f"{self.title} {self.name} {self.where} {self.family} {self.precision}".lower()
        return all(word in text for word in words.lower().split())


def find_models(task: Task, added: Sequence[Path]) -> list[ModelInfo]:
    """All models on this machine, each read at a glance.

    Args:
        task: asked now and then whether it is still wanted.
        added: folders that the user named: models, or folders of models.
    """
    found: dict[Path, ModelInfo] = {}
    for info in _places(added):
        task.check()
        key = info.folder.resolve()
        if key not in found:
            found[key] = describe(info)
    return sorted(found.values(), key=lambda m: (m.name != SAMPLE, m.title.lower()))


def _places(added: Sequence[Path]) -> Iterator[ModelInfo]:
    from trainer_core.model.sample_model import NAME, sample_model_folder

    yield ModelInfo(SAMPLE, f"{NAME} (sample)", "comes with Burnish", sample_model_folder())
    yield from _hub_models(hub_cache())
    for place in _LM_STUDIO:
        yield from _in_folder(Path(place).expanduser(), "LM Studio")
    for folder in added:
        yield from _in_folder(folder, "added by you")


def hub_cache() -> Path:
    """The Hugging Face cache, as its own variables name it."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    hub = os.environ.get("HF_HOME") or f"{home}/huggingface"
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    return Path(os.path.expandvars(named or f"{hub}/hub")).expanduser()


def _hub_models(cache_folder: Path) -> Iterator[ModelInfo]:
    for repo in sorted(cache_folder.glob("models--*--*")):
        name = repo.name.removeprefix("models--").replace("--", "/", 1)
        snapshot = _snapshot(repo)
        if snapshot is not None:
            yield ModelInfo(name, name, "Hugging Face cache", snapshot)


def _snapshot(repo: Path) -> Path | None:
    """The folder of the revision that `main` names, or else of the newest one."""
    try:
        named = repo / "snapshots" / (repo / "refs" / "main").read_text(encoding="utf-8").strip()
        if named.is_dir():
            return named
    except (OSError, ValueError):
        pass
    found = [path for path in (repo / "snapshots").glob("*") if path.is_dir()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _in_folder(place: Path, where: str, depth: int = _DEPTH) -> Iterator[ModelInfo]:
    """A model folder, or the ones inside a folder of models."""
    try:
        entries = sorted(place.iterdir())
    except OSError:  # not there, or not to be read
        return
    names = {path.name for path in entries}
    if "config.json" in names or any(name.endswith(".gguf") for name in names):
        yield ModelInfo(str(place), place.name, where, place)
    elif depth:
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
                yield from _in_folder(entry, where, depth - 1)


def describe(info: ModelInfo) -> ModelInfo:
    """The same model with what its files say."""
    folder = info.folder
    if info.name == SAMPLE and not (folder / "config.json").is_file():
        where = "made when the first run starts"
        return replace(info, family="llama", where=where, lacks=_lacks("llama"))
    info = replace(info, size=_size(folder), licence=_licence(folder))
    try:
        config = read_json(folder / "config.json")
        tensors = read_tensors(folder, config)
    except ModelError as error:
        only_gguf = any(folder.glob("*.gguf"))
        what = "it holds GGUF files only" if only_gguf else error.what
        hint = "use the safetensors version of the model" if only_gguf else error.try_this
        return replace(info, problem=what, try_this=hint)
    text = config.get("text_config")
    text = text if isinstance(text, dict) else config
    problem, hint = _problem(folder, config)
    return replace(
        info,
        family=str(config.get("model_type", "")),
        parameters=sum(tensor.parameters for tensor in tensors),
        precision=_precision(config, [tensor.dtype for tensor in tensors]),
        context=_whole(text.get("max_position_embeddings")),
        lacks=_lacks(str(config.get("model_type", ""))),
        problem=problem,
        try_this=hint,
    )


def _lacks(family: str) -> tuple[str, ...] | None:
    """The fast paths that a family does not have, in words; None for one that was never tried."""
    had = _families().get(family)
    return (
        None if had is None else tuple(word for key, word in FAST_PATHS.items() if key not in had)
    )


@cache
def _families() -> dict[str, list[str]]:
    return json.loads((resources_folder() / "families.json").read_text(encoding="utf-8"))


def _problem(folder: Path, config: dict[str, Any]) -> tuple[str, str]:
    family = str(config.get("model_type", ""))
    if not family:
        return "its config.json names no model_type", "choose the base model's folder"
    if config.get("model_file"):
        return "it brings its own program code", "model folders never run code here"
    if not is_known(family):
        return f"mlx-lm has no family {family}", "use a model of a family that mlx-lm knows"
    if not any((folder / name).exists() for name in _TOKENIZERS):
        return "it has no tokenizer", "download the whole model folder"
    return "", ""


@cache
def is_known(family: str) -> bool:
    """Whether mlx-lm loads a family, read from its files: importing it would bring MLX."""
    spec = importlib.util.find_spec("mlx_lm")
    if spec is None or spec.origin is None:
        return False
    package = Path(spec.origin).parent
    tree = ast.parse((package / "utils.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "MODEL_REMAPPING"
            for target in node.targets
        ):
            family = ast.literal_eval(node.value).get(family, family)
    file = package / "models" / f"{family}.py"
    return file.is_file() and "class Model(" in file.read_text(encoding="utf-8")


def _precision(config: dict[str, Any], dtypes: list[str]) -> str:
    quantised = config.get("quantization") or config.get("quantization_config") or {}
    bits = quantised.get("bits") if isinstance(quantised, dict) else None
    if bits:
        kinds = {dtype for dtype in dtypes if dtype.startswith("Q")}
        return f"{bits} bit" + (", mixed" if len(kinds) > 1 else "")
    names = {"BF16": "bfloat16", "F16": "float16", "F32": "float32"}
    return names.get(max(set(dtypes), key=dtypes.count), "") if dtypes else ""


def _size(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    except OSError:
        return 0


def _licence(folder: Path) -> str:
    """What the front matter of the README names."""
    try:
        head = (folder / "README.md").read_text(encoding="utf-8", errors="replace")[:4_000]
    except OSError:
        return ""
    found = re.search(r"^license:\s*[\"']?([\w.+-]+)", head, re.MULTILINE)
    return found[1] if found else ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
