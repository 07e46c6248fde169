"""The device we run on, and what must be settled before and after MLX is first imported.

`prepare` comes before any import of `mlx.core` or `transformers`; everything else here may import
MLX, and so belongs to the engine thread.
"""

from __future__ import annotations

import functools
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from trainer_core import memory
from trainer_core.blas import BlasUnavailable, load_fast_blas
from trainer_core.errors import OutOfMemoryError
from trainer_core.events import Warned
from trainer_core.memory import MemoryEstimate
from trainer_core.private_folder import private_folder

Kind = Literal["metal", "cuda", "cpu"]

# Of the memory that is free, the share a run may plan with: the rest is for what the estimate
# leaves out.
_SHARE = 0.85

# Share of the memory planned for a run's work up to which MLX may run ahead of a CPU.
_UNHURRIED = 0.8

# What MLX reads from the environment on CUDA; a user who has set one keeps it.
_CUDA_SETTINGS = {
    # Its float32 products would keep 10 bits of 23. PyTorch's keep all unless told otherwise.
    "MLX_ENABLE_TF32": "0",
    # MLX raises an error once enough new shapes have come, which rows of many lengths do.
    "MLX_ENABLE_CACHE_THRASHING_CHECK": "0",
    # Arrays live until the graph of kernels that they are in has run. MLX's graphs read up to
    # 400 MB on an H200; smaller ones free sooner: 4.5 GB instead of 5.9 for a pair of 16,384
    # tokens, at the same speed.
    "MLX_MAX_MB_PER_BUFFER": "40",
    # Attention plans, one for each pair of lengths; a new one takes about 50 ms.
    "MLX_CUDA_SDPA_CACHE_SIZE": "1024",
    "MLX_CUDA_SDPA_BACKWARD_CACHE_SIZE": "1024",
}


@dataclass(frozen=True, slots=True)
class Preparation:
    """What `prepare` did.

    Attributes:
        blas: the OpenBLAS that MLX's CPU maths goes through, or None for MLX's own.
        slow_cpu: to be emitted if the run turns out to be on a Linux CPU without a fast BLAS.
        notes: anything else worth telling.
    """

    blas: Path | None = None
    slow_cpu: Warned | None = None
    notes: tuple[Warned, ...] = ()

    def warnings(self, device: Device) -> list[Warned]:
        """The events to emit for a run on this device."""
        slow = [self.slow_cpu] if self.slow_cpu is not None and device.kind == "cpu" else []
        return [*slow, *self.notes]


@dataclass(frozen=True, slots=True)
class Device:
    """Where MLX computes: its kind, the maker's name for it, and its memory in bytes if known."""

    kind: Kind
    name: str
    memory: int | None = None
    wired_limit: int | None = None

    def __str__(self) -> str:
        return f"{self.name} ({ {'metal': 'Metal', 'cuda': 'CUDA', 'cpu': 'CPU'}[self.kind] })"


@dataclass(frozen=True, slots=True)
class Machine:
    """What a run is planned for: a kind of device, and the bytes that can be taken."""

    kind: Kind
    available: int


@dataclass(frozen=True, slots=True)
class WeightPolicy:
    """The precision the base weights are brought to: `keep`, `float32` or `bfloat16`."""

    weights: Literal["keep", "float32", "bfloat16"]
    warning: Warned | None = None


_PREPARING = threading.Lock()


def prepare() -> Preparation:
    """Settle the process's environment for MLX, before `mlx.core` is imported.

    It asks the Hugging Face libraries for no telemetry and no network (a user who sets
    HF_HUB_OFFLINE=0 keeps it), gives MLX's kernel compiler a private temporary folder, tells MLX
    how to use CUDA, and on Linux loads a fast BLAS. It never raises: what could not be done is in
    the result. Any thread may call it; only the first call does something.
    """
    with _PREPARING:
        return _prepare()


@functools.cache
def _prepare() -> Preparation:
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    # Else transformers tells everyone who lacks PyTorch that they lack it.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    if sys.platform != "linux":
        return Preparation()
    for name, value in _CUDA_SETTINGS.items():
        os.environ.setdefault(name, value)
    notes = []
    try:
        _use_private_temporary_folder()
    except OSError as error:
        notes.append(
            Warned(
                "shared_tmp",
                f"MLX compiles CPU kernels in the shared folder {tempfile.gettempdir()}: {error}",
                "set TMPDIR to a folder that only you can write to",
            )
        )
    if "mlx.core" in sys.modules:
        late = _slow_cpu("mlx was imported before trainer_core, and so took its own BLAS")
        return Preparation(slow_cpu=late, notes=tuple(notes))
    try:
        return Preparation(blas=load_fast_blas(), notes=tuple(notes))
    except (BlasUnavailable, OSError) as error:
        return Preparation(slow_cpu=_slow_cpu(str(error)), notes=tuple(notes))


def child_environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that trains.

    It needs no network, so it gets no token. On macOS 26 the system's watchdog may end work on the
    GPU while the display is on; the variable asks it for patience, and letting the display sleep
    is the reliable cure.

    Args:
        own: the environment of this process.
    """
    tokens = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
    kept = {name: value for name, value in own.items() if name not in tokens}
    if sys.platform == "darwin":
        kept.setdefault("AGX_RELAX_CDM_CTXSTORE_TIMEOUT", "1")
    return kept


def device() -> Device:
    """The device MLX computes on by default."""
    import mlx.core as mx

    chosen = mx.default_device()
    info = mx.device_info()
    kind: Kind = "cpu"
    if chosen == mx.Device(mx.gpu):
        kind = "metal" if mx.metal.is_available() else "cuda"
    memory = info.get("memory_size") or info.get("total_memory")
    wired = info.get("max_recommended_working_set_size")
    return Device(
        kind=kind,
        name=str(info.get("device_name") or info.get("architecture") or "unknown"),
        memory=int(memory) if memory else None,
        wired_limit=int(wired) if wired else None,
    )


def device_name() -> str:
    """The device in words, for the `started` event: `AMD EPYC (CPU)`."""
    return str(device())


def start_device() -> Device:
    """The device, with MLX told how to use it. Call it before loading a model."""
    where = device()
    limit_memory(where)
    if where.kind == "cpu":
        import mlx.core as mx

        # Compiled CPU kernels are no faster here (swiglu of 320 x 1536: 9.4 ms against 9.5 ms),
        # need g++ on the user's machine, and stop every new shape for half a second.
        mx.disable_compile()
    return where


def limit_memory(where: Device) -> None:
    """Tell MLX how much memory it may hold on to.

    Metal keeps what a run uses resident, up to what macOS recommends, so that it is not paged out
    between steps. On CUDA, rows of many lengths would leave freed blocks of many sizes in MLX's
    cache until it holds the whole device: it gets a quarter. The CPU's limits fit as they are,
    but see `hold_to`.
    """
    import mlx.core as mx

    if where.kind == "metal" and where.wired_limit:
        mx.set_wired_limit(where.wired_limit)
    if where.kind == "cuda" and where.memory:
        mx.set_cache_limit(where.memory // 4)


def hold_to(where: Device, loaded: int, planned: int) -> None:
    """Keep a run on a CPU to the memory it was planned with.

    MLX begins up to ten operations ahead of a CPU and takes the memory for their results, a third
    more at a segment's peak. Above its memory limit it waits for the work in hand instead, which
    for small operations is slow: a limit of one byte costs a model of 135 million parameters a
    fifth of its speed. So it waits only near the peak that was planned.

    Args:
        where: the device; a GPU is left alone.
        loaded: bytes of the weights.
        planned: the estimate of the whole run in bytes.
    """
    import mlx.core as mx

    if where.kind == "cpu":
        mx.set_memory_limit(loaded + int(_UNHURRIED * (planned - loaded)))


def available_bytes(where: Device) -> int:
    """Memory that a run can take: a CUDA device's own, else the machine's."""
    if where.kind == "cuda":
        import mlx.core as mx

        free = mx.device_info().get("free_memory")
        if free:
            return int(free) + mx.get_cache_memory()
    return memory.available_bytes()


def this_machine() -> Machine:
    """The device MLX computes on, and what is free of its memory now."""
    where = device()
    return Machine(where.kind, available_bytes(where))


def resolve_weights(asked: str, needs: MemoryEstimate, kind: Kind, available: int) -> WeightPolicy:
    """The precision for the base weights.

    A GPU keeps what the model has, but for float16, whose range is too small to train in. A CPU is
    fast in float32 only, so there `auto` takes float32 if the run then fits in memory.

    Args:
        asked: the option `weights`.
        needs: the run's estimate.
        kind: the kind of device.
        available: bytes that can be taken.

    Raises:
        OutOfMemoryError: the weights asked for by name are larger than the memory there is.
    """
    share = room(available)
    plain = not needs.quantised and needs.dtype == "F32"
    if asked == "auto":
        if kind != "cpu" or plain:
            # float16 ends at 65,504, which gradients exceed. What is quantised keeps its scales.
            half = needs.dtype == "F16" and not needs.quantised
            return WeightPolicy("bfloat16" if half else "keep")
        if needs.total("float32") <= share:
            return WeightPolicy("float32")
        return WeightPolicy("keep", _slow_weights(needs, share))
    if asked not in ("keep", "float32", "bfloat16"):
        raise ValueError(f"unknown weight precision {asked!r}")
    if asked != "keep" and kind == "cpu" and needs.weights(asked) > available:
        raise OutOfMemoryError(
            f"weights: {asked} needs {_gb(needs.weights(asked))} for the model alone",
            f"{_gb(available)} are free",
            "use weights: auto, close other programs, or choose a smaller model",
        )
    if kind == "cpu" and (asked == "bfloat16" or (asked == "keep" and not plain)):
        return WeightPolicy(asked, _slow_precision(asked))
    return WeightPolicy(asked)


def fits(needed: int, available: int) -> bool:
    """Whether a run that needs so many bytes may be planned with so many free."""
    return needed <= room(available)


def room(available: int) -> int:
    """The bytes of those free that a run may be planned with."""
    return int(available * _SHARE)


def _use_private_temporary_folder() -> None:
    """Point TMPDIR at a folder of our own, unless it is one: MLX runs what it finds there."""
    current = Path(tempfile.gettempdir()).stat()
    if current.st_uid == os.getuid() and not current.st_mode & 0o022:
        return
    os.environ["TMPDIR"] = str(private_folder("tmp"))
    tempfile.tempdir = None  # else Python goes on with the folder it found first


def _slow_cpu(reason: str) -> Warned:
    return Warned(
        "slow_cpu",
        f"CPU maths is about thirty times slower than it could be: {reason}",
        "run pip install ngsolve-openblas (on ARM: cmeel-openblas), or apt-get install "
        "libgfortran5 if that library is missing",
    )


def _slow_weights(needs: MemoryEstimate, room: int) -> Warned:
    return Warned(
        "slow_weights",
        f"the weights stay as they are, because float32 needs {_gb(needs.total('float32'))} and "
        f"{_gb(room)} can be used; a step takes about twenty times as long as in float32",
        "shorten max_seq_length, close other programs, or choose a smaller model",
    )


def _slow_precision(asked: str) -> Warned:
    return Warned(
        "slow_weights",
        f"with weights: {asked} a step takes about twenty times as long on a CPU as in float32",
        "use weights: auto",
    )


def _gb(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
