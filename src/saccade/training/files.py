"""Small files of a run, written so that a kill at any moment leaves the old or the new one."""

from __future__ import annotations

import os
from pathlib import Path

from saccade.storage.replacing import storage_errors, sync_folder

__all__ = ["unfinished", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all; when this returns it is durable, with the folders that lead to it."""
    beside = unfinished(path)
    with storage_errors(path):
        missing = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in missing:
            sync_folder(folder.parent)
        try:
            with beside.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)  # a full disk needs the room
            raise
        sync_folder(path.parent)


def unfinished(path: Path) -> Path:
    """Where ``path`` is written before it gets its name; a kill may leave it there."""
    return path.with_name(f".{path.name}.new")
