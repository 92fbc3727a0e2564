"""Read folders, checking every byte against the manifest before it is used."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
from safetensors import SafetensorError
from torch import Tensor

from saccade.errors import FileError, UnknownNameError
from saccade.storage.manifest import JSON, MANIFEST, FileEntry, damaged, parse_json, read_manifest, read_regular
from saccade.storage.replacing import recover

__all__ = ["JSON", "Folder", "open_folder", "read_bytes", "read_json", "read_tensors", "verify_folder"]


@dataclass(frozen=True)
class Folder:
    """A folder and the entries of its manifest, read once, so that the files of two versions are never mixed."""

    path: Path
    files: Mapping[str, FileEntry]


def open_folder(path: Path | str) -> Folder:
    """Read and check the manifest of a folder.

    If the folder is missing because a process was killed while replacing it, the old folder is restored first.
    """
    path = Path(path)
    if not path.is_dir():
        parent = Path(os.path.realpath(path)).parent
        if parent.is_dir():
            recover(parent)
        if not path.is_dir():
            what = f"{path} is a file; expected a folder." if path.exists() else f"There is no folder {path}."
            raise FileError(what)
    return Folder(path=path, files=read_manifest(path))


def verify_folder(folder: Folder | Path | str) -> None:
    """Raise `DamagedError`, which names the file, unless every file is bit for bit what was saved."""
    folder = _opened(folder)
    for name in folder.files:
        read_bytes(folder, name)


def read_bytes(folder: Folder | Path | str, name: str) -> bytes:
    """Read one file, verify its checksum, and return its bytes."""
    folder = _opened(folder)
    if name not in folder.files:
        raise UnknownNameError("file", name, folder.files, f"{folder.path} has")
    entry = folder.files[name]
    data = read_regular(folder.path / name, size=entry.size)
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise damaged(folder.path / name, f"its SHA-256 is not the one in {MANIFEST}")
    return data


def read_tensors(folder: Folder | Path | str, name: str) -> dict[str, Tensor]:
    """Return the tensors in a safetensors file by name, on the CPU."""
    folder = _opened(folder)
    data = read_bytes(folder, name)
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise damaged(folder.path / name, f"it is not a safetensors file ({error})") from error


def read_json(folder: Folder | Path | str, name: str) -> JSON:
    """Return the value in a JSON file."""
    folder = _opened(folder)
    return parse_json(read_bytes(folder, name), folder.path / name)


def _opened(folder: Folder | Path | str) -> Folder:
    return folder if isinstance(folder, Folder) else open_folder(folder)
