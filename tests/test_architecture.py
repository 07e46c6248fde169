"""The rules of the layout, checked by a machine."""

from __future__ import annotations

import ast
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import app
import trainer_core

ROOT = Path(__file__).parent.parent
CODE = ("app", "trainer_core", "packaging")
# Most lines of a file: a reader takes it in at one go. Lists of cases may be longer.
MOST_LINES = {"app": 400, "trainer_core": 400, "packaging": 400, "tests": 600}


def sources(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def modules(package: object) -> Iterator[str]:
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):  # type: ignore[attr-defined]
        yield found.name


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_contracts_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


def test_the_app_is_imported_without_mlx() -> None:
    names = list(modules(app))
    assert len(names) > 20
    loaded = run(
        "import importlib, sys\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('mlx', 'mlx_lm', 'transformers')])"
    )
    assert loaded == "[]"


def test_the_engine_is_imported_without_qt() -> None:
    names = list(modules(trainer_core))
    assert len(names) > 30
    loaded = run(
        "import importlib, sys\n"
        "from trainer_core.backend import prepare\n"
        "prepare()\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('PySide6', 'pyqtgraph', 'app')])"
    )
    assert loaded == "[]"


def test_importing_the_engine_is_cheap() -> None:
    loaded = run(
        "import sys, trainer_core\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('mlx', 'numpy', 'pydantic')])"
    )
    assert loaded == "[]"


def test_packaging_is_no_package() -> None:
    # With an __init__.py it would hide the library of that name, which transformers needs.
    assert not list((ROOT / "packaging").rglob("__init__.py"))
    where = run("import packaging.version as v; print(v.__file__)")
    assert ROOT / "packaging" not in Path(where).parents


def test_files_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for folder, most in MOST_LINES.items()
        for path in sources(folder)
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > most
    }
    assert not long


def test_names_say_what_is_inside() -> None:
    vague = {"utils.py", "util.py", "helpers.py", "common.py", "misc.py"}
    assert not [path for path in sources(*CODE, "tests") if path.name in vague]


def test_every_module_says_why_it_exists() -> None:
    mute = []
    for path in sources(*CODE):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if tree.body and ast.get_docstring(tree) is None:
            mute.append(str(path.relative_to(ROOT)))
    assert not mute


def test_the_event_loop_is_never_re_entered() -> None:
    inside = [
        path
        for path in sorted((ROOT / "app").rglob("*.py"))
        if "processEvents" in path.read_text(encoding="utf-8")
    ]
    assert not inside


@pytest.mark.gui
def test_qt_gives_no_reference_to_none_away() -> None:
    # PySide6 6.12.0 on Python 3.11 loses one in each of these calls and ends in an abort.
    lost = run(
        "import sys\n"
        "from PySide6.QtWidgets import QApplication, QLabel\n"
        "application = QApplication([])\n"
        "label = QLabel()\n"
        "before = sys.getrefcount(None)\n"
        "for number in range(1000): label.setText(str(number))\n"
        "print(before - sys.getrefcount(None))"
    )
    assert abs(int(lost)) < 100
