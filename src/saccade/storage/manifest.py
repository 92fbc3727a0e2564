"""Read and write the manifest of a folder, and read single files.

`manifest.json` lists the size and SHA-256 of every file, and ends with a checksum of the list itself. For each list
there is only one valid text, the one from `manifest_bytes`; a manifest that differs from it in any byte is damaged.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from saccade.errors import DamagedError, StorageError

__all__ = [
    "AS_IT_IS",
    "JSON",
    "MANIFEST",
    "FileEntry",
    "damaged",
    "is_plain",
    "manifest_bytes",
    "parse_json",
    "read_manifest",
    "read_regular",
]

JSON: TypeAlias = "dict[str, JSON] | list[JSON] | str | int | float | bool | None"

MANIFEST = "manifest.json"
FORMAT = 1
#: Flags to open a file without following symbolic links, without blocking on a pipe, and in binary mode. Windows only
#: has the third.
AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


@dataclass(frozen=True)
class FileEntry:
    """The SHA-256 and the size of one file, as its manifest lists them."""

    sha256: str
    size: int

    @classmethod
    def of(cls, data: bytes) -> FileEntry:
        return cls(sha256=hashlib.sha256(data).hexdigest(), size=len(data))


def is_plain(name: str) -> bool:
    """Return whether a saved file may have this name: not hidden, not a path, and not the name of the manifest."""
    return PLAIN_NAME.fullmatch(name) is not None and name != MANIFEST


def manifest_bytes(files: Mapping[str, FileEntry]) -> bytes:
    """Return the content of a manifest for these files, including the checksum of the list."""
    body = {"files": {name: asdict(entry) for name, entry in files.items()}, "format": FORMAT}
    seal = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return (json.dumps({**body, "seal": seal}, indent=2, sort_keys=True) + "\n").encode()


def read_manifest(folder: Path) -> dict[str, FileEntry]:
    """Return the entries in the manifest of `folder`, by file name.

    Raises `DamagedError` if any byte of the manifest has changed.
    """
    path = folder / MANIFEST
    data = read_regular(path)
    content = parse_json(data, path)
    if not isinstance(content, dict) or content.keys() != {"files", "format", "seal"}:
        fields = ", ".join(sorted(content)) if isinstance(content, dict) else "none"
        raise damaged(path, f"it must have the fields files, format and seal, but has {fields!r}")
    if content["format"] != FORMAT:
        upgrade = "upgrade Saccade if a newer version wrote the folder"
        raise damaged(path, f"its format is {content['format']!r}, but this version reads {FORMAT}; {upgrade}")
    if not isinstance(content["files"], dict):
        raise damaged(path, "its field files is not an object")
    entries = {name: _parse_entry(name, entry, path) for name, entry in content["files"].items()}
    if data != manifest_bytes(entries):
        raise damaged(path, "it does not match its own checksum")
    return entries


def _parse_entry(name: str, entry: JSON, path: Path) -> FileEntry:
    if not is_plain(name):
        raise damaged(path, f"it lists {name!r}, which is not a plain file name")
    if isinstance(entry, dict) and entry.keys() == {"sha256", "size"}:
        sha256, size = entry["sha256"], entry["size"]
        if isinstance(sha256, str) and isinstance(size, int):
            return FileEntry(sha256=sha256, size=size)
    raise damaged(path, f"its entry for {name!r} is not a SHA-256 and a size")


def read_regular(path: Path, size: int | None = None) -> bytes:
    """Read a file. Raises an error if it is not a regular file, or if `size` is given and the file has another size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | AS_IT_IS)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise damaged(path, "it is not a regular file")
            if size is not None and status.st_size != size:
                raise damaged(path, f"it has {status.st_size} bytes instead of {size}")
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(descriptor)
    except OSError as error:
        problems = {
            errno.ENOENT: "it is missing",
            errno.ELOOP: "it is a symbolic link, which Saccade does not follow",
            errno.EIO: "the disk cannot read it",
        }
        if error.errno in problems:
            raise damaged(path, problems[error.errno]) from error
        raise StorageError(f"Cannot read {path}: {error.strerror}.") from error


def parse_json(data: bytes, path: Path) -> JSON:
    """Parse JSON that was read from `path`, which the error names if the JSON is not valid."""
    try:
        value: JSON = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"it is not JSON ({error})") from error
    return value


def damaged(path: Path, problem: str) -> DamagedError:
    """Return an error that reports what is wrong with a file."""
    return DamagedError(f"Damaged file {path}: {problem}.")
