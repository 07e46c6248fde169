"""Gives MLX a fast BLAS on Linux CPUs, where its own wheel carries the slow reference one.

An OpenBLAS whose symbols have their plain names (cblas_sgemm, not scipy_cblas_sgemm64_) is loaded
into the process's global symbol scope before MLX; the loader then binds MLX's calls to it. In
float32 this is worth a factor of about thirty. A wheel built for one kind of processor kills the
process on another, so only a library that picks its kernels at run time is trusted; any other is
tried in a child process first.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from trainer_core.private_folder import private_folder, write_atomically

FORTRAN = "libgfortran.so.5"

# Distribution and the pattern of its library, best first.
WHEELS = (
    ("ngsolve-openblas", "ngsolve_openblas/libopenblas*.so*"),
    ("cmeel-openblas", "cmeel.prefix/lib/libopenblas.so.0"),
)

# A 96 x 96 product goes through the packed kernels, where a build for another processor dies.
_PROBE = """
import ctypes, sys
n, f = 96, ctypes.c_float
for path in sys.argv[1:]:
    blas = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
a, c = (f * (n * n))(*[1.0] * (n * n)), (f * (n * n))()
blas.cblas_sgemm.argtypes = (
    [ctypes.c_int] * 6 + [f, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, f]
    + [ctypes.c_void_p, ctypes.c_int]
)
blas.cblas_sgemm(101, 111, 111, n, n, n, 1.0, a, n, a, n, 0.0, c, n)
sys.exit(0 if all(x == n for x in c) else 3)
"""


class BlasUnavailable(Exception):
    """No fast BLAS could be loaded; the text is the reason, a clause for a person."""


def load_fast_blas() -> Path:
    """Load an OpenBLAS into the global symbol scope.

    Its threads wait for each other in a busy loop, so one that has to share its core holds up all:
    with two threads on two busy cores a training step was measured at twenty times its length, with
    one thread at not quite three. One core is therefore left to the window and everything else,
    unless OPENBLAS_NUM_THREADS says otherwise.

    Returns:
        the file that was loaded.

    Raises:
        BlasUnavailable: there is none, or none that works on this processor.
    """
    if "mlx.core" in sys.modules:
        raise BlasUnavailable("MLX was imported before the BLAS library")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, usable_cores() - 1)))
    reasons = []
    needed: list[Path] | None = None
    for library in _libraries():
        try:
            needed = _load_fortran() if needed is None else needed
            if not picks_kernels_at_run_time(library) and not _works_here(library, needed):
                raise BlasUnavailable(f"{library.name} is built for another kind of processor")
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        except (OSError, BlasUnavailable) as error:
            reasons.append(str(error))
        else:
            return library
    raise BlasUnavailable("; ".join(reasons) or "no OpenBLAS package is installed")


def usable_cores() -> int:
    """Processors that this process may use, a container's share included."""
    cores = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return cores
    return min(cores, max(1, int(quota) // int(period))) if quota.isdigit() else cores


def picks_kernels_at_run_time(library: Path) -> bool:
    """Whether an OpenBLAS carries kernels for many processors.

    Reads the build's description, the text `openblas_get_config` returns, from the file: loading a
    library to ask it would already run its code.
    """
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(b"OpenBLAS 0.")
        return start >= 0 and b"DYNAMIC_ARCH" in data[start : data.find(b"\0", start)]


def _libraries() -> Iterator[Path]:
    for name, pattern in WHEELS:
        root = _site_of(name)
        if root is not None:
            yield from sorted(root.glob(pattern))


def _site_of(distribution: str) -> Path | None:
    try:
        found = importlib.metadata.distribution(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
    return Path(str(found.locate_file("")))


def _load_fortran() -> list[Path]:
    """Load the Fortran runtime OpenBLAS needs; returns the files a child must load first."""
    try:
        ctypes.CDLL(FORTRAN, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        files = _fortran_of_mlx()
    else:
        return []
    for file in files:
        ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
    return files


def _fortran_of_mlx() -> list[Path]:
    """The Fortran runtime of MLX's wheel and what it needs, in the order of loading.

    The wheel's file has a name with a hash in it, which does not satisfy OpenBLAS, hence the copy.
    """
    site = _site_of("mlx-cpu")
    hashed = sorted(site.glob("mlx_cpu.libs/libgfortran-*.so.5*")) if site else []
    if not hashed:
        raise BlasUnavailable(f"{FORTRAN} is missing")
    quadmath = sorted(hashed[0].parent.glob("libquadmath-*.so*"))
    return [*quadmath, _plain_named_copy(hashed[0])]


def _plain_named_copy(hashed: Path) -> Path:
    """A cached copy of the wheel's Fortran runtime that calls itself `libgfortran.so.5`."""
    data = hashed.read_bytes()
    old = hashed.name.encode() + b"\0"
    if old not in data:
        raise BlasUnavailable(f"{hashed.name} does not hold its own name")
    # Same length, so that no offset in the file moves.
    data = data.replace(old, FORTRAN.encode().ljust(len(old), b"\0"))
    path = private_folder("blas", sha256(data).hexdigest()[:16]) / FORTRAN
    if not path.exists() or path.read_bytes() != data:
        write_atomically(path, data)
    return path


def _works_here(library: Path, needed: list[Path]) -> bool:
    """Whether a small product comes out right, tried in a child process; the verdict is cached."""
    status = library.stat()
    key = f"{library}|{status.st_size}|{status.st_mtime_ns}|{_processor()}"
    verdict = private_folder("blas") / f"probe-{sha256(key.encode()).hexdigest()[:16]}"
    if verdict.exists():
        return verdict.read_text() == "works"
    if getattr(sys, "frozen", False):
        return False  # a bundle has no interpreter to try it in
    command = [sys.executable, "-I", "-S", "-c", _PROBE, *map(str, needed), str(library)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return False
    works = done.returncode == 0
    write_atomically(verdict, b"works" if works else b"fails")
    return works


def _processor() -> str:
    """What tells processors apart: the instruction sets that the kernel lists."""
    lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    return next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
