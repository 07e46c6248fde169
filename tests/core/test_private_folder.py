"""Folders nobody else can write to, and files that are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainer_core.private_folder import private_folder, write_atomically


def test_only_the_user_may_enter(dirs: Path) -> None:
    folder = private_folder("blas", "x")
    assert folder.is_dir()
    assert dirs in folder.parents
    assert folder.stat().st_mode & 0o077 == 0


def test_a_folder_open_to_others_is_closed(dirs: Path) -> None:
    folder = private_folder("blas")
    folder.chmod(0o777)
    assert private_folder("blas").stat().st_mode & 0o077 == 0


def test_somebody_elses_folder_is_refused(dirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    private_folder("blas")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="another user"):
        private_folder("blas")


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"
