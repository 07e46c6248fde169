"""From a file, `--set` items or a form to a RunConfig, with errors that a person can act on.

Every error names the option, the value and what is allowed, and for an unknown option the nearest
one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import yaml
from pydantic import ValidationError

from trainer_core.config import RunConfig, options
from trainer_core.config_file import (
    ConfigFile,
    parse_yaml,
    read_config_file,
    read_mapping,
    write_yaml,
)
from trainer_core.errors import ConfigError
from trainer_core.events import Warned
from trainer_core.foreign.translate import trainer_of, translate
from trainer_core.foreign_keys import FOREIGN_KEYS
from trainer_core.option import GROUPS, allowed, kinds, shown
from trainer_core.resume_config import config_of_run, resumed

SCHEMA_VERSION = 1

_FIELDS = RunConfig.model_fields


class ConfigErrors(ConfigError):
    """Several options at fault at once; `errors` holds one ConfigError for each."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        super().__init__(f"{len(errors)} options cannot be used", key=errors[0].key)
        self.errors = tuple(errors)

    def __str__(self) -> str:
        """A line for each option."""
        return "\n  ".join([f"{self.what}:", *map(str, self.errors)])


def load_config(
    path: Path | str | None,
    overrides: Mapping[str, Any] | Iterable[str] = (),
    warnings: list[Warned] | None = None,
) -> RunConfig:
    """The configuration in a file, with `overrides` on top.

    With `resume` it is that run's own, of which the file and the overrides may change a little.

    Args:
        path: a YAML or JSON file, ours or one that `foreign` knows, or None if the overrides say
            everything.
        overrides: option -> value, or `key=value` texts as after `--set`.
        warnings: gets what is not as it was in another trainer's file.

    Raises:
        ConfigError: anything is wrong; a `ConfigErrors` if several options are.
    """
    file = read_config_file(Path(path).expanduser()) if path is not None else None
    if file is not None and (trainer := trainer_of(file.values)):
        translated = translate(file, trainer)
        file = translated.file
        if warnings is not None:
            warnings += translated.warnings
    values = _anchored(file) if file else {}
    given = (
        dict(overrides) if isinstance(overrides, Mapping) else dict(map(parse_override, overrides))
    )
    values.update({key: _existing(key, value, Path.cwd()) for key, value in given.items()})
    run = values.get("resume")
    if isinstance(run, str) and run.strip():
        own = load_config(config_of_run(Path(run).expanduser()))
        values = resumed(own, values)
    found = problems(values, file=file, overridden=given)
    if found:
        raise found[0] if len(found) == 1 else ConfigErrors(found)
    values.pop("schema_version", None)
    return RunConfig.model_validate(values)


def problems(
    values: Mapping[str, Any], *, file: ConfigFile | None = None, overridden: Iterable[str] = ()
) -> list[ConfigError]:
    """Everything that is wrong with these values, in the order of the options; empty if nothing is.

    Args:
        values: option -> value; options that are absent have their default.
        file: where the values came from, to name the line.
        overridden: keys whose value did not come from the file.
    """
    values, found = dict(values), []
    version = values.pop("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        why = f"this version reads schema_version {SCHEMA_VERSION}"
        what = f"schema_version = {version} cannot be read"
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        hint = "It was written by a newer Burnish; install that" if newer else ""
        found.append(ConfigError(what, why, hint, key="schema_version"))
        if newer:  # what else is odd about it follows from that
            return _placed(found, file, overridden)
    found += [_unknown(key, values.pop(key)) for key in list(values) if key not in _FIELDS]
    wrong: dict[str, ConfigError] = {}
    try:
        RunConfig.model_validate(values)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            key = str(item["loc"][0]) if item["loc"] else ""
            if key and key not in wrong:
                wrong[key] = _invalid(key, item["type"], str(item["msg"]), values.get(key))
    for key, why in _broken_rules(values, wrong):
        wrong.setdefault(key, _broken(key, values.get(key), why))
    found += [wrong[key] for key in _FIELDS if key in wrong]
    return _placed(found, file, overridden)


def _placed(
    found: list[ConfigError], file: ConfigFile | None, overridden: Iterable[str]
) -> list[ConfigError]:
    """The errors, each with the line of the file that it is in."""
    if file:
        came_from_file = set(file.values) - set(overridden)
        for error in found:
            if error.key in came_from_file:
                error.what = f"{file.where(error.key)}: {error.what}"
    return found


def parse_override(text: str) -> tuple[str, Any]:
    """Key and value of a `key=value` text, read as the type of the option.

    Text stays as it is, a list of names may be written `a,b` or `[a, b]`, a single prompt as it is,
    and null stands for no value.

    Raises:
        ConfigError: there is no `=`, or the value is not readable.
    """
    key, equals, raw = text.partition("=")
    key, raw = key.strip(), raw.strip()
    if not equals or not key:
        raise ConfigError(f"--set {text} has no value", "", "Write it as --set key=value", key=key)
    if key not in _FIELDS:
        return key, raw
    types = kinds(_FIELDS[key].annotation)
    if raw in types:
        return key, raw
    if NoneType in types and raw in ("", "null", "none", "None", "~"):
        return key, None
    if str in types or not {bool, int, float, list, tuple, dict} & set(types):
        return key, raw
    if types[0] is list and not raw.startswith("["):
        return key, [raw]
    if {list, tuple} & set(types) and not raw.startswith("["):
        raw = f"[{raw}]"
    try:
        return key, read_mapping(raw) if dict in types else parse_yaml(raw)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise _invalid(key, "yaml", "", raw) from None


def dump_yaml(config: RunConfig) -> str:
    """Every option with its value, under a heading for each group; `load_config` reads it back."""
    values, metas = config.model_dump(mode="json"), options()
    parts = [f"schema_version: {SCHEMA_VERSION}\n"]
    for group in GROUPS:
        members = {name: values[name] for name, meta in metas.items() if meta.group == group}
        parts.append(f"\n# {group}\n{write_yaml(members)}")
    return "".join(parts)


def _anchored(file: ConfigFile) -> dict[str, Any]:
    folder = file.path.absolute().parent
    return {key: _existing(key, value, folder, Path.cwd()) for key, value in file.values.items()}


def _existing(key: str, value: Any, *folders: Path) -> Any:
    """The absolute path of a path option in the first folder that has it, else the value."""
    if (
        key not in _FIELDS
        or not options()[key].path
        or not isinstance(value, str)
        or not value.strip()
    ):
        return value
    if value == "sample" and key in ("model", "data"):
        return value
    if value.startswith("~"):
        return str(Path(value).expanduser())
    if "\0" in value:
        return value
    for folder in folders:
        if (folder / value).exists():
            return str((folder / value).absolute())
    return value


def _broken_rules(
    values: Mapping[str, Any], wrong: Mapping[str, ConfigError]
) -> list[tuple[str, str]]:
    """The rules broken by the valid values alone, with defaults in place of the others."""
    kept = {"model": "-", "data": "-"} | {k: v for k, v in values.items() if k not in wrong}
    try:
        RunConfig.model_validate(kept)
    except ValidationError as error:
        return [rule for item in error.errors() for rule in item.get("ctx", {}).get("broken", ())]
    return []


def _invalid(key: str, kind: str, message: str, value: Any) -> ConfigError:
    field = _FIELDS[key]
    if kind == "missing" and value is None:
        wanted = options()[key].help
        return ConfigError(f"{key} is missing", f"give {wanted[0].lower()}{wanted[1:]}", key=key)
    # Our own validators word their reason themselves; pydantic's words are for programmers.
    own = message.removeprefix("Value error, ") if kind == "value_error" else ""
    return ConfigError(
        f"{key} = {shown(value)} is not allowed", own or f"must be {allowed(field)}", key=key
    )


def _broken(key: str, value: Any, why: str) -> ConfigError:
    return ConfigError(f"{key} = {shown(value)} cannot be used", why, "Leave it out", key=key)


def _unknown(key: str, value: Any) -> ConfigError:
    what = f"{key} = {shown(value)}: there is no option {key}"
    if key in FOREIGN_KEYS:
        return ConfigError(what, "", FOREIGN_KEYS[key], key=key)
    near = difflib.get_close_matches(key.lower().replace("-", "_"), _FIELDS, n=1, cutoff=0.0)
    return ConfigError(what, "", f"The nearest one is {near[0]}", key=key)
