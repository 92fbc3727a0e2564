"""The exceptions that Saccade raises on purpose.

Each message is one sentence that names the wrong value and says what is allowed, so the command line can print it
unchanged. The tree:

    SaccadeError
    ├── ShapeError          a tensor has the wrong rank, width or length
    ├── UnknownNameError    a name is unknown; the message lists the allowed ones
    ├── OptionError         an option value, or a combination of options, is not allowed
    ├── KernelError         a fused kernel was requested, but it would compute something else
    ├── PositionError       a position is beyond the end of a position table
    ├── TooLargeError       a result would need more memory than the limit allows
    ├── StaleTraceError     a watched tensor, or the model behind an answer, has changed since
    ├── FileError           a file cannot be parsed; the message names the field or line
    ├── DamagedError        a saved file is missing, cut short or changed
    ├── DivergedError       a loss or gradient is not finite; no weights were updated
    ├── MissingExtraError   an optional package is missing; the message says how to install it
    ├── StorageError        a folder cannot be reached or written
    └── WorkerError         a worker process ended before its work was done
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
    """A tensor has the wrong rank, width or length."""


class UnknownNameError(SaccadeError, KeyError):
    """A name is unknown."""

    def __init__(self, kind: str, name: object, allowed: Iterable[str]) -> None:
        names = sorted(allowed)
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"There is no {kind} {name!r}; allowed: {', '.join(names)}.{hint}")

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class OptionError(SaccadeError, ValueError):
    """An option value, or a combination of options, is not allowed."""


class KernelError(SaccadeError, ValueError):
    """A fused kernel was requested, but it would compute something else."""


class PositionError(SaccadeError, ValueError):
    """A position is beyond the end of a position table."""


class TooLargeError(SaccadeError, MemoryError):
    """A result would need more memory than the limit allows."""


class StaleTraceError(SaccadeError, RuntimeError):
    """A watched tensor, or the model behind an answer, has changed since."""


class FileError(SaccadeError, ValueError):
    """A file cannot be parsed."""


class DamagedError(SaccadeError, ValueError):
    """A saved file is missing, cut short, or has a different checksum."""


class StorageError(SaccadeError, OSError):
    """A folder cannot be reached or written: a full disk, a quota, missing permissions."""


class MissingExtraError(SaccadeError, ImportError):
    """A feature needs a package that is not installed."""


class DivergedError(SaccadeError, ArithmeticError):
    """A loss or gradient is not finite; no weights were updated."""


class WorkerError(SaccadeError, RuntimeError):
    """A worker process ended before its work was done."""
