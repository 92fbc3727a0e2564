"""Replace a folder in such a way that a process killed at any moment leaves either the old folder or the new one.

The system renames a folder in one step, but only to a name that is free. So the old folder is first renamed to set it
aside, and `recover` restores it if the process died before the new folder was in place. All temporary names start with
a dot and the name of the target. If that is `run`, `.run.saccade-new-…` is being written, `.run.saccade-old` is set
aside, and `.run.saccade-gone-…` is being deleted.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from safetensors import SafetensorError

from saccade.errors import DamagedError, StorageError
from saccade.storage.locks import lock
from saccade.storage.manifest import MANIFEST, read_manifest

__all__ = [
    "check_replaceable",
    "new_folder_beside",
    "put_in_place",
    "recover",
    "remove_folder",
    "storage_errors",
    "sync_folder",
]

OURS = re.compile(r"\.(?P<target>.+)\.saccade-(?P<role>old|new-[0-9a-f]{8}|gone-[0-9a-f]{8})")


def remove_folder(target: Path | str) -> None:
    """Delete the folder `target`. It is renamed first, so a crash never leaves a part of it under its own name."""
    target = Path(target)
    target = Path(os.path.realpath(target.parent)) / target.name  # if it is a symbolic link, only the link is deleted
    with storage_errors(target), _locked(target.parent):
        _discard(target, target.name)


def recover(parent: Path | str) -> None:
    """Clean up after killed processes in `parent`: restore folders that were set aside, and delete other leftovers.

    Only folders with our temporary names are touched, and unfinished ones only if the process that wrote them is gone.
    """
    parent = Path(os.path.realpath(parent))
    with storage_errors(parent), _locked(parent):
        _recover(parent)


@contextmanager
def storage_errors(target: Path) -> Iterator[None]:
    """Convert errors of the operating system or of safetensors into a `StorageError` that names the folder."""
    try:
        yield
    except StorageError:
        raise
    except (OSError, SafetensorError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise StorageError(f"Cannot write {target}: {reason}.") from error


def check_replaceable(target: Path, names: Iterable[str]) -> None:
    """Raise an error if the files `names` cannot be saved in `target`, because Saccade did not write what is there.

    That is so if `target` has files but no manifest, or a file with one of these names that its manifest does not list.
    """
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise StorageError(f"Cannot write the folder {target}: a file of that name exists.")
    present = set(os.listdir(target))
    foreign = _unlisted(target, names).intersection(names) if MANIFEST in present else present
    if foreign:
        raise StorageError(
            f"Cannot replace {target}: it contains {min(foreign)!r}, which Saccade did not save there; "
            "choose another folder, or move that file away."
        )


@contextmanager
def new_folder_beside(target: Path) -> Iterator[Path]:
    """Create, lock and yield an empty folder next to `target`; delete it at the end unless the caller renamed it."""
    new = target.parent / f".{target.name}.saccade-new-{secrets.token_hex(4)}"
    try:
        with ExitStack() as held:
            with _locked(target.parent):
                _recover(target.parent)
                os.mkdir(new)
                with suppress(OSError):
                    held.enter_context(lock(new))
            yield new
    finally:
        shutil.rmtree(new, ignore_errors=True)


def put_in_place(new: Path, target: Path) -> None:
    """Rename `new` to `target`. The previous folder is only deleted after the new name is safely on disk."""
    parent, aside = target.parent, target.parent / f".{target.name}.saccade-old"
    with _locked(parent):
        _recover(parent)
        try:
            if os.path.lexists(target):
                os.rename(target, aside)
                sync_folder(parent)
            os.rename(new, target)
        except BaseException:
            if os.path.lexists(aside) and not os.path.lexists(target):
                os.rename(aside, target)
            raise
        sync_folder(parent)
        if os.path.lexists(aside):
            _clear_aside(aside, target)


def sync_folder(folder: Path) -> None:
    """Flush the names in `folder` to disk, because flushing a file does not flush its directory entry."""
    if os.name == "nt":  # Windows cannot open folders, but journals their entries
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(parent: Path) -> Iterator[None]:
    """Lock `parent`, so that only one process at a time creates, replaces or cleans up folders in it."""
    with ExitStack() as held:
        with suppress(OSError):  # a file system without locks
            held.enter_context(lock(parent, seconds=None))
        yield


def _recover(parent: Path) -> None:
    """Do the work of `recover`; the caller holds the lock on `parent`."""
    for name in sorted(os.listdir(parent)):
        match = OURS.fullmatch(name)
        path = parent / name
        if match is None or path.is_symlink() or not path.is_dir():
            continue
        target = parent / match["target"]
        if match["role"] != "old":
            # Delete a leftover if the process that wrote it is gone. Without file locks this is unknown, so it stays.
            with suppress(OSError), lock(path) as is_free:
                if is_free:
                    shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(target):
            _clear_aside(path, target)
        else:
            os.rename(path, target)
            sync_folder(parent)


def _clear_aside(aside: Path, target: Path) -> None:
    """Delete a folder that `target` has replaced, after moving files that Saccade did not write to `target`."""
    present = os.listdir(target)
    for name in _unlisted(aside, present).difference(present):
        os.rename(aside / name, target / name)
    sync_folder(target)
    _discard(aside, target.name)


def _unlisted(folder: Path, names: Iterable[str]) -> set[str]:
    """Return the entries of `folder` that its manifest does not list; if it is damaged, all entries except `names`."""
    try:
        listed = set(read_manifest(folder))
    except DamagedError:
        listed = set(names)
    return set(os.listdir(folder)) - listed - {MANIFEST}


def _discard(folder: Path, name: str) -> None:
    """Rename `folder` to mark it as deleted, and delete it. If that is interrupted, the next writer cleans up."""
    gone = folder.parent / f".{name}.saccade-gone-{secrets.token_hex(4)}"
    os.rename(folder, gone)
    sync_folder(folder.parent)
    shutil.rmtree(gone, ignore_errors=True)
