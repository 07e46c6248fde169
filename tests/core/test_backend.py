"""What is settled before MLX is imported, and which precision the weights get."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from trainer_core import backend
from trainer_core.backend import Device, Preparation, resolve_weights
from trainer_core.blas import BlasUnavailable
from trainer_core.errors import OutOfMemoryError
from trainer_core.memory import MemoryEstimate
from trainer_core.memory.estimate import Phase

GB = 10**9
CPU = Device("cpu", "Some CPU")


def needs(*, quantised: bool = True, dtype: str = "F16") -> MemoryEstimate:
    return MemoryEstimate(
        parameters=GB,
        stored=GB // 2 if quantised else 4 * GB,
        quantised=quantised,
        dtype=dtype,
        adapter_parameters=GB // 100,
        phases=(Phase(wide={"layers": GB / 4}, gradients=1), Phase(gradients=2)),
    )


def test_the_parts_add_up() -> None:
    # weights, adapter, its gradient, two moments, activations
    assert needs().total("float32") == 4 * GB + 4 * 4 * GB // 100 + GB
    assert needs().total("bfloat16") == needs().total("float32") - 2 * GB
    assert needs().weights("keep") == GB // 2


def test_auto_takes_float32_on_a_cpu_with_room() -> None:
    policy = resolve_weights("auto", needs(), "cpu", 32 * GB)
    assert policy.weights == "float32"
    assert policy.warning is None


def test_auto_keeps_and_warns_on_a_cpu_without_room() -> None:
    policy = resolve_weights("auto", needs(), "cpu", 5 * GB)
    assert policy.weights == "keep"
    assert policy.warning is not None
    assert policy.warning.code == "slow_weights"
    assert "5.2 GB" in policy.warning.message
    assert "twenty times" in policy.warning.message


def test_float32_weights_are_kept_in_silence() -> None:
    plain = needs(quantised=False, dtype="F32")
    for asked in ("auto", "keep"):
        policy = resolve_weights(asked, plain, "cpu", GB)
        assert (policy.weights, policy.warning) == ("keep", None)


@pytest.mark.parametrize("kind", ["metal", "cuda"])
def test_a_gpu_does_not_train_in_float16(kind: backend.Kind) -> None:
    half = needs(quantised=False, dtype="F16")
    assert resolve_weights("auto", half, kind, 32 * GB).weights == "bfloat16"
    assert resolve_weights("keep", half, kind, 32 * GB).weights == "keep"


@pytest.mark.parametrize("kind", ["metal", "cuda"])
@pytest.mark.parametrize("available", [GB, 64 * GB])
def test_a_gpu_keeps_what_the_model_has(kind: backend.Kind, available: int) -> None:
    policy = resolve_weights("auto", needs(), kind, available)
    assert (policy.weights, policy.warning) == ("keep", None)


@pytest.mark.parametrize("asked", ["float32", "bfloat16", "keep"])
def test_an_explicit_precision_is_honoured(asked: str) -> None:
    for kind in ("metal", "cuda", "cpu"):
        assert resolve_weights(asked, needs(), kind, 32 * GB).weights == asked


@pytest.mark.parametrize("asked", ["bfloat16", "keep"])
def test_a_slow_explicit_precision_warns_on_a_cpu(asked: str) -> None:
    warning = resolve_weights(asked, needs(), "cpu", 32 * GB).warning
    assert warning is not None
    assert asked in warning.message


def test_an_explicit_precision_that_cannot_fit_is_refused() -> None:
    with pytest.raises(OutOfMemoryError, match=r"float32 needs 4\.0 GB .*3\.0 GB are free"):
        resolve_weights("float32", needs(), "cpu", 3 * GB)


def test_an_unknown_precision_is_a_fault_of_ours() -> None:
    with pytest.raises(ValueError, match="int3"):
        resolve_weights("int3", needs(), "cpu", GB)


def test_the_slow_cpu_warning_is_for_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise BlasUnavailable("libgfortran.so.5 is missing")

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    monkeypatch.setattr(backend, "load_fast_blas", missing)
    monkeypatch.setattr(backend, "_use_private_temporary_folder", lambda: None)
    done = backend._prepare.__wrapped__()
    [warning] = done.warnings(CPU)
    assert warning.code == "slow_cpu"
    assert "libgfortran.so.5 is missing" in warning.message
    assert "pip install" in warning.try_this
    assert done.warnings(Device("cuda", "Some GPU")) == []


def test_mlx_that_came_first_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setitem(sys.modules, "mlx.core", object())
    monkeypatch.setattr(backend, "_use_private_temporary_folder", lambda: None)
    [warning] = backend._prepare.__wrapped__().warnings(CPU)
    assert "imported before" in warning.message


def test_a_temporary_folder_that_cannot_be_made_is_only_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delitem(sys.modules, "mlx.core", raising=False)
    monkeypatch.setattr(backend, "load_fast_blas", lambda: Path("x.so"))
    monkeypatch.setattr(backend, "_use_private_temporary_folder", fail)
    [note] = backend._prepare.__wrapped__().warnings(CPU)
    assert note.code == "shared_tmp"
    assert "read-only" in note.message


def test_elsewhere_than_linux_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted() -> Path:
        raise AssertionError("loaded a BLAS")

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(backend, "load_fast_blas", unwanted)
    assert backend._prepare.__wrapped__() == Preparation()


def test_no_telemetry_and_no_network_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delenv("HF_HUB_OFFLINE")
    backend._prepare.__wrapped__()
    assert os.environ["HF_HUB_DISABLE_TELEMETRY"] == "1"
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    backend._prepare.__wrapped__()
    assert os.environ["HF_HUB_OFFLINE"] == "0"


_TMP = """
import os, tempfile
from trainer_core.backend import prepare
prepare()
print(tempfile.gettempdir())
import mlx.core as mx
mx.set_default_device(mx.cpu)
mx.eval(mx.compile(lambda x: mx.exp(x) * 2 + 1)(mx.ones(8)))
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere the temporary folder is the user's own"
)
def test_compiled_kernels_go_to_a_folder_of_our_own(dirs: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    done = subprocess.run(
        [sys.executable, "-c", _TMP],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(shared)},
        capture_output=True,
        text=True,
        check=True,
    )
    used = Path(done.stdout.strip())
    assert dirs in used.parents
    assert stat.S_IMODE(used.stat().st_mode) == 0o700
    assert list(shared.iterdir()) == []
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    done = subprocess.run(
        [sys.executable, "-c", _TMP],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(own)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(own)


def test_the_device_is_named() -> None:
    found = backend.device()
    assert found.kind in ("cpu", "metal", "cuda")
    assert backend.device_name() == str(found)
    assert found.name in str(found)
    assert str(CPU) == "Some CPU (CPU)"


def test_a_cpu_does_not_take_memory_far_ahead_of_its_work() -> None:
    """Of a chain of products, no more are held at once than were planned for, and a few."""
    import mlx.core as mx

    if backend.device().kind != "cpu":
        pytest.skip("about the CPU")
    product, eye = mx.zeros((512, 512)), mx.eye(512)
    mx.eval(product, eye)
    before = mx.get_active_memory()
    usual = mx.set_memory_limit(1)
    try:
        backend.hold_to(backend.device(), before, before + 2 * product.nbytes)
        mx.reset_peak_memory()
        for _ in range(20):
            product = product @ eye
        mx.eval(product)
    finally:
        mx.set_memory_limit(usual)
    assert mx.get_peak_memory() - before <= 10 * product.nbytes


def test_a_gpu_is_not_held_to_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []
    monkeypatch.setattr("mlx.core.set_memory_limit", limits.append)
    backend.hold_to(backend.Device("cuda", "a GPU"), 1, 2)
    assert limits == []
    backend.hold_to(CPU, 100, 200)
    assert limits == [180]


def test_cuda_settings_are_made_unless_the_user_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(backend, "load_fast_blas", lambda: None)
    monkeypatch.delenv("MLX_ENABLE_CACHE_THRASHING_CHECK", raising=False)
    monkeypatch.setenv("MLX_ENABLE_TF32", "1")
    backend._prepare.__wrapped__()
    assert os.environ["MLX_ENABLE_TF32"] == "1"
    assert os.environ["MLX_ENABLE_CACHE_THRASHING_CHECK"] == "0"


def test_the_cache_on_cuda_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[int] = []
    monkeypatch.setattr("mlx.core.set_cache_limit", limits.append)
    backend.limit_memory(backend.Device("cuda", "a GPU", memory=8 << 30))
    assert limits == [2 << 30]
