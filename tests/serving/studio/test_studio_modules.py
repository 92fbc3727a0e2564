"""The studio's modules as they are written."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from saccade.tasks.registry import TASKS

STUDIO = Path(str(files("saccade.serving") / "studio"))
DATA = "learn/verdicts.js"  # which a program writes
LONGEST_LINE = 120  # characters, as in Python
LONGEST_FILE = 250  # lines
LONGEST_FUNCTION = 40  # lines between the one that opens it and the one that closes it
#: The beginning of a function or method, at the indentation where its closing brace will be.
OPENS = re.compile(
    r"( *)(?:export |async |static |get |\*)*(?:function\b|(?!if|for|while|switch|catch)\w+\()(?!.*=>).*\{$"
)


def modules() -> dict[str, list[str]]:
    found = {str(path.relative_to(STUDIO)): path.read_text("utf-8").splitlines() for path in STUDIO.rglob("*.js")}
    assert len(found) > 30
    return found


def test_no_line_is_longer_than_a_window() -> None:
    written = {name: lines for name, lines in modules().items() if name != DATA}
    lines = {f"{name}:{place}": line for name, lines in written.items() for place, line in enumerate(lines, 1)}
    assert {place: len(line) for place, line in lines.items() if len(line) > LONGEST_LINE} == {}


def test_a_module_can_be_read_at_once() -> None:
    assert {name: len(lines) for name, lines in modules().items() if len(lines) > LONGEST_FILE} == {}


def test_a_function_fits_a_screen() -> None:
    lengths: dict[str, int] = {}
    for name, lines in modules().items():
        for place, line in enumerate(lines):
            if opened := OPENS.match(line):
                end = lines.index(f"{opened[1]}}}", place)
                lengths[f"{name}:{place + 1}"] = end - place + 1
    assert len(lengths) > 300
    assert {place: length for place, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_no_module_names_a_task() -> None:
    """What a page shows of a task, the task says itself: a task that somebody adds is shown in the same way. A scene of
    Learn may look for the one kind of model that it is about."""
    quoted = re.compile(f"[\"'`]({'|'.join(map(re.escape, TASKS))})[\"'`]")
    named = {name: [found[1] for line in lines for found in quoted.finditer(line)] for name, lines in modules().items()}
    assert {name: found for name, found in named.items() if found and not name.startswith("learn/")} == {}
