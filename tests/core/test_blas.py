"""The BLAS preload: which libraries are trusted, what happens with others, and that it helps."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trainer_core import blas

linux_x86 = pytest.mark.skipif(
    sys.platform != "linux" or not blas._site_of("ngsolve-openblas"),
    reason="needs the OpenBLAS wheel of Linux on x86",
)


def fake_library(folder: Path, description: bytes) -> Path:
    path = folder / "libopenblas.so.0"
    path.write_bytes(b"\x7fELF" + bytes(64) + description + b"\0" + bytes(64) + b"DYNAMIC_ARCH")
    return path


# The texts are those of PyPI's ngsolve-openblas 0.3.33 and cmeel-openblas 0.3.31 wheels.
@pytest.mark.parametrize(
    ("description", "trusted"),
    [
        (b"OpenBLAS 0.3.33 DYNAMIC_ARCH NO_AFFINITY ", True),
        (b"OpenBLAS 0.3.31 NO_AFFINITY SKYLAKEX", False),
        (b"OpenBLAS 0.3.31 NO_AFFINITY NEOVERSEN2", False),
        (b"something else", False),
    ],
)
def test_only_a_build_for_many_processors_is_trusted(
    tmp_path: Path, description: bytes, trusted: bool
) -> None:
    assert blas.picks_kernels_at_run_time(fake_library(tmp_path, description)) is trusted


def test_a_library_that_kills_the_child_is_refused_and_not_tried_again(
    dirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = fake_library(tmp_path, b"OpenBLAS 0.3.31 NO_AFFINITY SKYLAKEX")
    monkeypatch.setattr(blas, "_PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    assert not blas._works_here(library, [])
    monkeypatch.setattr(blas, "_PROBE", "")
    assert not blas._works_here(library, [])
    # Another build of the library is another matter.
    library.write_bytes(library.read_bytes() + b"newer")
    assert blas._works_here(library, [])


def test_without_any_package_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    with pytest.raises(blas.BlasUnavailable, match="no OpenBLAS package"):
        blas.load_fast_blas()


def test_a_library_that_cannot_be_loaded_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = fake_library(tmp_path, b"OpenBLAS 0.3.33 DYNAMIC_ARCH")
    monkeypatch.setattr(blas, "_libraries", lambda: iter([library]))
    monkeypatch.setattr(blas, "_load_fortran", list)
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    with pytest.raises(blas.BlasUnavailable, match=r"libopenblas\.so\.0"):
        blas.load_fast_blas()


def test_it_must_come_before_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlx.core", object())
    with pytest.raises(blas.BlasUnavailable, match="before"):
        blas.load_fast_blas()


@linux_x86
def test_the_probe_finds_a_good_library_good(dirs: Path) -> None:
    [library] = list(blas._libraries())[:1]
    assert blas._works_here(library, blas._fortran_of_mlx())


_THREADS = """
import ctypes
from trainer_core import blas
print(ctypes.CDLL(str(blas.load_fast_blas())).openblas_get_num_threads(), blas.usable_cores())
"""


@linux_x86
def test_one_core_is_left_to_the_rest_unless_the_user_says_otherwise() -> None:
    root = Path(__file__).parents[2]
    env = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", _THREADS]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=True)
    threads, cores = map(int, done.stdout.split())
    assert threads == max(1, cores - 1)
    env["OPENBLAS_NUM_THREADS"] = str(min(2, os.cpu_count() or 1))
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == env["OPENBLAS_NUM_THREADS"]


@pytest.mark.skipif(sys.platform != "linux", reason="the BLAS is for Linux")
@pytest.mark.parametrize(
    ("text", "cores"),
    [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("1600000 100000", 8)],
)
def test_a_container_may_use_fewer_cores(
    monkeypatch: pytest.MonkeyPatch, text: str, cores: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(Path, "read_text", lambda _: text)
    assert blas.usable_cores() == cores


_TIME = """
import sys, time
if sys.argv[1] == "fast":
    from trainer_core.backend import prepare
    assert prepare().blas is not None, prepare()
import mlx.core as mx
mx.set_default_device(mx.cpu)
a = mx.random.normal((512, 512)); mx.eval(a, a @ a)
best = 1e9
for _ in range(8):
    start = time.process_time(); mx.eval(a @ a); best = min(best, time.process_time() - start)
mx.eval(mx.linalg.qr(a[:64, :64], stream=mx.cpu))  # LAPACK still answers
print(best)
"""


@linux_x86
def test_mlx_is_many_times_faster_with_it() -> None:
    root = Path(__file__).parents[2]
    # One thread and its own time, so that a busy machine does not matter.
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    seconds = {}
    for kind in ("fast", "plain"):
        command = [sys.executable, "-c", _TIME, kind]
        done = subprocess.run(
            command, cwd=root, env=env, capture_output=True, text=True, check=True
        )
        seconds[kind] = float(done.stdout)
    # Measured: about 20 times on one core.
    assert seconds["plain"] > 5 * seconds["fast"], seconds
