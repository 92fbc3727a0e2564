"""Write a recipe as TOML text, with a comment that describes every table and key."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import tomli_w

from saccade.models import Config
from saccade.training.recipe import Recipe

__all__ = ["commented"]

_WIDTH = 28  # the column where comments start


def commented(recipe: Recipe, heading: Sequence[str]) -> str:
    """Return the whole recipe as TOML text with a comment for every key; keys without a value are commented out."""
    lines = [f"# {line}" for line in heading]
    metrics = ", ".join(recipe.task.metrics)
    lines.append(_line("task", recipe.task.name, f"What the model does: {recipe.task.about}"))
    lines.append(_line("metric", recipe.metric, f"Score that decides which model is best: {metrics}"))
    for name, section in recipe.sections.items():
        lines += ["", f"[{name}]  # {_summary(type(section))}"]
        if name == "model":
            lines.append(_line("kind", recipe.kind, "Kind of network: " + ", ".join(recipe.task.networks)))
        values = section.model_dump()
        fields = type(section).used_fields()
        lines += [_line(key, values[key], field.description or "") for key, field in fields.items()]
    return "\n".join(lines) + "\n"


def _summary(table: type[Config]) -> str:
    """The first paragraph of a table's docstring, as one line."""
    return " ".join(inspect.cleandoc(table.__doc__ or "").partition("\n\n")[0].split()).removesuffix(".")


def _line(key: str, value: Any, comment: str) -> str:
    code = f"# {key} =" if value is None else f"{key} = {_value(value)}"
    return f"{code:<{_WIDTH - 2}}  # {comment}" if comment else code


def _value(value: Any) -> str:
    """A value in TOML, with lists on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    return tomli_w.dumps({"value": value}).strip().removeprefix("value = ")
