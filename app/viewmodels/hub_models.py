"""Models in the local Hugging Face cache, by their names alone; no network."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import constants


def cached_models() -> list[str]:
    """Ids of the cached models that have a snapshot with a config.json, sorted."""
    repos = Path(constants.HF_HUB_CACHE).glob("models--*--*")
    found = [
        repo.name.removeprefix("models--").replace("--", "/", 1) for repo in repos if _usable(repo)
    ]
    return sorted(found, key=str.lower)


def is_cached(name: str) -> bool:
    """Whether the model `org/name` is in the cache."""
    return _usable(Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}")


def _usable(repo: Path) -> bool:
    return any(repo.glob("snapshots/*/config.json"))
