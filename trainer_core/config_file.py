"""YAML and JSON files of options, read strictly.

YAML here is the safe subset with the scalars of YAML 1.2: `1e-5` is a number, and only true and
false are booleans, so that `prefix_sharing: on` stays a word. A key that stands twice is an error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError

from trainer_core.errors import ConfigError

_MAX_BYTES = 1_000_000
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+\.?[0-9]*)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_NULL = re.compile(r"~|null|Null|NULL|")


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The keys and values of a file, and the line on which each key stands (YAML only)."""

    path: Path
    values: dict[str, Any]
    lines: dict[str, int] = field(default_factory=dict)

    def where(self, key: str) -> str:
        """`run.yaml, line 3`, or the file's name alone."""
        line = self.lines.get(key)
        return f"{self.path.name}, line {line}" if line else self.path.name


def read_config_file(path: Path) -> ConfigFile:
    """Read a mapping of options; JSON if the name ends in .json, else YAML.

    Raises:
        ConfigError: the file cannot be read, or is not one mapping with distinct keys.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(
            f"cannot read the configuration {path}", reason, "Check the path"
        ) from None
    if len(raw) > _MAX_BYTES:
        raise ConfigError(
            f"{path} is no configuration", f"it has {len(raw):,} bytes", "Is this the data file?"
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8", f"byte {error.start}", "Save it as UTF-8 text"
        ) from None
    try:
        values = _read_json(text) if path.suffix.lower() == ".json" else parse_yaml(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path.name}, line {error.lineno}: not valid JSON", error.msg) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path.name}, line {mark.line + 1}" if mark else path.name
        raise ConfigError(f"{place}: not valid YAML", _reason(error)) from None
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(f"cannot read {path.name}", why) from None
    if not isinstance(values, dict):
        found = "it is empty" if values is None else f"it holds a {type(values).__name__}"
        raise ConfigError(f"{path.name} has no options", found, "Write one `key: value` a line")
    lines = _key_lines(text) if path.suffix.lower() != ".json" else {}
    return ConfigFile(path, {str(k): v for k, v in values.items()}, lines)


def parse_yaml(text: str) -> Any:
    """The value of a YAML document.

    Raises:
        yaml.YAMLError: the text is not YAML, holds a tag that is not plain data, or repeats a key.
    """
    return yaml.load(text, Loader=_Loader)


def read_mapping(text: str) -> dict[str, Any]:
    """A mapping on one line: `{prompt: question, chosen: good}`, with or without braces and spaces.

    Raises:
        ValueError: it is none.
    """
    text = text.strip()
    text = text if text.startswith("{") else f"{{{text}}}"
    try:
        value = parse_yaml(text)
    except (yaml.YAMLError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ValueError("must be a mapping such as {prompt: question}")
    found: dict[str, Any] = {}
    for key, held in value.items():
        name, colon, rest = str(key).partition(":")
        # YAML takes `a:b` for one word.
        if held is None and colon and rest:
            held = parse_yaml(rest)
        found[name if held is not None else str(key)] = held
    return found


def write_mapping(values: dict[str, Any]) -> str:
    """The mapping on one line, without the outer braces; `read_mapping` reads it back."""
    text = yaml.dump(
        values,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=float("inf"),
        default_flow_style=True,
    )
    return text.strip()[1:-1]


def write_yaml(values: dict[str, Any]) -> str:
    """Block YAML that `parse_yaml` and any YAML 1.1 reader read back as the same values."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _reason(error: yaml.YAMLError) -> str:
    words = (
        getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be parsed"
    )
    return str(words).splitlines()[0]


def _read_json(text: str) -> Any:
    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            seen: set[str] = set()
            twice = next(k for k, _ in pairs if k in seen or seen.add(k))
            raise ValueError(f"the key `{twice}` stands twice")
        return values

    return json.loads(text, object_pairs_hook=distinct)


def _key_lines(text: str) -> dict[str, int]:
    root = yaml.compose(text, Loader=_Loader)
    if not isinstance(root, yaml.MappingNode):
        return {}
    return {str(key.value): key.start_mark.line + 1 for key, _ in root.value}


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            # Options are flat, so an alias has no use here but to blow a small file up.
            mark = self.peek_event().start_mark
            raise ComposerError(None, None, "an alias has no place here", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool | None):
                raise ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if key in seen:
                raise ConstructorError(
                    None, None, f"the key `{key}` stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _whole(pattern: re.Pattern[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:{pattern.pattern})\Z")


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern in (("bool", _BOOL), ("null", _NULL), ("int", _INT), ("float", _FLOAT)):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", _whole(_pattern), None)
# Besides what YAML 1.1 would misread: text that our reader takes for a number must be quoted.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:int", _whole(_INT), list("-+0123456789"))
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _whole(_FLOAT), list("-+.0123456789"))


def _whole_number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(str(loader.construct_scalar(node)))


_Loader.add_constructor("tag:yaml.org,2002:int", _whole_number)
