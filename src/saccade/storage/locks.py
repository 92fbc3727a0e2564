"""Locks between processes, which the system releases when their holder ends, even if it is killed."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["lock"]

#: Seconds between two attempts to get a lock.
PAUSE = 0.02


@contextmanager
def lock(path: Path, *, seconds: float | None = 0.0, shared: bool = False) -> Iterator[bool]:
    """Hold the lock of a file or folder; yields whether we got it within ``seconds`` (None: wait as long as needed).

    A shared lock excludes only exclusive ones. A file system without locks raises OSError.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        with _lock_elsewhere(path, seconds) as ours:
            yield ours
        return
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
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
def _lock_elsewhere(path: Path, seconds: float | None) -> Iterator[bool]:
    """The same if folders cannot be locked: uses a file in the temporary folder that represents the path.

    It is not next to the path, because a readable folder may not be writable, and a folder with an open file cannot
    be renamed.
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
