"""Write folders and files: flush every file to disk, then the manifest, and rename the folder at the end."""

from __future__ import annotations

import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import safetensors.torch
from torch import Tensor

from saccade.errors import OptionError
from saccade.storage.manifest import AS_IT_IS, JSON, MANIFEST, FileEntry, is_plain, manifest_bytes, read_regular
from saccade.storage.replacing import check_replaceable, new_folder_beside, put_in_place, storage_errors, sync_folder

__all__ = ["Content", "json_bytes", "unfinished", "write_file", "write_folder", "write_tensors"]

#: The content of a file: bytes, named tensors (as safetensors), or a function that writes to a given path.
Content: TypeAlias = "bytes | Mapping[str, Tensor] | Callable[[Path], object]"


def write_folder(target: Path | str, files: Mapping[str, Content]) -> None:
    """Write `files` and their manifest as the folder `target`, replacing what an earlier call wrote there.

    Files in the old folder that its manifest does not list, such as a user's notes, move to the new folder. A folder
    that is not empty but has no manifest is refused, because Saccade did not write it.
    """
    target = Path(os.path.realpath(target))  # if it is a symbolic link, the folder that it points to is replaced
    for name in files:
        if not is_plain(name):
            raise OptionError(
                f"A file in {target} cannot be named {name!r}: a name consists of letters, digits, '_', '.' and '-', "
                f"does not start with '.' or '-', and is not {MANIFEST!r}."
            )
    with storage_errors(target):
        _make_folder(target.parent)
        check_replaceable(target, files)
        with new_folder_beside(target) as new:
            entries = {name: _write_content(new / name, content) for name, content in files.items()}
            extra = set(os.listdir(new)).difference(files)
            if extra:
                raise OptionError(f"A function that should write one file into {new} also wrote {min(extra)!r}.")
            _write_bytes(new / MANIFEST, manifest_bytes(entries))
            sync_folder(new)
            put_in_place(new, target)


def write_file(path: Path, content: bytes | Iterable[bytes]) -> None:
    """Write one file completely or not at all. When this returns, the file and its folders are safely on disk."""
    beside = path.with_name(unfinished(path).replace("????????", secrets.token_hex(4)))
    with storage_errors(path):
        _make_folder(path.parent)
        try:
            with beside.open("xb") as file:
                for part in [content] if isinstance(content, bytes) else content:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)  # in case of an error, such as a full disk
        sync_folder(path.parent)


def unfinished(path: Path | str) -> str:
    """Return a glob pattern for the temporary file that a killed process may leave next to a file it was writing."""
    return f".{Path(path).name}.saccade-new-????????"


def json_bytes(value: JSON) -> bytes:
    """Return `value` as readable JSON. Python writes floats in full precision, so they are restored bit for bit."""
    return (json.dumps(value, indent=2) + "\n").encode()


def _make_folder(path: Path) -> None:
    """Create `path` and its parents, and flush the name of each to disk."""
    if not path.is_dir():
        _make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def _write_content(path: Path, content: Content) -> FileEntry:
    if callable(content):
        content(path)
        _settle(path)
        return FileEntry.of(read_regular(path))
    data = content if isinstance(content, bytes) else _tensor_bytes(content)
    _write_bytes(path, data)
    return FileEntry.of(data)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors to a new safetensors file, which may be in a folder that another process is writing."""
    with storage_errors(path):
        _write_bytes(path, _tensor_bytes(tensors))


def _settle(path: Path) -> None:
    """Flush a file that a library wrote, and give it the usual permissions.

    Libraries that write through a temporary file leave it readable by its owner only. The permissions of our new folder
    show what the umask allows.
    """
    access = os.O_RDWR if os.name == "nt" else os.O_RDONLY  # Windows only flushes files that are open for writing
    descriptor = os.open(path, access | AS_IT_IS)
    try:
        if os.chmod in os.supports_fd:
            os.chmod(descriptor, stat.S_IMODE(os.stat(path.parent).st_mode) & 0o666)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return named tensors in the safetensors format, which refuses shared memory, so tied weights are copied."""
    separate: dict[str, Tensor] = {}
    memories: set[int] = set()
    for name, tensor in tensors.items():
        row_major = tensor.detach().cpu().contiguous()
        memory = row_major.untyped_storage().data_ptr()
        separate[name] = row_major.clone() if memory in memories else row_major
        memories.add(memory)
    return safetensors.torch.save(separate)


def _write_bytes(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | AS_IT_IS, 0o666)  # the umask removes some bits
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
