"""The exceptions that Saccade raises on purpose.

Each message is one sentence that names the wrong value and says what is allowed, so the command line can print it
unchanged. The tree:

    SaccadeError
    ├── ShapeError          a tensor has the wrong rank, width or length
    ├── UnknownNameError    a name is unknown; the message lists the allowed ones
    ├── OptionError         an option value, or a combination of options, is not allowed
    ├── InputTypeError      an input of predict has the wrong type
    ├── KernelError         a fused kernel was requested that cannot compute this attention or cell
    ├── PositionError       a position is beyond the end of a position table
    ├── TooLargeError       a result would need more memory than the limit allows
    ├── StaleTraceError     something can no longer be computed: a recorded tensor or the model has changed since
    ├── FileError           a file is missing or its content is wrong; the message names the file, and the field or line
    │   └── UnsupportedError    a model of another library has a part that Saccade's networks cannot express
    ├── DamagedError        a saved file is missing, cut short or changed
    ├── DivergedError       a loss, gradient or answer is not a finite number
    ├── ExportError         another library gives different answers with the same weights
    ├── MissingExtraError   an optional package is missing; the message says how to install it
    ├── StorageError        a folder cannot be reached or written
    └── WorkerError         a worker process ended before its work was done
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = [
    "DamagedError",
    "DivergedError",
    "ExportError",
    "FileError",
    "InputTypeError",
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
    "UnsupportedError",
    "WorkerError",
    "counted",
    "describe_invalid",
    "shortened",
]


class SaccadeError(Exception):
    """The base class of Saccade's exceptions: catch it to catch everything that Saccade raises on purpose."""


class ShapeError(SaccadeError, ValueError):
    """A tensor has the wrong rank, width or length."""


class UnknownNameError(SaccadeError, KeyError):
    """A name, such as that of a model or an option, is not one of the allowed names, which the message lists."""

    def __init__(self, kind: str, name: object, allowed: Iterable[str], subject: str = "There is") -> None:
        """``subject`` is the start of the message: "The file has" gives "The file has no key 'x'; allowed: ..."."""
        names = sorted(allowed)
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"{subject} no {kind} {name!r}; allowed: {', '.join(names)}.{hint}")

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class OptionError(SaccadeError, ValueError):
    """An option value, or a combination of options, is not allowed."""


class InputTypeError(SaccadeError, TypeError):
    """An input of ``predict`` has the wrong type."""

    def __init__(self, subject: str, expected: str, given: object) -> None:
        shown = "None" if given is None else f"{type(given).__name__} {str(given)[:40]!r}"
        super().__init__(f"{subject} must be {expected}, not {shown}.")


class KernelError(SaccadeError, ValueError):
    """A fused kernel was requested that cannot compute this attention or this recurrent cell."""


class PositionError(SaccadeError, ValueError):
    """A position is beyond the end of a position table."""


class TooLargeError(SaccadeError, MemoryError):
    """A result would need more memory than the limit allows."""


class StaleTraceError(SaccadeError, RuntimeError):
    """Something can no longer be computed, because a tensor that ``watch`` recorded, the model that gave an answer, or
    a model of which an engine has a copy, has changed since."""


class FileError(SaccadeError, ValueError):
    """A file is missing or cannot be read, or its content is not what was expected."""


class UnsupportedError(FileError):
    """A model of another library has a part that Saccade's networks cannot express."""


class DamagedError(SaccadeError, ValueError):
    """A saved file is missing, cut short, or no longer has the checksum that it was saved with."""


class StorageError(SaccadeError, OSError):
    """A folder cannot be reached or written to: the disk is full, a quota is exceeded, or permissions are missing."""


class ExportError(SaccadeError, RuntimeError):
    """An exported model gives other answers in another library than in Saccade, although its weights are the same."""


class MissingExtraError(SaccadeError, ImportError):
    """A feature needs a package that is not installed."""


class DivergedError(SaccadeError, ArithmeticError):
    """A loss or gradient is not finite, so the weights were not updated; or a model computed NaN instead of an
    answer."""

    @classmethod
    def of_answer(cls) -> DivergedError:
        return cls("The model computes NaN instead of an answer: its weights are damaged or its training diverged.")


class WorkerError(SaccadeError, RuntimeError):
    """A worker process ended before its work was done."""


#: For each type of pydantic error, the words that tell a user what is wrong.
_INVALID = {
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "finite_number": "must be a finite number",
    "literal_error": "must be {expected}",
    "too_short": "must have at least {min_length} item{s}",
    "too_long": "must have at most {max_length} item{s}",
    "string_too_short": "must have at least {min_length} character{s}",
    "string_too_long": "must have at most {max_length} character{s}",
    "extra_forbidden": "is unknown",
    "missing": "is missing",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "must be a list"),
    **dict.fromkeys(("string_type", "string_sub_type"), "must be a text"),
    "path_type": "must be a path",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
}


#: Writes only the beginning of a long value: a request may hold a million numbers, and writing them all takes a second.
_brief = reprlib.Repr()
_brief.maxlevel, _brief.maxlist, _brief.maxtuple, _brief.maxdict = 3, 20, 20, 20
_brief.maxstring = _brief.maxlong = _brief.maxother = 400


def shortened(value: object, length: int = 60) -> str:
    """Return a value as Python code, cut to ``length`` characters (the last three are dots) if it is longer."""
    text = _brief.repr(value)
    return text if len(text) <= length else f"{text[: length - 3]}..."


def describe_invalid(details: Mapping[str, Any], name: str) -> str:
    """Turn the details of a pydantic error into a sentence about the field ``name``, without the full stop."""
    given = shortened(details["input"])
    if details["type"] not in _INVALID:  # one of our checks, whose message names the fields if there are several
        said: str = details["msg"].removeprefix("Value error, ")
        return f"{name} = {given}: {said}" if name else said
    context = details.get("ctx", {})
    limits = {key: f"{value:,}".removesuffix(".0") for key, value in context.items() if isinstance(value, int | float)}
    plural = "" if limits.get("min_length", limits.get("max_length")) == "1" else "s"
    said = f"{name or 'the value'} {_INVALID[details['type']].format(**context | limits, s=plural)}"
    return said if details["type"] in ("missing", "extra_forbidden") else f"{said}, not {given}"


def counted(number: float, noun: str, plural: str = "") -> str:
    """Return a count with its unit, for a message: "1 word", "2,000 words", "0.5 minutes"."""
    return f"{number:,.12g} {noun if number == 1 else plural or f'{noun}s'}"
