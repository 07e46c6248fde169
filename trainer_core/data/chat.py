"""How conversations are written: which template, with which values and which system text.

It is kept beside an adapter, so that a model is asked in the words in which it was taught.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainer_core.config import RunConfig
from trainer_core.errors import ConfigError, ModelError

BUILT_IN = Path(__file__).resolve().parents[2] / "resources" / "chat_templates"
TEMPLATE_FILE = "chat_template.jinja"
CHAT_FILE = "chat.json"

# An adapter's own files besides its weights and configuration.
CHAT_FILES = (TEMPLATE_FILE, CHAT_FILE)

_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Chat:
    """How conversations become text.

    Attributes:
        template: source of a Jinja template, or None for the model's own.
        values: further values that the template reads.
        system: put before a conversation that has no system turn.
    """

    template: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    system: str | None = None


def built_in_templates() -> list[str]:
    """Names of the templates that come with the program."""
    return sorted(path.stem for path in BUILT_IN.glob("*.jinja"))


def chat_of(config: RunConfig) -> Chat:
    """What a configuration says of conversations.

    Raises:
        ConfigError: the template cannot be read.
    """
    named = config.chat_template
    template = read_template(named) if named is not None else None
    return Chat(template, config.template_kwargs or {}, config.system_prompt)


def read_template(named: str) -> str:
    """The source of a built-in template, or of one in a file.

    A JSON file may hold it under `chat_template`, as a tokenizer's configuration does.

    Raises:
        ConfigError: it is neither, or the file holds no template.
    """
    name = named.strip()
    if name in built_in_templates():
        return (BUILT_IN / f"{name}.jinja").read_text(encoding="utf-8").rstrip("\n")
    path = Path(name).expanduser()
    try:
        if path.stat().st_size > _LONGEST:
            raise _refused(named, f"it has more than {_LONGEST >> 20} MB")
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError, ValueError):
        known = ", ".join(built_in_templates())
        raise _refused(
            named,
            "there is no such file, and no built-in template of that name",
            f"name a file or one of {known}",
        ) from None
    except OSError as error:
        raise _refused(named, error.strerror or str(error)) from None
    if path.suffix.lower() == ".json":
        text = _in_json(named, text)
    if not text.strip():
        raise _refused(named, "the file is empty")
    return text


def _in_json(named: str, text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise _refused(named, "it is not valid JSON") from None
    source = value.get("chat_template") if isinstance(value, dict) else None
    if not isinstance(source, str):
        raise _refused(named, "it has no text under chat_template")
    return source


def _refused(named: str, why: str, hint: str = "name a file that holds a template") -> ConfigError:
    return ConfigError(f"chat_template = {named} cannot be used", why, hint, key="chat_template")


def chat_files(template: str | None, config: RunConfig) -> dict[str, str]:
    """Name -> content of the files that an adapter keeps of how it was taught.

    Args:
        template: source of the template that was used, or None.
        config: the run's configuration.
    """
    said = {
        "prompt_format": config.prompt_format,
        "system_prompt": config.system_prompt,
        "template_kwargs": config.template_kwargs or {},
    }
    files = {CHAT_FILE: json.dumps(said, indent=2, ensure_ascii=False) + "\n"}
    if template is not None and config.prompt_format == "chat":
        files[TEMPLATE_FILE] = template
    return files


def chat_options(adapter: Path) -> dict[str, Any]:
    """Options of `RunConfig` with which the adapter in a folder was trained; {} if it says nothing.

    Raises:
        ModelError: its file is damaged.
    """
    file = adapter / CHAT_FILE
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        found = {
            "prompt_format": said["prompt_format"],
            "system_prompt": said["system_prompt"],
            "template_kwargs": said["template_kwargs"] or None,
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{file} cannot be read", str(error), "copy the adapter again, or remove the file"
        ) from None
    if (adapter / TEMPLATE_FILE).exists():
        found["chat_template"] = str(adapter / TEMPLATE_FILE)
    if found["prompt_format"] == "raw":
        return {"prompt_format": "raw"}
    return found
