"""Replace a folder with another so that a kill at any moment leaves one of the two.

The system renames a folder in one step, but only to a name that is free. So the old one is first set aside, and
`recover` restores it if the process died before the new one was in place. All names that we create next to a target
start with a dot and the target's name: `.run.saccade-new-…` is being written, `.run.saccade-old` is set aside,
`.run.saccade-gone-…` is being deleted.
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
    """Delete the folder `target`; a crash never leaves part of it under its own name."""
    target = Path(target)
    target = Path(os.path.realpath(target.parent)) / target.name  # for a symbolic link, delete the link, not its folder
    with storage_errors(target), _locked(target.parent):
        _discard(target, target.name)


def recover(parent: Path | str) -> None:
    """Finish or undo what killed processes left in `parent`: restore folders that were set aside, delete leftovers.

    Only folders with our names are touched, and unfinished ones only if their writer is gone.
    """
    parent = Path(os.path.realpath(parent))
    with storage_errors(parent), _locked(parent):
        _recover(parent)


@contextmanager
def storage_errors(target: Path) -> Iterator[None]:
    """Turn errors of the system or a writing library into one sentence that names the folder."""
    try:
        yield
    except StorageError:
        raise
    except (OSError, SafetensorError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise StorageError(f"Cannot write {target}: {reason}.") from error


def check_replaceable(target: Path, names: Iterable[str]) -> None:
    """Before the long write of `names`, refuse a target that contains files that are not ours."""
    if not os.path.lexists(target):
        return
    if not target.is_dir():
        raise StorageError(f"Cannot write the folder {target}: a file of that name exists.")
    present = set(os.listdir(target))
    foreign = _unlisted(target, names).intersection(names) if MANIFEST in present else present
    if foreign:
        raise StorageError(
            f"Cannot replace {target}: it contains {min(foreign)!r}, which Saccade did not save there; "
            "choose another folder, or move it away."
        )


@contextmanager
def new_folder_beside(target: Path) -> Iterator[Path]:
    """An empty folder on the same file system, locked while it is written, then deleted unless it was renamed."""
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
    """Rename `new` to `target`; the previous folder is deleted only once that is durable."""
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
    """Make the names in `folder` durable: flushing a file does not flush its directory entry."""
    if os.name == "nt":  # folders cannot be opened there; their entries are journalled
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _locked(parent: Path) -> Iterator[None]:
    """Only one process at a time creates, swaps or cleans up folders in `parent` (all quick)."""
    with ExitStack() as held:
        with suppress(OSError):  # a file system without locks
            held.enter_context(lock(parent, seconds=None))
        yield


def _recover(parent: Path) -> None:
    """Like `recover`, for a caller that holds the lock of `parent`."""
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
    """Delete a leftover whose writer is gone; without file locks this is unknown, so it stays."""
    with suppress(OSError), lock(folder) as is_free:
        if is_free:
            shutil.rmtree(folder, ignore_errors=True)


def _clear_aside(aside: Path, target: Path) -> None:
    """Delete a folder that `target` has replaced, after moving files that are not ours to `target`."""
    present = os.listdir(target)
    for name in _unlisted(aside, present).difference(present):
        os.rename(aside / name, target / name)
    sync_folder(target)
    _discard(aside, target.name)


def _unlisted(folder: Path, names: Iterable[str]) -> set[str]:
    """Entries that were not saved as part of `folder`; if its manifest is damaged, all except `names`."""
    try:
        listed = set(read_manifest(folder))
    except DamagedError:
        listed = set(names)
    return set(os.listdir(folder)) - listed - {MANIFEST}


def _discard(folder: Path, name: str) -> None:
    """Rename `folder` to mark it as deleted, then delete it; the next writer cleans up what remains."""
    gone = folder.parent / f".{name}.saccade-gone-{secrets.token_hex(4)}"
    os.rename(folder, gone)
    sync_folder(folder.parent)
    shutil.rmtree(gone, ignore_errors=True)
