"""Interpret the paths (with ``~`` and ``$SACCADE_DATA``) and columns (a name or a number) that recipes contain."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from saccade.errors import FileError

__all__ = ["column", "part_prefixes", "resolve_path"]

_VALIDATION = re.compile(r"(?i)(?<![a-z])(dev|val|valid|validation)(?![a-z])")


def column(name: str) -> str | int:
    """Return the column that a recipe names: a number, counting from 0, if ``name`` has only digits, and otherwise
    ``name`` itself."""
    return int(name) if name.isdecimal() else name


def part_prefixes(files: Sequence[Path]) -> tuple[str, ...]:
    """Decide which of up to three files is for training, validation or test. Return for each file the prefix of its
    keys in the recipe's section ``[data]``: empty for training, ``validation_`` or ``test_``.

    The second of two files is for test, unless its name says that it is for validation. If there is no file for
    validation, examples for it are later split off from those for training.
    """
    if len(files) == 2 and not _VALIDATION.search(files[1].name):
        return ("", "test_")
    return ("", "validation_", "test_")[: len(files)]


def resolve_path(given: str) -> Path:
    """Expand ``~`` and environment variables in a path, or raise an error that names a variable that is not set."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise FileError(f"{given} needs the environment variable {name}; set it to your data folder.")
        return os.environ[name]

    if "\0" in given:
        raise FileError(f"{given!r} is not a valid file name, because it contains a null character.")
    return Path(re.sub(r"\$(\w+)", value, given)).expanduser()
