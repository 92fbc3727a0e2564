"""Names that are promised exist, and the exception tree is the one that its docstring draws."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from saccade import errors


@pytest.mark.parametrize("name", ["saccade", "saccade.attention", "saccade.errors"])
def test_every_public_name_is_there_once(name: str) -> None:
    module = importlib.import_module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    for public in module.__all__:
        assert getattr(module, public) is not None


@pytest.mark.parametrize("name", ["attend", "equation", "heads", "masks", "positions", "scores", "watching.trace"])
def test_every_file_says_what_is_public(name: str) -> None:
    module = importlib.import_module(f"saccade.attention.{name}")
    for public in module.__all__:
        assert hasattr(module, public)


def test_the_exception_tree_is_as_drawn() -> None:
    """Each line of the drawing is indented under its parent by four characters."""
    drawn: dict[str, str | None] = {}
    path: list[str] = []
    for prefix, name in re.findall(r"^    ([ │├└─]*)(\w+Error)\b", inspect.getdoc(errors) or "", re.MULTILINE):
        path = [*path[: len(prefix) // 4], name]
        drawn[name] = path[-2] if len(path) > 1 else None
    raised = {
        name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)
    }
    assert set(drawn) == set(raised) == {name for name in errors.__all__ if inspect.isclass(getattr(errors, name))}
    for name, parent in drawn.items():
        if parent is not None:
            assert raised[parent] in raised[name].__bases__
