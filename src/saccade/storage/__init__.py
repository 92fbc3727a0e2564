"""Read and write folders that are either complete or absent.

A folder is a set of files with plain names, and a `manifest.json` with the size and SHA-256 of each. This package keeps
three promises: a process that is killed at any moment leaves either the old folder or the new one; a file that is not
bit for bit what was saved is never used; and a write that fails leaves the previous content. To keep these promises, a
new folder is written next to the target, flushed to disk and then renamed. `docs/decisions/storage.md` describes the
order of the steps, and what a crash after each of them leaves behind.
"""

from saccade.storage.formats import foreign_format
from saccade.storage.manifest import MANIFEST, FileEntry, is_plain
from saccade.storage.reading import JSON, Folder, open_folder, read_bytes, read_json, read_tensors, verify_folder
from saccade.storage.replacing import recover, remove_folder
from saccade.storage.sealing import seal, unseal
from saccade.storage.writing import Content, json_bytes, unfinished, write_file, write_folder, write_tensors

__all__ = [
    "JSON",
    "MANIFEST",
    "Content",
    "FileEntry",
    "Folder",
    "foreign_format",
    "is_plain",
    "json_bytes",
    "open_folder",
    "read_bytes",
    "read_json",
    "read_tensors",
    "recover",
    "remove_folder",
    "seal",
    "unfinished",
    "unseal",
    "verify_folder",
    "write_file",
    "write_folder",
    "write_tensors",
]
