"""Interpret paths and columns as people write them in recipes: ``~`` and ``$SACCADE_DATA``, a name or a number."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from saccade.errors import FileError

__all__ = ["column", "part_prefixes", "resolve_path"]

_VALIDATION = re.compile(r"(?i)(?<![a-z])(dev|val|valid|validation)(?![a-z])")


def column(name: str) -> str | int:
    """Parse a column, which is given by its name or by its number, counting from 0."""
    return int(name) if name.isdecimal() else name


def part_prefixes(files: Sequence[Path]) -> tuple[str, ...]:
    """Decide which of up to three files are for training, validation and test, as prefixes of keys in ``[data]``.

    The second of two files is for test, unless its name says that it is for validation. Validation is then split off
    from training.
    """
    if len(files) == 2 and not _VALIDATION.search(files[1].name):
        return ("", "test_")
    return ("", "validation_", "test_")[: len(files)]


def resolve_path(given: str) -> Path:
    """Expand ``~`` and environment variables in a path. The error for a variable that is not set names it."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise FileError(f"{given} needs the environment variable {name}; set it to your data folder.")
        return os.environ[name]

    if "\0" in given:
        raise FileError(f"{given!r} is not a valid file name, because it contains a null character.")
    return Path(re.sub(r"\$(\w+)", value, given)).expanduser()
