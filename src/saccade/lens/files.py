"""Pictures, pages and numbers for people, each file whole or not there."""

from __future__ import annotations

from pathlib import Path

from saccade import storage
from saccade.errors import FileError, StorageError

__all__ = ["write_file"]


def write_file(path: Path, content: bytes, what: str = "file") -> Path:
    """Write ``content`` as ``path``, in a folder that is there; an error says what it was."""
    try:
        if not path.parent.is_dir():
            raise FileError(f"{path}: the {what} cannot be written: No such file or directory.")
        storage.write_file(path, content)
    except StorageError as error:
        reason = getattr(error.__cause__, "strerror", None) or error.__cause__
        raise FileError(f"{path}: the {what} cannot be written: {reason}.") from error
    return path
