"""Everything that keeps the form from being a run, by field and in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.viewmodels.field_spec import FieldSpec
from app.viewmodels.field_text import read_text
from app.viewmodels.path_fields import PATH_FIELDS, path_problem
from trainer_core.config_io import problems


def find_problems(specs: Mapping[str, FieldSpec], submitted: Mapping[str, Any]) -> dict[str, str]:
    """Option -> what is wrong with it, in the order of the form; empty if a run can start.

    Args:
        specs: the fields of the form.
        submitted: the values that would be used; text that could not be read stands as typed.
    """
    found = {key: why for key, spec in specs.items() if (why := _unreadable(spec, submitted))}
    readable = {key: value for key, value in submitted.items() if key not in found}
    for error in problems(readable):
        found.setdefault(error.key, (error.why or error.what).replace(", or null", ", or empty"))
    for key in PATH_FIELDS:
        if key not in found and (why := path_problem(key, submitted.get(key))):
            found[key] = why
    order = list(specs)
    return dict(
        sorted(found.items(), key=lambda item: order.index(item[0]) if item[0] in specs else -1)
    )


def _unreadable(spec: FieldSpec, submitted: Mapping[str, Any]) -> str | None:
    value = submitted.get(spec.key, spec.default)
    if spec.required and not value:
        return PATH_FIELDS[spec.key].missing if spec.key in PATH_FIELDS else "needs a value"
    if not isinstance(value, str):
        return None
    try:
        read_text(spec, value)
    except ValueError as error:
        return str(error)
    return None
