"""Take secrets out of a text before it reaches a log, an event, a run folder or a report."""

from __future__ import annotations

import getpass
import os
import re
from pathlib import Path

_NAMES = re.compile(r"TOKEN|SECRET|PASSW|API_?KEY|CREDENTIAL", re.IGNORECASE)
_SHORTEST = 8
"""Shorter values of such variables are words like `true`."""

_FORMS = (
    re.compile(r"\bhf_[A-Za-z0-9]{8,}"),
    re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(r"(?<=[Bb]earer )[A-Za-z0-9._~+/=-]{8,}"),
)
_GONE = "[secret]"


def without_secrets(text: str) -> str:
    """The text without what the environment holds as a secret, and without what looks like one."""
    for name, value in os.environ.items():
        if len(value) >= _SHORTEST and value in text and _NAMES.search(name):
            text = text.replace(value, _GONE)
    for form in _FORMS:
        text = form.sub(_GONE, text)
    return text


def without_person(text: str) -> str:
    """The text without secrets, the user's home folder and the user's name, for a report."""
    text = without_secrets(text).replace(str(Path.home()), "~")
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):
        return text
    if len(user) < 3 or user == "root":
        return text
    return re.sub(rf"\b{re.escape(user)}\b", "[user]", text)
