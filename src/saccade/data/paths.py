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
    """Return a column as a number, counting from 0, if the text has only digits, and otherwise as a name."""
    return int(name) if name.isdecimal() else name


def part_prefixes(files: Sequence[Path]) -> tuple[str, ...]:
    """Decide which files are for training, validation and test; return the prefix of the keys in ``[data]`` for each.

    The second of two files is for test, unless its name says that it is for validation. If there is no file for
    validation, it is later split off from training.
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
