"""Paths and columns as people write them in recipes: ``~`` and ``$SACCADE_DATA``; a name or a number."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from saccade.errors import FileError

__all__ = ["column", "part_prefixes", "resolve_path"]

_VALIDATION = re.compile(r"(?i)(?<![a-z])(dev|val|valid|validation)(?![a-z])")


def column(name: str) -> str | int:
    """Parse a column, given by its name or by its number counted from 0."""
    return int(name) if name.isdecimal() else name


def part_prefixes(files: Sequence[Path]) -> tuple[str, ...]:
    """Assign files to training, validation and test, as prefixes of keys in ``[data]``.

    The second of two files is the test, so that validation is split off from training and the test is not seen before
    the end, unless the file's name says that it is for validation.
    """
    if len(files) == 2 and not _VALIDATION.search(files[1].name):
        return ("", "test_")
    return ("", "validation_", "test_")[: len(files)]


def resolve_path(given: str) -> Path:
    """Expand the environment variables in a path; the error names one that is not set."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise FileError(f"{given} needs the environment variable {name}; set it to your data folder.")
        return os.environ[name]

    if "\0" in given:
        raise FileError(f"{given!r} is not the name of a file.")
    return Path(re.sub(r"\$(\w+)", value, given)).expanduser()
