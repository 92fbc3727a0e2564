"""Locks between processes, which the system drops when their holder dies, however it dies."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["lock"]

#: Seconds between two tries to get a lock.
PAUSE = 0.02


@contextmanager
def lock(path: Path, *, seconds: float | None = 0.0, shared: bool = False) -> Iterator[bool]:
    """Hold the lock of a file or folder; gives whether it is ours, after waiting for so long (None: as long as needed).

    A shared lock excludes exclusive ones only. A file system that has no locks raises OSError.
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
    """The same where folders cannot be locked: by a file that stands for the path, among the temporary files.

    Not beside it, because a folder that is read may not be written, and one that holds an open file not renamed.
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
