"""Everything Saccade raises on purpose.

Each message is one sentence that names the value at fault and what is allowed, so that the command line can
print it as it is. The tree::

    SaccadeError
    ├── ShapeError          a tensor of the wrong rank, width or length: expected and actual
    ├── UnknownNameError    a name that no registry holds: the allowed ones are listed
    ├── OptionError         a value, or a pair of values, that an option does not take
    ├── KernelError         a fused kernel was demanded where it would compute something else
    ├── PositionError       a position past the last one that a table holds
    ├── TooLargeError       a result that would not fit in memory: its size and the limit
    ├── StaleTraceError     a watched tensor, or a model that answered, was changed since
    ├── FileError           a file that cannot be read as what it should be: file, field or line
    ├── DamagedError        a file that is not what was saved: its path, and what is wrong with it
    ├── DivergedError       a loss or gradient that is no number; nothing was updated with it
    ├── MissingExtraError   a package that a feature needs and that is not installed: how to install it
    ├── StorageError        a folder that cannot be written or reached: its path and the system's reason
    └── WorkerError         a process that worked for this one and ended before its work was done
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
    """A name that the registry does not hold."""

    def __init__(self, kind: str, name: object, allowed: Iterable[str]) -> None:
        names = sorted(allowed)
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"There is no {kind} {name!r}; allowed: {', '.join(names)}.{hint}")

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class OptionError(SaccadeError, ValueError):
    """A value, or a pair of values, that an option does not take."""


class KernelError(SaccadeError, ValueError):
    """The fused kernel was demanded where it would not compute the same thing."""


class PositionError(SaccadeError, ValueError):
    """A position past the last one that a table holds."""


class TooLargeError(SaccadeError, MemoryError):
    """A result that would take more memory than the stated limit."""


class StaleTraceError(SaccadeError, RuntimeError):
    """A watched tensor, or the model that gave an answer, was changed since."""


class FileError(SaccadeError, ValueError):
    """A file that cannot be read as what it should be."""


class DamagedError(SaccadeError, ValueError):
    """A file that is not what was saved: missing, cut short, or with another checksum."""


class StorageError(SaccadeError, OSError):
    """A folder that the system will not let us write or reach: a full disk, a limit, a permission."""


class MissingExtraError(SaccadeError, ImportError):
    """A feature needs a package that is not installed."""


class DivergedError(SaccadeError, ArithmeticError):
    """A loss or gradient that is no number; nothing was updated with it."""


class WorkerError(SaccadeError, RuntimeError):
    """A process that worked for this one ended before its work was done."""
