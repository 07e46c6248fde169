"""Folders in the user's cache that no other user can write to, and files written whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs


def private_folder(*parts: str) -> Path:
    """A folder under Burnish's cache, made on first use, that only this user may enter.

    Raises:
        OSError: it cannot be made, or belongs to somebody else.
    """
    folder = Path(platformdirs.user_cache_dir("burnish", appauthor=False)).joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = folder.stat()
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    if status.st_mode & 0o022:
        folder.chmod(0o700)
    return folder


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file under a temporary name and rename it, so that readers never see half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
