"""Putting a folder in the place of another so that a kill at any moment leaves one of the two.

The system renames a folder in one step, but only to a name that is free. So the old one is first set aside, and
`recover` puts it back if the process died before the new one was in. All names we make beside a target begin with
a dot and the target's name: `.run.saccade-new-…` is being written, `.run.saccade-old` set aside,
`.run.saccade-gone-…` being deleted.
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
    """Delete the folder `target`; a crash on the way never leaves a part of it under its own name."""
    target = Path(target)
    target = Path(os.path.realpath(target.parent)) / target.name  # of a symbolic link, the link goes, not its folder
    with storage_errors(target), _locked(target.parent):
        _discard(target, target.name)


def recover(parent: Path | str) -> None:
    """Finish or undo what killed processes left in `parent`: put set-aside folders back, delete the leftovers.

    Only folders named as ours are touched, and of those being written only the ones whose writer is gone.
    """
    parent = Path(os.path.realpath(parent))
    with storage_errors(parent), _locked(parent):
        _recover(parent)


@contextmanager
def storage_errors(target: Path) -> Iterator[None]:
    """Turn what the system or a writing library says into one sentence that names the folder."""
    try:
        yield
    except StorageError:
        raise
    except (OSError, SafetensorError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise StorageError(f"Cannot write {target}: {reason}.") from error


def check_replaceable(target: Path, names: Iterable[str]) -> None:
    """Refuse, before the long write of `names`, what could not be replaced without losing what is not ours."""
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise StorageError(f"Cannot write the folder {target}: there is a file of that name.")
    present = set(os.listdir(target))
    foreign = _unlisted(target, names).intersection(names) if MANIFEST in present else present
    if foreign:
        raise StorageError(
            f"Cannot replace {target}: it holds {min(foreign)!r}, which was not saved there by Saccade; "
            "choose another folder, or move it away."
        )


@contextmanager
def new_folder_beside(target: Path) -> Iterator[Path]:
    """An empty folder on the same file system, locked while it is written, gone afterwards if not renamed."""
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
    """Rename `new` to `target`; what stood there is deleted only once that is durable."""
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
    """Make the names in `folder` durable: flushing a file says nothing of the entry that leads to it."""
    if os.name == "nt":  # where a folder cannot be opened; its entries are journalled
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(parent: Path) -> Iterator[None]:
    """Only one process at a time creates, swaps or clears up folders in `parent` (all of it brief)."""
    with ExitStack() as held:
        with suppress(OSError):  # a file system without locks
            held.enter_context(lock(parent, seconds=None))
        yield


def _recover(parent: Path) -> None:
    """As `recover`, for a caller that holds the lock of `parent`."""
    for name in sorted(os.listdir(parent)):
        match = OURS.fullmatch(name)
        path = parent / name
        if match is None or path.is_symlink() or not path.is_dir():
            continue
        target = parent / match["target"]
        if match["role"] != "old":
            _remove_if_stale(path)
        elif os.path.lexists(target):
            _clear_aside(path, target)
        else:
            os.rename(path, target)
            sync_folder(parent)


def _remove_if_stale(folder: Path) -> None:
    """Delete a leftover whose writer is gone; on a file system without locks nobody can tell, and it stays."""
    with suppress(OSError), lock(folder) as is_free:
        if is_free:
            shutil.rmtree(folder, ignore_errors=True)


def _clear_aside(aside: Path, target: Path) -> None:
    """Delete a folder that `target` has replaced, after moving over what was never ours to delete."""
    present = os.listdir(target)
    for name in _unlisted(aside, present).difference(present):
        os.rename(aside / name, target / name)
    sync_folder(target)
    _discard(aside, target.name)


def _unlisted(folder: Path, names: Iterable[str]) -> set[str]:
    """Entries that were not saved as part of `folder`; with its manifest damaged, all but `names`."""
    try:
        listed = set(read_manifest(folder))
    except DamagedError:
        listed = set(names)
    return set(os.listdir(folder)) - listed - {MANIFEST}


def _discard(folder: Path, name: str) -> None:
    """Delete `folder` under a name that says so; what cannot be deleted now, the next writer clears up."""
    gone = folder.parent / f".{name}.saccade-gone-{secrets.token_hex(4)}"
    os.rename(folder, gone)
    sync_folder(folder.parent)
    shutil.rmtree(gone, ignore_errors=True)
