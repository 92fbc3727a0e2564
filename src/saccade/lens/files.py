"""One file, whole or not there: written beside, flushed, and renamed into place."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from saccade.errors import FileError
from saccade.storage.replacing import sync_folder

__all__ = ["write_file"]


def write_file(path: Path, content: bytes, what: str = "file") -> Path:
    """Write ``content`` as ``path``; what fails or is killed on the way leaves the old file as it was."""
    beside = path.with_name(f".{path.name}.saccade-new-{secrets.token_hex(4)}")
    try:
        try:
            with beside.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        sync_folder(path.parent)
    except OSError as error:
        raise FileError(f"{path}: the {what} cannot be written: {error.strerror or error}.") from error
    return path
