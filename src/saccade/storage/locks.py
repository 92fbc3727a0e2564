"""Locks between processes. The system releases a lock when the process that holds it ends, even if it is killed."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from saccade.storage.manifest import AS_IT_IS

__all__ = ["lock"]

#: Seconds between two attempts to get a lock.
PAUSE = 0.02


@contextmanager
def lock(path: Path, *, seconds: float | None = 0.0, shared: bool = False) -> Iterator[bool]:
    """Lock a file or folder, and yield whether that succeeded within ``seconds`` (None waits as long as needed).

    Several processes can hold a shared lock at once. On a file system without locks, this raises OSError.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        with _lock_stand_in(path, seconds) as is_held:
            yield is_held
        return
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    descriptor = os.open(path, os.O_RDONLY | AS_IT_IS)
    try:
        if seconds is None:
            fcntl.flock(descriptor, kind)
            yield True
            return
        end = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= end:
                    break
                time.sleep(PAUSE)
            else:
                yield True
                return
        yield False
    finally:
        os.close(descriptor)


@contextmanager
def _lock_stand_in(path: Path, seconds: float | None) -> Iterator[bool]:
    """Lock a file in the temporary folder instead of the path itself, because Windows cannot lock folders.

    The file is not next to the path, because the folder there may be read-only, and because a folder that contains an
    open file cannot be renamed.
    """
    from filelock import FileLock, Timeout

    if not path.exists():
        raise FileNotFoundError(f"There is no {path} to lock.")
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()
    held = FileLock(Path(tempfile.gettempdir()) / f"saccade-{name[:32]}.lock")
    try:
        held.acquire(timeout=-1 if seconds is None else seconds, poll_interval=PAUSE)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        held.release()
