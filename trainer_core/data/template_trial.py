"""Try a chat template once in a process that can be killed, before it renders anything here.

A template is a program of the model's author. transformers' sandbox keeps it from files and from
Python, but not from looping for ever or from building a text that fills the memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

import psutil

from trainer_core.data.example import Turn
from trainer_core.errors import ModelError
from trainer_core.private_folder import private_folder, write_atomically

SECONDS = 30.0
LARGEST_BYTES = 1_500_000_000
LONGEST_TEXT = 2_000_000
"""Characters that all trials together may give; they ask with 30,000."""

_FOLDER = "templates"
_LOOK_S = 0.02
_TOO_LONG = 3

_LOG = logging.getLogger(__name__)


def try_out(source: str, variables: Mapping[str, Any], *, seconds: float = SECONDS) -> None:
    """Try a template that was never tried on this machine.

    Args:
        source: its Jinja source.
        variables: what it may read besides the turns.
        seconds: after which it is killed.

    Raises:
        ModelError: it took too long, too much memory, or wrote too much.
    """
    told = json.dumps({"source": source, "variables": dict(variables)}, default=str).encode()
    known = hashlib.sha256(told).hexdigest()
    try:
        verdict = private_folder(_FOLDER) / known
        if verdict.exists():
            return
    except OSError as error:
        _LOG.warning("the trial of the chat template is not remembered: %s", error)
        verdict = None
    if problem := _problem(told, seconds):
        raise ModelError(
            f"the chat template is not used: {problem}",
            "a template is a program of the model's author",
            "name another one with chat_template, or set prompt_format to raw",
        )
    if verdict is not None:
        with contextlib.suppress(OSError):
            write_atomically(verdict, b"")


def _problem(told: bytes, seconds: float) -> str:
    """What is wrong with the template, as a clause; empty if nothing is."""
    frozen = getattr(sys, "frozen", False)
    command = [
        sys.executable,
        *(["--engine"] if frozen else ["-m", "trainer_core"]),
        "try-template",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as child:
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(told)
            child.stdin.close()
        ends = time.monotonic() + seconds
        while (code := child.poll()) is None:
            if time.monotonic() > ends:
                child.kill()
                return f"it was not done after {seconds:.0f} seconds"
            with contextlib.suppress(psutil.Error):
                if psutil.Process(child.pid).memory_info().rss > LARGEST_BYTES:
                    child.kill()
                    return f"it took more than {LARGEST_BYTES / 1e9:.1f} GB of memory"
            time.sleep(_LOOK_S)
    if code == _TOO_LONG:
        return "it writes millions of characters for a few short turns"
    return "" if code == 0 else f"its process ended with code {code}"


def be_tried(told: bytes) -> int:
    """The trial itself, in the process that can be killed; its exit code."""
    from trainer_core.data.template import ChatTemplate, TemplateRefusal

    _limit_memory()
    request = json.loads(told)
    template = ChatTemplate(request["source"], request["variables"])
    written = 0
    for turns, tools, prompt in _trials():
        # What it refuses is found out, and told, when it is used.
        with contextlib.suppress(TemplateRefusal):
            written += len(template.render(turns, tools, generation_prompt=prompt))
        if written > LONGEST_TEXT:
            return _TOO_LONG
    return 0


def _limit_memory() -> None:
    """Where the system can, refuse memory instead of being watched taking it."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        used = psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (used + LARGEST_BYTES, used + LARGEST_BYTES))


def _trials() -> list[tuple[tuple[Turn, ...], tuple[Mapping[str, Any], ...], bool]]:
    """Conversations of many forms: turns, tools, and whether an answer is asked for."""
    question, answer = Turn("user", "What is it?"), Turn("assistant", "It is that.")
    system, long = Turn("system", "Be brief."), Turn("user", "word " * 1_000)
    function = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}
    tools = ({"type": "function", "function": function},)
    called: list[tuple[Turn, ...]] = [(question, answer) * count for count in (1, 2, 5, 40)]
    plain: list[tuple[Turn, ...]] = [(question,), (system, question), (long, answer), (long,) * 3]
    found: list[tuple[tuple[Turn, ...], tuple[Mapping[str, Any], ...], bool]] = []
    for turns in [*plain, *called, (system, *called[2])]:
        found += [(turns, (), False), (turns, (), True), (turns, tools, True)]
    return found
