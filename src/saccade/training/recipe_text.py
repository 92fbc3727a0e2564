"""A recipe as text for people: every key with the comment that stands beside its field in the code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

import tomli_w

from saccade.models import Config
from saccade.training.recipe import Recipe

__all__ = ["commented", "field_comments"]

_FIELD = re.compile(r"^    (\w+): .*?  # (.+)$", re.MULTILINE)
_WIDTH = 28  # where comments begin

TABLES = {
    "data": "where the examples come from; paths may use ~ and $SACCADE_DATA",
    "text": "how text becomes tokens",
    "images": "what becomes of images before the network sees them",
    "model": "the network",
    "training": "how it is trained",
    "decoding": "how outputs are looked for",
}


def field_comments(config: type[Config]) -> dict[str, str]:
    """The comment of each field: one text for the reader of the code and of the recipe."""
    comments: dict[str, str] = {}
    for parent in reversed(config.__mro__):
        if issubclass(parent, Config) and parent is not Config:
            comments |= dict(_FIELD.findall(inspect.getsource(parent)))
    return {name: comments.get(name, _words(name)) for name in config.model_fields}


def commented(recipe: Recipe, heading: Sequence[str]) -> str:
    """The whole recipe, every key with its comment; a key without a value stands there commented out."""
    lines = [f"# {line}" for line in heading]
    metrics = ", ".join(recipe.task.metrics)
    lines.append(_line("task", recipe.task.name, f"what the model does: {recipe.task.about}"))
    lines.append(_line("metric", recipe.metric, f"the score that decides which model is best: {metrics}"))
    for name, section in recipe.sections.items():
        lines += ["", f"[{name}]  # {TABLES[name]}"]
        if name == "model":
            lines.append(_line("kind", recipe.kind, "of network: " + ", ".join(recipe.task.networks)))
        comments = field_comments(type(section))
        values = section.model_dump()
        lines += [_line(key, values[key], comments[key]) for key in comments]
    return "\n".join(lines) + "\n"


def _line(key: str, value: Any, comment: str) -> str:
    if value is None:
        return f"{f'# {key} =':<{_WIDTH}}# {comment}"
    return f"{f'{key} = {_value(value)}':<{_WIDTH - 1}} # {comment}"


def _value(value: Any) -> str:
    """A value as TOML has it, lists on one line."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    return tomli_w.dumps({"value": value}).strip().removeprefix("value = ")


def _words(name: str) -> str:
    return name.replace("_", " ")
