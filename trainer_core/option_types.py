"""Types of options whose values obey a rule that no bound expresses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from trainer_core.column_names import columns_problem

# What is handed to a chat template besides the values of template_kwargs.
_OF_TEMPLATES = (
    *("messages", "conversations", "tools", "documents", "chat_template", "add_generation_prompt"),
    *("continue_final_message", "return_assistant_tokens_mask"),
)


def _not_blank(value: str | None) -> str | None:
    if value is not None and not value.strip():
        raise ValueError("must not be empty")
    return value


def _with_a_meaning(value: dict[str, str] | None) -> dict[str, str] | None:
    if value is not None and (problem := columns_problem(value)):
        raise ValueError(problem)
    return value


def _of_the_template(value: dict[str, Any] | None) -> dict[str, Any] | None:
    for name in value or ():
        if name in _OF_TEMPLATES or not name.isidentifier():
            raise ValueError(f"cannot set {name}")
    return value or None


def _not_negative(value: int | str) -> int | str:
    if isinstance(value, int) and value < 0:
        raise ValueError("must be auto, 0 or a positive number of layers")
    return value


def _some_named(value: str | list[str]) -> str | list[str]:
    if not value or any(not name.strip() for name in value):
        raise ValueError("must be auto or a list of one or more names")
    return value


def _shares(value: tuple[float, float]) -> tuple[float, float]:
    if not all(0 <= beta < 1 for beta in value):
        raise ValueError("must be two numbers, each at least 0 and less than 1")
    return value


def _some_layer(value: int) -> int:
    if value == 0:
        raise ValueError("0 would adapt no layer; -1 means all, n the last n")
    return value


def _questions(value: list[str] | None) -> list[str] | None:
    if value is not None and any(not text.strip() for text in value):
        raise ValueError("must be a list of prompts, none of them empty")
    return value or None


def _one_folder(value: str | None) -> str | None:
    """A run's name must not lead out of the runs folder on any system."""
    if value is None:
        return None
    name = value.strip()
    if not name or name.startswith(".") or len(name.encode()) > 200:
        raise ValueError("must be a name of 1 to 200 bytes that does not start with a dot")
    if any(c in '/\\:*?"<>|' or not c.isprintable() for c in name):
        raise ValueError('must be a folder name, without / \\ : * ? " < > | or control characters')
    return name


Text = Annotated[str, AfterValidator(_not_blank)]
OptionalText = Annotated[str | None, AfterValidator(_not_blank)]
ColumnNames = Annotated[dict[str, str] | None, AfterValidator(_with_a_meaning)]
TemplateValues = Annotated[dict[str, Any] | None, AfterValidator(_of_the_template)]
SegmentSize = Annotated[Literal["auto"] | int, AfterValidator(_not_negative)]
ModuleNames = Annotated[Literal["auto"] | list[str], AfterValidator(_some_named)]
Betas = Annotated[tuple[float, float], AfterValidator(_shares)]
LayerCount = Annotated[int, AfterValidator(_some_layer)]
Prompts = Annotated[list[str] | None, AfterValidator(_questions)]
FolderName = Annotated[str | None, AfterValidator(_one_folder)]
