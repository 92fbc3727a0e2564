"""Every exception that Saccade raises on purpose.

Each message is one sentence that names the wrong value and says what is allowed, so the command line can print it
unchanged. The tree::

    SaccadeError
    ├── ShapeError          a tensor of the wrong rank, width or length: expected and actual
    ├── UnknownNameError    a name that no registry holds: the allowed ones are listed
    ├── OptionError         an option value, or a pair of them, that is not allowed
    ├── KernelError         a fused kernel was requested, but it would compute something else
    ├── PositionError       a position beyond the end of a position table
    ├── TooLargeError       a result that would not fit in memory: its size, and the limit
    ├── StaleTraceError     a watched tensor or an answering model that has changed since
    ├── FileError           a file that cannot be parsed: the file, and the field or line
    ├── DamagedError        a saved file that has changed since: its path, and what is wrong with it
    ├── DivergedError       a loss or gradient that is not finite; no weights were updated
    ├── MissingExtraError   a missing optional package: how to install it
    ├── StorageError        a folder that cannot be reached or written: its path, and the system's reason
    └── WorkerError         a worker process that ended before its work was done
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "DamagedError",
    "DivergedError",
    "FileError",
    "KernelError",
    "MissingExtraError",
    "OptionError",
    "PositionError",
    "SaccadeError",
    "ShapeError",
    "StaleTraceError",
    "StorageError",
    "TooLargeError",
    "UnknownNameError",
    "WorkerError",
]


class SaccadeError(Exception):
    """The root of the tree: catch this to catch everything that Saccade raises on purpose."""


class ShapeError(SaccadeError, ValueError):
    """A tensor of the wrong rank, width or length."""


class UnknownNameError(SaccadeError, KeyError):
    """A name that is not in the registry."""

    def __init__(self, kind: str, name: object, allowed: Iterable[str]) -> None:
        names = sorted(allowed)
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"There is no {kind} {name!r}; allowed: {', '.join(names)}.{hint}")

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class OptionError(SaccadeError, ValueError):
    """An option value, or a pair of them, that is not allowed."""


class KernelError(SaccadeError, ValueError):
    """The fused kernel was requested, but it would compute something else."""


class PositionError(SaccadeError, ValueError):
    """A position beyond the end of a position table."""


class TooLargeError(SaccadeError, MemoryError):
    """A result that would need more memory than the limit allows."""


class StaleTraceError(SaccadeError, RuntimeError):
    """A watched tensor, or the model that gave an answer, has changed since."""


class FileError(SaccadeError, ValueError):
    """A file that cannot be parsed."""


class DamagedError(SaccadeError, ValueError):
    """A saved file that has changed since: it is missing, cut short, or has a different checksum."""


class StorageError(SaccadeError, OSError):
    """A folder that cannot be reached or written: a full disk, a quota, missing permissions."""


class MissingExtraError(SaccadeError, ImportError):
    """A feature needs a package that is not installed."""


class DivergedError(SaccadeError, ArithmeticError):
    """A loss or gradient that is not finite; no weights were updated."""


class WorkerError(SaccadeError, RuntimeError):
    """A worker process ended before its work was done."""
